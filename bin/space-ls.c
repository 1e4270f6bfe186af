/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/api.h"
#include "api/show.h"
#include "sys/proc.h"
#include "text/opt.h"

enum { O_TREE = 1, O_BYTES };

static const struct sp_opt opts[] = {
	{ O_TREE, 0, "tree", SP_NONE, NULL, "what came from what, with stored bytes" },
	{ O_BYTES, 0, "bytes", SP_NONE, NULL, "add columns: unique and shared bytes" },
	SP_OPT_JSON,
};
static const struct sp_tool tool = {
	.name = "space-ls",
	.about = "List sandboxes, snapshots, images or operations.",
	.operands = "[sandboxes|snapshots|images|ops] [ID...]",
	.operand = SP_ARG_ANY,
	.opts = opts,
	.nopts = SP_NELEM(opts),
};

static bool is_what(const char *s)
{
	return strcmp(s, "sandboxes") == 0 || strcmp(s, "snapshots") == 0 ||
	       strcmp(s, "images") == 0 || strcmp(s, "ops") == 0;
}

struct asked {
	struct sp_json *ids;
	bool tree, bytes, json;
};

static int take_id(const char *operand, void *arg, struct sp_err *e)
{
	struct asked *a = arg;

	(void)e;
	sp_json_push_str(a->ids, operand);
	return 0;
}

static int list(struct sp_json *request, const struct asked *a, struct sp_err *e)
{
	sp_auto_api *api = NULL;
	sp_auto_json *answer = NULL;
	struct sp_json *item;

	if (sp_api_open(&api, false, e) < 0)
		return e->code == SP_ABSENT && !sp_json_get(request, "ids") ? 0 : -1;
	if (sp_priv_keep(0, e) < 0 || sp_api_call(api, "ls", request, &answer, e) < 0)
		return -1;
	while ((item = sp_json_take_first(sp_json_get_mut(answer, "items")))) {
		if (a->json)
			sp_show_json(item);
		else
			sp_show_row(item, a->tree, a->bytes);
		sp_json_free(&item);
	}
	return 0;
}

static int run(int argc, char **argv, struct sp_err *e)
{
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	sp_auto_json *request = sp_json_new_object();
	sp_auto_json *ids = sp_json_new_array();
	struct asked a = { .ids = ids };
	int key, worst;

	while ((key = sp_opt_next(&st, &tool, e)) > 0) {
		a.tree = a.tree || key == O_TREE;
		a.bytes = a.bytes || key == O_TREE || key == O_BYTES;
		a.json = a.json || key == SP_O_JSON;
	}
	if (key < 0)
		return -1;
	sp_tool_set_json(a.json);
	if (st.i < argc && is_what(argv[st.i]))
		sp_json_put_str(request, "what", argv[st.i++]);
	worst = sp_each_operand(&tool, argc - st.i, argv + st.i, 0, take_id, &a);
	if (worst || (st.i < argc && !sp_json_len(ids)))
		return worst;
	if (sp_json_len(ids))
		sp_json_put(request, "ids", sp_take_ptr(&ids));
	sp_json_put_bool(request, "tree", a.tree);
	sp_json_put_bool(request, "bytes", a.bytes);
	return list(request, &a, e);
}

int main(int argc, char **argv)
{
	struct sp_err e;

	return sp_finish(&tool, run(argc, argv, &e), &e);
}
