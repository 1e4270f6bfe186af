/* SPDX-License-Identifier: Apache-2.0 */
/* An image is booted once, checkpointed as soon as its agent is ready, and every create of that
 * shape loads the checkpoint. The machine behind it is a hidden sandbox. */
#include "sandbox/warm.h"

#include <stdio.h>
#include <string.h>

#include "sandbox/checkpoint.h"
#include "sandbox/making.h"
#include "state/name.h"
#include "sys/fd.h"

/* Subjects: the image (so that warm-ups of one image queue, and its removal waits for them), the
 * checkpoint and the sandbox to be made. */
enum { IMAGE, CHECKPOINT, SANDBOX };

int sp_image_find(const struct sp_roots *r, const char *owner, const char *operand,
		  char id[static SP_ID_SIZE], struct sp_json **meta, struct sp_err *e)
{
	const char *kind;

	if (sp_any_find(r, owner, operand, id, e) < 0)
		return -1;
	if (sp_id_is_valid(id, SP_SANDBOX))
		return sp_fail(e, SP_CONFLICT, 0, "'%.100s' is a sandbox, not an image", operand);
	*meta = sp_checkpoint_load(r, id, e);
	if (!*meta)
		return -1;
	kind = sp_json_str(*meta, "kind");
	if (kind && strcmp(kind, "image") == 0)
		return 0;
	sp_json_free(meta);
	return sp_fail(e, SP_CONFLICT, 0, "'%.100s' is not an image: space-branch goes on from it",
		       operand);
}

int sp_image_shape(const struct sp_json *meta, const struct sp_json *request, struct sp_shape *out,
		   struct sp_err *e)
{
	int64_t disk = sp_json_i64(meta, "disk", 0);
	int64_t cpus = sp_json_i64(meta, "cpus", SP_DEFAULT_CPUS);

	cpus = sp_json_i64(request, "cpus", cpus);
	out->cpus = cpus > SP_MAX_CPUS ? SP_MAX_CPUS + 1 : (int)cpus;
	out->memory =
		sp_json_i64(request, "memory", sp_json_i64(meta, "memory", SP_DEFAULT_MEMORY));
	out->disk = sp_json_i64(request, "disk", disk);
	if (out->disk < disk)
		return sp_fail(e, SP_USAGE, 0, "disk: smaller than the image's %lldM",
			       (long long)(disk >> 20));
	return sp_shape_check(out, e);
}

static int plan(const struct sp_roots *r, const char *owner, const struct sp_json *request,
		struct sp_json *subjects, struct sp_err *e)
{
	sp_auto_json *meta = NULL;
	struct sp_shape shape;
	char id[SP_ID_SIZE];

	if (sp_image_find(r, owner, sp_json_str(request, "image"), id, &meta, e) < 0 ||
	    sp_image_shape(meta, request, &shape, e) < 0)
		return -1;
	sp_json_push_str(subjects, id);
	sp_id_make(SP_CHECKPOINT, id);
	sp_json_push_str(subjects, id);
	sp_id_make(SP_SANDBOX, id);
	sp_json_push_str(subjects, id);
	return 0;
}

/* One that this host would save like this itself: under KVM where KVM works. */
static int find_usable(const struct sp_roots *r, const char *image, const struct sp_shape *shape,
		       char id[static SP_ID_SIZE])
{
	sp_auto_json *meta = NULL;
	struct sp_machine m;
	struct sp_err e;
	char why[160];

	if (sp_warm_get(r, image, shape, id, &e) < 0)
		return 0;
	meta = sp_checkpoint_load(r, id, &e);
	if (!meta || sp_machine_get(meta, &m) < 0 || !sp_engine_find(m.engine))
		return 0;
	return (strcmp(m.accel, "kvm") == 0) == (sp_kvm_probe(why, sizeof why) == 1);
}

static int boot_and_save(struct sp_task *t, struct sp_making *m, struct sp_err *e)
{
	const char *sandbox = sp_task_subject(t, SANDBOX);
	struct sp_take take = { .sandbox = sandbox,
				.checkpoint = sp_task_subject(t, CHECKPOINT),
				.kind = "warm",
				.why = "image kept warm",
				.op = t->id,
				.then_quit = true };
	sp_auto_json *rec = NULL;
	struct sp_mon_answer answer;

	if (sp_child_build(m, m->child, e) < 0 || sp_task_phase(t, "start", e) < 0 ||
	    sp_child_start(m, m->child, e) < 0 || sp_child_settle(m, m->child, e) < 0 ||
	    sp_task_phase(t, "ready", e) < 0 || sp_child_await(m, m->child, e) < 0)
		return -1;
	rec = sp_sandbox_load(t->roots, sandbox, e);
	if (!rec || sp_task_phase(t, "checkpoint", e) < 0)
		return -1;
	return sp_checkpoint_take(t->roots, rec, &take, &answer, e);
}

/* The checkpoint is published: from here on everything can be done again by a repairer. */
static int link_and_clean(struct sp_task *t, const struct sp_shape *shape, struct sp_err *e)
{
	const char *image = sp_task_subject(t, IMAGE), *ckpt = sp_task_subject(t, CHECKPOINT);
	char old[SP_ID_SIZE] = "";
	struct sp_err none;

	if (sp_warm_get(t->roots, image, shape, old, &none) < 0)
		old[0] = '\0';
	if (sp_task_phase(t, "link", e) < 0 || sp_warm_set(t->roots, image, shape, ckpt, e) < 0 ||
	    sp_task_phase(t, "clean", e) < 0 ||
	    sp_sandbox_discard(t->roots, sp_task_subject(t, SANDBOX), e) < 0)
		return -1;
	sp_op_result(t->op, ckpt, NULL);
	if (old[0] && strcmp(old, ckpt) != 0)
		return sp_checkpoint_collect(t->roots, old, t->id, e);
	return 0;
}

static int act(struct sp_task *t, struct sp_err *e)
{
	sp_auto_json *meta = NULL;
	sp_auto_origin origin = { 0 };
	struct sp_child child = { .record = -1, .report = -1 };
	struct sp_making m = {
		.task = t, .origin = &origin, .hidden = true, .child = &child, .n = 1
	};
	struct sp_shape shape;
	struct sp_err none;
	char id[SP_ID_SIZE];
	int rc;

	if (sp_image_find(t->roots, t->owner, sp_task_subject(t, IMAGE), id, &meta, e) < 0 ||
	    sp_image_shape(meta, t->request, &shape, e) < 0)
		return -1;
	if (find_usable(t->roots, id, &shape, id)) {
		sp_op_result(t->op, id, NULL);
		return 0;
	}
	if (sp_task_phase(t, "build", e) < 0 ||
	    sp_origin_open(t->roots, sp_task_subject(t, IMAGE), true, &shape, &origin, e) < 0)
		return -1;
	snprintf(child.id, sizeof child.id, "%s", sp_task_subject(t, SANDBOX));
	rc = boot_and_save(t, &m, e);
	sp_fd_close(&child.record);
	sp_fd_close(&child.report);
	if (rc == 0)
		return link_and_clean(t, &shape, e);
	sp_sandbox_discard(t->roots, child.id, &none);
	return sp_wrap(e, "booting the image");
}

static int repair(struct sp_task *t, struct sp_err *e)
{
	const char *sandbox = sp_task_subject(t, SANDBOX);
	sp_auto_json *meta = NULL;
	struct sp_shape shape;
	char id[SP_ID_SIZE];
	int rc = sp_checkpoint_settle(t->roots, sandbox, sp_task_subject(t, CHECKPOINT), e);

	if (rc < 0)
		return -1;
	if (rc == 1 &&
	    sp_image_find(t->roots, t->owner, sp_task_subject(t, IMAGE), id, &meta, e) == 0 &&
	    sp_image_shape(meta, t->request, &shape, e) == 0)
		return link_and_clean(t, &shape, e);
	if (sp_sandbox_discard(t->roots, sandbox, e) < 0 ||
	    sp_checkpoint_collect(t->roots, sp_task_subject(t, CHECKPOINT), t->id, e) < 0)
		return -1;
	return sp_fail(e, SP_BUSY, 0, "interrupted while the image was booted; undone");
}

const struct sp_verb sp_verb_warm = { "warm", plan, act, repair };

int sp_warm_begin(const struct sp_roots *r, const char *owner, const char *image,
		  const struct sp_shape *shape, char op[static SP_ID_SIZE], struct sp_err *e)
{
	sp_auto_json *q = sp_json_new_object();

	sp_json_put_str(q, "image", image);
	sp_json_put_int(q, "cpus", shape->cpus);
	sp_json_put_i64(q, "memory", shape->memory);
	sp_json_put_i64(q, "disk", shape->disk);
	return sp_task_begin(r, owner, &sp_verb_warm, q, NULL, op, e);
}

int sp_warm_ensure(const struct sp_roots *r, const char *owner, const char *image,
		   const struct sp_shape *shape, char id[static SP_ID_SIZE], struct sp_err *e)
{
	for (int tries = 0; !find_usable(r, image, shape, id); tries++) {
		sp_auto_json *rec = NULL;
		char op[SP_ID_SIZE];

		if (tries == 2)
			return sp_fail(e, SP_BUSY, 0, "the image does not stay warm; try again");
		/* One that is under way for this shape comes first in the image's queue, and
		 * leaves ours nothing to do. */
		if (sp_warm_begin(r, owner, image, shape, op, e) < 0 ||
		    sp_task_wait(r, op, -1, &rec, e) < 0 || sp_task_verdict(rec, e) < 0)
			return -1;
	}
	return 0;
}
