/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the guest, in a worker: everything here may block, and ends in an answer. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/str.h"

#define CHUNK 65536

static unsigned char chunk[CHUNK];

/* From one descriptor to the other, to the end. 0, or -1, *reading telling which side failed. */
static int copy_all(int from, int to, bool *reading)
{
	for (;;) {
		ssize_t n = read(from, chunk, sizeof chunk);

		*reading = true;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -1 : 0;
		*reading = false;
		if (sp_write_all(to, chunk, (size_t)n))
			return -1;
	}
}

void sp_file_read(const char *path)
{
	bool reading;
	struct stat st;
	int fd = open(path, O_RDONLY | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st))
		sp_worker_fail(SP_FAIL, errno, "cannot open '%s'", path);
	if (S_ISDIR(st.st_mode))
		sp_worker_fail(SP_CONFLICT, EISDIR, "cannot read '%s'", path);
	sp_worker_answer(SP_G_OPENED, NULL);
	if (copy_all(fd, 1, &reading) && reading)
		sp_worker_fail(SP_FAIL, errno, "cannot read '%s'", path);
	close(1); /* before the END, which waits for it */
}

/* Splits in place; returns the last component, *dir what is before it. */
static const char *split(char *path, const char **dir)
{
	char *slash = strrchr(path, '/');

	while (slash && slash != path && !slash[1]) { /* a folder's name may end in '/' */
		*slash = '\0';
		slash = strrchr(path, '/');
	}
	if (!slash || !slash[1] || strcmp(slash + 1, ".") == 0 || strcmp(slash + 1, "..") == 0)
		sp_worker_fail(SP_USAGE, 0, "'%s' names no file", path);
	*dir = slash == path ? "/" : path;
	*slash = '\0';
	return slash + 1;
}

static int open_folder(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == EACCES)
		fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		sp_worker_fail(SP_FAIL, errno, "cannot open folder '%s'", dir);
	return fd;
}

static void set_owner_and_mode(int fd, const struct stat *old, int64_t mode, bool as_user)
{
	if (old && !as_user && fchown(fd, old->st_uid, old->st_gid))
		sp_worker_fail(SP_FAIL, errno, "cannot set the owner");
	if (mode < 0)
		mode = old ? old->st_mode & 07777 : 0644;
	if (fchmod(fd, (mode_t)mode))
		sp_worker_fail(SP_FAIL, errno, "cannot set the mode");
}

/* Aside first, then in place: who reads PATH sees the old bytes or the new. A symbolic link is
 * followed, so that what it names is replaced, and not the link. */
void sp_file_write(const char *path, int64_t mode, bool as_user)
{
	sp_auto_free char *real = NULL;
	struct stat st;
	const char *base, *dir;
	char name[32];
	bool exists, reading;
	int folder, fd;

	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && !(real = realpath(path, NULL)))
		sp_worker_fail(SP_FAIL, errno, "cannot follow '%s'", path);
	if (!real)
		real = sp_xstrdup(path);
	base = split(real, &dir);
	folder = open_folder(dir);
	exists = fstatat(folder, base, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (exists && !S_ISREG(st.st_mode))
		sp_worker_fail(SP_CONFLICT, 0, "'%s' is not a regular file", path);
	sp_worker_random_name(name);
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		sp_worker_fail(SP_FAIL, errno, "cannot create '%s'", path);
	sp_worker_temp(folder, name);
	sp_worker_answer(SP_G_OPENED, NULL);
	if (copy_all(0, fd, &reading))
		sp_worker_fail(SP_FAIL, errno, "cannot write '%s'", path);
	set_owner_and_mode(fd, exists ? &st : NULL, mode, as_user);
	if (fsync(fd) || renameat(folder, name, folder, base))
		sp_worker_fail(SP_FAIL, errno, "cannot write '%s'", path);
	sp_worker_temp(-1, NULL);
	fsync(folder);
}

/* Tells of one name. */
static void entry(int dir, const char *name, const char *as, const struct stat *st)
{
	unsigned char mem[9000];
	char link[4097];
	struct sp_fields f;
	ssize_t n = S_ISLNK(st->st_mode) ? readlinkat(dir, name, link, sizeof link - 1) : -1;

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_str(&f, SP_T_PATH, as);
	sp_fields_add_u32(&f, SP_T_MODE, st->st_mode);
	sp_fields_add_u64(&f, SP_T_SIZE, (uint64_t)st->st_size);
	sp_fields_add_u64(
		&f, SP_T_MTIME,
		(uint64_t)((int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec));
	sp_fields_add_u32(&f, SP_T_UID, st->st_uid);
	sp_fields_add_u32(&f, SP_T_GID, st->st_gid);
	if (n >= 0)
		sp_fields_add(&f, SP_T_LINK, link, (size_t)n);
	sp_worker_answer(SP_G_ENTRY, &f);
}

void sp_file_stat(const char *path)
{
	struct stat st;

	if (lstat(path, &st))
		sp_worker_fail(SP_FAIL, errno, "cannot look at '%s'", path);
	entry(AT_FDCWD, path, path, &st);
}

/* Entries by name, sorted; their PATH is the name alone. */
void sp_file_list(const char *path)
{
	struct dirent **list = NULL;
	struct stat st;
	int n = scandir(path, &list, NULL, alphasort), dir;

	if (n < 0)
		sp_worker_fail(SP_FAIL, errno, "cannot list '%s'", path);
	dir = open_folder(path);
	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;

		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
		    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			entry(dir, name, name, &st);
	}
}

void sp_file_mkdir(const char *path, uint32_t mode)
{
	sp_auto_free char *part = sp_xstrdup(path);
	bool made = false;
	struct stat st;

	for (char *p = part + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(part, 0755) && errno != EEXIST)
			sp_worker_fail(SP_FAIL, errno, "cannot make folder '%s'", part);
		*p = '/';
	}
	made = mkdir(path, 0755) == 0;
	if (!made && errno != EEXIST)
		sp_worker_fail(SP_FAIL, errno, "cannot make folder '%s'", path);
	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		sp_worker_fail(SP_CONFLICT, 0, "'%s' is not a folder", path);
	if (made && chmod(path, mode))
		sp_worker_fail(SP_FAIL, errno, "cannot set the mode of '%s'", path);
}

void sp_file_move(const char *from, const char *to)
{
	if (rename(from, to))
		sp_worker_fail(SP_FAIL, errno, "cannot move '%s' to '%s'", from, to);
}

/* Removes a name and all beneath it, following no link. -1 with errno. */
static int remove_at(int dir, const char *name)
{
	int fd, rc = 0;
	struct dirent *d;
	DIR *list;

	if (unlinkat(dir, name, 0) == 0)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -1;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	list = fd < 0 ? NULL : fdopendir(fd);
	if (!list) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while (rc == 0 && (d = readdir(list)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
		    remove_at(dirfd(list), d->d_name) && errno != ENOENT)
			rc = -1;
	if (rc == 0)
		rc = unlinkat(dir, name, AT_REMOVEDIR);
	fd = errno;
	closedir(list);
	errno = fd;
	return rc;
}

void sp_file_remove(const char *path)
{
	sp_auto_free char *copy = sp_xstrdup(path);
	const char *dir, *base = split(copy, &dir);
	int folder = open_folder(dir);

	if (remove_at(folder, base))
		sp_worker_fail(SP_FAIL, errno, "cannot remove '%s'", path);
}
