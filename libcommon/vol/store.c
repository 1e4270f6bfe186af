/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the store: the quick way, where it is there and mounted. */
#include "vol/store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/fs.h"
#include "sys/lock.h"
#include "sys/loop.h"
#include "vol/store_int.h"

#define STATE_DEFAULT "/var/lib/space"
#define RUN_DEFAULT "/run/space"
#define SUBVOLUME_INO 256 /* BTRFS_FIRST_FREE_OBJECTID: the root folder of any subvolume */
#define STORE_FORMAT 1
#define DETACH_TRIES 40
#define DETACH_MS 10

bool sp_store_is_btrfs(int fd)
{
	struct statfs f;

	return fstatfs(fd, &f) == 0 && f.f_type == BTRFS_SUPER_MAGIC;
}

int sp_store_fs_id(int fd, char id[static SP_UUID_SIZE], struct sp_err *e)
{
	struct btrfs_ioctl_fs_info_args info = { 0 };
	const __u8 *u = info.fsid;

	if (ioctl(fd, BTRFS_IOC_FS_INFO, &info) < 0)
		return sp_fail(e, SP_FAIL, errno, "ask for the file system's id");
	snprintf(id, SP_UUID_SIZE,
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
		 u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
		 u[15]);
	return 0;
}

int sp_store_check_id(const struct sp_place *p, int fd, struct sp_err *e)
{
	char is[SP_UUID_SIZE], want[SP_UUID_SIZE + 1] = "";
	sp_auto_fd file = openat(p->dir, SP_STORE_ID, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (sp_store_fs_id(fd, is, e) < 0)
		return -1;
	if (file < 0)
		return sp_fail(e, SP_FAIL, errno, "'%s/%s'", p->path, SP_STORE_ID);
	if (sp_fd_read(file, want, SP_UUID_SIZE) < SP_UUID_SIZE - 1 ||
	    strncmp(is, want, SP_UUID_SIZE - 1) != 0)
		return sp_fail(
			e, SP_FAIL, 0,
			"the file system at '%s/%s' (%s) is not the one that was made for it",
			p->path, SP_STORE_DIR, is);
	return 0;
}

/* 1 whole and of a format that we read, 0 not whole, -1 error. */
static int check_format(int store, struct sp_err *e)
{
	char text[32] = "";
	sp_auto_fd fd = openat(store, "format", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int n;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || sp_fd_read(fd, text, sizeof text - 1) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "read the store's format");
	n = atoi(text);
	if (n < 1)
		return sp_fail(e, SP_FAIL, 0, "the store's format is no number");
	if (n > STORE_FORMAT)
		return sp_fail(
			e, SP_HOST, 0,
			"the store was made by a newer release (format %d, this one reads %d)", n,
			STORE_FORMAT);
	return 1;
}

int sp_store_look(const struct sp_place *p, int *out, struct sp_err *e)
{
	sp_auto_fd fd =
		openat(p->dir, SP_STORE_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char mine[SP_UUID_SIZE], outer[SP_UUID_SIZE];
	struct stat st;
	int rc;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "open '%s/%s'", p->path,
			       SP_STORE_DIR);
	if (st.st_ino != SUBVOLUME_INO || !sp_store_is_btrfs(fd))
		return 0;
	/* A subvolume of STATE's own file system, or a mount: then it must be the right one. */
	if (!sp_store_is_btrfs(p->dir))
		rc = sp_store_check_id(p, fd, e);
	else if (sp_store_fs_id(fd, mine, e) < 0 || sp_store_fs_id(p->dir, outer, e) < 0)
		rc = -1;
	else
		rc = strcmp(mine, outer) == 0 ? 0 : sp_store_check_id(p, fd, e);
	if (rc == 0)
		rc = check_format(fd, e);
	if (rc == 1)
		*out = sp_take_fd(&fd);
	return rc;
}

static int open_store(const char *path, bool create, int *store, struct sp_err *e)
{
	struct sp_place p;
	int rc = sp_place_set(&p, path, e);

	*store = -1;
	if (rc == 0)
		rc = sp_place_open(&p, create, e);
	if (rc == 0) {
		rc = sp_store_look(&p, store, e);
		if (rc == 0)
			rc = sp_store_make(&p, create, store, e);
	}
	sp_fd_close(&p.dir);
	return rc < 0 ? -1 : 0;
}

static int open_run(const char *path, int *run, struct sp_err *e)
{
	struct sp_place p;

	if (sp_place_set(&p, path, e) < 0)
		return -1;
	if (sp_place_open(&p, true, e) < 0) { /* gone at every boot */
		sp_fd_close(&p.dir);
		return -1;
	}
	*run = p.dir;
	return 0;
}

static int root_path(const char *var, const char *dflt, char *out, size_t n, struct sp_err *e)
{
	const char *s = getenv(var);
	size_t len;

	if (!s || !*s)
		s = dflt;
	len = strlen(s);
	while (len > 1 && s[len - 1] == '/')
		len--;
	if (len >= n - 64)
		return sp_fail(e, SP_USAGE, 0, "%s is too long", var);
	memcpy(out, s, len);
	out[len] = '\0';
	return 0;
}

int sp_store_open(struct sp_roots *out, bool create, struct sp_err *e)
{
	*out = (struct sp_roots){ .store = -1, .run = -1 };
	if (root_path("SPACE_STATE", STATE_DEFAULT, out->state_path, sizeof out->state_path, e) <
		    0 ||
	    root_path("SPACE_RUN", RUN_DEFAULT, out->run_path, sizeof out->run_path, e) < 0)
		return -1;
	if (open_store(out->state_path, create, &out->store, e) < 0)
		return -1;
	if (open_run(out->run_path, &out->run, e) < 0) {
		sp_roots_close(out);
		return -1;
	}
	return 0;
}

void sp_roots_close(struct sp_roots *r)
{
	sp_fd_close(&r->store);
	sp_fd_close(&r->run);
}

/* A device that anyone has open goes with its last user. Whoever looks for a loop device opens each
 * for a moment, so that is waited out; a copy of the mount in another namespace is not. */
static int detach(const struct sp_place *p, struct sp_err *e)
{
	const struct timespec moment = { .tv_nsec = DETACH_MS * 1000000L };
	sp_auto_fd img = openat(p->dir, SP_STORE_IMG, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char dev[32];
	int i, rc = img < 0 ? 0 : 1;

	for (i = 0; rc > 0 && i < DETACH_TRIES; i++) {
		if (i > 0)
			nanosleep(&moment, NULL);
		rc = sp_loop_find(img, dev, e);
		if (rc > 0 && sp_loop_detach(dev, e) < 0)
			return -1;
		if (rc > 0)
			rc = sp_loop_find(img, dev, e);
	}
	if (rc > 0)
		return sp_fail(e, SP_BUSY, 0, "'%s/%s' is still mounted in another namespace",
			       p->path, SP_STORE_DIR);
	return rc;
}

/* Whether it is whole, or of a format that we read, does not matter here. 1 mounted, 0 not. */
static int is_mounted(const struct sp_place *p, struct sp_err *e)
{
	sp_auto_fd fd =
		openat(p->dir, SP_STORE_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat in, out;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &in) < 0 || fstat(p->dir, &out) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "open '%s/%s'", p->path,
			       SP_STORE_DIR);
	if (in.st_dev == out.st_dev)
		return 0;
	return sp_store_check_id(p, fd, e) < 0 ? -1 : 1;
}

static int close_down(struct sp_place *p, struct sp_err *e)
{
	sp_auto_fd lock = -1;
	int rc;

	if (sp_place_open(p, false, e) < 0)
		return e->code == SP_ABSENT ? 0 : -1;
	lock = sp_lock_take(p->dir, SP_STORE_LOCK, -1, e);
	if (lock < 0)
		return -1;
	if (!sp_fs_exists(p->dir, SP_STORE_IMG))
		return 0; /* a subvolume stays where it is */
	rc = is_mounted(p, e);
	if (rc < 0)
		return -1;
	if (rc > 0 && sp_place_unmount(p, e) < 0)
		return -1;
	return detach(p, e);
}

int sp_store_close_down(const char *state_path, struct sp_err *e)
{
	struct sp_place p;
	int rc = sp_place_set(&p, state_path, e);

	if (rc == 0)
		rc = close_down(&p, e);
	sp_fd_close(&p.dir);
	return rc;
}
