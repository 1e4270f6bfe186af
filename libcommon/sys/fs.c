/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/fd.h"

/* A single component that stays in its folder; below AT_FDCWD, as for any open, a path. */
static int check_name(int dirfd, const char *name, struct sp_err *e)
{
	if (dirfd == AT_FDCWD)
		return 0;
	if (!*name || strchr(name, '/') || strcmp(name, "..") == 0)
		return sp_fail(e, SP_FAIL, EINVAL, "file name '%s'", name);
	return 0;
}

static int fail_at(struct sp_err *e, const char *what, const char *name)
{
	return sp_fail(e, sp_code_of_errno(errno), errno, "%s '%s'", what, name);
}

int sp_fs_open(int dirfd, const char *name, int flags, mode_t mode, struct sp_err *e)
{
	int fd;

	if (check_name(dirfd, name, e) < 0)
		return -1;
	fd = openat(dirfd, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, mode);
	if (fd < 0)
		return fail_at(e, "open", name);
	return fd;
}

int sp_fs_open_dir(int dirfd, const char *name, struct sp_err *e)
{
	return sp_fs_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0, e);
}

static int open_how(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC), .resolve = resolve };

	if (flags & (O_CREAT | O_TMPFILE))
		how.mode = mode;
	return (int)syscall(SYS_openat2, dirfd, path, &how, sizeof how);
}

int sp_fs_open_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
	return open_how(dirfd, path, flags, mode,
			RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

int sp_fs_read(int dirfd, const char *name, size_t max, struct sp_str *out, struct sp_err *e)
{
	/* Non-blocking, so that a fifo put in the file's place does not hold us up. */
	sp_auto_fd fd = sp_fs_open(dirfd, name, O_RDONLY | O_NONBLOCK, 0, e);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return fail_at(e, "stat", name);
	if (!S_ISREG(st.st_mode))
		return sp_fail(e, SP_FAIL, 0, "'%s' is not a regular file", name);
	if (sp_fd_slurp(fd, max, out, e) < 0)
		return sp_wrap(e, "'%s'", name);
	return 0;
}

static int write_temp(int dirfd, const char *tmp, const void *data, size_t n, mode_t mode)
{
	sp_auto_fd fd =
		openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -1;
	if (sp_fd_write(fd, data, n) < 0 || fchmod(fd, mode) < 0 || fsync(fd) < 0)
		return -1;
	return 0;
}

int sp_fs_replace(int dirfd, const char *name, const void *data, size_t n, mode_t mode,
		  struct sp_err *e)
{
	char tmp[40];

	if (check_name(dirfd, name, e) < 0)
		return -1;
	sp_fs_random_name(SP_FS_TMP, tmp);
	if (write_temp(dirfd, tmp, data, n, mode) < 0 || renameat(dirfd, tmp, dirfd, name) < 0) {
		fail_at(e, "write", name);
		unlinkat(dirfd, tmp, 0);
		return -1;
	}
	return sp_fs_sync_dir(dirfd, e);
}

/* linkat where the file system has no rename without replacing. */
static int commit_new(int dirfd, const char *tmp, const char *name)
{
	if (renameat2(dirfd, tmp, dirfd, name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	if (linkat(dirfd, tmp, dirfd, name, 0) < 0)
		return -1;
	unlinkat(dirfd, tmp, 0);
	return 0;
}

int sp_fs_create(int dirfd, const char *name, const void *data, size_t n, mode_t mode,
		 struct sp_err *e)
{
	char tmp[40];

	if (check_name(dirfd, name, e) < 0)
		return -1;
	sp_fs_random_name(SP_FS_TMP, tmp);
	if (write_temp(dirfd, tmp, data, n, mode) < 0 || commit_new(dirfd, tmp, name) < 0) {
		fail_at(e, "create", name);
		unlinkat(dirfd, tmp, 0);
		return -1;
	}
	return sp_fs_sync_dir(dirfd, e);
}

int sp_fs_mkdir(int dirfd, const char *name, mode_t mode, struct sp_err *e)
{
	sp_auto_fd fd = -1;
	bool made;

	if (check_name(dirfd, name, e) < 0)
		return -1;
	made = mkdirat(dirfd, name, mode & 0777) == 0;
	if (!made && errno != EEXIST)
		return fail_at(e, "make folder", name);
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return fail_at(e, "open folder", name);
	if (made && fchmod(fd, mode) < 0) /* mkdir took the umask off */
		return fail_at(e, "chmod folder", name);
	return 0;
}

int sp_fs_mkdir_path(const char *path, mode_t mode, struct sp_err *e)
{
	sp_auto_free char *copy = sp_xstrdup(path);
	struct stat st;

	for (char *p = copy + 1; copy[0]; p++) {
		char c = *p;

		if (c && c != '/')
			continue;
		*p = '\0';
		if (mkdir(copy, mode & 0777) == 0) {
			if (chmod(copy, mode) < 0)
				return fail_at(e, "chmod folder", copy);
		} else if (errno != EEXIST && errno != EISDIR) {
			return fail_at(e, "make folder", copy);
		}
		*p = c;
		if (!c)
			break;
	}
	if (stat(path, &st) < 0)
		return fail_at(e, "make folder", path);
	if (!S_ISDIR(st.st_mode))
		return sp_fail(e, SP_CONFLICT, ENOTDIR, "make folder '%s'", path);
	return 0;
}

int sp_fs_rename_new(int from, const char *a, int to, const char *b, struct sp_err *e)
{
	if (check_name(from, a, e) < 0 || check_name(to, b, e) < 0)
		return -1;
	if (renameat2(from, a, to, b, RENAME_NOREPLACE) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "rename '%s' to '%s'", a, b);
	return 0;
}

int sp_fs_unlink(int dirfd, const char *name, struct sp_err *e)
{
	if (check_name(dirfd, name, e) < 0)
		return -1;
	if (unlinkat(dirfd, name, 0) < 0 && errno != ENOENT)
		return fail_at(e, "remove", name);
	return 0;
}

#define DEEP 64 /* descriptors held at once: beyond it, a folder is first moved up to the top */

struct clear {
	struct sp_err *e;
	dev_t dev;
	int top;
	int depth;
};

static int clear_entry(int dirfd, const char *name, void *arg);

static int clear_folder(int dirfd, const char *name, struct clear *c)
{
	sp_auto_fd fd = open_how(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
				 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
	struct stat st;
	int rc;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return fail_at(c->e, "open folder", name);
	if (st.st_dev != c->dev) /* a subvolume, which no mount shows */
		return sp_fail(c->e, SP_FAIL, EXDEV, "remove '%s'", name);
	if (c->top < 0)
		c->top = fd;
	c->depth++;
	/* Again for a folder that gains entries meanwhile: deep ones moved up, or a late writer. */
	for (int tries = 0;; tries++) {
		rc = sp_fs_each(fd, clear_entry, c, c->e);
		if (rc)
			break;
		if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			break;
		if (errno != ENOTEMPTY || tries > 100000) {
			rc = fail_at(c->e, "remove", name);
			break;
		}
	}
	c->depth--;
	return rc;
}

static int clear_entry(int dirfd, const char *name, void *arg)
{
	struct clear *c = arg;
	char up[40];

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return fail_at(c->e, "remove", name);
	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (errno != ENOTEMPTY)
		return fail_at(c->e, "remove", name);
	if (c->depth < DEEP)
		return clear_folder(dirfd, name, c);
	sp_fs_random_name(SP_FS_TRASH, up);
	if (renameat(dirfd, name, c->top, up) < 0)
		return fail_at(c->e, "move", name);
	return 0;
}

/* A path, as AT_FDCWD allows: its folder is opened, and the rest is as for any name. */
static int remove_path(const char *path, const char *slash, struct sp_err *e)
{
	sp_auto_free char *up = sp_xstrdup(path);
	sp_auto_fd fd = -1;

	up[slash - path + 1] = '\0';
	fd = open(up, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : fail_at(e, "open folder", up);
	return sp_fs_remove_tree(fd, slash + 1, e);
}

int sp_fs_remove_tree(int dirfd, const char *name, struct sp_err *e)
{
	struct clear c = { .e = e, .top = -1 };
	struct stat st;

	if (dirfd == AT_FDCWD && strrchr(name, '/'))
		return remove_path(name, strrchr(name, '/'), e);
	if (check_name(dirfd, name, e) < 0)
		return -1;
	if (fstatat(dirfd, ".", &st, 0) < 0)
		return fail_at(e, "stat the folder of", name);
	c.dev = st.st_dev;
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : fail_at(e, "stat", name);
	if (!S_ISDIR(st.st_mode))
		return sp_fs_unlink(dirfd, name, e);
	return clear_folder(dirfd, name, &c);
}

int sp_fs_sync_dir(int dirfd, struct sp_err *e)
{
	sp_auto_fd fd = -1;

	if (dirfd == AT_FDCWD) {
		fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		dirfd = fd;
	}
	if (fsync(dirfd) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "sync folder");
	return 0;
}

bool sp_fs_exists(int dirfd, const char *name)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

void sp_fs_random_name(const char *prefix, char out[static 40])
{
	int n = snprintf(out, 17, "%s", prefix);

	if (n > 16)
		n = 16;
	sp_random_text(out + n, 20);
}

int64_t sp_fs_free_bytes(int fd)
{
	struct statvfs v;

	if (fstatvfs(fd, &v) < 0)
		return -1;
	return (int64_t)v.f_bfree * (int64_t)v.f_frsize;
}

static void close_dir(DIR **d)
{
	if (*d)
		closedir(*d);
}

int sp_fs_each(int dirfd, int (*fn)(int dirfd, const char *name, void *arg), void *arg,
	       struct sp_err *e)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	__attribute__((cleanup(close_dir))) DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		sp_fail(e, sp_code_of_errno(errno), errno, "read folder");
		sp_fd_close(&fd);
		return -1;
	}
	for (;;) {
		struct dirent *de;
		int rc;

		errno = 0;
		de = readdir(d);
		if (!de && errno)
			return sp_fail(e, SP_FAIL, errno, "read folder");
		if (!de)
			return 0;
		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		rc = fn(dirfd, de->d_name, arg);
		if (rc)
			return rc;
	}
}

int sp_fs_check_private(int dirfd, const char *what, struct sp_err *e)
{
	struct stat st;

	if (fstat(dirfd, &st) < 0)
		return fail_at(e, "stat", what);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return sp_fail(e, SP_DENIED, 0, "'%s' belongs to uid %u", what,
			       (unsigned)st.st_uid);
	if (st.st_mode & 022)
		return sp_fail(e, SP_DENIED, 0, "'%s' can be written by others", what);
	return 0;
}
