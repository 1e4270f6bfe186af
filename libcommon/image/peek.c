/* SPDX-License-Identifier: Apache-2.0 */
#include "image/peek.h"

#include <archive_entry.h>
#include <string.h>

#include "image/tarball.h"

static const char hex[] = "0123456789abcdef";

/* docker save of old has <64 hex>/, <64 hex>.json, <64 hex>.tar; new ones are image layouts too. */
bool sp_peek_is_image_name(const char *name)
{
	static const char *const names[] = { "blobs", "oci-layout", "index.json", "manifest.json",
					     "repositories" };
	size_t n;

	name += strspn(name, "./");
	n = strcspn(name, "/");
	for (size_t i = 0; i < SP_NELEM(names); i++)
		if (n == strlen(names[i]) && !strncmp(name, names[i], n))
			return true;
	if (strspn(name, hex) != 64)
		return false;
	return n == 64 || (n == 69 && !strncmp(name + 64, ".json", 5)) ||
	       (n == 68 && !strncmp(name + 64, ".tar", 4));
}

static bool is_top(const char *name)
{
	return strspn(name, "./") == strlen(name);
}

static int look(struct sp_tarball *t, struct sp_peek *out, bool whole, struct sp_err *e)
{
	struct archive *a = sp_tarball_tar(t);
	struct archive_entry *ae;
	const char *name;
	int rc;

	out->plain = sp_tarball_is_plain(t);
	do {
		rc = archive_read_next_header(a, &ae);
		if (rc == ARCHIVE_EOF)
			return 0;
		if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
			/* the beginning of a long one may end before its first name */
			return whole ? sp_tarball_fail(t, "it is no tar archive", e) : 0;
		name = archive_entry_pathname(ae);
	} while (!name || is_top(name));
	out->image_name = sp_peek_is_image_name(name);
	return 0;
}

int sp_peek(struct sp_stream *s, struct sp_str *ahead, struct sp_peek *out, struct sp_err *e)
{
	struct sp_tarball_want want = { .size = -1, .max_tar = INT64_MAX };
	sp_auto_tarball *t = NULL;
	struct sp_mem_stream mem;
	bool whole = false;
	ssize_t got = 0;

	sp_str_clear(ahead);
	while (!whole && ahead->len < SP_PEEK_MAX) {
		char buf[65536];

		got = s->read(s, buf, sizeof buf, e);
		if (got < 0)
			return -1;
		sp_str_addn(ahead, buf, (size_t)got);
		whole = got == 0;
	}
	if (!ahead->len)
		return sp_fail(e, SP_FAIL, 0, "the source is empty");
	sp_mem_stream_init(&mem, ahead->p, ahead->len);
	if (sp_tarball_open(&mem.base, &want, NULL, &t, e) < 0)
		return -1;
	return look(t, out, whole, e);
}
