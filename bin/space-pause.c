/* SPDX-License-Identifier: Apache-2.0 */
#include "api/lifecycle.h"

static const struct sp_opt opts[] = {
	SP_OPT_WAIT,
	SP_OPT_JSON,
	SP_OPT_REQUEST_ID,
};
static const struct sp_tool tool = {
	.name = "space-pause",
	.about = "Save sandboxes to disk, memory and all, and end their machines.",
	.operands = "SANDBOX...",
	.operand = SP_ARG_SANDBOX,
	.opts = opts,
	.nopts = SP_NELEM(opts),
};

static int run(int argc, char **argv, struct sp_err *e)
{
	sp_auto_json *request = sp_json_new_object();
	struct sp_lifecycle l = {
		.tool = &tool, .op = "pause", .operand = "ids", .request = request
	};
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	int key;

	while ((key = sp_opt_next(&st, &tool, e)) > 0)
		sp_lifecycle_option(&l, key, &st);
	return key < 0 ? -1 : sp_lifecycle_run(&l, argc - st.i, argv + st.i, e);
}

int main(int argc, char **argv)
{
	struct sp_err e;

	return sp_finish(&tool, run(argc, argv, &e), &e);
}
