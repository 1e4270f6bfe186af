/* SPDX-License-Identifier: Apache-2.0 */
#include "api/lifecycle.h"

enum { O_CASCADE = 1 };

static const struct sp_opt opts[] = {
	SP_OPT_WAIT,
	{ O_CASCADE, 0, "cascade", SP_NONE, NULL, "remove the sandboxes that need it too" },
	SP_OPT_JSON,
	SP_OPT_REQUEST_ID,
};
static const struct sp_tool tool = {
	.name = "space-rm",
	.about = "Remove sandboxes, snapshots and images.",
	.operands = "ID...",
	.operand = SP_ARG_ANY,
	.opts = opts,
	.nopts = SP_NELEM(opts),
};

static int run(int argc, char **argv, struct sp_err *e)
{
	sp_auto_json *request = sp_json_new_object();
	struct sp_lifecycle l = { .tool = &tool, .op = "rm", .operand = "ids", .request = request };
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	int key;

	while ((key = sp_opt_next(&st, &tool, e)) > 0)
		if (!sp_lifecycle_option(&l, key, &st))
			sp_json_put_bool(request, "cascade", true);
	return key < 0 ? -1 : sp_lifecycle_run(&l, argc - st.i, argv + st.i, e);
}

int main(int argc, char **argv)
{
	struct sp_err e;

	return sp_finish(&tool, run(argc, argv, &e), &e);
}
