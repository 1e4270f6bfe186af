/* SPDX-License-Identifier: Apache-2.0 */
/* Making the store and mounting it. Each step can be the last: what a maker that died left is seen,
 * and done again or gone on with, by the next one to hold the lock. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "sys/lock.h"
#include "sys/loop.h"
#include "sys/proc.h"
#include "text/opt.h"
#include "vol/store_int.h"

#define SIZE_MIN (256LL << 20)
#define SIZE_MAX_ (1LL << 46)
#define MOUNT_TRIES 8

/* --- what is in it --------------------------------------------------------------------------- */

static int populate(int store, struct sp_err *e)
{
	static const char *const dirs[] = { SP_DIR_CHECKPOINTS, SP_DIR_SANDBOXES, SP_DIR_KERNELS,
					    SP_DIR_NAMES,       SP_DIR_OPS,       SP_DIR_QUEUE,
					    SP_DIR_WARM };
	size_t i;

	if (fchmod(store, 0700) < 0)
		return sp_fail(e, SP_FAIL, errno, "chmod the store");
	for (i = 0; i < SP_NELEM(dirs); i++)
		if (sp_fs_mkdir(store, dirs[i], 0700, e) < 0)
			return -1;
	if (syncfs(store) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "sync the store");
	return sp_fs_replace(store, "format", "1\n", 2, 0600, e);
}

/* --- as a subvolume -------------------------------------------------------------------------- */

static int make_subvolume(const struct sp_place *p, struct sp_err *e)
{
	char tmp[40];
	sp_auto_fd fd = -1;

	if (unlinkat(p->dir, SP_STORE_DIR, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return sp_fail(e, SP_CONFLICT, errno, "'%s/%s' is a folder, not the store", p->path,
			       SP_STORE_DIR);
	sp_fs_random_name(SP_FS_NEW, tmp);
	if (sp_vol_create(p->dir, tmp, e) < 0)
		return -1;
	fd = sp_fs_open_dir(p->dir, tmp, e);
	if (fd < 0 || populate(fd, e) < 0 ||
	    sp_fs_rename_new(p->dir, tmp, p->dir, SP_STORE_DIR, e) < 0) {
		struct sp_err none;

		sp_fd_close(&fd);
		sp_vol_delete(p->dir, tmp, &none);
		return -1;
	}
	return sp_fs_sync_dir(p->dir, e);
}

/* --- as a file with a file system in it ------------------------------------------------------ */

static int first_size(int64_t *size, struct sp_err *e)
{
	const char *s = getenv("SPACE_STORE_SIZE");

	*size = SP_STORE_FIRST;
	if (!s || !*s)
		return 0;
	if (sp_size_parse(s, size) < 0 || *size < SIZE_MIN || *size > SIZE_MAX_)
		return sp_fail(e, SP_USAGE, 0, "SPACE_STORE_SIZE '%s' is no size of 256M or more",
			       s);
	*size &= ~((1LL << 20) - 1);
	return 0;
}

static int has_room(const struct sp_place *p, int64_t size, struct sp_err *e)
{
	struct sp_room room = { 0 };
	char need[16], have[16], kept[16];

	if (sp_room_get(p->dir, &room, e) < 0)
		return -1;
	if (room.free - size >= room.kept)
		return 0;
	sp_size_text(size, need);
	sp_size_text(room.free, have);
	sp_size_text(room.kept, kept);
	return sp_fail(e, SP_BUSY, 0,
		       "a store of %s does not fit: the disk of '%s' has %s free, of which %s stay "
		       "with the host (SPACE_STORE_SIZE sets a smaller one)",
		       need, p->path, have, kept);
}

static void make_uuid(char out[static SP_UUID_SIZE])
{
	unsigned char u[16];

	sp_random(u, sizeof u);
	u[6] = (unsigned char)((u[6] & 0x0f) | 0x40); /* version 4, RFC 4122 */
	u[8] = (unsigned char)((u[8] & 0x3f) | 0x80);
	snprintf(out, SP_UUID_SIZE,
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
		 u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
		 u[15]);
}

/* One copy of data and of metadata: the file has one disk under it, so a second copy would lie
 * beside the first and double what every flush of a record writes. Features are mkfs's defaults
 * (skinny metadata, no-holes, free space tree), which Linux 6.1 reads. -K: no discard, the file was
 * allocated on purpose. */
static int run_mkfs(const char *file, const char *uuid, struct sp_err *e)
{
	static const char *const places[] = { "/usr/sbin/mkfs.btrfs", "/sbin/mkfs.btrfs" };
	const char *prog = "mkfs.btrfs";
	size_t i;

	for (i = 0; i < SP_NELEM(places); i++) /* a user's PATH often lacks sbin */
		if (access(places[i], X_OK) == 0) {
			prog = places[i];
			break;
		}
	const char *const argv[] = { prog, "-q", "-f",     "-K", "-L",     "space", "-U",
				     uuid, "-m", "single", "-d", "single", file,    NULL };

	if (sp_proc_run(argv, -1, NULL, e) < 0)
		return e->code == SP_HOST ? sp_wrap(e, "btrfs-progs is needed") : -1;
	return 0;
}

static int fill_image(const struct sp_place *p, const char *tmp, int64_t size, const char *uuid,
		      struct sp_err *e)
{
	sp_auto_fd fd = sp_fs_open(p->dir, tmp, O_RDWR | O_CREAT | O_EXCL, 0600, e);
	sp_auto_free char *path = sp_xasprintf("%s/%s", p->seen, tmp);

	if (fd < 0)
		return -1;
	if (fallocate(fd, 0, 0, size) < 0)
		return sp_fail(e, errno == EOPNOTSUPP ? SP_HOST : sp_code_of_errno(errno), errno,
			       "allocate %lld bytes in '%s'", (long long)size, p->path);
	if (run_mkfs(path, uuid, e) < 0)
		return -1;
	if (fsync(fd) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "sync '%s'", SP_STORE_IMG);
	return 0;
}

static int make_image(const struct sp_place *p, struct sp_err *e)
{
	char tmp[40], uuid[SP_UUID_SIZE + 1];
	int64_t size;

	if (geteuid() != 0)
		return sp_fail(e, SP_DENIED, 0, "only root can make and mount a store");
	if (first_size(&size, e) < 0 || has_room(p, size, e) < 0)
		return -1;
	make_uuid(uuid);
	sp_fs_random_name(SP_FS_NEW, tmp);
	if (fill_image(p, tmp, size, uuid, e) < 0)
		goto undo;
	memcpy(uuid + SP_UUID_SIZE - 1, "\n", 2);
	if (sp_fs_replace(p->dir, SP_STORE_ID, uuid, SP_UUID_SIZE, 0600, e) < 0)
		goto undo;
	if (sp_fs_rename_new(p->dir, tmp, p->dir, SP_STORE_IMG, e) < 0)
		goto undo;
	return sp_fs_sync_dir(p->dir, e);
undo:
	unlinkat(p->dir, tmp, 0);
	return -1;
}

static void unmake_image(const struct sp_place *p)
{
	if (unlinkat(p->dir, SP_STORE_DIR, AT_REMOVEDIR) < 0 && errno == EBUSY)
		return; /* mounted still: not to be pulled away from under it */
	unlinkat(p->dir, SP_STORE_IMG, 0);
	unlinkat(p->dir, SP_STORE_ID, 0);
}

/* A file that was copied or trimmed may have got holes. Best effort: the store's own reserve is
 * what guards against a full host from here on. */
static void fill_holes(int img)
{
	struct stat st;

	if (fstat(img, &st) == 0 && st.st_blocks * 512 < st.st_size &&
	    fallocate(img, 0, 0, st.st_size) < 0)
		return;
}

/* With no discards at the device, fstrim(8) of the whole host passes the store by. */
static void forbid_discard(const char *dev)
{
	char path[96];
	sp_auto_fd fd = -1;

	snprintf(path, sizeof path, "/sys/block/%s/queue/discard_max_bytes", dev + strlen("/dev/"));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "0\n", 2) < 0)
		return;
}

/* An open device of the image: the one that has it (two would be two caches of one disk), or a new
 * one, which goes by itself with its last user. Holding it open keeps a found one from going. */
static int attach(int img, char dev[static 32], struct sp_err *e)
{
	char again[32];
	int i;

	for (i = 0; i < MOUNT_TRIES; i++) {
		sp_auto_fd fd = -1;
		int rc = sp_loop_find(img, dev, e);

		if (rc < 0)
			return -1;
		if (rc == 0) {
			fd = sp_loop_attach(img, 1, dev, e);
			if (fd < 0)
				return -1;
			forbid_discard(dev);
			return sp_take_fd(&fd);
		}
		fd = open(dev, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && sp_loop_find(img, again, e) == 1 && strcmp(dev, again) == 0)
			return sp_take_fd(&fd);
	}
	return sp_fail(e, SP_BUSY, 0, "the loop device of '%s' comes and goes", SP_STORE_IMG);
}

static int finish_mounted(const struct sp_place *p, int img, const char *dev, struct sp_err *e)
{
	sp_auto_fd store = sp_fs_open_dir(p->dir, SP_STORE_DIR, e);

	if (store < 0)
		return -1;
	if (!sp_store_is_btrfs(store))
		return sp_fail(e, SP_FAIL, 0, "'%s/%s' was mounted, but not where it is looked for",
			       p->path, SP_STORE_DIR);
	if (sp_store_check_id(p, store, e) < 0 || sp_store_settle(img, store, dev, e) < 0)
		return -1;
	return populate(store, e);
}

static int one_entry(int dir, const char *name, void *arg)
{
	(void)dir;
	(void)name;
	(void)arg;
	return 1;
}

/* 1 a mount of ours, perhaps not whole; 0 an empty folder to mount on. */
static int is_mounted(const struct sp_place *p, struct sp_err *e)
{
	sp_auto_fd fd = -1;
	struct stat in, out;
	int rc;

	if (sp_fs_mkdir(p->dir, SP_STORE_DIR, 0700, e) < 0)
		return -1;
	fd = sp_fs_open_dir(p->dir, SP_STORE_DIR, e);
	if (fd < 0)
		return -1;
	if (fstat(fd, &in) < 0 || fstat(p->dir, &out) < 0)
		return sp_fail(e, SP_FAIL, errno, "stat '%s/%s'", p->path, SP_STORE_DIR);
	if (in.st_dev != out.st_dev) {
		if (sp_store_is_btrfs(fd))
			return 1;
		return sp_fail(e, SP_CONFLICT, 0, "another file system is mounted on '%s/%s'",
			       p->path, SP_STORE_DIR);
	}
	rc = sp_fs_each(fd, one_entry, NULL, e);
	if (rc > 0)
		return sp_fail(e, SP_CONFLICT, 0, "'%s/%s' is a folder with something in it",
			       p->path, SP_STORE_DIR);
	return rc;
}

static int mount_image(const struct sp_place *p, struct sp_err *e)
{
	sp_auto_fd img = sp_fs_open(p->dir, SP_STORE_IMG, O_RDWR, 0, e), dev_fd = -1;
	char dev[32];
	struct sp_err none;
	int rc = img < 0 ? -1 : is_mounted(p, e);

	if (rc < 0)
		return -1;
	dev_fd = attach(img, dev, e);
	if (dev_fd < 0)
		return -1;
	if (rc == 0) {
		fill_holes(img);
		if (sp_place_mount(p, dev, e) < 0)
			return -1;
	}
	if (finish_mounted(p, img, dev, e) < 0) {
		if (rc == 0)
			sp_place_unmount(p, &none);
		return -1;
	}
	return 0;
}

/* --- all of it ------------------------------------------------------------------------------- */

/* Under the lock nobody else makes anything here: what is half made is of the dead. */
static int sweep_new(int dir, const char *name, void *arg)
{
	struct sp_err *e = arg;

	if (strncmp(name, SP_FS_NEW, strlen(SP_FS_NEW)) != 0 &&
	    strncmp(name, SP_FS_TMP, strlen(SP_FS_TMP)) != 0)
		return 0;
	return sp_vol_is_subvolume(dir, name) ? sp_vol_delete(dir, name, e)
					      : sp_fs_unlink(dir, name, e);
}

int sp_store_make(const struct sp_place *p, bool create, int *fd, struct sp_err *e)
{
	bool image = sp_fs_exists(p->dir, SP_STORE_IMG);
	sp_auto_fd lock = -1;
	int rc;

	if (!create && !image)
		return sp_fail(e, SP_ABSENT, 0, "nothing here yet: no store in '%s'", p->path);
	lock = sp_lock_take(p->dir, SP_STORE_LOCK, -1, e);
	if (lock < 0)
		return -1;
	rc = sp_store_look(p, fd, e);
	if (rc != 0)
		return rc;
	if (sp_fs_each(p->dir, sweep_new, e, e) < 0)
		return -1;
	image = sp_fs_exists(p->dir, SP_STORE_IMG);
	if (!image && !create)
		return sp_fail(e, SP_ABSENT, 0, "nothing here yet: no store in '%s'", p->path);
	if (!image && sp_store_is_btrfs(p->dir)) {
		rc = make_subvolume(p, e);
	} else {
		rc = image ? 0 : make_image(p, e);
		if (rc == 0)
			rc = mount_image(p, e);
		if (rc < 0 && !image) /* made just now, never used: its room is the host's again */
			unmake_image(p);
	}
	if (rc < 0)
		return -1;
	rc = sp_store_look(p, fd, e);
	if (rc == 0)
		return sp_fail(e, SP_FAIL, 0, "the store in '%s' is not there after it was made",
			       p->path);
	return rc;
}
