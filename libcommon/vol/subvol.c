/* SPDX-License-Identifier: Apache-2.0 */
/* Subvolumes, by libbtrfsutil 1.2's names (1.4 keeps them as aliases), and trees that hold some. */
#include <btrfsutil.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/fs.h"
#include "vol/store_int.h"

#define SUBVOLUME_INO 256
#define DEPTH_MAX 32

/* The library sets errno beside its own code. */
static int check(enum btrfs_util_error err, const char *what, const char *name, struct sp_err *e)
{
	if (err == BTRFS_UTIL_OK)
		return 0;
	return sp_fail(e, sp_code_of_errno(errno), errno, "%s '%s'", what, name);
}

static int check_name(const char *name, struct sp_err *e)
{
	if (!*name || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return sp_fail(e, SP_FAIL, 0, "'%s' is no name of a subvolume", name);
	return 0;
}

int sp_vol_create(int dirfd, const char *name, struct sp_err *e)
{
	if (check_name(name, e) < 0)
		return -1;
	return check(btrfs_util_create_subvolume_fd(dirfd, name, 0, NULL, NULL), "make subvolume",
		     name, e);
}

int sp_vol_snapshot(int from_dirfd, const char *from, int dirfd, const char *name, bool read_only,
		    struct sp_err *e)
{
	sp_auto_fd fd = -1;

	if (check_name(name, e) < 0)
		return -1;
	fd = sp_fs_open_dir(from_dirfd, from, e);
	if (fd < 0)
		return -1;
	return check(btrfs_util_create_snapshot_fd2(
			     fd, dirfd, name, read_only ? BTRFS_UTIL_CREATE_SNAPSHOT_READ_ONLY : 0,
			     NULL, NULL),
		     "snapshot", from, e);
}

int sp_vol_set_read_only(int dirfd, const char *name, bool on, struct sp_err *e)
{
	sp_auto_fd fd = sp_fs_open_dir(dirfd, name, e);

	if (fd < 0)
		return -1;
	return check(btrfs_util_set_subvolume_read_only_fd(fd, on), "set read-only", name, e);
}

bool sp_vol_is_subvolume(int dirfd, const char *name)
{
	sp_auto_fd fd = -1;
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
	    st.st_ino != SUBVOLUME_INO)
		return false;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && btrfs_util_is_subvolume_fd(fd) == BTRFS_UTIL_OK;
}

static int delete_nested(int dirfd, const char *name, int depth, struct sp_err *e);

/* 0 also where it was gone already. */
static int delete_one(int dirfd, const char *name, struct sp_err *e)
{
	if (btrfs_util_delete_subvolume_fd(dirfd, name, 0) == BTRFS_UTIL_OK || errno == ENOENT)
		return 0;
	return sp_fail(e, sp_code_of_errno(errno), errno, "delete subvolume '%s'", name);
}

struct nested {
	int depth;
	struct sp_err *e;
};

static int nested_entry(int dirfd, const char *name, void *arg)
{
	const struct nested *n = arg;
	struct stat st;
	bool is;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	is = sp_vol_is_subvolume(dirfd, name);
	if (delete_nested(dirfd, name, n->depth + 1, n->e) < 0)
		return -1;
	return is ? delete_one(dirfd, name, n->e) : 0;
}

/* Every subvolume below the folder, the deepest first. */
static int delete_nested(int dirfd, const char *name, int depth, struct sp_err *e)
{
	struct nested n = { .depth = depth, .e = e };
	sp_auto_fd fd = -1;

	if (depth > DEPTH_MAX)
		return sp_fail(e, SP_FAIL, 0, "'%s' is too deep to be ours", name);
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
			       ? 0
			       : sp_fail(e, sp_code_of_errno(errno), errno, "open '%s'", name);
	return sp_fs_each(fd, nested_entry, &n, e) < 0 ? -1 : 0;
}

int sp_vol_delete(int dirfd, const char *name, struct sp_err *e)
{
	if (check_name(name, e) < 0)
		return -1;
	if (!sp_fs_exists(dirfd, name))
		return 0;
	if (delete_nested(dirfd, name, 0, e) < 0)
		return -1;
	return delete_one(dirfd, name, e);
}

int sp_vol_empty(int dirfd, const char *name, struct sp_err *e)
{
	if (sp_vol_is_subvolume(dirfd, name))
		return sp_vol_delete(dirfd, name, e);
	if (delete_nested(dirfd, name, 0, e) < 0)
		return -1;
	return sp_fs_remove_tree(dirfd, name, e);
}

int sp_vol_remove_tree(int dirfd, const char *name, struct sp_err *e)
{
	char trash[40];

	if (check_name(name, e) < 0)
		return -1;
	sp_fs_random_name(SP_FS_TRASH, trash);
	if (renameat2(dirfd, name, dirfd, trash, RENAME_NOREPLACE) < 0) {
		if (errno == ENOENT)
			return 0;
		return sp_fail(e, sp_code_of_errno(errno), errno, "remove '%s'", name);
	}
	if (sp_fs_sync_dir(dirfd, e) < 0)
		return -1;
	return sp_vol_empty(dirfd, trash, e);
}

int sp_vol_clone_file(int from_fd, int to_fd, struct sp_err *e)
{
	if (ioctl(to_fd, FICLONE, from_fd) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "clone file");
	return 0;
}
