/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "sys/clock.h"
#include "sys/fd.h"

static int open_lock(int dirfd, const char *name, struct sp_err *e)
{
	int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);

	if (fd < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "open lock '%s'", name);
	return fd;
}

/* A name may have been renamed or removed under us between open and lock. */
static bool is_still(int dirfd, const char *name, int fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(dirfd, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* flock(2) has no time limit; a signal would be the caller's business, so tries grow apart up to
 * 10 ms, with some of the clock's noise so that two waiters do not step together. */
static int flock_until(int fd, int wait_ms, int64_t until)
{
	int64_t step = 200 * 1000;

	for (;;) {
		struct timespec ts = { 0 };
		int64_t now;

		if (flock(fd, wait_ms < 0 ? LOCK_EX : LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno == EINTR)
			continue;
		now = sp_clock_mono();
		if (errno != EWOULDBLOCK || now >= until)
			return -1;
		ts.tv_nsec = (long)(step + now % (step / 2));
		nanosleep(&ts, NULL);
		step = step < 6000 * 1000 ? step * 3 / 2 : step;
		errno = EWOULDBLOCK;
	}
}

int sp_lock_take(int dirfd, const char *name, int wait_ms, struct sp_err *e)
{
	int64_t until = sp_clock_mono() + (int64_t)wait_ms * 1000000;

	for (;;) {
		sp_auto_fd fd = open_lock(dirfd, name, e);

		if (fd < 0)
			return -1;
		if (flock_until(fd, wait_ms, until) < 0) {
			if (errno == EWOULDBLOCK)
				return sp_fail(e, SP_BUSY, 0, "%s is held", name);
			return sp_fail(e, SP_FAIL, errno, "lock '%s'", name);
		}
		if (is_still(dirfd, name, fd))
			return sp_take_fd(&fd);
	}
}

int sp_life_fd_take(int fd)
{
	struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };

	if (fcntl(fd, F_OFD_SETLK, &fl) == 0)
		return 0;
	if (errno == EACCES)
		errno = EAGAIN;
	return -1;
}

int sp_life_take(int dirfd, const char *name, struct sp_err *e)
{
	for (;;) {
		sp_auto_fd fd = open_lock(dirfd, name, e);

		if (fd < 0)
			return -1;
		if (sp_life_fd_take(fd) < 0) {
			if (errno == EAGAIN)
				return sp_fail(e, SP_BUSY, 0, "%s is held", name);
			return sp_fail(e, SP_FAIL, errno, "lock '%s'", name);
		}
		if (is_still(dirfd, name, fd))
			return sp_take_fd(&fd);
	}
}

int sp_life_fd_is_held(int fd)
{
	struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };

	if (fcntl(fd, F_OFD_GETLK, &fl) < 0)
		return -1;
	return fl.l_type != F_UNLCK;
}

int sp_life_is_held(int dirfd, const char *name, struct sp_err *e)
{
	sp_auto_fd fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	int rc;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "open '%s'", name);
	rc = sp_life_fd_is_held(fd);
	if (rc < 0)
		return sp_fail(e, SP_FAIL, errno, "ask for lock '%s'", name);
	return rc;
}
