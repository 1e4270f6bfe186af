/* SPDX-License-Identifier: Apache-2.0 */
/* pause: a full checkpoint, then the machine ends. */
#include <string.h>

#include "sandbox/checkpoint.h"
#include "sandbox/model.h"
#include "sandbox/task.h"
#include "state/event.h"
#include "state/op.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "vol/store.h"

enum { SANDBOX, CHECKPOINT };

static int plan(const struct sp_roots *r, const char *owner, const struct sp_json *q,
		struct sp_json *subjects, struct sp_err *e)
{
	const char *operand = sp_json_value_str(sp_json_at(sp_json_get(q, "ids"), 0));
	sp_auto_json *rec = NULL;
	const char *state;
	char id[SP_ID_SIZE];

	if (sp_sandbox_find(r, owner, operand, id, e) < 0)
		return -1;
	rec = sp_sandbox_load(r, id, e);
	state = rec ? sp_sandbox_state(r, id, rec, NULL) : "starting";
	if ((strcmp(state, "stopped") == 0 || strcmp(state, "dead") == 0) &&
	    !sp_subject_is_busy(r, id, NULL))
		return sp_fail(e, SP_CONFLICT, 0, "is %s, not running", state);
	sp_json_push_str(subjects, id);
	sp_id_make(SP_CHECKPOINT, id);
	sp_json_push_str(subjects, id);
	return strcmp(state, "running") == 0 ? sp_checkpoint_room(r, rec, false, e) : 0;
}

static int clean(struct sp_task *t, const char *old, struct sp_err *e)
{
	const char *id = sp_task_subject(t, SANDBOX);
	sp_auto_fd dir = sp_sandbox_dir(t->roots, id, e);

	/* Its disk is the checkpoint's from now on. */
	if (dir < 0 || sp_vol_remove_tree(dir, "vol", e) < 0)
		return -1;
	if (old && sp_checkpoint_collect(t->roots, old, t->id, e) < 0)
		return -1;
	sp_event_add(t->roots, "sandbox.paused", id, t->id, NULL, e);
	sp_op_result(t->op, id, NULL);
	return 0;
}

/* The checkpoint is published and the machine does not go on. */
static int record(struct sp_task *t, struct sp_json *rec, struct sp_err *e)
{
	const char *id = sp_task_subject(t, SANDBOX), *base = sp_json_str(rec, "base");
	sp_auto_free char *old = base ? sp_xstrdup(base) : NULL;

	if (sp_task_phase(t, "record", e) < 0 || sp_mon_end(t->roots, id, e) < 0)
		return -1;
	sp_json_put_str(rec, "state", "paused");
	sp_json_put_str(rec, "paused", sp_task_subject(t, CHECKPOINT));
	sp_json_del(rec, "base");
	sp_json_del(rec, "flagged");
	if (sp_sandbox_save(t->roots, id, rec, t->id, e) < 0 || sp_task_phase(t, "clean", e) < 0)
		return -1;
	return clean(t, old, e);
}

static int act(struct sp_task *t, struct sp_err *e)
{
	const char *id = sp_task_subject(t, SANDBOX), *state;
	struct sp_take take = { .sandbox = id,
				.checkpoint = sp_task_subject(t, CHECKPOINT),
				.kind = "pause",
				.why = "paused",
				.op = t->id,
				.then_quit = true };
	sp_auto_json *rec = sp_sandbox_load(t->roots, id, e);
	struct sp_mon_answer answer;

	if (!rec)
		return -1;
	state = sp_sandbox_state(t->roots, id, rec, NULL);
	if (strcmp(state, "paused") == 0) {
		sp_op_result(t->op, id, NULL);
		return 0;
	}
	if (strcmp(state, "running") != 0)
		return sp_fail(e, SP_CONFLICT, 0, "is %s, not running", state);
	if (sp_task_phase(t, "checkpoint", e) < 0 ||
	    sp_checkpoint_take(t->roots, rec, &take, &answer, e) < 0)
		return -1;
	return record(t, rec, e);
}

static int repair(struct sp_task *t, struct sp_err *e)
{
	const char *id = sp_task_subject(t, SANDBOX), *paused;
	sp_auto_json *rec = NULL;
	int rc = sp_checkpoint_settle(t->roots, id, sp_task_subject(t, CHECKPOINT), e);

	rec = rc < 0 ? NULL : sp_sandbox_load(t->roots, id, e);
	if (!rec)
		return -1;
	if (rc == 0)
		return sp_fail(e, SP_BUSY, 0, "interrupted before it was saved; undone");
	paused = sp_json_str(rec, "paused");
	if (paused && strcmp(paused, sp_task_subject(t, CHECKPOINT)) == 0)
		return clean(t, NULL, e);
	return record(t, rec, e);
}

const struct sp_verb sp_verb_pause = { "pause", plan, act, repair };
