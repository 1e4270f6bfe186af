/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command in a sandbox and gives its output and its exit status. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/session.h"
#include "sys/proc.h"
#include "text/opt.h"

enum { O_INPUT = 1, O_TTY, O_DETACH, O_USER, O_CWD, O_ENV, O_STATUS };

static const struct sp_opt opts[] = {
	{ O_INPUT, 'i', "input", SP_NONE, NULL, "give it our standard input" },
	{ O_TTY, 't', "tty", SP_NONE, NULL, "give it a terminal" },
	{ O_DETACH, 'd', "detach", SP_NONE, NULL, "begin it, print its process id" },
	{ O_USER, 'u', "user", SP_TEXT, "U", "run as this user (name, uid, U:GROUP)" },
	{ O_CWD, 'C', "cwd", SP_TEXT, "DIR", "run in this folder of the guest" },
	{ O_ENV, 'e', "env", SP_TEXT, "K=V", "set a variable; may be repeated" },
	{ O_STATUS, 0, "status-fd", SP_NUMBER, "N", "write how it ended to descriptor N" },
	SP_OPT_JSON,
};

static const struct sp_tool tool = { "space-exec",	"Run a command in a sandbox.",
				     "SANDBOX [CMD [ARG...]]", SP_ARG_SANDBOX,
				     opts,		SP_NELEM(opts) };

/* Our own failures have one exit code, since every other one may be the guest's. */
#define OWN_FAILURE 125

struct args {
	struct sp_exec exec;
	const char *sandbox;
	int64_t status_fd; /* -1: none */
	bool json;
};

static int take(const struct sp_opt_state *st, int key, struct args *a, const char **env,
		struct sp_err *e)
{
	switch (key) {
	case O_INPUT:
		a->exec.input = true;
		return 0;
	case O_TTY:
		a->exec.tty = true;
		return 0;
	case O_DETACH:
		a->exec.detach = true;
		return 0;
	case O_USER:
		a->exec.user = st->value;
		return 0;
	case O_CWD:
		a->exec.cwd = st->value;
		return 0;
	case O_ENV:
		env[a->exec.nenv++] = st->value;
		return sp_opt_env(st->value, e);
	case O_STATUS:
		return sp_opt_number(st, 0, 1 << 20, &a->status_fd, e);
	default:
		a->json = true;
		sp_tool_set_json(true);
		return 0;
	}
}

static int parse(int argc, char **argv, struct args *a, const char **env, struct sp_err *e)
{
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	int key;

	while ((key = sp_opt_next(&st, &tool, e)) > 0)
		if (take(&st, key, a, env, e) < 0)
			return -1;
	if (key < 0)
		return -1;
	if (st.i >= argc)
		return sp_fail(e, SP_USAGE, 0, "which sandbox: %s", tool.operands);
	a->sandbox = argv[st.i];
	a->exec.argv = (const char *const *)(argv + st.i + 1);
	a->exec.argc = (size_t)(argc - st.i - 1);
	a->exec.env = env;
	if (a->status_fd >= 0 && fcntl((int)a->status_fd, F_GETFD) < 0) {
		int fd = (int)a->status_fd;

		a->status_fd = -1;
		return sp_fail(e, SP_USAGE, 0, "descriptor %d of --status-fd is not open", fd);
	}
	return 0;
}

static void say_lost(void *arg)
{
	(void)arg;
	if (isatty(2))
		fprintf(stderr, "%s: the sandbox does not run; waiting for it\n", tool.name);
}

static int run(const struct args *a, struct sp_exec_end *end, struct sp_err *e)
{
	sp_auto_api *api = NULL;
	sp_auto_guest *g = NULL;

	if (sp_api_open(&api, false, e) < 0)
		return -1;
	g = sp_guest_open(api, a->sandbox, e);
	if (!g || sp_priv_keep(sp_guest_caps(), e) < 0)
		return -1;
	if (sp_exec_run(g, &a->exec, end, e) < 0)
		return -1;
	if (a->exec.detach)
		printf(a->json ? "{\"process\":\"%s\"}\n" : "%s\n", end->proc);
	return 0;
}

int main(int argc, char **argv)
{
	const char **env = sp_xcalloc((size_t)argc + 1, sizeof *env);
	struct args a = { .status_fd = -1, .exec.lost = say_lost };
	struct sp_exec_end end = { .how = SP_EXEC_FAILED };
	struct sp_err e = { 0 }, told;
	int rc = parse(argc, argv, &a, env, &e), code;

	if (rc == 0)
		rc = run(&a, &end, &e);
	if (rc < 0)
		sp_tool_complain(&tool, &e);
	code = sp_exec_code(rc, &end);
	if (a.status_fd >= 0 && sp_exec_tell((int)a.status_fd, rc, &end, &e, &told) < 0) {
		sp_tool_complain(&tool, &told);
		code = OWN_FAILURE;
	}
	free(env);
	rc = a.exec.detach ? sp_finish(&tool, 0, &e) : 0;
	return rc ? OWN_FAILURE : code;
}
