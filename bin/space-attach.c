/* SPDX-License-Identifier: Apache-2.0 */
/* Attaches to a process that space-exec began: its output, its input if asked, its exit status. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/session.h"
#include "sys/proc.h"
#include "text/opt.h"

enum { O_INPUT = 1, O_TTY, O_FROM_NOW };

static const struct sp_opt opts[] = {
	{ O_INPUT, 'i', "input", SP_NONE, NULL, "give it our standard input" },
	{ O_TTY, 't', "tty", SP_NONE, NULL, "it has a terminal: make ours raw" },
	{ O_FROM_NOW, 0, "from-now", SP_NONE, NULL, "pass over the output that is kept" },
	SP_OPT_JSON,
};

static const struct sp_tool tool = { "space-attach",	"Attach to a process in a sandbox.",
				     "SANDBOX PROCESS", SP_ARG_SANDBOX,
				     opts,		SP_NELEM(opts) };

static int parse(int argc, char **argv, struct sp_exec *x, const char **sandbox, struct sp_err *e)
{
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	int key;

	while ((key = sp_opt_next(&st, &tool, e)) > 0) {
		x->input |= key == O_INPUT;
		x->tty |= key == O_TTY;
		x->from_now |= key == O_FROM_NOW;
		if (key == SP_O_JSON)
			sp_tool_set_json(true);
	}
	if (key < 0)
		return -1;
	if (argc - st.i != 2)
		return sp_fail(e, SP_USAGE, 0, "needs two operands: %s", tool.operands);
	*sandbox = argv[st.i];
	if (!sp_id_is_valid(argv[st.i + 1], SP_PROCESS))
		return sp_fail(e, SP_ABSENT, 0, "no process '%s'", argv[st.i + 1]);
	memcpy(x->proc, argv[st.i + 1], SP_ID_SIZE);
	return 0;
}

static void say_lost(void *arg)
{
	(void)arg;
	if (isatty(2))
		fprintf(stderr, "%s: the sandbox does not run; waiting for it\n", tool.name);
}

static int run(const char *sandbox, const struct sp_exec *x, struct sp_exec_end *end,
	       struct sp_err *e)
{
	sp_auto_api *api = NULL;
	sp_auto_guest *g = NULL;

	if (sp_api_open(&api, false, e) < 0)
		return -1;
	g = sp_guest_open(api, sandbox, e);
	if (!g || sp_priv_keep(sp_guest_caps(), e) < 0)
		return -1;
	return sp_exec_run(g, x, end, e);
}

int main(int argc, char **argv)
{
	struct sp_exec x = { .attach = true, .lost = say_lost };
	struct sp_exec_end end = { .how = SP_EXEC_FAILED };
	const char *sandbox = NULL;
	struct sp_err e = { 0 };
	int rc = parse(argc, argv, &x, &sandbox, &e);

	if (rc == 0)
		rc = run(sandbox, &x, &end, &e);
	if (rc < 0)
		sp_tool_complain(&tool, &e);
	return sp_exec_code(rc, &end);
}
