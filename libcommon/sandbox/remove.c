/* SPDX-License-Identifier: Apache-2.0 */
/* rm: a sandbox from every state; a snapshot or an image that no sandbox needs to run or resume, or
 * (cascade) together with those. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox/checkpoint.h"
#include "sandbox/making.h"
#include "sandbox/task.h"
#include "state/event.h"
#include "state/name.h"
#include "state/op.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "vol/store.h"

/* The warm checkpoints of an image go with it. */
static int add_link(int dirfd, const char *name, void *arg)
{
	char id[SP_ID_SIZE] = "";

	if (name[0] == '.' || readlinkat(dirfd, name, id, sizeof id) != SP_ID_LEN)
		return 0;
	id[SP_ID_LEN] = '\0';
	if (sp_id_is_valid(id, SP_CHECKPOINT))
		sp_json_push_str(arg, id);
	return 0;
}

/* The checkpoint itself and what goes with it; a new array. */
static struct sp_json *family(const struct sp_roots *r, const char *id, struct sp_err *e)
{
	sp_auto_fd warm = sp_fs_open_dir(r->store, SP_DIR_WARM, e);
	sp_auto_json *ids = sp_json_new_array();
	sp_auto_fd dir = -1;

	if (warm < 0)
		return NULL;
	sp_json_push_str(ids, id);
	dir = sp_fs_exists(warm, id) ? sp_fs_open_dir(warm, id, e) : -1;
	if (dir >= 0 && sp_fs_each(dir, add_link, ids, e) != 0)
		return NULL;
	return sp_take_ptr(&ids);
}

/* The sandboxes that need any of them; a new array. */
static struct sp_json *needed_by(const struct sp_roots *r, const struct sp_json *ids,
				 struct sp_err *e)
{
	sp_auto_json *out = sp_json_new_array();

	for (size_t i = 0; i < sp_json_len(ids); i++) {
		const char *id = sp_json_value_str(sp_json_at(ids, i));
		sp_auto_json *some = sp_checkpoint_needed_by(r, id, e);

		if (!some)
			return NULL;
		for (const struct sp_json *c = sp_json_first(some); c; c = sp_json_next(c))
			sp_json_push_str(out, sp_json_value_str(c));
	}
	return sp_take_ptr(&out);
}

static int refuse(const struct sp_json *by, struct sp_err *e)
{
	size_t n = sp_json_len(by);
	const char *first = sp_json_value_str(sp_json_at(by, 0));

	if (n == 1)
		return sp_fail(e, SP_CONFLICT, 0, "sandbox %s needs it (--cascade removes both)",
			       first);
	return sp_fail(e, SP_CONFLICT, 0,
		       "%zu sandboxes need it, %s among them (--cascade removes them too)", n,
		       first);
}

/* An operand of any kind, broken records included: what is there can be removed. */
static int find(const struct sp_roots *r, const char *owner, const char *operand,
		char id[static SP_ID_SIZE], struct sp_err *e)
{
	sp_auto_fd dir = -1;

	if (sp_any_find(r, owner, operand, id, e) == 0)
		return 0;
	if (e->code == SP_ABSENT || strcmp(owner, SP_OWNER_LOCAL) != 0)
		return -1;
	dir = sp_id_is_valid(id, SP_SANDBOX) ? sp_sandbox_dir(r, id, e)
					     : sp_checkpoint_dir(r, id, e);
	return dir < 0 ? -1 : 0;
}

/* Does one of them stay as it is, as far as can be told now? */
static bool is_kept(const struct sp_roots *r, const struct sp_json *by)
{
	for (const struct sp_json *c = sp_json_first(by); c; c = sp_json_next(c))
		if (!sp_subject_is_busy(r, sp_json_value_str(c), NULL))
			return true;
	return false;
}

/* Subjects: what is asked for; then the sandboxes that need it: with cascade they go too, without
 * it each of them has an operation open (its removal, perhaps), which is waited for. */
static int plan(const struct sp_roots *r, const char *owner, const struct sp_json *q,
		struct sp_json *subjects, struct sp_err *e)
{
	const char *operand = sp_json_value_str(sp_json_at(sp_json_get(q, "ids"), 0));
	sp_auto_json *ids = NULL, *by = NULL;
	char id[SP_ID_SIZE];

	if (find(r, owner, operand, id, e) < 0)
		return -1;
	sp_json_push_str(subjects, id);
	if (sp_id_is_valid(id, SP_SANDBOX))
		return 0;
	ids = family(r, id, e);
	by = ids ? needed_by(r, ids, e) : NULL;
	if (!by)
		return -1;
	if (!sp_json_bool(q, "cascade", false) && is_kept(r, by))
		return refuse(by, e);
	for (const struct sp_json *c = sp_json_first(by); c; c = sp_json_next(c))
		sp_json_push_str(subjects, sp_json_value_str(c));
	return 0;
}

static void note_base(const struct sp_roots *r, const char *sandbox, struct sp_json *ids)
{
	struct sp_err e;
	sp_auto_json *rec = sp_sandbox_load(r, sandbox, &e);
	const char *base = sp_json_str(rec, "base"), *paused = sp_json_str(rec, "paused");

	if (base)
		sp_json_push_str(ids, base);
	if (paused)
		sp_json_push_str(ids, paused);
}

/* Removes the sandboxes among the subjects from number `first` on, and then the checkpoints that
 * go by themselves with them; those are written down first, since the records go. */
static int remove_sandboxes(struct sp_task *t, size_t first, struct sp_err *e)
{
	const struct sp_json *noted =
		sp_json_get(sp_json_get(sp_op_record(t->op), "intent"), "then");
	sp_auto_json *then = noted ? sp_json_copy(noted) : sp_json_new_array();
	size_t n = sp_json_len(t->subjects);
	struct sp_err none;

	if (!noted) {
		for (size_t i = first; i < n; i++)
			note_base(t->roots, sp_task_subject(t, i), then);
		if (sp_json_len(then) && sp_op_intend(t->op, "then", sp_json_copy(then), e) < 0)
			return -1;
	}
	if (sp_task_phase(t, "stop", e) < 0)
		return -1;
	for (size_t i = first; i < n; i++)
		if (sp_mon_end(t->roots, sp_task_subject(t, i), e) < 0)
			return -1;
	if (sp_task_phase(t, "record", e) < 0 || sp_children_discard(t, first, e) < 0 ||
	    sp_task_phase(t, "clean", e) < 0)
		return -1;
	for (size_t i = first; i < n; i++)
		sp_event_add(t->roots, "sandbox.removed", sp_task_subject(t, i), t->id, NULL,
			     &none);
	for (size_t i = 0; i < sp_json_len(then); i++)
		if (sp_checkpoint_collect(t->roots, sp_json_value_str(sp_json_at(then, i)), t->id,
					  e) < 0)
			return -1;
	return 0;
}

/* All of the family out of sight at once, under the root lock; emptied outside it. */
static int unlink_family(struct sp_task *t, const char *id, struct sp_json *trash, struct sp_err *e)
{
	sp_auto_fd lock = sp_root_lock(t->roots, e);
	sp_auto_json *ids = lock < 0 ? NULL : family(t->roots, id, e);
	sp_auto_json *by = ids ? needed_by(t->roots, ids, e) : NULL;

	if (!by)
		return -1;
	if (sp_json_len(by)) /* one that came up since the plan; or all, without cascade */
		return refuse(by, e);
	for (size_t i = sp_json_len(ids); i-- > 0;) {
		char name[40];

		if (sp_checkpoint_unlink(t->roots, sp_json_value_str(sp_json_at(ids, i)), name, e) <
		    0)
			return -1;
		sp_json_push_str(trash, name);
	}
	return 0;
}

static int remove_checkpoint(struct sp_task *t, const char *id, struct sp_err *e)
{
	sp_auto_json *trash = sp_json_new_array();
	sp_auto_fd warm = sp_fs_open_dir(t->roots->store, SP_DIR_WARM, e);
	struct sp_err none;

	if (warm < 0 || unlink_family(t, id, trash, e) < 0 || sp_fs_remove_tree(warm, id, e) < 0)
		return -1;
	sp_event_add(t->roots, "snapshot.removed", id, t->id, NULL, &none);
	for (size_t i = 0; i < sp_json_len(trash); i++)
		if (sp_checkpoint_empty(t->roots, sp_json_value_str(sp_json_at(trash, i)), e) < 0)
			return -1;
	return 0;
}

static int remove_it(struct sp_task *t, struct sp_err *e)
{
	const char *id = sp_task_subject(t, 0);
	size_t first = sp_id_is_valid(id, SP_SANDBOX) ? 0 : 1;

	if (first && !sp_json_bool(t->request, "cascade", false))
		first = sp_json_len(t->subjects); /* they were waited for only */
	if (remove_sandboxes(t, first, e) < 0)
		return -1;
	if (!sp_id_is_valid(id, SP_SANDBOX) && remove_checkpoint(t, id, e) < 0)
		return -1;
	sp_op_result(t->op, id, NULL);
	return 0;
}

static int act(struct sp_task *t, struct sp_err *e)
{
	const char *id = sp_task_subject(t, 0);
	sp_auto_fd dir = sp_id_is_valid(id, SP_SANDBOX) ? sp_sandbox_dir(t->roots, id, e)
							: sp_checkpoint_dir(t->roots, id, e);

	return dir < 0 ? -1 : remove_it(t, e); /* absent: removed while it queued */
}

const struct sp_verb sp_verb_rm = { "rm", plan, act, remove_it };
