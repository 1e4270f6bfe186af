/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of the guest as records (guest/tree.h), in a worker. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/agent.h"
#include "guest/tree.h"

#define SMALL 65536         /* a file up to here is read before its size is told */
#define UNSIZED (16u << 20) /* most of a file whose size is told as 0, as in /proc */

static unsigned char out[65536], in[65536];
static size_t out_len;
static struct sp_tree_record rec;
static dev_t top_device;

static void flush(void)
{
	if (sp_write_all(1, out, out_len))
		_exit(1); /* nobody reads any more */
	out_len = 0;
}

static void put(const void *data, size_t n)
{
	const unsigned char *p = data;

	while (n) {
		size_t k = sizeof out - out_len < n ? sizeof out - out_len : n;

		memcpy(out + out_len, p, k);
		out_len += k;
		p += k;
		n -= k;
		if (out_len == sizeof out)
			flush();
	}
}

static void put_record(char kind, const struct stat *st, uint64_t size)
{
	unsigned char head[SP_TREE_HEADER];

	rec.kind = kind;
	rec.mode = st ? st->st_mode & 07777 : 0;
	rec.mtime = st ? (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec : 0;
	rec.size = size;
	if (kind != 'l')
		rec.link_len = 0;
	sp_tree_pack(&rec, head);
	put(head, sizeof head);
	put(rec.path, rec.path_len);
	put(rec.link, rec.link_len);
}

static _Noreturn void read_failed(void)
{
	sp_worker_fail(SP_FAIL, errno, "cannot read '%s'", rec.path);
}

static ssize_t read_some(int fd, size_t most)
{
	ssize_t n;

	do
		n = read(fd, in, most < sizeof in ? most : sizeof in);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		read_failed();
	return n;
}

/* Small files, and those whose size the kernel does not know beforehand: read first. */
static void put_unsized(int fd, const struct stat *st)
{
	struct sp_buf b;
	ssize_t n;

	sp_buf_init(&b, UNSIZED);
	while ((n = read_some(fd, sizeof in)) > 0)
		if (!sp_buf_put(&b, in, (size_t)n))
			sp_worker_fail(SP_FAIL, 0, "'%s' has no size and does not end", rec.path);
	put_record('f', st, sp_buf_len(&b));
	put(sp_buf_head(&b), sp_buf_len(&b));
	sp_buf_free(&b);
}

static void put_file(int dir, const char *name, const struct stat *was)
{
	/* Not blocking, for what was a file a moment ago and is a fifo now. */
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	uint64_t left;

	if (fd < 0 && errno == ENOENT && rec.path_len)
		return;
	if (fd < 0 || fstat(fd, &st))
		read_failed();
	if (S_ISREG(st.st_mode) && st.st_size <= SMALL) {
		put_unsized(fd, &st);
	} else if (S_ISREG(st.st_mode)) {
		put_record('f', was, (uint64_t)st.st_size);
		for (left = (uint64_t)st.st_size; left;) {
			ssize_t n = read_some(fd, left < sizeof in ? (size_t)left : sizeof in);

			if (n == 0)
				sp_worker_fail(SP_FAIL, 0, "'%s' shrank as it was read", rec.path);
			put(in, (size_t)n);
			left -= (uint64_t)n;
		}
	}
	close(fd);
}

static void visit(int dir, const char *name, int flags);

static void put_children(DIR *list)
{
	uint16_t len = rec.path_len;
	struct dirent *d;

	while ((d = readdir(list))) {
		size_t n = strlen(d->d_name), slash = len ? 1 : 0;

		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (len + slash + n > SP_TREE_PATH)
			sp_worker_fail(SP_FAIL, ENAMETOOLONG, "beneath '%s'", rec.path);
		if (slash)
			rec.path[len] = '/';
		memcpy(rec.path + len + slash, d->d_name, n + 1);
		rec.path_len = (uint16_t)(len + slash + n);
		visit(dirfd(list), d->d_name, AT_SYMLINK_NOFOLLOW);
		rec.path_len = len;
		rec.path[len] = '\0';
	}
}

/* What the kernel makes up (/proc, /sys, …) stays out of a tree that it was mounted into. */
static bool is_made_up(int fd, const struct stat *st)
{
	struct statfs fs;

	if (st->st_dev == top_device || fstatfs(fd, &fs))
		return false;
	return fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC ||
	       fs.f_type == DEVPTS_SUPER_MAGIC || fs.f_type == CGROUP2_SUPER_MAGIC ||
	       fs.f_type == DEBUGFS_MAGIC || fs.f_type == TRACEFS_MAGIC ||
	       fs.f_type == SECURITYFS_MAGIC || fs.f_type == BPF_FS_MAGIC;
}

static void put_folder(int dir, const char *name, int flags, const struct stat *st)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (flags ? O_NOFOLLOW : 0));
	DIR *list;

	if (fd < 0 && errno == ENOENT && rec.path_len)
		return;
	if (fd < 0)
		read_failed();
	put_record('d', st, 0);
	if (is_made_up(fd, st)) {
		close(fd);
		return;
	}
	list = fdopendir(fd);
	if (!list)
		read_failed();
	put_children(list);
	closedir(list);
}

static void visit(int dir, const char *name, int flags)
{
	struct stat st;
	ssize_t n;

	if (fstatat(dir, name, &st, flags)) {
		if (errno == ENOENT && rec.path_len)
			return; /* it went while its folder was read */
		sp_worker_fail(SP_FAIL, errno, "cannot look at '%s'",
			       rec.path_len ? rec.path : name);
	}
	if (!rec.path_len) {
		top_device = st.st_dev;
		sp_worker_answer(SP_G_OPENED, NULL);
	}
	if (S_ISDIR(st.st_mode)) {
		put_folder(dir, name, flags, &st);
	} else if (S_ISREG(st.st_mode)) {
		put_file(dir, name, &st);
	} else if (S_ISLNK(st.st_mode)) {
		n = readlinkat(dir, name, rec.link, SP_TREE_PATH);
		if (n < 0)
			read_failed();
		rec.link_len = (uint16_t)n;
		rec.link[rec.link_len] = '\0';
		put_record('l', &st, 0);
	} else if (!rec.path_len) {
		sp_worker_fail(SP_CONFLICT, 0, "'%s' is no file, folder or link", name);
	}
}

void sp_tree_get(const char *path)
{
	size_t n = strlen(path);

	visit(AT_FDCWD, path, path[n - 1] == '/' ? 0 : AT_SYMLINK_NOFOLLOW);
	rec.path_len = 0;
	rec.path[0] = '\0';
	put_record('e', NULL, 0);
	flush();
	close(1); /* before the END, which waits for it */
}
