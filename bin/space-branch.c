/* SPDX-License-Identifier: Apache-2.0 */
#include "api/lifecycle.h"

enum { O_N = 1, O_NAME };

static const struct sp_opt opts[] = {
	SP_OPT_WAIT,
	{ O_N, 'n', "number", SP_NUMBER, "N", "how many sandboxes to make (1)" },
	{ O_NAME, 0, "name", SP_TEXT, "NAME", "its name; of several: NAME-1, NAME-2, ..." },
	SP_OPT_JSON,
	SP_OPT_REQUEST_ID,
};
static const struct sp_tool tool = {
	.name = "space-branch",
	.about = "Make sandboxes that go on from a sandbox, a snapshot or an image.",
	.operands = "SOURCE...",
	.operand = SP_ARG_ANY,
	.opts = opts,
	.nopts = SP_NELEM(opts),
};

static int run(int argc, char **argv, struct sp_err *e)
{
	sp_auto_json *request = sp_json_new_object();
	struct sp_lifecycle l = {
		.tool = &tool, .op = "branch", .operand = "source", .request = request
	};
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	int64_t n;
	int key;

	while ((key = sp_opt_next(&st, &tool, e)) > 0) {
		if (sp_lifecycle_option(&l, key, &st))
			continue;
		if (key == O_NAME)
			sp_json_put_str(request, "name", st.value);
		else if (sp_opt_number(&st, 1, 256, &n, e) < 0)
			return -1;
		else
			sp_json_put_i64(request, "n", n);
	}
	return key < 0 ? -1 : sp_lifecycle_run(&l, argc - st.i, argv + st.i, e);
}

int main(int argc, char **argv)
{
	struct sp_err e;

	return sp_finish(&tool, run(argc, argv, &e), &e);
}
