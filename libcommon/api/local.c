/* SPDX-License-Identifier: Apache-2.0 */
/* The operations, carried out on this host. */
#include <string.h>

#include "api/table.h"
#include "sandbox/list.h"
#include "sandbox/task.h"
#include "state/op.h"

/* Of a final record, what callers are told. */
static struct sp_json *answer_of(const struct sp_json *rec)
{
	static const char *const keys[] = { "state", "results", "phases", "error" };
	struct sp_json *o = sp_json_new_object();

	sp_json_put_str(o, "op", sp_json_str(rec, "id"));
	for (size_t i = 0; i < SP_NELEM(keys); i++) {
		const struct sp_json *v = sp_json_get(rec, keys[i]);

		if (v)
			sp_json_put(o, keys[i], sp_json_copy(v));
	}
	return o;
}

int sp_local_lifecycle(struct sp_api *a, const char *kind, const struct sp_json *request,
		       struct sp_json **answer, struct sp_err *e)
{
	sp_auto_json *asked = sp_json_copy(request);
	sp_auto_json *rec = NULL;
	char op[SP_ID_SIZE];

	/* How it was asked for is no part of what was asked for. */
	sp_json_del(asked, "wait");
	sp_json_del(asked, "request_id");
	if (sp_task_begin(&a->roots, a->owner, sp_verb_find(kind), asked,
			  sp_json_str(request, "request_id"), op, e) < 0)
		return -1;
	if (!sp_json_bool(request, "wait", false)) {
		*answer = sp_json_new_object();
		sp_json_put_str(*answer, "op", op);
		return 0;
	}
	if (sp_task_wait(&a->roots, op, -1, &rec, e) < 0)
		return -1;
	*answer = answer_of(rec);
	return sp_task_verdict(rec, e);
}

int sp_local_ls(struct sp_api *a, const struct sp_json *request, struct sp_json **answer,
		struct sp_err *e)
{
	struct sp_list how = { .what = sp_json_str(request, "what"),
			       .ids = sp_json_get(request, "ids"),
			       .tree = sp_json_bool(request, "tree", false),
			       .bytes = sp_json_bool(request, "bytes", false) };
	struct sp_json *items = sp_list(&a->roots, a->owner, &how, e);

	if (!items)
		return -1;
	*answer = sp_json_new_object();
	sp_json_put(*answer, "items", items);
	return 0;
}

static struct sp_json *load_op(struct sp_api *a, const struct sp_json *request, struct sp_err *e)
{
	const char *id = sp_json_str(request, "id");
	struct sp_json *rec = NULL;

	if (sp_id_is_valid(id, SP_OPERATION))
		rec = sp_op_load(&a->roots, id, e);
	else
		e->code = SP_ABSENT;
	if ((rec && strcmp(a->owner, SP_OWNER_LOCAL) != 0 &&
	     strcmp(a->owner, sp_json_str(rec, "owner") ? sp_json_str(rec, "owner") : "") != 0) ||
	    (!rec && e->code == SP_ABSENT)) {
		sp_json_free(&rec);
		sp_fail(e, SP_ABSENT, 0, "no such operation");
	}
	return rec;
}

int sp_local_op(struct sp_api *a, const struct sp_json *request, struct sp_json **answer,
		struct sp_err *e)
{
	*answer = load_op(a, request, e);
	return *answer ? 0 : -1;
}

int sp_local_opwait(struct sp_api *a, const struct sp_json *request, struct sp_json **answer,
		    struct sp_err *e)
{
	int64_t ms = sp_json_i64(request, "timeout_ms", -1);
	sp_auto_json *now = load_op(a, request, e);
	sp_auto_json *rec = NULL;

	if (!now || sp_task_wait(&a->roots, sp_json_str(request, "id"), (int)ms, &rec, e) < 0)
		return -1;
	*answer = answer_of(rec);
	return sp_task_verdict(rec, e);
}
