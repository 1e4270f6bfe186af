/* SPDX-License-Identifier: Apache-2.0 */
/* branch: N sandboxes that go on from a sandbox, a snapshot or an image. */
#include <stdlib.h>
#include <string.h>

#include "sandbox/checkpoint.h"
#include "sandbox/making.h"
#include "sandbox/task.h"
#include "sandbox/warm.h"
#include "state/op.h"

/* Subjects: of a sandbox, itself, the checkpoint to be taken of it, the children; of a checkpoint,
 * the children alone. */
static bool is_of_sandbox(const struct sp_task *t)
{
	return sp_id_is_valid(sp_task_subject(t, 1), SP_CHECKPOINT);
}

static size_t first_child(const struct sp_task *t)
{
	return is_of_sandbox(t) ? 2 : 0;
}

static int plan(const struct sp_roots *r, const char *owner, const struct sp_json *q,
		struct sp_json *subjects, struct sp_err *e)
{
	sp_auto_json *rec = NULL;
	const char *state;
	char id[SP_ID_SIZE];

	if (sp_any_find(r, owner, sp_json_str(q, "source"), id, e) < 0)
		return -1;
	if (sp_id_is_valid(id, SP_SANDBOX)) {
		rec = sp_sandbox_load(r, id, e);
		state = rec ? sp_sandbox_state(r, id, rec, NULL) : "starting";
		if ((strcmp(state, "stopped") == 0 || strcmp(state, "dead") == 0) &&
		    !sp_subject_is_busy(r, id, NULL))
			return sp_fail(e, SP_CONFLICT, 0, "is %s, neither running nor paused",
				       state);
		sp_json_push_str(subjects, id);
		sp_id_make(SP_CHECKPOINT, id);
		sp_json_push_str(subjects, id);
		if (strcmp(state, "running") == 0 && sp_checkpoint_room(r, rec, false, e) < 0)
			return -1;
	}
	return sp_children_plan(r, owner, sp_json_str(q, "name"), sp_json_i64(q, "n", 1), subjects,
				e);
}

/* A checkpoint of the sandbox to go on from: the one that it is paused in, or a new one. */
static int freeze_source(struct sp_task *t, const struct sp_json *rec, char id[static SP_ID_SIZE],
			 struct sp_err *e)
{
	const char *source = sp_task_subject(t, 0), *paused = sp_json_str(rec, "paused");
	const char *state = sp_sandbox_state(t->roots, source, rec, NULL);
	struct sp_take take = { .sandbox = source,
				.checkpoint = sp_task_subject(t, 1),
				.kind = "branch",
				.why = "to branch from",
				.op = t->id };
	struct sp_mon_answer answer;

	if (strcmp(state, "paused") == 0 && paused) {
		memcpy(id, paused, strnlen(paused, SP_ID_LEN) + 1);
		return 0;
	}
	if (strcmp(state, "running") != 0)
		return sp_fail(e, SP_CONFLICT, 0, "is %s, neither running nor paused", state);
	memcpy(id, take.checkpoint, strnlen(take.checkpoint, SP_ID_LEN) + 1);
	if (sp_task_phase(t, "checkpoint", e) < 0)
		return -1;
	return sp_checkpoint_take(t->roots, rec, &take, &answer, e);
}

static int find_origin(struct sp_task *t, const struct sp_json *rec, char id[static SP_ID_SIZE],
		       struct sp_err *e)
{
	sp_auto_json *meta = NULL;
	struct sp_shape shape;
	const char *kind;

	if (rec)
		return freeze_source(t, rec, id, e);
	if (sp_any_find(t->roots, t->owner, sp_json_str(t->request, "source"), id, e) < 0)
		return -1;
	meta = sp_checkpoint_load(t->roots, id, e);
	if (!meta)
		return -1;
	kind = sp_json_str(meta, "kind");
	if (!kind || strcmp(kind, "image") != 0)
		return 0;
	if (sp_image_shape(meta, NULL, &shape, e) < 0)
		return -1;
	return sp_warm_ensure(t->roots, t->owner, id, &shape, id, e);
}

static int make(struct sp_task *t, const struct sp_json *rec, struct sp_err *e)
{
	sp_auto_free struct sp_child *children = NULL;
	sp_auto_origin origin = { 0 };
	struct sp_making m = { .task = t, .origin = &origin, .meta = sp_json_get(rec, "meta") };
	char id[SP_ID_SIZE];

	if (find_origin(t, rec, id, e) < 0 ||
	    sp_origin_open(t->roots, id, false, NULL, &origin, e) < 0)
		return -1;
	children = sp_children_new(t, first_child(t), sp_json_str(t->request, "name"), &m.n);
	m.child = children;
	return sp_making_run(&m, e);
}

static int act(struct sp_task *t, struct sp_err *e)
{
	sp_auto_json *rec = NULL;
	struct sp_err none;
	int rc;

	if (!is_of_sandbox(t))
		return make(t, NULL, e);
	rec = sp_sandbox_load(t->roots, sp_task_subject(t, 0), e);
	if (!rec)
		return -1;
	rc = make(t, rec, e);
	if (rc < 0) /* goes if no child is left that needs it */
		sp_checkpoint_collect(t->roots, sp_task_subject(t, 1), t->id, &none);
	return rc;
}

static int repair(struct sp_task *t, struct sp_err *e)
{
	if (is_of_sandbox(t) &&
	    sp_checkpoint_settle(t->roots, sp_task_subject(t, 0), sp_task_subject(t, 1), e) < 0)
		return -1;
	if (sp_children_discard(t, first_child(t), e) < 0)
		return -1;
	if (is_of_sandbox(t) &&
	    sp_checkpoint_collect(t->roots, sp_task_subject(t, 1), t->id, e) < 0)
		return -1;
	return sp_fail(e, SP_BUSY, 0, "interrupted; undone");
}

const struct sp_verb sp_verb_branch = { "branch", plan, act, repair };
