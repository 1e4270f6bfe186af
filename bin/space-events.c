/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/stream.h"
#include "sys/proc.h"
#include "text/opt.h"

enum { O_FOLLOW = 1, O_SINCE };

static const struct sp_opt opts[] = {
	{ O_FOLLOW, 'f', "follow", SP_NONE, NULL, "go on with what comes" },
	{ O_SINCE, 0, "since", SP_TEXT, "SEQ", "begin after this event (its \"seq\")" },
	SP_OPT_JSON,
};
static const struct sp_tool tool = {
	.name = "space-events",
	.about = "Print what happened, as JSON lines.",
	.operands = "",
	.opts = opts,
	.nopts = SP_NELEM(opts),
};

static int print_line(const char *line, size_t n, void *arg)
{
	(void)arg;
	fwrite(line, 1, n, stdout);
	putchar('\n');
	return fflush(stdout) == 0 ? 0 : 1; /* the reader is gone */
}

static int run(int argc, char **argv, struct sp_err *e)
{
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	const char *since = NULL;
	bool follow = false;
	sp_auto_api *api = NULL;
	int key;

	while ((key = sp_opt_next(&st, &tool, e)) > 0) {
		if (key == O_FOLLOW)
			follow = true;
		else if (key == O_SINCE)
			since = st.value;
		else
			sp_tool_set_json(true);
	}
	if (key < 0)
		return -1;
	if (st.i < argc)
		return sp_fail(e, SP_USAGE, 0, "takes no operands");
	if (sp_api_open(&api, false, e) < 0 || sp_priv_keep(0, e) < 0)
		return -1;
	return sp_api_events(api, since, follow, print_line, NULL, e) < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
	struct sp_err e;

	return sp_finish(&tool, run(argc, argv, &e), &e);
}
