/* SPDX-License-Identifier: Apache-2.0 */
/* Files below a folder: replaced whole, made once, removed with everything in them and no more. */
#include <errno.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"
#include "tmp.h"

static void contents(int dir)
{
	sp_auto_str s = SP_STR_INIT;
	struct sp_err e;
	struct stat st;

	umask(077);
	ok(sp_fs_replace(dir, "rec", "one", 3, 0644, &e) == 0, "replace makes");
	ok(fstatat(dir, "rec", &st, 0) == 0 && (st.st_mode & 0777) == 0644,
	   "with the mode as asked");
	ok(sp_fs_replace(dir, "rec", "two!", 4, 0600, &e) == 0, "replace replaces");
	ok(sp_fs_read(dir, "rec", 4, &s, &e) == 0 && strcmp(s.p, "two!") == 0, "read");
	ok(sp_fs_read(dir, "rec", 3, &s, &e) == -1 && e.code == SP_FAIL, "more than the limit");
	ok(sp_fs_create(dir, "rec", "x", 1, 0600, &e) == -1 && e.code == SP_CONFLICT,
	   "create: exists");
	ok(sp_fs_create(dir, "new", "x", 1, 0600, &e) == 0, "create: new");
	ok(tmp_count(dir) == 2, "no temporary is left");
	ok(sp_fs_read(dir, "none", 10, &s, &e) == -1 && e.code == SP_ABSENT, "absent");
	ok(mkfifoat(dir, "fifo", 0600) == 0 && sp_fs_read(dir, "fifo", 10, &s, &e) == -1,
	   "a fifo is refused and does not hold us up");
	ok(symlinkat("rec", dir, "link") == 0 && sp_fs_read(dir, "link", 10, &s, &e) == -1 &&
		   e.sys == ELOOP,
	   "no link is followed");
	ok(sp_fs_replace(dir, "link", "y", 1, 0600, &e) == 0 && sp_fs_exists(dir, "rec"),
	   "replacing a link leaves its target alone");
	sp_str_clear(&s);
	ok(sp_fs_read(dir, "rec", 10, &s, &e) == 0 && strcmp(s.p, "two!") == 0, "untouched");
	ok(sp_fs_replace(dir, "a/b", "", 0, 0600, &e) == -1, "a path is no name");
	ok(sp_fs_replace(dir, "..", "", 0, 0600, &e) == -1, "nor is ..");
	ok(sp_fs_open(dir, "", O_RDONLY, 0, &e) == -1, "nor is nothing");
	sp_fs_mkdir(dir, "full", 0700, &e);
	ok(sp_fs_replace(dir, "full", "x", 1, 0600, &e) == -1 && tmp_count(dir) == 5,
	   "a failed replace takes its temporary with it");
}

static void folders(int dir)
{
	struct sp_err e;
	struct stat st;
	char path[300];

	ok(sp_fs_mkdir(dir, "d", 0755, &e) == 0 && fstatat(dir, "d", &st, 0) == 0 &&
		   (st.st_mode & 0777) == 0755,
	   "mkdir, with the mode as asked");
	ok(sp_fs_mkdir(dir, "d", 0700, &e) == 0 && fstatat(dir, "d", &st, 0) == 0 &&
		   (st.st_mode & 0777) == 0755,
	   "exists: fine, and left as it is");
	ok(sp_fs_mkdir(dir, "rec", 0700, &e) == -1, "a file is in the way");
	snprintf(path, sizeof path, "%s/p//q/r/", tmp_path);
	ok(sp_fs_mkdir_path(path, 0700, &e) == 0 && sp_fs_mkdir_path(path, 0700, &e) == 0,
	   "mkdir -p");
	ok(fstatat(dir, "p/q/r", &st, 0) == 0 && S_ISDIR(st.st_mode), "made all of it");
	snprintf(path, sizeof path, "%s/rec", tmp_path);
	ok(sp_fs_mkdir_path(path, 0700, &e) == -1, "a file at the end");
	ok(sp_fs_mkdir_path("", 0700, &e) == -1, "an empty path");
	ok(sp_fs_rename_new(dir, "d", dir, "rec", &e) == -1 && e.code == SP_CONFLICT,
	   "no replacing");
	ok(sp_fs_rename_new(dir, "d", dir, "d2", &e) == 0 && !sp_fs_exists(dir, "d"), "rename");
	ok(sp_fs_unlink(dir, "none", &e) == 0 && sp_fs_unlink(dir, "new", &e) == 0, "unlink");
}

static void beneath(int dir)
{
	struct sp_err e;
	sp_auto_fd d = sp_fs_open_dir(dir, "p", &e);
	sp_auto_fd f = -1;

	ok(symlinkat("..", d, "up") == 0, "a link is made");
	ok((f = sp_fs_open_beneath(d, "q/r", O_RDONLY, 0)) >= 0, "beneath");
	ok(sp_fs_open_beneath(d, "../rec", O_RDONLY, 0) == -1 && errno == EXDEV, "not above");
	ok(sp_fs_open_beneath(d, "/etc/passwd", O_RDONLY, 0) == -1, "not absolute");
	ok(sp_fs_open_beneath(d, "up/rec", O_RDONLY, 0) == -1 && errno == ELOOP, "not by a link");
}

static int stop_at_two(int dirfd, const char *name, void *n)
{
	(void)dirfd;
	(void)name;
	return ++*(int *)n == 2 ? 7 : 0;
}

static void each(int dir)
{
	struct sp_err e;
	int n = 0;

	ok(sp_fs_each(dir, stop_at_two, &n, &e) == 7 && n == 2, "each stops where it is told to");
	ok(tmp_count(dir) > 2 && tmp_count(dir) == tmp_count(dir), "and begins anew every time");
	ok(sp_fs_each(-1, stop_at_two, &n, &e) == -1, "no folder");
}

static void deep_tree(int dir, int depth)
{
	struct sp_err e;
	sp_auto_fd at = -1;

	sp_fs_mkdir(dir, "deep", 0700, &e);
	at = sp_fs_open_dir(dir, "deep", &e);
	for (int i = 0; i < depth; i++) {
		int next;

		sp_fs_mkdir(at, "x", 0700, &e);
		sp_fs_replace(at, "file", "x", 1, 0600, &e);
		next = sp_fs_open_dir(at, "x", &e);
		sp_fd_close(&at);
		at = next;
	}
}

static void removal(int dir)
{
	struct rlimit most, less = { .rlim_cur = 200 };
	struct sp_err e;
	struct stat st;

	ok(sp_fs_remove_tree(dir, "none", &e) == 0, "nothing to remove: fine");
	ok(sp_fs_remove_tree(dir, "rec", &e) == 0 && !sp_fs_exists(dir, "rec"), "a file");
	sp_fs_replace(dir, "outside", "x", 1, 0600, &e);
	sp_fs_mkdir(dir, "t", 0700, &e);
	ok(symlinkat("../outside", dir, "t-link") == 0, "a link is made");
	ok(symlinkat("p", dir, "d-link") == 0, "a link is made");
	ok(sp_fs_remove_tree(dir, "d-link", &e) == 0 && sp_fs_exists(dir, "p"),
	   "a link goes, what it names stays");
	deep_tree(dir, 300);
	getrlimit(RLIMIT_NOFILE, &most);
	less.rlim_max = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &less);
	ok(sp_fs_remove_tree(dir, "deep", &e) == 0 && !sp_fs_exists(dir, "deep"),
	   "a tree deeper than there are descriptors");
	setrlimit(RLIMIT_NOFILE, &most);
	ok(fstatat(dir, "outside", &st, 0) == 0, "what is outside stays");
	ok(sp_fs_remove_tree(dir, "..", &e) == -1, "never above");
}

static void mounted(int dir)
{
	char path[300];
	struct sp_err e;
	int n;

	if (geteuid() != 0) {
		tap_skip("a mount is not crossed", "needs root");
		return;
	}
	sp_fs_mkdir(dir, "m", 0700, &e);
	snprintf(path, sizeof path, "%s/m/in", tmp_path);
	sp_fs_mkdir_path(path, 0700, &e);
	if (mount("none", path, "tmpfs", 0, NULL) < 0) {
		tap_skip("a mount is not crossed", "no mounting here");
		return;
	}
	ok(sp_fs_remove_tree(dir, "m", &e) == -1 && sp_fs_exists(dir, "m"),
	   "a mount is not crossed");
	umount(path);
	snprintf(path, sizeof path, "%s/m", tmp_path);
	if (mount(tmp_path, path, NULL, MS_BIND, NULL) == 0) {
		n = tmp_count(dir);
		ok(sp_fs_remove_tree(dir, "m", &e) == -1 && e.sys == EXDEV && tmp_count(dir) == n,
		   "not even one of the same file system");
		umount(path);
	}
	ok(sp_fs_remove_tree(dir, "m", &e) == 0, "unmounted it goes");
}

static void privacy(int dir)
{
	struct sp_err e;

	ok(sp_fs_check_private(dir, "here", &e) == 0, "ours");
	fchmod(dir, 0770);
	ok(sp_fs_check_private(dir, "here", &e) == -1 && e.code == SP_DENIED, "a group may write");
	fchmod(dir, 01777);
	ok(sp_fs_check_private(dir, "here", &e) == -1, "all may write");
	fchmod(dir, 0755);
	ok(sp_fs_check_private(dir, "here", &e) == 0, "all may read: fine");
	if (geteuid() == 0) {
		if (fchown(dir, 12345, 0) == 0)
			ok(sp_fs_check_private(dir, "here", &e) == -1, "another's");
		if (fchown(dir, 0, 0) < 0)
			ok(false, "owner put back");
	}
}

int main(void)
{
	char name[40];
	int dir = tmp_make();

	contents(dir);
	folders(dir);
	beneath(dir);
	each(dir);
	removal(dir);
	mounted(dir);
	privacy(dir);
	sp_fs_random_name(SP_FS_TRASH, name);
	ok(strlen(name) == 27 && strncmp(name, ".trash-", 7) == 0, "a random name");
	ok(sp_fs_free_bytes(dir) > 0 && sp_fs_free_bytes(-1) == -1, "free bytes");
	tmp_clear();
	return tap_done();
}
