/* SPDX-License-Identifier: Apache-2.0 */
/* Subvolumes, what files cost, the sweep, and the journal on a real btrfs. */
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>

#include "op_rig.h"
#include "store_rig.h"

#define OLD "c00000000000000000000"
#define MINE "c11111111111111111111"

static int put(int dir, const char *name, size_t n)
{
	sp_auto_free char *data = sp_xmalloc(n);
	struct sp_err e;
	sp_auto_fd fd = sp_fs_open(dir, name, O_RDWR | O_CREAT, 0600, &e);

	memset(data, 'x', n);
	return fd < 0 || sp_fd_write(fd, data, n) < 0 || fsync(fd) < 0 ? -1 : 0;
}

static int usage(int dir, const char *name, int64_t *unique, int64_t *shared)
{
	struct sp_err e;
	sp_auto_fd fd = sp_fs_open(dir, name, O_RDONLY, 0, &e);

	return fd < 0 ? -1 : sp_vol_usage(fd, unique, shared, &e);
}

static void subvolumes(int top)
{
	struct sp_err e;
	sp_auto_fd a = -1, b = -1;

	ok(sp_vol_create(top, "a", &e) == 0 && sp_vol_is_subvolume(top, "a"), "create");
	ok(sp_vol_create(top, "a", &e) < 0 && e.code == SP_CONFLICT, "there already");
	ok(sp_vol_create(top, "../x", &e) < 0 && sp_vol_create(top, "", &e) < 0 &&
		   sp_vol_snapshot(top, "a", top, "x/y", false, &e) < 0,
	   "a name is one component");
	a = sp_fs_open_dir(top, "a", &e);
	ok(put(a, "disk", 1 << 20) == 0, "a file in it");
	ok(sp_vol_snapshot(top, "a", top, "b", false, &e) == 0 && sp_vol_is_subvolume(top, "b"),
	   "snapshot");
	b = sp_fs_open_dir(top, "b", &e);
	ok(put(b, "more", 4096) == 0, "it can be written to");
	ok(sp_vol_snapshot(top, "a", top, "c", true, &e) == 0, "read-only snapshot");
	sp_fd_close(&a);
	a = sp_fs_open_dir(top, "c", &e);
	ok(put(a, "more", 4096) < 0, "it cannot");
	ok(sp_vol_set_read_only(top, "b", true, &e) == 0 && put(b, "third", 4096) < 0,
	   "set read-only");
	ok(sp_vol_snapshot(top, "none", top, "d", false, &e) < 0 && e.code == SP_ABSENT, "of none");
	ok(sp_vol_delete(top, "none", &e) == 0, "deleting none is fine");
	ok(sp_vol_delete(top, "b", &e) == 0 && !sp_fs_exists(top, "b"), "delete a read-only one");
	ok(!sp_vol_is_subvolume(top, "none") && sp_fs_mkdir(top, "plain", 0700, &e) == 0 &&
		   !sp_vol_is_subvolume(top, "plain"),
	   "a folder is none");
	ok(sp_vol_delete(top, "plain", &e) < 0 && sp_fs_exists(top, "plain"),
	   "and is not deleted as one");
	ok(sp_vol_remove_tree(top, "plain", &e) == 0 && sp_vol_remove_tree(top, "plain", &e) == 0,
	   "remove it as a tree, twice");
	sp_fd_close(&a);
	sp_fd_close(&b);
}

static void trees(int top)
{
	struct sp_err e;
	sp_auto_fd box = -1, vol = -1, in = -1;

	ok(sp_fs_mkdir(top, "box", 0700, &e) == 0, "a folder");
	box = sp_fs_open_dir(top, "box", &e);
	ok(sp_vol_create(box, "vol", &e) == 0 && put(box, "record", 10) == 0, "a subvolume in it");
	vol = sp_fs_open_dir(box, "vol", &e);
	ok(sp_fs_mkdir(vol, "in", 0700, &e) == 0, "a folder in that");
	in = sp_fs_open_dir(vol, "in", &e);
	ok(sp_vol_create(in, "deep", &e) == 0 && put(in, "x", 10) == 0, "a subvolume again");
	ok(sp_vol_set_read_only(in, "deep", true, &e) == 0, "read-only");
	ok(symlinkat("/", box, "out") == 0, "and a link out");
	if (!ok(sp_vol_remove_tree(top, "box", &e) == 0, "remove all of it"))
		printf("# %s\n", e.msg);
	ok(!sp_fs_exists(top, "box") && access("/etc", F_OK) == 0, "and nothing else");
}

static void costs(int top)
{
	struct sp_err e;
	int64_t u = -1, s = -1;
	sp_auto_fd a = sp_fs_open_dir(top, "a", &e), from = -1, to = -1;

	ok(usage(a, "disk", &u, &s) == 0 && u == 0 && s == 1 << 20, "shared with a snapshot");
	ok(put(a, "own", 1 << 20) == 0 && usage(a, "own", &u, &s) == 0 && u == 1 << 20 && s == 0,
	   "its own");
	from = sp_fs_open(a, "own", O_RDONLY, 0, &e);
	to = sp_fs_open(a, "clone", O_RDWR | O_CREAT, 0600, &e);
	ok(sp_vol_clone_file(from, to, &e) == 0 && usage(a, "clone", &u, &s) == 0 && u == 0 &&
		   s == 1 << 20,
	   "a clone shares");
	ok(sp_fd_pwrite(to, "y", 1, 0) == 0 && fsync(to) == 0 && usage(a, "clone", &u, &s) == 0 &&
		   u == 4096 && s == (1 << 20) - 4096,
	   "what is written is its own");
	ok(put(a, "empty", 0) == 0 && usage(a, "empty", &u, &s) == 0 && u == 0 && s == 0, "empty");
	sp_fd_close(&to);
	to = sp_fs_open(a, "holes", O_RDWR | O_CREAT, 0600, &e);
	for (int i = 0; i < 1500; i++) /* more extents than one call tells of */
		if (sp_fd_pwrite(to, "y", 1, (off_t)i * 65536) < 0)
			break;
	ok(fsync(to) == 0 && usage(a, "holes", &u, &s) == 0 && u == 1500 * 4096 && s == 0,
	   "fifteen hundred extents");
}

/* --- the sweep -------------------------------------------------------------------------------- */

static int old_file(int dir, const char *name)
{
	const struct timespec ago[2] = { { .tv_sec = time(NULL) - 300 },
					 { .tv_sec = time(NULL) - 300 } };

	return put(dir, name, 10) < 0 ? -1 : utimensat(dir, name, ago, AT_SYMLINK_NOFOLLOW);
}

static int sweep(const struct sp_roots *r)
{
	struct sp_err e;
	sp_auto_fd lock = sp_root_lock(r, &e);

	if (lock >= 0 && sp_store_sweep(r, &e) == 0)
		return 0;
	printf("# sweep: %s\n", e.msg);
	return -1;
}

static void sweeping(const struct sp_roots *r)
{
	struct sp_err e;
	sp_auto_fd boxes = sp_fs_open_dir(r->store, SP_DIR_SANDBOXES, &e), box = -1, held = -1;
	sp_auto_fd all = sp_fs_open_dir(r->store, SP_DIR_CHECKPOINTS, &e), names = -1;
	char id[SP_ID_SIZE];
	struct sp_op *op = op_begin(r, BOX, NULL, id);

	ok(sp_op_intend(op, "checkpoint", sp_json_new_string(MINE), &e) == 0,
	   "an operation intends");
	ok(sp_vol_create(all, ".new-" OLD, &e) == 0 && sp_vol_create(all, ".new-" MINE, &e) == 0,
	   "two half-made checkpoints");
	ok(sp_vol_create(all, ".trash-x", &e) == 0 &&
		   sp_vol_set_read_only(all, ".trash-x", true, &e) == 0,
	   "one that was to be deleted");
	ok(sp_fs_mkdir(boxes, BOX, 0700, &e) == 0, "a sandbox");
	box = sp_fs_open_dir(boxes, BOX, &e);
	ok(sp_vol_create(box, ".trash-y", &e) == 0 && sp_vol_create(box, "vol", &e) == 0 &&
		   old_file(box, ".tmp-old") == 0 && put(box, ".tmp-young", 1) == 0 &&
		   old_file(box, ".tmp-held") == 0 && put(box, "record.json", 10) == 0,
	   "with leftovers");
	held = sp_fs_open(box, ".tmp-held", O_RDONLY, 0, &e);
	names = sp_fs_open_dir(r->store, SP_DIR_NAMES, &e);
	ok(sp_fs_mkdir(names, "local", 0700, &e) == 0, "names");
	sp_fd_close(&names);
	ok(sweep(r) == 0, "sweep");
	ok(!sp_fs_exists(all, ".new-" OLD) && sp_fs_exists(all, ".new-" MINE),
	   "what an open operation speaks of stays");
	ok(!sp_fs_exists(all, ".trash-x") && !sp_fs_exists(box, ".trash-y"),
	   "the trash is emptied");
	ok(!sp_fs_exists(box, ".tmp-old") && sp_fs_exists(box, ".tmp-young") &&
		   sp_fs_exists(box, ".tmp-held"),
	   "old temporary files go; young ones and open ones stay");
	ok(sp_fs_exists(box, "vol") && sp_fs_exists(box, "record.json"), "the rest stays");
	sp_fd_close(&held);
	ok(sp_op_end(op, NULL, &e) == 0 && sweep(r) == 0 && !sp_fs_exists(all, ".new-" MINE) &&
		   !sp_fs_exists(box, ".tmp-held"),
	   "after the operation and the writer: gone");
	sp_op_free(&op);
}

/* --- the journal ------------------------------------------------------------------------------ */

static int by_number(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void journal(const struct sp_roots *r)
{
	int64_t begins[40], ends[40], t;
	sp_auto_json *rec = NULL;
	struct sp_err e;
	struct child c;
	int bad = 0;

	for (int i = 0; i < 30; i++) {
		c = op_child(r, BOX, op_end_when_told);
		op_tell(&c);
		bad += sp_op_wait(r, c.id, 20000, &rec, &e) != 1;
		sp_json_free(&rec);
		op_reap(&c);
	}
	ok(!bad && roots_count(r, SP_DIR_QUEUE) == 0, "thirty ends on btrfs, all seen");
	for (int i = 0; i < 40; i++) {
		char id[SP_ID_SIZE];
		struct sp_op *op;

		t = sp_clock_mono();
		op = op_begin(r, BOX, NULL, id);
		sp_op_claim(op, &e);
		sp_op_await_turn(op, NULL, &e);
		begins[i] = sp_clock_mono() - t;
		t = sp_clock_mono();
		sp_op_end(op, NULL, &e);
		ends[i] = sp_clock_mono() - t;
		sp_op_free(&op);
	}
	qsort(begins, 40, sizeof *begins, by_number);
	qsort(ends, 40, sizeof *ends, by_number);
	printf("# begin, claim and turn %lld us, end %lld us (median of 40)\n",
	       (long long)begins[20] / 1000, (long long)ends[20] / 1000);
}

int main(void)
{
	struct sp_roots r;
	struct sp_err e;
	sp_auto_fd top = -1;

	if (!rig_may())
		return 0;
	tmp_make();
	rig_place("");
	alarm(120);
	if (rig_open(&r, true, &e) != 0) {
		ok(false, "a store");
		printf("# %s\n", e.msg);
		tmp_clear();
		return tap_done();
	}
	top = sp_fs_open_dir(r.store, SP_DIR_CHECKPOINTS, &e);
	subvolumes(top);
	trees(top);
	costs(top);
	sweeping(&r);
	journal(&r);
	sp_fd_close(&top);
	sp_roots_close(&r);
	ok(rig_down() == 0 && rig_loops() == 0, "taken down");
	tmp_clear();
	return tap_done();
}
