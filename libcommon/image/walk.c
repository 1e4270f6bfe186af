/* SPDX-License-Identifier: Apache-2.0 */
#include "image/walk.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/str.h"
#include "sys/fd.h"

#define CHUNK (1u << 18)
#define DEPTH_MAX 512 /* as image/node.h, so that no more descriptors than that are open */
#define XATTR_MAX 65536

struct walk {
	struct archive *a;
	struct archive_entry_linkresolver *links;
	dev_t dev;
	struct sp_str path; /* of what is being looked at, relative */
	unsigned char *buf;
	char *names, *value; /* of extended attributes */
	int depth;
};

static int fail(const struct walk *w, const char *what, struct sp_err *e)
{
	enum sp_code code = sp_code_of_errno(errno);

	return sp_fail(e, code, errno, "%s '%.300s'", what, w->path.len ? w->path.p : ".");
}

static int fail_archive(const struct walk *w, struct sp_err *e)
{
	if (archive_errno(w->a) == EPIPE)
		return sp_fail(e, SP_FAIL, 0, "nobody reads on");
	return sp_fail(e, SP_FAIL, 0, "pack '%.300s': %s", w->path.p, archive_error_string(w->a));
}

static bool xattr_is_kept(const char *name)
{
	return sp_str_has_prefix(name, "user.") || !strcmp(name, "security.capability") ||
	       !strcmp(name, "system.posix_acl_access") ||
	       !strcmp(name, "system.posix_acl_default");
}

/* Of a file that is open. Access control lists travel as the kernel gives them. */
static int add_xattrs(struct walk *w, int fd, struct archive_entry *ae, struct sp_err *e)
{
	ssize_t n = flistxattr(fd, w->names, XATTR_MAX), len;

	if (n < 0)
		return errno == ENOTSUP ? 0 : fail(w, "list attributes of", e);
	for (const char *p = w->names; p < w->names + n; p += strlen(p) + 1) {
		if (!xattr_is_kept(p))
			continue;
		len = fgetxattr(fd, p, w->value, XATTR_MAX);
		if (len < 0 && errno == ENODATA)
			continue;
		if (len < 0)
			return fail(w, "read attributes of", e);
		archive_entry_xattr_add_entry(ae, p, w->value, (size_t)len);
	}
	return 0;
}

/* The parts of a file that are no holes; none where the file system cannot tell. */
static void add_sparse(int fd, const struct stat *st, struct archive_entry *ae)
{
	off_t at = 0, end;

	if (st->st_size == 0 || (off_t)st->st_blocks * 512 >= st->st_size)
		return;
	while (at < st->st_size) {
		at = lseek(fd, at, SEEK_DATA);
		if (at < 0 && errno == ENXIO && archive_entry_sparse_count(ae) == 0)
			archive_entry_sparse_add_entry(ae, st->st_size, 0); /* nothing but a hole */
		if (at < 0)
			return;
		end = lseek(fd, at, SEEK_HOLE);
		if (end < 0)
			return;
		if (end > st->st_size)
			end = st->st_size;
		if (at >= end)
			return;
		archive_entry_sparse_add_entry(ae, at, end - at);
		at = end;
	}
}

/* Writes bytes [at, end) of the file; zeros where it has become shorter. */
static int put_range(struct walk *w, int fd, off_t at, off_t end, struct sp_err *e)
{
	bool gone = false;

	while (at < end) {
		size_t n = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
		ssize_t got = gone ? 0 : sp_fd_pread(fd, w->buf, n, at);

		if (got < 0)
			return fail(w, "read", e);
		if ((size_t)got < n) {
			gone = true;
			memset(w->buf + got, 0, n - (size_t)got);
		}
		if (archive_write_data(w->a, w->buf, n) < 0)
			return fail_archive(w, e);
		at += (off_t)n;
	}
	return 0;
}

/* libarchive wants a sparse file's holes too, as zeros, and leaves them out itself. */
static int put_data(struct walk *w, int fd, struct archive_entry *ae, struct sp_err *e)
{
	la_int64_t size = archive_entry_size(ae), at = 0, from, n;
	int rc = 0;

	if (archive_entry_sparse_reset(ae) == 0)
		return put_range(w, fd, 0, size, e);
	while (rc == 0 && archive_entry_sparse_next(ae, &from, &n) == ARCHIVE_OK) {
		memset(w->buf, 0, CHUNK);
		for (; rc == 0 && at < from; at += CHUNK)
			if (archive_write_data(w->a, w->buf,
					       from - at < CHUNK ? (size_t)(from - at) : CHUNK) < 0)
				rc = fail_archive(w, e);
		if (rc == 0)
			rc = put_range(w, fd, from, from + n, e);
		at = from + n;
	}
	return rc;
}

static int put_entry(struct walk *w, struct archive_entry *ae, int fd, struct sp_err *e)
{
	if (archive_write_header(w->a, ae) < ARCHIVE_WARN)
		return fail_archive(w, e);
	if (fd >= 0 && archive_entry_size(ae) > 0 && put_data(w, fd, ae, e) < 0)
		return -1;
	return archive_write_finish_entry(w->a) < ARCHIVE_WARN ? fail_archive(w, e) : 0;
}

static int fill_entry(struct walk *w, int dir, const char *name, const struct stat *st, int fd,
		      struct archive_entry *ae, struct sp_err *e)
{
	char target[4096];
	ssize_t n;

	archive_entry_copy_stat(ae, st);
	archive_entry_copy_pathname(ae, w->path.len ? w->path.p : ".");
	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(dir, name, target, sizeof target);
		if (n < 0 || (size_t)n == sizeof target)
			return fail(w, "read the link", e);
		target[n] = '\0';
		archive_entry_copy_symlink(ae, target);
		archive_entry_set_size(ae, 0);
	}
	if (fd >= 0 && add_xattrs(w, fd, ae, e) < 0)
		return -1;
	if (fd >= 0 && S_ISREG(st->st_mode))
		add_sparse(fd, st, ae);
	return 0;
}

/* One entry; fd is open for regular files and folders, else -1. */
static int put_one(struct walk *w, int dir, const char *name, const struct stat *st, int fd,
		   struct sp_err *e)
{
	struct archive_entry *ae = archive_entry_new(), *spare = NULL;
	int rc = fill_entry(w, dir, name, st, fd, ae, e);

	if (rc == 0) {
		if (!S_ISDIR(st->st_mode))
			archive_entry_linkify(w->links, &ae, &spare);
		if (ae)
			rc = put_entry(w, ae,
				       archive_entry_hardlink(ae) || S_ISDIR(st->st_mode) ? -1 : fd,
				       e);
	}
	archive_entry_free(ae);
	archive_entry_free(spare);
	return rc;
}

static int walk_folder(struct walk *w, int fd, struct sp_err *e);

/* Opens what its type says can be opened, and looks again: it may have been replaced. 1 opened,
 * 0 it is gone. */
static int open_same(struct walk *w, int dir, const char *name, struct stat *st, int *fd,
		     struct sp_err *e)
{
	int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	ino_t ino = st->st_ino;

	if (S_ISDIR(st->st_mode))
		flags |= O_DIRECTORY;
	*fd = openat(dir, name, flags);
	if (*fd < 0)
		return errno == ENOENT || errno == ELOOP || errno == ENOTDIR ? 0
									     : fail(w, "open", e);
	if (fstat(*fd, st) < 0)
		return fail(w, "look at", e);
	return st->st_ino == ino && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode));
}

static int visit(struct walk *w, int dir, const char *name, struct sp_err *e)
{
	sp_auto_fd fd = -1;
	struct stat st;
	int got;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : fail(w, "look at", e);
	if (S_ISSOCK(st.st_mode))
		return 0;
	if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)) {
		if (st.st_dev != w->dev && !S_ISDIR(st.st_mode))
			return 0; /* a file mounted on a file */
		got = open_same(w, dir, name, &st, &fd, e);
		if (got <= 0)
			return got;
	}
	if (put_one(w, dir, name, &st, fd, e) < 0)
		return -1;
	if (!S_ISDIR(st.st_mode) || st.st_dev != w->dev)
		return 0;
	return walk_folder(w, fd, e);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of a folder, sorted, so that the same folder gives the same image. */
static int read_names(struct walk *w, int fd, struct sp_str *text, size_t *count, struct sp_err *e)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *ent;

	if (!d)
		return fail(w, "read the folder", e);
	while (errno = 0, (ent = readdir(d))) {
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, ".."))
			continue;
		sp_str_addn(text, ent->d_name, strlen(ent->d_name) + 1);
		++*count;
	}
	if (errno) {
		closedir(d);
		return fail(w, "read the folder", e);
	}
	closedir(d);
	return 0;
}

static int walk_folder(struct walk *w, int fd, struct sp_err *e)
{
	sp_auto_str text = SP_STR_INIT;
	sp_auto_free char **names = NULL;
	size_t count = 0, len = w->path.len;
	char *p;
	int rc = 0;

	if (w->depth >= DEPTH_MAX)
		return sp_fail(e, SP_FAIL, 0, "folders nested deeper than %d", DEPTH_MAX);
	if (read_names(w, fd, &text, &count, e) < 0)
		return -1;
	names = sp_xcalloc(count, sizeof *names);
	p = text.p;
	for (size_t i = 0; i < count; i++, p += strlen(p) + 1)
		names[i] = p;
	qsort(names, count, sizeof *names, by_name);
	w->depth++;
	for (size_t i = 0; i < count && rc == 0; i++) {
		sp_str_addf(&w->path, "%s%s", len ? "/" : "", names[i]);
		rc = visit(w, fd, names[i], e);
		if (rc == 0) {
			w->path.len = len;
			w->path.p[len] = '\0';
		}
	}
	w->depth--;
	return rc;
}

static int open_archive(struct walk *w, int out_fd, struct sp_err *e)
{
	w->a = archive_write_new();
	w->links = archive_entry_linkresolver_new();
	if (!w->a || !w->links)
		abort(); /* out of memory */
	archive_write_set_format_pax(w->a);
	archive_entry_linkresolver_set_strategy(w->links, archive_format(w->a));
	/* names are bytes, whatever the locale */
	if (archive_write_set_format_option(w->a, "pax", "hdrcharset", "BINARY") != ARCHIVE_OK ||
	    archive_write_set_format_option(w->a, "pax", "xattrheader", "SCHILY") != ARCHIVE_OK ||
	    archive_write_set_bytes_per_block(w->a, 1 << 16) != ARCHIVE_OK ||
	    archive_write_open_fd(w->a, out_fd) != ARCHIVE_OK)
		return fail_archive(w, e);
	return 0;
}

int sp_walk_run(int root_fd, int out_fd, struct sp_err *e)
{
	struct walk w = { .path = SP_STR_INIT };
	struct stat st;
	int rc = -1;

	w.buf = sp_xmalloc(CHUNK);
	w.names = sp_xmalloc(XATTR_MAX);
	w.value = sp_xmalloc(XATTR_MAX);
	if (fstat(root_fd, &st) < 0) {
		fail(&w, "look at", e);
	} else if (open_archive(&w, out_fd, e) == 0) {
		w.dev = st.st_dev;
		if (put_one(&w, root_fd, ".", &st, root_fd, e) == 0 &&
		    walk_folder(&w, root_fd, e) == 0)
			rc = archive_write_close(w.a) == ARCHIVE_OK ? 0 : fail_archive(&w, e);
	}
	archive_entry_linkresolver_free(w.links);
	archive_write_free(w.a);
	free(w.buf);
	free(w.names);
	free(w.value);
	sp_str_free(&w.path);
	return rc;
}
