/* SPDX-License-Identifier: Apache-2.0 */
#include "api/lifecycle.h"
#include "sys/clock.h"

enum { O_TIMEOUT = 1 };

static const struct sp_opt opts[] = {
	{ O_TIMEOUT, 0, "timeout", SP_SPAN, "T", "give up after T (90s, 5m)" },
	SP_OPT_JSON,
};
static const struct sp_tool tool = {
	.name = "space-opwait",
	.about = "Wait for operations, and print what came out of them.",
	.operands = "[OP...]",
	.operand = SP_ARG_OP,
	.opts = opts,
	.nopts = SP_NELEM(opts),
};

struct waiting {
	struct sp_api *api;
	bool json;
	int64_t until; /* monotonic; 0: for ever */
	size_t n;
};

static int wait_one(const char *operand, void *arg, struct sp_err *e)
{
	struct waiting *w = arg;
	sp_auto_json *q = sp_json_new_object();
	sp_auto_json *answer = NULL;
	int64_t left;
	int rc;

	w->n++;
	sp_json_put_str(q, "id", operand);
	if (w->until) {
		left = (w->until - sp_clock_mono()) / 1000000;
		left = left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : left;
		sp_json_put_i64(q, "timeout_ms", left);
	}
	rc = sp_api_call(w->api, "opwait", q, &answer, e);
	if (answer)
		sp_lifecycle_print(&tool, answer, w->json);
	return rc;
}

static int run(int argc, char **argv, struct sp_err *e)
{
	static char stdin_operand[] = "-";
	char *from_stdin[] = { stdin_operand };
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	struct waiting w = { .until = 0 };
	sp_auto_api *api = NULL;
	int64_t span;
	int key, worst;

	while ((key = sp_opt_next(&st, &tool, e)) > 0) {
		if (key == SP_O_JSON) {
			w.json = true;
			sp_tool_set_json(true);
		} else if (sp_opt_span(&st, &span, e) < 0) {
			return -1;
		} else {
			w.until = sp_clock_mono() + span;
		}
	}
	if (key < 0 || sp_api_open(&api, false, e) < 0)
		return -1;
	w.api = api;
	if (st.i < argc)
		worst = sp_each_operand(&tool, argc - st.i, argv + st.i, 0, wait_one, &w);
	else
		worst = sp_each_operand(&tool, 1, from_stdin, 0, wait_one, &w);
	if (!w.n && !worst)
		return sp_fail(e, SP_USAGE, 0, "nothing to wait for");
	return worst;
}

int main(int argc, char **argv)
{
	struct sp_err e;

	return sp_finish(&tool, run(argc, argv, &e), &e);
}
