/* SPDX-License-Identifier: Apache-2.0 */
/* Room: what the store has, and growing store.img while it is in use. */
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/fs.h"
#include "sys/lock.h"
#include "sys/loop.h"
#include "vol/store_int.h"

#define STEP_MIN (64LL << 20) /* a growth is a multiple of this */
#define STEP_MAX (4LL << 30)
#define KEPT_MIN (64LL << 20) /* stays free on the host's disk: a twentieth, within these */
#define KEPT_MAX (1LL << 30)
#define ROUNDS 4

void sp_size_text(int64_t bytes, char out[static 16])
{
	if (bytes < 0)
		bytes = 0;
	if (bytes >= 10LL << 30)
		snprintf(out, 16, "%lld GiB", (long long)(bytes >> 30));
	else if (bytes >= 1LL << 30)
		snprintf(out, 16, "%.1f GiB", (double)bytes / (double)(1LL << 30));
	else
		snprintf(out, 16, "%lld MiB", (long long)(bytes >> 20));
}

int sp_room_get(int fd, struct sp_room *out, struct sp_err *e)
{
	struct statvfs v;

	if (fstatvfs(fd, &v) < 0)
		return sp_fail(e, SP_FAIL, errno, "ask for the disk's free room");
	out->all = (int64_t)v.f_blocks * (int64_t)v.f_frsize;
	out->free = (int64_t)v.f_bavail * (int64_t)v.f_frsize;
	out->kept = out->all / 20;
	if (out->kept > KEPT_MAX)
		out->kept = KEPT_MAX;
	if (out->kept < KEPT_MIN)
		out->kept = KEPT_MIN;
	return 0;
}

static int store_free(int store, int64_t *out, struct sp_err *e)
{
	struct statfs f;

	if (fstatfs(store, &f) < 0)
		return sp_fail(e, SP_FAIL, errno, "ask for the store's free room");
	*out = (int64_t)f.f_bavail * (int64_t)f.f_bsize;
	return 0;
}

static int64_t device_size(const char *dev)
{
	sp_auto_fd fd = open(dev, O_RDONLY | O_CLOEXEC);
	uint64_t n = 0;

	return fd < 0 || ioctl(fd, BLKGETSIZE64, &n) < 0 ? -1 : (int64_t)n;
}

static int resize(int store, struct sp_err *e)
{
	struct btrfs_ioctl_vol_args a = { .name = "1:max" };
	int rc = ioctl(store, BTRFS_IOC_RESIZE, &a);

	if (rc > 0) /* BTRFS_ERROR_DEV_EXCL_RUN_IN_PROGRESS */
		return sp_fail(e, SP_BUSY, 0, "the store is being balanced or resized by another");
	if (rc < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "resize the store");
	return 0;
}

int sp_store_settle(int img, int store, const char *dev, struct sp_err *e)
{
	struct btrfs_ioctl_dev_info_args info = { .devid = 1 };
	struct stat st;
	int64_t size = device_size(dev);

	if (fstat(img, &st) < 0)
		return sp_fail(e, SP_FAIL, errno, "stat '%s'", SP_STORE_IMG);
	if (size >= 0 && size < (st.st_size & ~511LL)) {
		if (sp_loop_grow(dev, e) < 0)
			return -1;
		size = device_size(dev);
	}
	if (size < 0)
		return sp_fail(e, SP_FAIL, errno, "ask for the size of '%s'", dev);
	if (ioctl(store, BTRFS_IOC_DEV_INFO, &info) < 0)
		return sp_fail(e, SP_FAIL, errno, "ask for the store's size");
	if ((int64_t)info.total_bytes >= (size & ~4095LL))
		return 0;
	return resize(store, e);
}

struct growth {
	const struct sp_place *place;
	int store, img;
	int64_t want; /* bytes free in the store when done */
};

static int refuse(const struct growth *g, int64_t free, const struct sp_room *room,
		  struct sp_err *e)
{
	char have[16], want[16], disk[16], kept[16];

	sp_size_text(free, have);
	sp_size_text(g->want, want);
	sp_size_text(room->free, disk);
	sp_size_text(room->kept, kept);
	return sp_fail(
		e, SP_BUSY, 0,
		"the store has %s free and needs %s; it cannot grow, for the disk of '%s' has %s "
		"free, of which %s stay with the host",
		have, want, g->place->path, disk, kept);
}

/* One growth: as much as a quarter of the file where the disk has it, else just what is needed.
 * 1 grown, 0 the disk does not have it, -1 *e. */
static int grow(const struct growth *g, int64_t need, struct sp_room *room, struct sp_err *e)
{
	struct stat st;
	int64_t step;

	if (sp_room_get(g->place->dir, room, e) < 0)
		return -1;
	if (fstat(g->img, &st) < 0)
		return sp_fail(e, SP_FAIL, errno, "stat '%s'", SP_STORE_IMG);
	need = (need + STEP_MIN - 1) / STEP_MIN * STEP_MIN;
	step = st.st_size / 4 / STEP_MIN * STEP_MIN;
	step = step > STEP_MAX ? STEP_MAX : step;
	if (step < need || room->free - step < room->kept)
		step = need;
	if (room->free - step < room->kept)
		return 0;
	/* The device still ends where it did, so a growth that fails is cut off again. */
	if (fallocate(g->img, 0, st.st_size, step) < 0) {
		int sys = errno;

		if (ftruncate(g->img, st.st_size) < 0)
			return sp_fail(e, SP_FAIL, errno, "cut '%s' back", SP_STORE_IMG);
		if (sys == ENOSPC || sys == EDQUOT)
			return 0;
		return sp_fail(e, sp_code_of_errno(sys), sys, "grow '%s'", SP_STORE_IMG);
	}
	if (fsync(g->img) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "grow '%s'", SP_STORE_IMG);
	return 1;
}

/* The file system counts a growth less what it keeps for metadata, so one may not be enough. */
static int grow_until(const struct growth *g, struct sp_err *e)
{
	struct sp_room room = { 0 };
	char dev[32];
	int64_t free = 0;
	int i, rc = sp_loop_find(g->img, dev, e);

	if (rc < 0 || sp_room_get(g->place->dir, &room, e) < 0)
		return -1;
	if (rc == 0)
		return sp_fail(e, SP_FAIL, 0, "'%s' has no loop device", SP_STORE_IMG);
	for (i = 0; rc > 0 && i <= ROUNDS; i++) {
		/* Also what an earlier growth did not come to. */
		if (sp_store_settle(g->img, g->store, dev, e) < 0 ||
		    store_free(g->store, &free, e) < 0)
			return -1;
		if (free >= g->want)
			return 0;
		rc = i < ROUNDS ? grow(g, g->want - free, &room, e) : 0;
		if (rc < 0)
			return -1;
	}
	/* What was deleted a moment ago counts only once its transaction is committed. */
	syncfs(g->store);
	if (store_free(g->store, &free, e) < 0)
		return -1;
	return free >= g->want ? 0 : refuse(g, free, &room, e);
}

static int need(struct sp_place *p, const struct sp_roots *r, int64_t want, int64_t free,
		struct sp_err *e)
{
	struct growth g = { .place = p, .store = r->store, .want = want };
	sp_auto_fd lock = -1, img = -1;
	char have[16], text[16];

	if (sp_place_open(p, false, e) < 0)
		return -1;
	img = openat(p->dir, SP_STORE_IMG, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (img < 0 && errno == ENOENT) {
		sp_size_text(free, have);
		sp_size_text(want, text);
		return sp_fail(e, SP_BUSY, 0, "the disk of '%s' has %s free and %s are needed",
			       p->path, have, text);
	}
	if (img < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "open '%s'", SP_STORE_IMG);
	lock = sp_lock_take(p->dir, SP_STORE_LOCK, -1, e);
	if (lock < 0)
		return -1;
	g.img = img;
	return grow_until(&g, e);
}

int sp_store_need(const struct sp_roots *r, int64_t bytes, struct sp_err *e)
{
	struct sp_place p;
	int64_t free = 0, want;
	int rc;

	if (bytes < 0 || bytes > INT64_MAX / 4)
		return sp_fail(e, SP_USAGE, 0, "no disk has room for that");
	want = bytes + SP_STORE_RESERVE;
	if (store_free(r->store, &free, e) < 0)
		return -1;
	if (free >= want)
		return 0;
	rc = sp_place_set(&p, r->state_path, e);
	if (rc == 0)
		rc = need(&p, r, want, free, e);
	sp_fd_close(&p.dir);
	return rc;
}
