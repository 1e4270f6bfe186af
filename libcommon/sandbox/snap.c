/* SPDX-License-Identifier: Apache-2.0 */
/* snap: a checkpoint of a sandbox, with its memory or of its disk only. */
#include <string.h>

#include "sandbox/checkpoint.h"
#include "sandbox/model.h"
#include "sandbox/task.h"
#include "state/event.h"
#include "state/name.h"
#include "state/op.h"

enum { SANDBOX, CHECKPOINT };

static int check_state(const char *state, bool files, struct sp_err *e)
{
	if (strcmp(state, "running") == 0 || strcmp(state, "paused") == 0 || files)
		return 0;
	return sp_fail(e, SP_CONFLICT, 0, "is %s: only its files can be saved (--files)", state);
}

static int plan(const struct sp_roots *r, const char *owner, const struct sp_json *q,
		struct sp_json *subjects, struct sp_err *e)
{
	const char *name = sp_json_str(q, "name");
	bool files = sp_json_bool(q, "files", false);
	sp_auto_json *rec = NULL;
	char id[SP_ID_SIZE], taken[SP_ID_SIZE];

	if (sp_sandbox_find(r, owner, sp_json_str(q, "sandbox"), id, e) < 0)
		return -1;
	if (name && !sp_name_is_valid(name))
		return sp_fail(e, SP_USAGE, 0, "name '%s': not a name ([a-z0-9][a-z0-9-]*)", name);
	if (name && sp_name_find(r, owner, name, taken, e) == 0)
		return sp_fail(e, SP_CONFLICT, 0, "name '%s' is taken", name);
	rec = sp_sandbox_load(r, id, e);
	if (rec && !sp_subject_is_busy(r, id, NULL) &&
	    check_state(sp_sandbox_state(r, id, rec, NULL), files, e) < 0)
		return -1;
	sp_json_push_str(subjects, id);
	sp_id_make(SP_CHECKPOINT, id);
	sp_json_push_str(subjects, id);
	return sp_checkpoint_room(r, rec, files, e);
}

static int take(struct sp_task *t, const struct sp_json *rec, int64_t *stopped, struct sp_err *e)
{
	const char *state = sp_sandbox_state(t->roots, sp_task_subject(t, SANDBOX), rec, NULL);
	struct sp_take how = { .sandbox = sp_task_subject(t, SANDBOX),
			       .checkpoint = sp_task_subject(t, CHECKPOINT),
			       .kind = "snapshot",
			       .why = "asked for",
			       .op = t->id,
			       .files = sp_json_bool(t->request, "files", false) };
	struct sp_mon_answer answer = { 0 };
	int rc;

	if (check_state(state, how.files, e) < 0 || sp_task_phase(t, "checkpoint", e) < 0)
		return -1;
	if (strcmp(state, "running") == 0) {
		rc = sp_checkpoint_take(t->roots, rec, &how, &answer, e);
		*stopped = answer.stopped_ns;
		return rc;
	}
	return sp_checkpoint_take_still(t->roots, rec, &how, e);
}

static void done(struct sp_task *t, int64_t stopped)
{
	const char *id = sp_task_subject(t, CHECKPOINT);
	struct sp_json *more = sp_json_new_object();
	struct sp_err e;

	sp_json_put_str(more, "sandbox", sp_task_subject(t, SANDBOX));
	if (stopped)
		sp_json_put_i64(more, "stopped_ns", stopped);
	sp_event_add(t->roots, "snapshot.created", id, t->id, more, &e);
	sp_json_free(&more);
	sp_op_result(t->op, id, NULL);
}

static int act(struct sp_task *t, struct sp_err *e)
{
	const char *name = sp_json_str(t->request, "name"), *id = sp_task_subject(t, CHECKPOINT);
	sp_auto_json *rec = sp_sandbox_load(t->roots, sp_task_subject(t, SANDBOX), e);
	struct sp_err none;
	int64_t stopped = 0;

	if (!rec)
		return -1;
	/* The name first: what fails cheaply fails before the machine is stopped. */
	if (name && sp_name_take(t->roots, t->owner, name, id, e) < 0)
		return -1;
	if (take(t, rec, &stopped, e) < 0) {
		if (name)
			sp_name_drop(t->roots, t->owner, name, id, &none);
		return -1;
	}
	if (sp_task_phase(t, "clean", e) < 0)
		return -1;
	done(t, stopped);
	return 0;
}

static int repair(struct sp_task *t, struct sp_err *e)
{
	const char *name = sp_json_str(t->request, "name"), *id = sp_task_subject(t, CHECKPOINT);
	int rc = sp_checkpoint_settle(t->roots, sp_task_subject(t, SANDBOX), id, e);

	if (rc < 0)
		return -1;
	if (rc == 0) {
		if (name && sp_name_drop(t->roots, t->owner, name, id, e) < 0)
			return -1;
		return sp_fail(e, SP_BUSY, 0, "interrupted before it was saved; undone");
	}
	if (name && sp_name_take(t->roots, t->owner, name, id, e) < 0)
		return -1;
	done(t, 0);
	return 0;
}

const struct sp_verb sp_verb_snap = { "snap", plan, act, repair };
