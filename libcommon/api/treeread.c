/* SPDX-License-Identifier: Apache-2.0 */
#include "api/treeread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "guest/tree.h"
#include "sys/fd.h"

#define DEEPEST 256 /* folders open at once */

struct sp_treeread {
	char *top;
	bool begun, ended;
	DIR *list[DEEPEST];
	size_t len[DEEPEST]; /* of the path of each */
	size_t depth;
	struct sp_tree_record rec;
	unsigned char out[SP_TREE_HEADER + 2 * SP_TREE_PATH]; /* a record on its way */
	size_t out_off, out_len;
	int file;
	uint64_t left, skipped;
};

struct sp_treeread *sp_treeread_new(const char *path, struct sp_err *e)
{
	struct sp_treeread *r;
	struct stat st;
	size_t n = strlen(path);

	if (!n || fstatat(AT_FDCWD, path, &st, path[n - 1] == '/' ? 0 : AT_SYMLINK_NOFOLLOW) < 0) {
		sp_fail(e, SP_ABSENT, n ? errno : ENOENT, "'%s'", path);
		return NULL;
	}
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)) {
		sp_fail(e, SP_CONFLICT, 0, "'%s' is no file, folder or link", path);
		return NULL;
	}
	r = sp_xcalloc(1, sizeof *r);
	r->top = sp_xstrdup(path);
	r->file = -1;
	return r;
}

void sp_treeread_free(struct sp_treeread **rp)
{
	struct sp_treeread *r = *rp;

	if (!r)
		return;
	while (r->depth)
		closedir(r->list[--r->depth]);
	sp_fd_close(&r->file);
	free(r->top);
	free(r);
	*rp = NULL;
}

uint64_t sp_treeread_skipped(const struct sp_treeread *r)
{
	return r->skipped;
}

static int cannot(const struct sp_treeread *r, const char *what, struct sp_err *e)
{
	return sp_fail(e, sp_code_of_errno(errno), errno, "%s '%.200s%s%.200s'", what, r->top,
		       r->rec.path_len ? "/" : "", r->rec.path);
}

static void put_record(struct sp_treeread *r, char kind, const struct stat *st, uint64_t size)
{
	r->rec.kind = kind;
	r->rec.mode = st && kind != 'l' ? st->st_mode & 07777 : st ? 0777 : 0;
	r->rec.mtime = st ? (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec : 0;
	r->rec.size = size;
	if (kind != 'l')
		r->rec.link_len = 0;
	sp_tree_pack(&r->rec, r->out);
	memcpy(r->out + SP_TREE_HEADER, r->rec.path, r->rec.path_len);
	memcpy(r->out + SP_TREE_HEADER + r->rec.path_len, r->rec.link, r->rec.link_len);
	r->out_off = 0;
	r->out_len = SP_TREE_HEADER + (size_t)r->rec.path_len + r->rec.link_len;
}

static int put_folder(struct sp_treeread *r, int fd, const struct stat *st, struct sp_err *e)
{
	DIR *list = NULL;

	if (r->depth == DEEPEST) {
		close(fd);
		errno = ENAMETOOLONG;
		return cannot(r, "go deeper than", e);
	}
	list = fdopendir(fd);
	if (!list) {
		close(fd);
		return cannot(r, "read folder", e);
	}
	put_record(r, 'd', st, 0);
	r->len[r->depth] = r->rec.path_len;
	r->list[r->depth++] = list;
	return 0;
}

static int put_link(struct sp_treeread *r, int dir, const char *name, const struct stat *st,
		    struct sp_err *e)
{
	ssize_t n = readlinkat(dir, name, r->rec.link, SP_TREE_PATH + 1);

	if (n < 0 || n > SP_TREE_PATH) {
		errno = n < 0 ? errno : ENAMETOOLONG;
		return cannot(r, "read link", e);
	}
	r->rec.link_len = (uint16_t)n;
	put_record(r, 'l', st, 0);
	return 0;
}

/* What is opened decides, not what was looked at before; not blocking, lest it be a fifo by now. */
static int visit(struct sp_treeread *r, int dir, const char *name, bool follow, struct sp_err *e)
{
	int flags = follow ? 0 : O_NOFOLLOW, fd;
	struct stat st;

	if (fstatat(dir, name, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
		return cannot(r, "look at", e);
	if (S_ISLNK(st.st_mode))
		return put_link(r, dir, name, &st, e);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
		r->skipped++;
		return 0;
	}
	fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
	if (fd < 0 || fstat(fd, &st) < 0) {
		cannot(r, "open", e);
		sp_fd_close(&fd);
		return -1;
	}
	if (S_ISDIR(st.st_mode))
		return put_folder(r, fd, &st, e);
	put_record(r, 'f', &st, (uint64_t)st.st_size);
	r->file = fd;
	r->left = (uint64_t)st.st_size;
	return 0;
}

/* The next entry of the innermost folder; at its end, out of it. */
static int step(struct sp_treeread *r, struct sp_err *e)
{
	size_t at = r->depth - 1, len = r->len[at], n;
	struct dirent *d;

	errno = 0;
	d = readdir(r->list[at]);
	r->rec.path[len] = '\0';
	r->rec.path_len = (uint16_t)len;
	if (!d) {
		if (errno)
			return cannot(r, "read folder", e);
		closedir(r->list[--r->depth]);
		return 0;
	}
	if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
		return 0;
	n = strlen(d->d_name);
	if (len + 1 + n > SP_TREE_PATH) {
		errno = ENAMETOOLONG;
		return cannot(r, "send what is in", e);
	}
	if (len)
		r->rec.path[len++] = '/';
	memcpy(r->rec.path + len, d->d_name, n + 1);
	r->rec.path_len = (uint16_t)(len + n);
	return visit(r, dirfd(r->list[at]), d->d_name, false, e);
}

static int go_on(struct sp_treeread *r, struct sp_err *e)
{
	if (!r->begun) {
		r->begun = true;
		return visit(r, AT_FDCWD, r->top, r->top[strlen(r->top) - 1] == '/', e);
	}
	if (r->depth)
		return step(r, e);
	r->rec.path_len = 0;
	r->rec.path[0] = '\0';
	put_record(r, 'e', NULL, 0);
	r->ended = true;
	return 0;
}

static long read_file(struct sp_treeread *r, void *buf, size_t n, struct sp_err *e)
{
	ssize_t got;

	do
		got = read(r->file, buf, r->left < n ? (size_t)r->left : n);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return cannot(r, "read", e);
	if (got == 0) {
		errno = 0;
		return cannot(r, "the file shrank while it was read:", e);
	}
	r->left -= (uint64_t)got;
	return got;
}

long sp_treeread_next(struct sp_treeread *r, void *buf, size_t n, struct sp_err *e)
{
	size_t done = 0;

	while (done < n) {
		char *to = (char *)buf + done;
		size_t room = n - done;
		long got;

		if (r->out_off < r->out_len) {
			room = r->out_len - r->out_off < room ? r->out_len - r->out_off : room;
			memcpy(to, r->out + r->out_off, room);
			r->out_off += room;
			done += room;
		} else if (r->left) {
			got = read_file(r, to, room, e);
			if (got < 0)
				return -1;
			done += (size_t)got;
		} else {
			sp_fd_close(&r->file);
			if (r->ended)
				break;
			if (go_on(r, e) < 0)
				return -1;
		}
	}
	return (long)done;
}
