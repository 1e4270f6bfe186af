/* SPDX-License-Identifier: Apache-2.0 */
/* Real stores in a test's own folder: STATE and RUN below tmp_path, 256 MiB. */
#ifndef SP_TESTS_STORE_RIG_H
#define SP_TESTS_STORE_RIG_H

#include <stdlib.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/loop.h"
#include "sys/proc.h"
#include "tap.h"
#include "tmp.h"
#include "vol/store.h"

static char rig_state[300], rig_run[300];

/* Below the test's folder, or below a mount in it. */
__attribute__((unused)) static void rig_place(const char *below)
{
	snprintf(rig_state, sizeof rig_state, "%s%s/state", tmp_path, below);
	snprintf(rig_run, sizeof rig_run, "%s%s/run", tmp_path, below);
	setenv("SPACE_STATE", rig_state, 1);
	setenv("SPACE_RUN", rig_run, 1);
	setenv("SPACE_STORE_SIZE", "256M", 1);
}

__attribute__((unused)) static bool rig_may(void)
{
	if (geteuid() == 0 && access("/dev/loop-control", R_OK | W_OK) == 0)
		return true;
	printf("1..0 # skip %s\n", geteuid() ? "needs root" : "no loop driver");
	return false;
}

/* 0, or an error's code. */
__attribute__((unused)) static int rig_open(struct sp_roots *r, bool create, struct sp_err *e)
{
	e->msg[0] = '\0';
	return sp_store_open(r, create, e) < 0 ? (int)e->code : 0;
}

__attribute__((unused)) static int rig_down(void)
{
	struct sp_err e;

	if (sp_store_close_down(rig_state, &e) == 0)
		return 0;
	printf("# close down: %s\n", e.msg);
	return (int)e.code;
}

/* Lines of a file that have both texts. */
static inline int rig_count_in(const char *file, const char *text, const char *more)
{
	FILE *f = fopen(file, "re");
	char line[4096];
	int n = 0;

	while (f && fgets(line, sizeof line, f))
		n += strstr(line, text) && strstr(line, more);
	if (f)
		fclose(f);
	return n;
}

__attribute__((unused)) static int rig_mounts(void)
{
	return rig_count_in("/proc/self/mounts", rig_state, "");
}

static inline int rig_loop_one(int dirfd, const char *name, void *arg)
{
	char path[300];

	(void)dirfd;
	snprintf(path, sizeof path, "/sys/block/%.32s/loop/backing_file", name);
	*(int *)arg += rig_count_in(path, tmp_path, "");
	return 0;
}

/* Loop devices over files of this test. */
__attribute__((unused)) static int rig_loops(void)
{
	sp_auto_fd fd = open("/sys/block", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct sp_err e;
	int n = 0;

	sp_fs_each(fd, rig_loop_one, &n, &e);
	return n;
}

/* A disk of a host, in a file: made with mkfs.<type>, mounted on tmp_path/name. */
__attribute__((unused)) static int rig_disk(const char *name, const char *type, off_t size)
{
	char file[32], path[300], dev[32], prog[32];
	struct sp_err e = { .msg = "" };
	sp_auto_fd fd = -1, at = -1;

	snprintf(file, sizeof file, "%s.disk", name);
	snprintf(path, sizeof path, "%s/%s", tmp_path, file);
	snprintf(prog, sizeof prog, "/sbin/mkfs.%s", type);
	fd = sp_fs_open(tmp_fd, file, O_RDWR | O_CREAT | O_EXCL, 0600, &e);
	if (fd < 0 || ftruncate(fd, size) < 0 ||
	    sp_proc_run((const char *const[]){ prog, "-q", path, NULL }, -1, NULL, &e) < 0 ||
	    sp_fs_mkdir(tmp_fd, name, 0700, &e) < 0)
		goto bad;
	at = sp_loop_attach(fd, 1, dev, &e);
	snprintf(path, sizeof path, "%s/%s", tmp_path, name);
	if (at >= 0 && mount(dev, path, type, MS_NOATIME, NULL) == 0)
		return 0;
bad:
	printf("# disk %s: %s\n", name, e.msg);
	return -1;
}

__attribute__((unused)) static void rig_disk_gone(const char *name)
{
	char path[300];

	snprintf(path, sizeof path, "%s/%s", tmp_path, name);
	if (umount(path) < 0)
		printf("# %s stays mounted\n", path);
}

#endif
