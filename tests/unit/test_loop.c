/* SPDX-License-Identifier: Apache-2.0 */
/* Loop devices: attached, found by their file, grown, detached. Needs root and the loop driver. */
#include <errno.h>
#include <sys/ioctl.h>
#include <linux/fs.h>
#include <unistd.h>

#include "sys/loop.h"
#include "tap.h"
#include "tmp.h"

static uint64_t size_of(const char *dev)
{
	sp_auto_fd fd = open(dev, O_RDONLY | O_CLOEXEC);
	uint64_t n = 0;

	return fd < 0 || ioctl(fd, BLKGETSIZE64, &n) < 0 ? 0 : n;
}

static void life(int dir)
{
	char dev[32] = "", found[32] = "", second[32] = "";
	struct sp_err e;
	sp_auto_fd file = sp_fs_open(dir, "disk", O_RDWR | O_CREAT, 0600, &e);
	sp_auto_fd other = sp_fs_open(dir, "other", O_RDWR | O_CREAT, 0600, &e);
	sp_auto_fd at = -1, at2 = -1;

	ok(ftruncate(file, 1 << 20) == 0 && ftruncate(other, 1 << 20) == 0, "two files");
	ok(sp_loop_find(file, found, &e) == 0, "not attached yet");
	at = sp_loop_attach(file, 0, dev, &e);
	if (!ok(at >= 0, "attach"))
		printf("# %s\n", e.msg);
	at2 = sp_loop_attach(other, 1, second, &e);
	ok(at2 >= 0 && strcmp(dev, second) != 0, "another, by another device");
	ok(sp_loop_find(file, found, &e) == 1, "found");
	is_str(found, dev, "the one it was");
	ok(size_of(dev) == 1 << 20, "its size");
	ok(ftruncate(file, 2 << 20) == 0 && sp_loop_grow(dev, &e) == 0 && size_of(dev) == 2 << 20,
	   "grown");
	ok(sp_fd_pwrite(at, "space", 5, 0) == 0 && fsync(at) == 0, "written to");
	sp_fd_close(&at);
	ok(sp_loop_detach(dev, &e) == 0 && sp_loop_find(file, found, &e) == 0, "detached");
	ok(sp_loop_detach(dev, &e) == 0, "again: fine");
	ok(sp_fd_pread(file, found, 5, 0) == 5 && memcmp(found, "space", 5) == 0,
	   "the file has it");
	sp_fd_close(&at2);
	/* The kernel lets go of an autoclear device a moment after the last close. */
	for (int i = 0; i < 100 && sp_loop_find(other, found, &e) == 1; i++)
		usleep(20000);
	ok(sp_loop_find(other, found, &e) == 0, "autoclear went with its last descriptor");
}

int main(void)
{
	int dir;

	if (geteuid() != 0 || access("/dev/loop-control", R_OK | W_OK) < 0) {
		tap_skip("loop devices", geteuid() ? "needs root" : "no loop driver");
		return tap_done();
	}
	dir = tmp_make();
	life(dir);
	tmp_clear();
	return tap_done();
}
