/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/image.h"

#include <string.h>

#include "sandbox/checkpoint.h"
#include "sandbox/model.h"
#include "sandbox/task.h"
#include "state/event.h"
#include "state/name.h"
#include "state/op.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "vol/store.h"

/* A name may move from image to image, never away from a sandbox or a snapshot. */
static int check_name(const struct sp_roots *r, const char *owner, const char *name,
		      struct sp_err *e)
{
	sp_auto_json *meta = NULL;
	char id[SP_ID_SIZE];
	const char *kind;

	if (!name || !sp_name_is_valid(name))
		return sp_fail(e, SP_USAGE, 0, "name '%s': not a name ([a-z0-9][a-z0-9-]*)",
			       name ? name : "");
	if (sp_name_find(r, owner, name, id, e) < 0)
		return e->code == SP_ABSENT ? 0 : -1;
	meta = sp_checkpoint_load(r, id, e);
	kind = sp_json_str(meta, "kind");
	if ((meta && kind && strcmp(kind, "image") == 0) ||
	    (sp_id_is_valid(id, SP_CHECKPOINT) && !meta))
		return 0;
	return sp_fail(e, SP_CONFLICT, 0, "name '%s' is taken, and not by an image", name);
}

int sp_image_settings(const struct sp_json *q, struct sp_shape *s, struct sp_err *e)
{
	int64_t cpus = sp_json_i64(q, "cpus", SP_DEFAULT_CPUS);

	s->cpus = cpus < 0 || cpus > SP_MAX_CPUS ? 0 : (int)cpus;
	s->memory = sp_json_i64(q, "memory", SP_DEFAULT_MEMORY);
	s->disk = sp_json_i64(q, "size", 0);
	return sp_shape_check(s, e);
}

static int plan(const struct sp_roots *r, const char *owner, const struct sp_json *q,
		struct sp_json *subjects, struct sp_err *e)
{
	struct sp_shape shape;
	char id[SP_ID_SIZE];

	if (check_name(r, owner, sp_json_str(q, "name"), e) < 0 ||
	    sp_image_settings(q, &shape, e) < 0)
		return -1;
	sp_id_make(SP_CHECKPOINT, id);
	sp_json_push_str(subjects, id);
	return sp_store_need(
		r, shape.disk > SP_IMAGE_STEP || !shape.disk ? SP_IMAGE_STEP : shape.disk, e);
}

int sp_image_name(struct sp_task *t, struct sp_err *e)
{
	const char *name = sp_json_str(t->request, "name"), *id = sp_task_subject(t, 0);
	struct sp_err none;

	if (sp_task_phase(t, "name", e) < 0 || check_name(t->roots, t->owner, name, e) < 0 ||
	    sp_name_move(t->roots, t->owner, name, id, e) < 0)
		return -1;
	sp_event_add(t->roots, "image.created", id, t->id, NULL, &none);
	sp_op_result(t->op, id, NULL);
	return 0;
}

int sp_image_undo(struct sp_task *t, struct sp_err *e)
{
	const char *id = sp_task_subject(t, 0);
	sp_auto_fd all = sp_fs_open_dir(t->roots->store, SP_DIR_CHECKPOINTS, e);
	sp_auto_fd lock = -1;
	char temp[40], trash[40];

	sp_checkpoint_new_name(id, temp);
	if (all < 0 || sp_vol_remove_tree(all, temp, e) < 0)
		return -1;
	lock = sp_root_lock(t->roots, e);
	if (lock < 0 || sp_checkpoint_unlink(t->roots, id, trash, e) < 0)
		return -1;
	sp_fd_close(&lock);
	return sp_checkpoint_empty(t->roots, trash, e);
}

static int act(struct sp_task *t, struct sp_err *e)
{
	(void)t;
	return sp_fail(e, SP_FAIL, 0, "import works in its caller");
}

static int repair(struct sp_task *t, struct sp_err *e)
{
	if (sp_checkpoint_exists(t->roots, sp_task_subject(t, 0)))
		return sp_image_name(t, e);
	if (sp_image_undo(t, e) < 0)
		return -1;
	return sp_fail(e, SP_BUSY, 0, "interrupted; undone");
}

const struct sp_verb sp_verb_import = { "import", plan, act, repair };
