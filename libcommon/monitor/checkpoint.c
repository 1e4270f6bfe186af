/* SPDX-License-Identifier: Apache-2.0 */
/* Taking a checkpoint of the machine.
 *
 * Full: the disk is flushed and a buffer faulted in while the guest runs; then it is stopped, its
 * device state saved into a pipe, its volume snapshotted, its changed pages copied; it goes on; and
 * only then is the checkpoint's memory written: a clone of the RAM file before with the pages that
 * differ put in. Published by a rename, when all of it is on the disk. A death before that means
 * that the checkpoint did not happen.
 *
 * Files: the guest's file systems are frozen for the instant of the snapshot.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "monitor/keeper.h"
#include "monitor/ram.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "text/json.h"
#include "vol/store.h"

#define STATE_MAX (16u << 20)       /* device state; QEMU's is about 120 KB */
#define BUFFER_MAX (512ULL << 20) /* changed memory beyond that is written while the guest stands */
#define BUFFER_SPARE (16ULL << 20)
#define THAW_MS 5000
#define FREEZE_MS 15000
#define STOP_MS 60000

struct taking {
	struct sp_keeper *k;
	const struct sp_mon_request *q;
	struct sp_mon_answer *a;
	int all;  /* checkpoints/ */
	int dir;  /* the new one */
	int memory; /* its mem */
	char name[sizeof SP_FS_NEW + SP_ID_SIZE];
	bool made, stopped;
	struct sp_ram ram;
	struct sp_ram_pages pages;
	unsigned char *buf;
	uint64_t buf_len, copied;
	struct sp_str state;
	int64_t began, last;
};

enum phase { PREPARE, SAVE, SNAPSHOT, COPY, CONT, WRITE, PUBLISH, TOTAL };

static void phase_over(struct taking *t, enum phase p)
{
	int64_t now = sp_clock_mono();

	t->a->phases_ns[p] = now - t->last;
	t->last = now;
	t->a->phases_ns[TOTAL] = now - t->began;
}

static int prepare(struct taking *t, struct sp_err *e)
{
	struct sp_keeper *k = t->k;

	if (fdatasync(k->disk) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "cannot flush the disk");
	if (sp_ram_find(k->vmm, k->mem, k->spec.machine.memory, &t->ram, e) < 0 ||
	    sp_ram_scan(&t->ram, &t->pages, e) < 0)
		return -1;
	t->buf_len = t->pages.bytes + t->pages.bytes / 4 + BUFFER_SPARE;
	if (t->buf_len > BUFFER_MAX)
		t->buf_len = BUFFER_MAX;
	t->buf_len = (t->buf_len + (2u << 20) - 1) & ~((2ull << 20) - 1);
	t->buf = sp_ram_buffer(t->buf_len);
	if (!t->buf)
		return sp_fail(e, SP_BUSY, errno, "no memory for a copy of what changed");
	return 0;
}

/* A nameless file of the store takes the device state: QEMU truncates what it saves into, so a pipe
 * will not do, and what a hostile VMM can put there counts against its file size limit. It gets a
 * descriptor that only writes. */
static int save_devices(struct taking *t, struct sp_err *e)
{
	sp_auto_fd file = openat(t->k->box, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	sp_auto_fd out = -1;
	char path[40];

	if (file < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno,
			       "cannot make a file for the state");
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	out = open(path, O_WRONLY | O_CLOEXEC);
	if (out < 0)
		return sp_fail(e, SP_FAIL, errno, "cannot open the state's file");
	if (sp_keeper_ask(t->k, SP_H_SAVE, 0, out, STOP_MS, NULL, e) < 0)
		return -1;
	return sp_fd_slurp(file, STATE_MAX, &t->state, e);
}

static int snapshot(struct taking *t, struct sp_err *e)
{
	if (sp_vol_snapshot(t->k->box, "vol", t->all, t->name, false, e) < 0)
		return -1;
	t->made = true;
	return 0;
}

static int open_new(struct taking *t, struct sp_err *e)
{
	t->dir = sp_fs_open_dir(t->all, t->name, e);
	return t->dir < 0 ? -1 : 0;
}

static int memory_before(const struct taking *t)
{
	return t->k->prev >= 0 ? t->k->prev : t->k->mem;
}

/* The new RAM file, for a start the same bytes as the one before. */
static int make_memory(struct taking *t, struct sp_err *e)
{
	t->memory = sp_fs_open(t->dir, "mem", O_RDWR | O_CREAT | O_EXCL, 0444, e);
	if (t->memory < 0)
		return -1;
	if (fchmod(t->memory, 0444) < 0)
		return sp_fail(e, SP_FAIL, errno, "cannot set the mode of mem");
	return sp_vol_clone_file(memory_before(t), t->memory, e);
}

static int store_pages(struct taking *t, uint64_t from, size_t n, struct sp_err *e)
{
	return sp_ram_store(&t->pages, from, t->buf, n, memory_before(t), t->memory,
			    &t->a->pages_written, e);
}

/* Under the stop: scan again and copy. What does not fit into the buffer is written at once. */
static int copy_pages(struct taking *t, struct sp_err *e)
{
	int64_t n;

	if (sp_ram_scan(&t->ram, &t->pages, e) < 0)
		return -1;
	t->a->pages_copied = t->pages.bytes / SP_PAGE;
	while (t->pages.bytes - t->copied > t->buf_len) {
		if (t->memory < 0 && (open_new(t, e) < 0 || make_memory(t, e) < 0))
			return -1;
		n = sp_ram_copy(&t->ram, &t->pages, t->copied, t->buf, t->buf_len, e);
		if (n < 0 || store_pages(t, t->copied, (size_t)n, e) < 0)
			return -1;
		t->copied += (uint64_t)n;
	}
	n = sp_ram_copy(&t->ram, &t->pages, t->copied, t->buf, t->buf_len, e);
	return n < 0 ? -1 : 0;
}

static int go_on(struct taking *t, struct sp_err *e)
{
	if (!t->stopped)
		return 0;
	t->stopped = false;
	return sp_keeper_ask(t->k, SP_H_CONT, 0, -1, STOP_MS, NULL, e);
}

/* The part while the guest stands still. */
static int stop_and_take(struct taking *t, struct sp_err *e)
{
	int64_t stop = sp_clock_mono();

	if (sp_keeper_ask(t->k, SP_H_STOP, 0, -1, STOP_MS, NULL, e) < 0)
		return -1;
	t->stopped = true;
	if (save_devices(t, e) < 0)
		return -1;
	phase_over(t, SAVE);
	if (snapshot(t, e) < 0)
		return -1;
	phase_over(t, SNAPSHOT);
	if (copy_pages(t, e) < 0)
		return -1;
	phase_over(t, COPY);
	if (!t->q->then_quit && go_on(t, e) < 0)
		return -1;
	t->a->stopped_ns = sp_clock_mono() - stop;
	phase_over(t, CONT);
	return 0;
}

static int write_file(struct taking *t, const char *name, const void *data, size_t n,
		      struct sp_err *e)
{
	sp_auto_fd fd = sp_fs_open(t->dir, name, O_WRONLY | O_CREAT | O_EXCL, 0600, e);

	if (fd < 0)
		return -1;
	if (sp_fd_write(fd, data, n) < 0 || fsync(fd) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "cannot write '%s'", name);
	return 0;
}

static int write_meta(struct taking *t, struct sp_err *e)
{
	sp_auto_json *meta = sp_json_parse(t->q->meta, t->q->meta_len, e);
	sp_auto_str text = SP_STR_INIT;
	char marker[2 * SP_G_MARKER_LEN + 1];
	size_t i;

	if (!meta)
		return sp_wrap(e, "meta.json as asked");
	if (!t->q->files) {
		for (i = 0; i < SP_G_MARKER_LEN; i++)
			snprintf(marker + 2 * i, 3, "%02x", t->k->marker_next[i]);
		sp_json_put_str(meta, "marker", marker);
		sp_json_put_i64(meta, "mem_bytes", (int64_t)t->k->spec.machine.memory);
		sp_json_put_i64(meta, "vmstate_bytes", (int64_t)t->state.len);
	}
	sp_json_put_i64(meta, "stopped_ns", t->a->stopped_ns);
	sp_json_print(meta, &text);
	return write_file(t, "meta.json", text.p, text.len, e);
}

static int write_memory(struct taking *t, struct sp_err *e)
{
	if (t->memory < 0 && make_memory(t, e) < 0)
		return -1;
	if (store_pages(t, t->copied, t->pages.bytes - t->copied, e) < 0)
		return -1;
	if (fsync(t->memory) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "cannot write memory");
	return write_file(t, "vmstate", t->state.p, t->state.len, e);
}

static int publish(struct taking *t, struct sp_err *e)
{
	if (write_meta(t, e) < 0)
		return -1;
	sp_fd_close(&t->dir);
	if (sp_vol_set_read_only(t->all, t->name, true, e) < 0 ||
	    sp_fs_rename_new(t->all, t->name, t->all, t->q->checkpoint, e) < 0)
		return -1;
	t->made = false;
	if (sp_fs_sync_dir(t->all, e) < 0)
		return -1;
	phase_over(t, PUBLISH);
	return 0;
}

static int take_full(struct taking *t, struct sp_err *e)
{
	int fd;

	if (prepare(t, e) < 0)
		return -1;
	phase_over(t, PREPARE);
	if (stop_and_take(t, e) < 0)
		return -1;
	if ((t->dir < 0 && open_new(t, e) < 0) || write_memory(t, e) < 0)
		return -1;
	phase_over(t, WRITE);
	if (publish(t, e) < 0)
		return -1;
	/* The next one of this machine is stored as the difference from this one. */
	fd = t->memory;
	t->memory = t->k->prev;
	t->k->prev = fd;
	return 0;
}

static int freeze(struct taking *t, struct sp_err *e)
{
	struct sp_keeper *k = t->k;
	int64_t until = sp_clock_mono() + FREEZE_MS * 1000000LL;
	struct sp_half_msg m;

	k->frozen = -1;
	k->thawed = false;
	if (sp_keeper_ask(k, SP_H_FREEZE, THAW_MS, -1, FREEZE_MS, NULL, e) < 0)
		return -1;
	while (k->frozen < 0) {
		int64_t left = (until - sp_clock_mono()) / 1000000;

		if (k->vm == SP_VM_ENDED || k->lost)
			return sp_fail(e, SP_FAIL, 0, "the machine or its agent ended");
		if (sp_keeper_hear(k, left > 0 ? (int)left : 0, &m, e) < 0)
			return sp_wrap(e, "freezing the guest's files");
	}
	if (k->frozen)
		return sp_fail(e, SP_FAIL, k->frozen, "the guest cannot freeze its files");
	return 0;
}

static int take_files(struct taking *t, struct sp_err *e)
{
	struct sp_err ignored;
	int rc;

	if (!t->k->ready)
		return sp_fail(e, SP_BUSY, 0, "the guest's agent is silent, so its files cannot be "
					      "frozen (a full snapshot does not need it)");
	rc = freeze(t, e);
	phase_over(t, PREPARE);
	if (rc == 0) {
		rc = snapshot(t, e);
		/* thawed by itself before the snapshot was done: it would hold a running disk */
		if (rc == 0 && t->k->thawed)
			rc = sp_fail(e, SP_BUSY, 0, "the guest thawed before its files were taken");
	}
	phase_over(t, SNAPSHOT);
	/* Until the guest says so: a full checkpoint right after must not hold it frozen. */
	if (sp_keeper_ask(t->k, SP_H_THAW, 0, -1, FREEZE_MS, NULL, rc < 0 ? &ignored : e) < 0 ||
	    sp_keeper_await(t->k, &t->k->thawed, FREEZE_MS, rc < 0 ? &ignored : e) < 0)
		rc = -1;
	if (rc < 0 || open_new(t, e) < 0)
		return -1;
	return publish(t, e);
}

int sp_keeper_checkpoint(struct sp_keeper *k, const struct sp_mon_request *q,
			 struct sp_mon_answer *a, struct sp_err *e)
{
	struct taking t = { .k = k, .q = q, .a = a, .all = -1, .dir = -1, .memory = -1,
			    .pages = { .list = SP_STR_INIT }, .state = SP_STR_INIT };
	struct sp_err ignored;
	int rc;

	if (!sp_id_is_valid(q->checkpoint, SP_CHECKPOINT))
		return sp_fail(e, SP_USAGE, 0, "not a checkpoint's id");
	snprintf(t.name, sizeof t.name, SP_FS_NEW "%s", q->checkpoint);
	t.began = t.last = sp_clock_mono();
	t.all = sp_fs_open_dir(k->roots.store, SP_DIR_CHECKPOINTS, e);
	if (t.all < 0)
		return -1;
	rc = q->files ? take_files(&t, e) : take_full(&t, e);
	if (rc < 0) {
		go_on(&t, &ignored);
		if (t.made)
			sp_vol_delete(t.all, t.name, &ignored);
	}
	if (t.buf)
		munmap(t.buf, t.buf_len);
	sp_str_free(&t.pages.list);
	sp_str_free(&t.state);
	sp_fd_close(&t.memory);
	sp_fd_close(&t.dir);
	sp_fd_close(&t.all);
	return rc;
}
