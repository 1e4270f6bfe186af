/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/fs.h"

#define LOOP_MAJOR 7 /* linux/major.h */

static int open_loop(const char *dev, int flags)
{
	int fd = open(dev, flags | O_CLOEXEC);
	int n;

	if (fd >= 0 || errno != ENOENT || sscanf(dev, "/dev/loop%d", &n) != 1)
		return fd;
	/* A container's /dev is often a plain tmpfs: the kernel has the device, nobody its node. */
	if (mknod(dev, S_IFBLK | 0660, makedev(LOOP_MAJOR, (unsigned)n)) < 0 && errno != EEXIST)
		return -1;
	return open(dev, flags | O_CLOEXEC);
}

/* losetup(8) shows this; nothing here reads it. */
static void name_file(int file_fd, unsigned char out[static LO_NAME_SIZE])
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof link, "/proc/self/fd/%d", file_fd);
	n = readlink(link, (char *)out, LO_NAME_SIZE - 1);
	if (n < 0)
		n = 0;
	out[n] = '\0';
}

int sp_loop_attach(int file_fd, int autoclear, char dev[static 32], struct sp_err *e)
{
	struct loop_config c = { .fd = (unsigned)file_fd };
	sp_auto_fd ctl = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	if (ctl < 0)
		return sp_fail(e, SP_HOST, errno, "open '/dev/loop-control'");
	c.info.lo_flags = LO_FLAGS_DIRECT_IO | (autoclear ? LO_FLAGS_AUTOCLEAR : 0);
	name_file(file_fd, c.info.lo_file_name);
	for (int tries = 0; tries < 64; tries++) {
		sp_auto_fd fd = -1;
		int n = ioctl(ctl, LOOP_CTL_GET_FREE);

		if (n < 0)
			return sp_fail(e, SP_HOST, errno, "find a free loop device");
		snprintf(dev, 32, "/dev/loop%d", n);
		fd = open_loop(dev, O_RDWR);
		if (fd < 0)
			return sp_fail(e, SP_HOST, errno, "open '%s'", dev);
		if (ioctl(fd, LOOP_CONFIGURE, &c) == 0)
			return sp_take_fd(&fd);
		if (errno == EINVAL && (c.info.lo_flags & LO_FLAGS_DIRECT_IO))
			c.info.lo_flags &= ~(unsigned)LO_FLAGS_DIRECT_IO;
		else if (errno != EBUSY) /* busy: another was quicker to take it */
			return sp_fail(e, SP_FAIL, errno, "attach '%s'", dev);
	}
	return sp_fail(e, SP_BUSY, 0, "no loop device stayed free");
}

struct find {
	struct stat st;
	char *dev;
};

static int is_it(int dirfd, const char *name, void *arg)
{
	struct find *f = arg;
	struct loop_info64 info;
	char path[32];
	sp_auto_fd fd = -1;

	if (strncmp(name, "loop", 4) != 0 || strlen(name) > 20)
		return 0;
	snprintf(path, sizeof path, "%.20s/loop", name);
	if (faccessat(dirfd, path, F_OK, 0) < 0)
		return 0; /* nothing attached */
	snprintf(path, sizeof path, "/dev/%.20s", name);
	fd = open_loop(path, O_RDONLY);
	if (fd < 0 || ioctl(fd, LOOP_GET_STATUS64, &info) < 0)
		return 0;
	if (info.lo_device != f->st.st_dev || info.lo_inode != f->st.st_ino)
		return 0;
	snprintf(f->dev, 32, "%s", path);
	return 1;
}

int sp_loop_find(int file_fd, char dev[static 32], struct sp_err *e)
{
	struct find f = { .dev = dev };
	sp_auto_fd sys = open("/sys/block", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (sys < 0)
		return sp_fail(e, SP_HOST, errno, "open '/sys/block'");
	if (fstat(file_fd, &f.st) < 0)
		return sp_fail(e, SP_FAIL, errno, "stat the loop device's file");
	return sp_fs_each(sys, is_it, &f, e);
}

int sp_loop_grow(const char *dev, struct sp_err *e)
{
	sp_auto_fd fd = open_loop(dev, O_RDWR);

	if (fd < 0 || ioctl(fd, LOOP_SET_CAPACITY, 0) < 0)
		return sp_fail(e, SP_FAIL, errno, "grow '%s'", dev);
	return 0;
}

int sp_loop_detach(const char *dev, struct sp_err *e)
{
	sp_auto_fd fd = open_loop(dev, O_RDWR);

	if (fd < 0)
		return sp_fail(e, SP_FAIL, errno, "open '%s'", dev);
	if (ioctl(fd, LOOP_CLR_FD, 0) < 0 && errno != ENXIO)
		return sp_fail(e, SP_FAIL, errno, "detach '%s'", dev);
	return 0;
}
