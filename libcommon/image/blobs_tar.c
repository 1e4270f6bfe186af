/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a tar by name. The index says the how manieth entry a name is; opening it passes over
 * the ones before, which in an uncompressed file is a seek each. */
#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "image/blobs.h"
#include "image/tarball.h"

#define MEMBERS_MAX 16384

struct member {
	char *name;
	char *link; /* name of another member, or NULL */
	size_t at;  /* number of the entry */
};

struct tar {
	struct sp_blobs base;
	int fd;
	int64_t from, n;
	struct member *members;
	size_t nmembers;
	struct sp_range_stream range;
	struct sp_tar_in in;
	struct archive *a; /* of the open member */
	struct sp_entry_stream entry;
};

/* "./a//b/../c" to "a/c"; false where it leads out of the archive. */
static bool clean_name(const char *dir, size_t ndir, const char *name, struct sp_str *out)
{
	sp_auto_str all = SP_STR_INIT;
	size_t n;

	sp_str_clear(out);
	sp_str_addn(&all, dir, ndir);
	sp_str_addc(&all, '/');
	sp_str_add(&all, name);
	for (const char *p = all.p; *p; p += n, p += *p == '/') {
		n = strcspn(p, "/");
		if (!n || (n == 1 && p[0] == '.'))
			continue;
		if (n == 2 && p[0] == '.' && p[1] == '.') {
			if (!out->len)
				return false;
			while (out->len && out->p[--out->len] != '/')
				;
			out->p[out->len] = '\0';
			continue;
		}
		if (out->len)
			sp_str_addc(out, '/');
		sp_str_addn(out, p, n);
	}
	return out->len > 0 && out->len < 512;
}

static struct member *find(const struct tar *t, const char *name)
{
	/* from the end: of two with the same name the later one counts */
	for (size_t i = t->nmembers; i-- > 0;)
		if (!strcmp(t->members[i].name, name))
			return &t->members[i];
	return NULL;
}

static int add_member(struct tar *t, struct archive_entry *ae, size_t at, struct sp_err *e)
{
	const char *name = archive_entry_pathname(ae), *hard = archive_entry_hardlink(ae);
	const char *soft =
		archive_entry_filetype(ae) == AE_IFLNK ? archive_entry_symlink(ae) : NULL;
	sp_auto_str clean = SP_STR_INIT, link = SP_STR_INIT;
	const char *slash;

	if (!hard && !soft && archive_entry_filetype(ae) != AE_IFREG)
		return 0;
	if (!name || !clean_name("", 0, name, &clean))
		return 0; /* names that no image uses */
	slash = strrchr(clean.p, '/');
	if (hard && !clean_name("", 0, hard, &link))
		return 0;
	if (!hard && soft &&
	    (soft[0] == '/' ||
	     !clean_name(clean.p, slash ? (size_t)(slash - clean.p) : 0, soft, &link)))
		return 0;
	if (t->nmembers == MEMBERS_MAX)
		return sp_fail(e, SP_FAIL, 0, "an image archive of more than %d files",
			       MEMBERS_MAX);
	t->members[t->nmembers++] = (struct member){
		.name = sp_str_take(&clean),
		.link = hard || soft ? sp_str_take(&link) : NULL,
		.at = at,
	};
	return 0;
}

static int tar_fail(const struct tar *t, struct archive *a, struct sp_err *e)
{
	if (t->in.err.msg[0]) {
		*e = t->in.err;
		return -1;
	}
	return sp_fail(e, SP_FAIL, 0, "read the archive: %s",
		       archive_error_string(a) ? archive_error_string(a) : "?");
}

/* A reader at the archive's beginning. */
static struct archive *start(struct tar *t, struct sp_err *e)
{
	sp_range_stream_init(&t->range, t->fd, t->from, t->n);
	t->in.src = &t->range.base;
	return sp_tar_open(&t->in, e);
}

static int make_index(struct tar *t, struct sp_err *e)
{
	struct archive *a = start(t, e);
	struct archive_entry *ae;
	int rc, ret = -1;

	if (!a)
		return -1;
	t->members = sp_xcalloc(MEMBERS_MAX, sizeof *t->members);
	for (size_t at = 0;; at++) {
		rc = archive_read_next_header(a, &ae);
		if (rc == ARCHIVE_EOF)
			ret = 0;
		else if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
			tar_fail(t, a, e);
		else if (add_member(t, ae, at, e) == 0)
			continue;
		break;
	}
	archive_read_free(a);
	return ret;
}

static int tar_close(struct sp_blobs *base, struct sp_err *e)
{
	struct tar *t = (struct tar *)base;

	(void)e; /* a part that breaks off shows when it is read */
	if (t->a)
		archive_read_free(t->a);
	t->a = NULL;
	return 0;
}

static int tar_open(struct sp_blobs *base, const char *name, struct sp_stream **out,
		    struct sp_err *e)
{
	struct tar *t = (struct tar *)base;
	struct member *m = find(t, name);
	struct archive_entry *ae;
	int rc;

	if (m && m->link)
		m = find(t, m->link);
	if (!m || m->link)
		return sp_fail(e, SP_ABSENT, 0, "the archive has no '%.200s'", name);
	tar_close(base, e);
	t->a = start(t, e);
	if (!t->a)
		return -1;
	for (size_t at = 0; at <= m->at; at++) {
		rc = archive_read_next_header(t->a, &ae);
		if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
			return tar_fail(t, t->a, e);
	}
	sp_entry_stream_init(&t->entry, t->a, m->name);
	*out = &t->entry.base;
	return 0;
}

static void tar_free(struct sp_blobs *base)
{
	struct tar *t = (struct tar *)base;

	if (t->a)
		archive_read_free(t->a);
	for (size_t i = 0; i < t->nmembers; i++) {
		free(t->members[i].name);
		free(t->members[i].link);
	}
	free(t->members);
	free(t);
}

struct sp_blobs *sp_blobs_tar(int fd, int64_t at, int64_t n, struct sp_err *e)
{
	struct tar *t = sp_xcalloc(1, sizeof *t);

	t->base = (struct sp_blobs){ tar_open, tar_close, tar_free };
	t->fd = fd;
	t->from = at;
	t->n = n;
	if (make_index(t, e) < 0) {
		tar_free(&t->base);
		return NULL;
	}
	return &t->base;
}

bool sp_blobs_tar_has(const struct sp_blobs *b, const char *name)
{
	return find((const struct tar *)b, name) != NULL;
}
