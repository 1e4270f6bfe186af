/* SPDX-License-Identifier: Apache-2.0 */
#include "image/deb.h"

#include <archive_entry.h>
#include <string.h>

#include "base/str.h"

struct sp_deb {
	struct archive *outer, *files;
};

/* What the tar reader eats is what the ar reader gives. */
static la_ssize_t next_block(struct archive *inner, void *arg, const void **block)
{
	struct sp_deb *d = arg;
	la_int64_t at;
	size_t n = 0;
	int rc = archive_read_data_block(d->outer, block, &n, &at);

	if (rc == ARCHIVE_EOF)
		return 0;
	if (rc < ARCHIVE_WARN) {
		archive_set_error(inner, archive_errno(d->outer), "%s",
				  archive_error_string(d->outer));
		return -1;
	}
	return (la_ssize_t)n;
}

static int open_outer(struct sp_deb *d, int fd, struct sp_err *e)
{
	struct archive_entry *entry;
	int rc;

	archive_read_support_format_ar(d->outer);
	if (archive_read_open_fd(d->outer, fd, 65536) != ARCHIVE_OK)
		return sp_fail(e, SP_FAIL, 0, "not a Debian package: %s",
			       archive_error_string(d->outer));
	while ((rc = archive_read_next_header(d->outer, &entry)) == ARCHIVE_OK ||
	       rc == ARCHIVE_WARN) {
		const char *name = archive_entry_pathname(entry);

		if (name && sp_str_has_prefix(name, "data.tar"))
			return 0;
	}
	return sp_fail(e, SP_FAIL, 0, "not a Debian package: it has no data.tar");
}

struct sp_deb *sp_deb_open(int fd, struct sp_err *e)
{
	struct sp_deb *d = sp_xcalloc(1, sizeof *d);

	d->outer = archive_read_new();
	d->files = archive_read_new();
	if (!d->outer || !d->files) {
		sp_fail(e, SP_FAIL, 0, "out of memory");
		sp_deb_close(&d);
		return NULL;
	}
	/* these three and none that runs a program */
	archive_read_support_filter_gzip(d->files);
	archive_read_support_filter_xz(d->files);
	archive_read_support_filter_zstd(d->files);
	archive_read_support_format_tar(d->files);
	if (open_outer(d, fd, e) < 0) {
		sp_deb_close(&d);
		return NULL;
	}
	if (archive_read_open(d->files, d, NULL, next_block, NULL) != ARCHIVE_OK) {
		sp_fail(e, SP_FAIL, 0, "package: %s", archive_error_string(d->files));
		sp_deb_close(&d);
	}
	return d;
}

void sp_deb_close(struct sp_deb **d)
{
	if (!*d)
		return;
	archive_read_free((*d)->files);
	archive_read_free((*d)->outer);
	sp_free_ptr(d);
	*d = NULL;
}

struct archive *sp_deb_files(struct sp_deb *d)
{
	return d->files;
}
