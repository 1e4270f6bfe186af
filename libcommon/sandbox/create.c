/* SPDX-License-Identifier: Apache-2.0 */
/* create: sandboxes from an image, by loading the warm checkpoint of the shape asked for. */
#include <stdlib.h>
#include <string.h>

#include "sandbox/making.h"
#include "sandbox/task.h"
#include "sandbox/warm.h"
#include "state/op.h"

static int printed_size(const struct sp_json *v, size_t max, const char *what, struct sp_err *e)
{
	sp_auto_str text = SP_STR_INIT;

	if (v)
		sp_json_print(v, &text);
	if (text.len > max)
		return sp_fail(e, SP_USAGE, 0, "%s: more than %zu bytes", what, max);
	return 0;
}

/* Subjects: the sandboxes to be made. The image is not one, or creates from it would queue. */
static int plan(const struct sp_roots *r, const char *owner, const struct sp_json *q,
		struct sp_json *subjects, struct sp_err *e)
{
	sp_auto_json *meta = NULL;
	struct sp_machine machine;
	struct sp_shape shape;
	char id[SP_ID_SIZE];

	if (sp_image_find(r, owner, sp_json_str(q, "image"), id, &meta, e) < 0 ||
	    sp_image_shape(meta, q, &shape, e) < 0 ||
	    printed_size(sp_json_get(q, "env"), SP_MAX_ENV, "env", e) < 0 ||
	    printed_size(sp_json_get(q, "meta"), SP_MAX_META, "meta", e) < 0)
		return -1;
	if (sp_json_bool(q, "require_kvm", false) && sp_engine_qemu.probe(true, &machine, e) < 0)
		return -1;
	return sp_children_plan(r, owner, sp_json_str(q, "name"), sp_json_i64(q, "n", 1), subjects,
				e);
}

static int act(struct sp_task *t, struct sp_err *e)
{
	const struct sp_json *q = t->request;
	sp_auto_free struct sp_child *children = NULL;
	sp_auto_json *meta = NULL;
	sp_auto_origin origin = { 0 };
	struct sp_making m = { .task = t,
			       .origin = &origin,
			       .env = sp_json_get(q, "env"),
			       .meta = sp_json_get(q, "meta") };
	struct sp_shape shape;
	char id[SP_ID_SIZE];

	if (sp_task_phase(t, "image", e) < 0 ||
	    sp_image_find(t->roots, t->owner, sp_json_str(q, "image"), id, &meta, e) < 0 ||
	    sp_image_shape(meta, q, &shape, e) < 0 ||
	    sp_warm_ensure(t->roots, t->owner, id, &shape, id, e) < 0 ||
	    sp_origin_open(t->roots, id, false, NULL, &origin, e) < 0)
		return -1;
	children = sp_children_new(t, 0, sp_json_str(q, "name"), &m.n);
	m.child = children;
	return sp_making_run(&m, e);
}

static int repair(struct sp_task *t, struct sp_err *e)
{
	if (sp_children_discard(t, 0, e) < 0)
		return -1;
	return sp_fail(e, SP_BUSY, 0, "interrupted; undone");
}

const struct sp_verb sp_verb_create = { "create", plan, act, repair };
