/* SPDX-License-Identifier: Apache-2.0 */
/* Signals processes that space-exec began in a sandbox. */
#include <signal.h>
#include <stdio.h>

#include "api/session.h"
#include "sys/proc.h"
#include "text/opt.h"

enum { O_SIGNAL = 1 };

static const struct sp_opt opts[] = {
	{ O_SIGNAL, 's', "signal", SP_TEXT, "SIG", "a name or a number; TERM without it" },
	SP_OPT_JSON,
};

static const struct sp_tool tool = { "space-kill",	   "Signal processes in a sandbox.",
				     "SANDBOX PROCESS...", SP_ARG_SANDBOX,
				     opts,		   SP_NELEM(opts) };

struct job {
	struct sp_guest *g;
	int sig;
};

static int one(const char *proc, void *arg, struct sp_err *e)
{
	const struct job *j = arg;

	if (sp_guest_kill(j->g, proc, j->sig, e) < 0)
		return -1;
	puts(proc);
	return 0;
}

static int run(int sig, int argc, char **argv, struct sp_err *e)
{
	sp_auto_api *api = NULL;
	sp_auto_guest *g = NULL;
	struct job j = { .sig = sig };

	if (argc < 1)
		return sp_fail(e, SP_USAGE, 0, "which sandbox: %s", tool.operands);
	if (sp_api_open(&api, false, e) < 0)
		return -1;
	g = sp_guest_open(api, argv[0], e);
	if (!g || sp_priv_keep(sp_guest_caps(), e) < 0)
		return -1;
	j.g = g;
	return sp_each_operand(&tool, argc - 1, argv + 1, 1, one, &j);
}

int main(int argc, char **argv)
{
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	struct sp_err e = { 0 };
	int key, rc = 0, sig = SIGTERM;

	while (rc == 0 && (key = sp_opt_next(&st, &tool, &e)) != 0) {
		if (key < 0)
			rc = -1;
		else if (key == SP_O_JSON)
			sp_tool_set_json(true);
		else if ((sig = sp_signal_parse(st.value)) < 0)
			rc = sp_fail(&e, SP_USAGE, 0, "no signal '%s'", st.value);
	}
	if (rc == 0)
		rc = run(sig, argc - st.i, argv + st.i, &e);
	return sp_finish(&tool, rc, &e);
}
