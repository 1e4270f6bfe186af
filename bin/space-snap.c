/* SPDX-License-Identifier: Apache-2.0 */
#include "api/lifecycle.h"

enum { O_FILES = 1, O_NAME };

static const struct sp_opt opts[] = {
	SP_OPT_WAIT,
	{ O_FILES, 0, "files", SP_NONE, NULL,
	  "the disk only, its file systems frozen for the instant" },
	{ O_NAME, 0, "name", SP_TEXT, "NAME", "a name for the snapshot" },
	SP_OPT_JSON,
	SP_OPT_REQUEST_ID,
};
static const struct sp_tool tool = {
	.name = "space-snap",
	.about = "Take a snapshot of a sandbox while it runs.",
	.operands = "SANDBOX...",
	.operand = SP_ARG_SANDBOX,
	.opts = opts,
	.nopts = SP_NELEM(opts),
};

static int run(int argc, char **argv, struct sp_err *e)
{
	sp_auto_json *request = sp_json_new_object();
	struct sp_lifecycle l = {
		.tool = &tool, .op = "snap", .operand = "sandbox", .request = request
	};
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	int key;

	while ((key = sp_opt_next(&st, &tool, e)) > 0) {
		if (sp_lifecycle_option(&l, key, &st))
			continue;
		if (key == O_FILES)
			sp_json_put_bool(request, "files", true);
		else
			sp_json_put_str(request, "name", st.value);
	}
	return key < 0 ? -1 : sp_lifecycle_run(&l, argc - st.i, argv + st.i, e);
}

int main(int argc, char **argv)
{
	struct sp_err e;

	return sp_finish(&tool, run(argc, argv, &e), &e);
}
