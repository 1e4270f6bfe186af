/* SPDX-License-Identifier: Apache-2.0 */
/* Records (guest/tree.h) into the guest's file system, in a worker. Beneath the top no link is
 * followed, whoever made it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/str.h"
#include "guest/tree.h"

static struct sp_tree_record rec;
static unsigned char chunk[65536];
static struct sp_str folders = SP_STR_INIT; /* whose mode and time are set at the end */
static int top = -1;                        /* the folder that the tree goes into */
static struct {
	char path[SP_TREE_PATH + 1];
	int fd;
} parent = { .fd = -1 };

static void read_exact(void *to, size_t n)
{
	char *p = to;

	while (n) {
		ssize_t r = read(0, p, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			sp_worker_fail(SP_FAIL, errno, "cannot read the tree");
		if (r == 0)
			sp_worker_fail(SP_USAGE, 0, "the tree ends before its end");
		p += r;
		n -= (size_t)r;
	}
}

/* END comes after the sender's EOF, so that it never meets one who is still sending. */
static void expect_eof(void)
{
	ssize_t n;

	do
		n = read(0, chunk, 1);
	while (n < 0 && errno == EINTR);
	if (n)
		sp_worker_fail(SP_USAGE, 0, "the tree goes on after its end");
}

static void next_record(void)
{
	unsigned char head[SP_TREE_HEADER];

	read_exact(head, sizeof head);
	if (sp_tree_unpack(head, &rec))
		sp_worker_fail(SP_USAGE, 0, "not a record of a tree");
	read_exact(rec.path, rec.path_len);
	rec.path[rec.path_len] = '\0';
	read_exact(rec.link, rec.link_len);
	rec.link[rec.link_len] = '\0';
	if (sp_tree_check(&rec))
		sp_worker_fail(SP_USAGE, 0, "a record of the tree is not allowed");
}

static void times_of(int64_t ns, struct timespec ts[2])
{
	int64_t s = ns / 1000000000, rest = ns % 1000000000;

	if (rest < 0) {
		rest += 1000000000;
		s--;
	}
	ts[0] = ts[1] = (struct timespec){ .tv_sec = (time_t)s, .tv_nsec = (long)rest };
}

static _Noreturn void failed(const char *what)
{
	sp_worker_fail(errno == EISDIR || errno == ENOTDIR || errno == ELOOP ? SP_CONFLICT
									     : SP_FAIL,
		       errno, "cannot %s '%s'", what, rec.path);
}

/* The folder that holds a path beneath the top. */
static int parent_of(const char *path, const char **base)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	*base = slash ? slash + 1 : path;
	if (!n)
		return top;
	if (parent.fd >= 0 && strncmp(parent.path, path, n) == 0 && !parent.path[n])
		return parent.fd;
	if (parent.fd >= 0)
		close(parent.fd);
	memcpy(parent.path, path, n);
	parent.path[n] = '\0';
	parent.fd = (int)syscall(SYS_openat2, top, parent.path, &how, sizeof how);
	if (parent.fd < 0)
		failed("go to the folder of");
	return parent.fd;
}

static bool is_folder(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* Where a name is taken by what is no folder, the new one is made aside and renamed over it. */
static const char *aside(int dir, const char *base, char temp[static 32])
{
	if (errno != EEXIST)
		failed("create");
	if (is_folder(dir, base)) {
		errno = EISDIR;
		failed("replace");
	}
	sp_worker_random_name(temp);
	return temp;
}

static void in_place(int dir, const char *name, const char *base)
{
	if (name != base && renameat(dir, name, dir, base))
		failed("replace");
	sp_worker_temp(-1, NULL);
}

static void put_file(int dir, const char *base)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dir, base, flags, 0600);
	const char *name = base;
	struct timespec ts[2];
	char temp[32];

	if (fd < 0) {
		name = aside(dir, base, temp);
		fd = openat(dir, name, flags, 0600);
		if (fd < 0)
			failed("create");
	}
	sp_worker_temp(dir, name);
	for (uint64_t left = rec.size; left;) {
		size_t n = left < sizeof chunk ? (size_t)left : sizeof chunk;

		read_exact(chunk, n);
		if (sp_write_all(fd, chunk, n))
			failed("write");
		left -= n;
	}
	times_of(rec.mtime, ts);
	if (fchmod(fd, rec.mode) || futimens(fd, ts) || close(fd))
		failed("write");
	in_place(dir, name, base);
}

static void put_link(int dir, const char *base)
{
	const char *name = base;
	struct timespec ts[2];
	char temp[32];

	if (symlinkat(rec.link, dir, base)) {
		name = aside(dir, base, temp);
		if (symlinkat(rec.link, dir, name))
			failed("create");
	}
	sp_worker_temp(dir, name);
	times_of(rec.mtime, ts);
	utimensat(dir, name, ts, AT_SYMLINK_NOFOLLOW);
	in_place(dir, name, base);
}

/* Mode and time of a folder come last: what is put into it changes one and may need the other. */
static void remember_folder(void)
{
	size_t before = folders.len;
	uint32_t size;

	sp_str_addn(&folders, &rec.mode, sizeof rec.mode);
	sp_str_addn(&folders, &rec.mtime, sizeof rec.mtime);
	sp_str_addn(&folders, rec.path, (size_t)rec.path_len + 1);
	size = (uint32_t)(folders.len - before);
	sp_str_addn(&folders, &size, sizeof size);
}

static void finish_folders(void)
{
	size_t end = folders.len;

	while (end) {
		const char *base, *p;
		struct timespec ts[2];
		uint32_t size;
		int dir;

		memcpy(&size, folders.p + end - sizeof size, sizeof size);
		end -= sizeof size + size;
		p = folders.p + end;
		memcpy(&rec.mode, p, sizeof rec.mode);
		memcpy(&rec.mtime, p + sizeof rec.mode, sizeof rec.mtime);
		p += sizeof rec.mode + sizeof rec.mtime;
		snprintf(rec.path, sizeof rec.path, "%s", p);
		dir = rec.path[0] ? parent_of(rec.path, &base) : top;
		if (!rec.path[0])
			base = ".";
		times_of(rec.mtime, ts);
		if (fchmodat(dir, base, rec.mode, 0) ||
		    utimensat(dir, base, ts, AT_SYMLINK_NOFOLLOW))
			failed("set the mode and time of");
	}
}

static void put_folder(int dir, const char *base)
{
	if (mkdirat(dir, base, 0700) && errno != EEXIST)
		failed("make folder");
	if (!is_folder(dir, base)) {
		errno = ENOTDIR;
		failed("replace");
	}
	remember_folder();
}

/* The first record, which is PATH itself. A folder that is there already keeps its mode. */
static void put_top(const char *path)
{
	sp_auto_free char *copy = sp_xstrdup(path);
	char *slash;
	size_t n = strlen(copy);
	int dir;

	while (n > 1 && copy[n - 1] == '/')
		copy[--n] = '\0';
	if (rec.kind == 'd') {
		bool made = mkdir(copy, 0700) == 0;

		top = open(copy, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (top < 0)
			sp_worker_fail(errno == ENOTDIR ? SP_CONFLICT : SP_FAIL, errno,
				       "cannot make folder '%s'", path);
		if (made)
			remember_folder();
		return;
	}
	slash = strrchr(copy, '/');
	if (!slash[1] || strcmp(slash + 1, ".") == 0 || strcmp(slash + 1, "..") == 0)
		sp_worker_fail(SP_CONFLICT, EISDIR, "cannot replace '%s'", path);
	*slash = '\0';
	dir = open(slash == copy ? "/" : copy, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		sp_worker_fail(SP_FAIL, errno, "cannot open the folder of '%s'", path);
	snprintf(rec.path, sizeof rec.path, "%s", path); /* for messages */
	if (rec.kind == 'f')
		put_file(dir, slash + 1);
	else
		put_link(dir, slash + 1);
}

void sp_tree_put(const char *path)
{
	const char *base;
	int dir;

	sp_worker_answer(SP_G_OPENED, NULL);
	next_record();
	if (rec.path_len || rec.kind == 'e')
		sp_worker_fail(SP_USAGE, 0, "the tree does not begin with its top");
	put_top(path);
	for (next_record(); rec.kind != 'e'; next_record()) {
		if (top < 0 || !rec.path_len)
			sp_worker_fail(SP_USAGE, 0,
				       "only a folder holds others, and only one is the top");
		dir = parent_of(rec.path, &base);
		if (rec.kind == 'd')
			put_folder(dir, base);
		else if (rec.kind == 'f')
			put_file(dir, base);
		else
			put_link(dir, base);
	}
	finish_folders();
	expect_eof();
}
