/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/doctor.h"
#include "text/opt.h"
#include "text/table.h"

static const struct sp_opt opts[] = { SP_OPT_JSON };
static const struct sp_tool tool = {
	.name = "space-doctor",
	.about = "Say what this host has and lacks for running sandboxes.",
	.operands = "",
	.opts = opts,
	.nopts = SP_NELEM(opts),
};

static void print_check(const struct sp_json *c)
{
	const char *cells[] = { sp_json_str(c, "level"), sp_json_str(c, "name"),
				sp_json_str(c, "text"), sp_json_str(c, "help") };

	sp_row_print(cells, SP_NELEM(cells));
}

static int run(int argc, char **argv, struct sp_err *e)
{
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	sp_auto_json *answer = NULL;
	sp_auto_str line = SP_STR_INIT;
	const struct sp_json *checks;
	bool json = false;
	int key, rc = 0;

	while ((key = sp_opt_next(&st, &tool, e)) > 0)
		json = true;
	if (key < 0)
		return -1;
	sp_tool_set_json(json);
	if (st.i < argc)
		return sp_fail(e, SP_USAGE, 0, "takes no operands");
	if (sp_api_doctor(&answer, e) < 0)
		return -1;
	checks = sp_json_get(answer, "checks");
	for (size_t i = 0; i < sp_json_len(checks); i++) {
		if (!sp_json_bool(sp_json_at(checks, i), "ok", false))
			rc = SP_HOST;
		if (!json)
			print_check(sp_json_at(checks, i));
	}
	if (json) {
		sp_json_print(answer, &line);
		puts(line.p);
	}
	return rc;
}

int main(int argc, char **argv)
{
	struct sp_err e;

	return sp_finish(&tool, run(argc, argv, &e), &e);
}
