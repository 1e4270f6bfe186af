/* SPDX-License-Identifier: Apache-2.0 */
/* resume: the checkpoint that a sandbox is paused in, its disk and its memory together; a stopped
 * or dead one boots from its own disk. */
#include <string.h>

#include "image/kernel.h"
#include "sandbox/checkpoint.h"
#include "sandbox/making.h"
#include "sandbox/task.h"
#include "state/event.h"
#include "state/op.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "vol/store.h"

static int plan(const struct sp_roots *r, const char *owner, const struct sp_json *q,
		struct sp_json *subjects, struct sp_err *e)
{
	const char *operand = sp_json_value_str(sp_json_at(sp_json_get(q, "ids"), 0));
	char id[SP_ID_SIZE];

	if (sp_sandbox_find(r, owner, operand, id, e) < 0)
		return -1;
	sp_json_push_str(subjects, id);
	return sp_store_need(r, 0, e);
}

/* The law: memory is loaded only with the disk saved beside it. */
static int disk_of(const struct sp_roots *r, const char *id, const char *checkpoint,
		   struct sp_err *e)
{
	sp_auto_fd from = sp_fs_open_dir(r->store, SP_DIR_CHECKPOINTS, e);
	sp_auto_fd dir = from < 0 ? -1 : sp_sandbox_dir(r, id, e);
	sp_auto_fd vol = -1;

	if (dir < 0 || sp_vol_remove_tree(dir, "vol", e) < 0 ||
	    sp_vol_snapshot(from, checkpoint, dir, "vol", false, e) < 0)
		return -1;
	vol = sp_fs_open_dir(dir, "vol", e);
	return vol < 0 ? -1 : sp_checkpoint_strip(vol, true, e);
}

/* The machine runs (flagged: its agent is silent); from here on it is kept. */
static int record(struct sp_task *t, struct sp_json *rec, const char *base, uint64_t generation,
		  const char *flagged, struct sp_err *e)
{
	const char *id = sp_task_subject(t, 0), *was = sp_json_str(rec, "base");
	sp_auto_free char *old = was ? sp_xstrdup(was) : NULL;

	if (sp_task_phase(t, "record", e) < 0)
		return -1;
	sp_json_put_str(rec, "state", "running");
	sp_json_put_i64(rec, "generation", (int64_t)generation);
	sp_json_del(rec, "paused");
	sp_json_del(rec, "base");
	sp_json_del(rec, "flagged");
	sp_json_put_str(rec, "base", base);
	sp_json_put_str(rec, "flagged", flagged);
	if (sp_sandbox_save(t->roots, id, rec, t->id, e) < 0 || sp_task_phase(t, "clean", e) < 0)
		return -1;
	if (old && sp_checkpoint_collect(t->roots, old, t->id, e) < 0)
		return -1;
	sp_event_add(t->roots, "sandbox.resumed", id, t->id, NULL, e);
	sp_op_result(t->op, id, NULL);
	return 0;
}

static int start(struct sp_task *t, struct sp_json *rec, const struct sp_origin *base,
		 struct sp_err *e)
{
	const char *id = sp_task_subject(t, 0);
	uint64_t generation = sp_generation_next(rec);
	struct sp_mon_report report = { 0 };
	sp_auto_fd wait = -1;
	struct sp_err silent, none;
	int rc;

	if (sp_task_phase(t, "start", e) < 0 ||
	    sp_machine_start(t->roots, id, rec, base, base != NULL, generation, &wait, e) < 0)
		return -1;
	rc = sp_mon_await(wait, &report, &silent);
	if (rc < 0 && (silent.code != SP_BUSY || sp_mon_is_alive(t->roots, id, &none) != 1)) {
		*e = silent;
		sp_mon_end(t->roots, id, &none);
		return -1;
	}
	if (record(t, rec, base ? base->id : NULL, generation, rc < 0 ? silent.msg : NULL, e) < 0)
		return -1;
	if (rc < 0)
		*e = silent;
	return rc;
}

static int start_paused(struct sp_task *t, struct sp_json *rec, struct sp_err *e)
{
	sp_auto_origin base = { 0 };
	const char *paused = sp_json_str(rec, "paused");

	if (!paused)
		return sp_fail(e, SP_FAIL, 0, "its record names no checkpoint");
	if (sp_origin_open(t->roots, paused, false, NULL, &base, e) < 0)
		return -1;
	if (!base.load)
		return sp_fail(e, SP_FAIL, 0, "its checkpoint holds no memory");
	if (sp_task_phase(t, "disk", e) < 0 ||
	    disk_of(t->roots, sp_task_subject(t, 0), paused, e) < 0)
		return -1;
	return start(t, rec, &base, e);
}

static int start_cold(struct sp_task *t, struct sp_json *rec, struct sp_err *e)
{
	const char *id = sp_task_subject(t, 0), *kernel = sp_json_str(rec, "kernel");
	sp_auto_fd kernels = sp_fs_open_dir(t->roots->store, SP_DIR_KERNELS, e);
	struct sp_machine m = { 0 };
	char other[64];

	if (kernels < 0 || sp_mon_end(t->roots, id, e) < 0)
		return -1;
	if (!kernel || !sp_fs_exists(kernels, kernel)) {
		if (sp_kernel_default(t->roots, other, e) < 0)
			return -1;
		sp_json_put_str(rec, "kernel", other);
	}
	if (sp_engine_qemu.probe(false, &m, e) < 0)
		return -1;
	m.cpus = (uint32_t)sp_json_i64(rec, "cpus", SP_DEFAULT_CPUS);
	m.memory = (uint64_t)sp_json_i64(rec, "memory", SP_DEFAULT_MEMORY);
	sp_machine_put(rec, &m);
	/* As long as this is not done the record must not read as that of a running machine: a
	 * repairer tells by it whether what it finds running is ours to end. */
	sp_json_put_str(rec, "state", "stopped");
	if (sp_sandbox_save(t->roots, id, rec, t->id, e) < 0)
		return -1;
	return start(t, rec, NULL, e);
}

static int act(struct sp_task *t, struct sp_err *e)
{
	const char *id = sp_task_subject(t, 0), *state;
	sp_auto_json *rec = sp_sandbox_load(t->roots, id, e);

	if (!rec)
		return -1;
	state = sp_sandbox_state(t->roots, id, rec, NULL);
	if (strcmp(state, "running") == 0) {
		sp_op_result(t->op, id, NULL);
		return 0;
	}
	return strcmp(state, "paused") == 0 ? start_paused(t, rec, e) : start_cold(t, rec, e);
}

static int repair(struct sp_task *t, struct sp_err *e)
{
	const char *id = sp_task_subject(t, 0), *state, *op;
	sp_auto_json *rec = sp_sandbox_load(t->roots, id, e);

	if (!rec)
		return -1;
	state = sp_json_str(rec, "state");
	op = sp_json_str(rec, "op");
	if (state && strcmp(state, "running") == 0) {
		if (!op || strcmp(op, t->id) != 0)
			return sp_fail(e, SP_BUSY, 0, "interrupted; nothing changed");
		sp_op_result(t->op, id, NULL);
		return 0;
	}
	if (sp_mon_end(t->roots, id, e) < 0)
		return -1;
	return sp_fail(e, SP_BUSY, 0, "interrupted; undone");
}

const struct sp_verb sp_verb_resume = { "resume", plan, act, repair };
