/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the processes that space-exec began in a sandbox. */
#include <stdio.h>

#include "api/session.h"
#include "sys/clock.h"
#include "sys/proc.h"
#include "text/opt.h"
#include "text/table.h"

static const struct sp_opt opts[] = { SP_OPT_JSON };

static const struct sp_tool tool = { "space-ps", "List the processes begun in a sandbox.",
				     "SANDBOX",	 SP_ARG_SANDBOX,
				     opts,	 SP_NELEM(opts) };

static const char *state_name(const struct sp_guest_proc *p)
{
	if (p->how == SP_EXEC_FAILED)
		return "running";
	return p->how == SP_EXEC_SIGNALLED ? "signalled" : "exited";
}

static void print_row(const struct sp_guest_proc *p, void *arg)
{
	const char *cells[] = { p->id, NULL, state_name(p), NULL, NULL, NULL };
	sp_auto_str command = SP_STR_INIT;
	char pid[16], value[16], began[32];

	(void)arg;
	snprintf(pid, sizeof pid, "%u", p->pid);
	snprintf(value, sizeof value, "%d", p->value);
	sp_clock_format(p->began, began);
	for (size_t i = 0; i < sp_json_len(p->args); i++) {
		sp_str_add(&command, i ? " " : "");
		sp_str_add(&command, sp_json_value_str(sp_json_at(p->args, i)));
	}
	cells[1] = pid;
	cells[3] = p->how == SP_EXEC_FAILED ? NULL : value;
	cells[4] = began;
	cells[5] = command.p;
	sp_row_print(cells, SP_NELEM(cells));
}

static void print_json(const struct sp_guest_proc *p, void *arg)
{
	sp_auto_json *o = sp_json_new_object();
	sp_auto_str line = SP_STR_INIT;

	(void)arg;
	sp_json_put_str(o, "id", p->id);
	sp_json_put_int(o, "pid", (int)p->pid);
	sp_json_put_str(o, "state", state_name(p));
	if (p->how != SP_EXEC_FAILED)
		sp_json_put_int(o, p->how == SP_EXEC_SIGNALLED ? "signal" : "exit", p->value);
	sp_json_put_i64(o, "began", p->began);
	sp_json_put(o, "args", sp_json_copy(p->args));
	sp_json_print(o, &line);
	puts(line.p);
}

static int run(const char *sandbox, bool json, struct sp_err *e)
{
	sp_auto_api *api = NULL;
	sp_auto_guest *g = NULL;

	if (sp_api_open(&api, false, e) < 0)
		return -1;
	g = sp_guest_open(api, sandbox, e);
	if (!g || sp_priv_keep(sp_guest_caps(), e) < 0)
		return -1;
	return sp_guest_ps(g, json ? print_json : print_row, NULL, e);
}

int main(int argc, char **argv)
{
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	struct sp_err e = { 0 };
	bool json = false;
	int key, rc;

	while ((key = sp_opt_next(&st, &tool, &e)) > 0) {
		json = true;
		sp_tool_set_json(true);
	}
	if (key < 0)
		rc = -1;
	else if (argc - st.i != 1)
		rc = sp_fail(&e, SP_USAGE, 0, "needs one operand: %s", tool.operands);
	else
		rc = run(argv[st.i], json, &e);
	return sp_finish(&tool, rc, &e);
}
