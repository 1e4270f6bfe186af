/* SPDX-License-Identifier: Apache-2.0 */
#include "image/initramfs.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/str.h"
#include "sys/fd.h"

struct sp_initramfs {
	struct archive *out;
	struct archive_entry *entry;
	int64_t ino;
};

void sp_initramfs_free(struct sp_initramfs **w)
{
	if (!*w)
		return;
	archive_write_free((*w)->out);
	archive_entry_free((*w)->entry);
	free(*w);
	*w = NULL;
}

struct sp_initramfs *sp_initramfs_begin(int fd, struct sp_err *e)
{
	struct sp_initramfs *w = sp_xcalloc(1, sizeof *w);

	w->out = archive_write_new();
	w->entry = archive_entry_new();
	if (!w->out || !w->entry || archive_write_set_format_cpio_newc(w->out) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(w->out, 1) != ARCHIVE_OK ||
	    archive_write_open_fd(w->out, fd) != ARCHIVE_OK) {
		sp_fail(e, SP_FAIL, 0, "begin the initramfs");
		sp_initramfs_free(&w);
	}
	return w;
}

static int put_header(struct sp_initramfs *w, const char *path, mode_t mode, size_t size,
		      struct sp_err *e)
{
	archive_entry_set_pathname(w->entry, path);
	archive_entry_set_mode(w->entry, mode);
	archive_entry_set_size(w->entry, (la_int64_t)size);
	archive_entry_set_ino64(w->entry, ++w->ino);
	archive_entry_set_nlink(w->entry, S_ISDIR(mode) ? 2 : 1);
	archive_entry_set_mtime(w->entry, 0, 0);
	if (archive_write_header(w->out, w->entry) != ARCHIVE_OK)
		return sp_fail(e, SP_FAIL, 0, "write the initramfs: %s",
			       archive_error_string(w->out));
	return 0;
}

static int put_data(struct sp_initramfs *w, const void *data, size_t n, struct sp_err *e)
{
	if (archive_write_data(w->out, data, n) != (la_ssize_t)n)
		return sp_fail(e, SP_FAIL, 0, "write the initramfs: %s",
			       archive_error_string(w->out));
	return 0;
}

int sp_initramfs_folder(struct sp_initramfs *w, const char *path, struct sp_err *e)
{
	archive_entry_clear(w->entry);
	return put_header(w, path, S_IFDIR | 0755, 0, e);
}

int sp_initramfs_device(struct sp_initramfs *w, const char *path, unsigned int major,
			unsigned int minor, struct sp_err *e)
{
	archive_entry_clear(w->entry);
	archive_entry_set_rdevmajor(w->entry, major);
	archive_entry_set_rdevminor(w->entry, minor);
	return put_header(w, path, S_IFCHR | 0600, 0, e);
}

int sp_initramfs_file(struct sp_initramfs *w, const char *path, mode_t mode, const void *data,
		      size_t n, struct sp_err *e)
{
	archive_entry_clear(w->entry);
	if (put_header(w, path, S_IFREG | mode, n, e) < 0)
		return -1;
	return n ? put_data(w, data, n, e) : 0;
}

int sp_initramfs_copy(struct sp_initramfs *w, const char *path, mode_t mode, int from, off_t at,
		      size_t n, struct sp_err *e)
{
	char buf[65536];
	ssize_t got;

	archive_entry_clear(w->entry);
	if (put_header(w, path, S_IFREG | mode, n, e) < 0)
		return -1;
	for (; n; n -= (size_t)got, at += got) {
		got = sp_fd_pread(from, buf, n < sizeof buf ? n : sizeof buf, at);
		if (got <= 0)
			return sp_fail(e, SP_FAIL, 0, "'%s' ends too early", path);
		if (put_data(w, buf, (size_t)got, e) < 0)
			return -1;
	}
	return 0;
}

int sp_initramfs_end(struct sp_initramfs **w, struct sp_err *e)
{
	int rc = archive_write_close((*w)->out);

	if (rc != ARCHIVE_OK)
		sp_fail(e, SP_FAIL, 0, "write the initramfs: %s", archive_error_string((*w)->out));
	sp_initramfs_free(w);
	return rc == ARCHIVE_OK ? 0 : -1;
}
