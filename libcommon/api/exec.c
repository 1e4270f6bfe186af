/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "api/pump.h"
#include "sys/fd.h"
#include "sys/tty.h"

#define OWN_FAILURE 125

/* Variables in the order in which they win: later ones replace earlier ones of the same name. */
struct vars {
	const char **v;
	size_t n;
};

static void set_var(struct vars *vars, const char *kv)
{
	size_t key = strcspn(kv, "=") + 1;

	for (size_t i = 0; i < vars->n; i++) {
		if (strncmp(vars->v[i], kv, key) == 0) {
			vars->v[i] = kv;
			return;
		}
	}
	vars->v[vars->n++] = kv;
}

static void set_vars(struct vars *vars, const struct sp_json *array)
{
	for (size_t i = 0; i < sp_json_len(array); i++) {
		const char *kv = sp_json_value_str(sp_json_at(array, i));

		if (kv && strchr(kv, '='))
			set_var(vars, kv);
	}
}

static const struct sp_json *config_of(const struct sp_guest *g, const char *key)
{
	const struct sp_json *config = sp_json_get(g->record, "config");

	return config ? sp_json_get(config, key) : NULL;
}

static const char *config_text(const struct sp_guest *g, const char *key)
{
	const struct sp_json *v = config_of(g, key);
	const char *s = v ? sp_json_value_str(v) : NULL;

	return s && *s ? s : NULL;
}

static void add_vars(struct sp_fields *f, const struct sp_guest *g, const struct sp_exec *x)
{
	const struct sp_json *image = config_of(g, "env"), *own = sp_json_get(g->record, "env");
	size_t most = (image ? sp_json_len(image) : 0) + (own ? sp_json_len(own) : 0) + x->nenv;
	sp_auto_free const char **mem = sp_xcalloc(most + 1, sizeof *mem);
	sp_auto_free char *term = NULL;
	struct vars vars = { .v = mem };

	if (x->tty && getenv("TERM")) {
		term = sp_xasprintf("TERM=%s", getenv("TERM"));
		set_var(&vars, term);
	}
	if (image)
		set_vars(&vars, image);
	if (own)
		set_vars(&vars, own);
	for (size_t i = 0; i < x->nenv; i++)
		set_var(&vars, x->env[i]);
	for (size_t i = 0; i < vars.n; i++)
		sp_fields_add_str(f, SP_T_ENV, vars.v[i]);
}

/* No command: the image's entrypoint, then its cmd. */
static size_t add_default_args(struct sp_fields *f, const struct sp_guest *g)
{
	static const char *const keys[] = { "entrypoint", "cmd" };
	size_t n = 0;

	for (size_t k = 0; k < SP_NELEM(keys); k++) {
		const struct sp_json *a = config_of(g, keys[k]);

		for (size_t i = 0; a && i < sp_json_len(a); i++, n++)
			sp_fields_add_str(f, SP_T_ARG, sp_json_value_str(sp_json_at(a, i)));
	}
	return n;
}

static int build(struct sp_fields *f, const struct sp_guest *g, const struct sp_exec *x,
		 const char *proc, struct sp_err *e)
{
	uint32_t rows, cols;

	for (size_t i = 0; i < x->argc; i++)
		sp_fields_add_str(f, SP_T_ARG, x->argv[i]);
	if (!x->argc && !add_default_args(f, g))
		return sp_fail(e, SP_USAGE, 0, "no command, and the image has none of its own");
	add_vars(f, g, x);
	sp_fields_add_str(f, SP_T_USER, x->user ? x->user : config_text(g, "user"));
	sp_fields_add_str(f, SP_T_CWD, x->cwd ? x->cwd : config_text(g, "workdir"));
	sp_fields_add_str(f, SP_T_PROC, proc);
	sp_fields_add_u8(f, SP_T_TTY, x->tty);
	sp_fields_add_u8(f, SP_T_DETACH, x->detach);
	sp_fields_add_u8(f, SP_T_STDIN, x->input);
	if (x->tty && sp_tty_size(&rows, &cols)) {
		sp_fields_add_u32(f, SP_T_ROWS, rows);
		sp_fields_add_u32(f, SP_T_COLS, cols);
	}
	if (sp_fields_end(f) < 0)
		return sp_fail(e, SP_USAGE, 0, "command and variables are longer than %u bytes",
			       SP_G_PAYLOAD);
	return 0;
}

static void take_end(struct sp_exec_end *end, uint32_t status)
{
	int ws = (int)status;

	if (WIFSIGNALED(ws))
		*end = (struct sp_exec_end){ .how = SP_EXEC_SIGNALLED, .value = WTERMSIG(ws) };
	else
		*end = (struct sp_exec_end){ .how = SP_EXEC_EXITED, .value = WEXITSTATUS(ws) };
}

/* A write that failed for another reason than that the reader left is told; the process has ended
 * all the same. */
static int check_outputs(const struct sp_pump *p, struct sp_err *e)
{
	for (int i = 0; i < 2; i++) {
		if (p->out[i].sys && p->out[i].sys != EPIPE && p->out[i].sys != ECONNRESET)
			return sp_fail(e, SP_FAIL, p->out[i].sys, "write standard %s",
				       i ? "error" : "output");
	}
	return 0;
}

/* From here on signals are the process's; those that our caller had us ignore (nohup) stay so. */
static int block_signals(sigset_t *old, struct sp_err *e)
{
	static const int ours[] = { SIGINT,  SIGTERM, SIGHUP,	SIGQUIT,
				    SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT };
	struct sigaction sa;
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < SP_NELEM(ours); i++)
		if (sigaction(ours[i], NULL, &sa) == 0 && sa.sa_handler != SIG_IGN)
			sigaddset(&set, ours[i]);
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_BLOCK, &set, old);
	fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return fd < 0 ? sp_fail(e, SP_FAIL, errno, "signalfd") : fd;
}

static int run(struct sp_pump *p, int fd, struct sp_exec_end *end, struct sp_err *e)
{
	sigset_t old;
	int rc;

	p->signals = block_signals(&old, e);
	rc = p->signals < 0 ? -1 : sp_pump_open(p, fd, e);
	if (rc == 0)
		rc = sp_pump_run(p, e);
	sp_tty_restore();
	if (rc == 0 && p->done)
		*end = (struct sp_exec_end){ .how = SP_EXEC_DETACHED };
	else if (rc == 0)
		take_end(end, p->status);
	if (rc == 0)
		rc = check_outputs(p, e);
	sp_conn_close(&p->conn); /* tells the guest that we have the end of it */
	sp_fd_close(&p->signals);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return rc;
}

int sp_exec_run(struct sp_guest *g, const struct sp_exec *x, struct sp_exec_end *end,
		struct sp_err *e)
{
	sp_auto_free unsigned char *mem = sp_xmalloc(SP_G_PAYLOAD + 1);
	char proc[SP_ID_SIZE];
	struct sp_fields request;
	struct sp_pump p = { .g = g, .x = x, .request = &request, .proc = proc, .signals = -1 };
	int fd, rc;

	*end = (struct sp_exec_end){ .how = SP_EXEC_FAILED };
	memcpy(proc, x->proc, sizeof proc);
	if (!proc[0])
		sp_id_make(SP_PROCESS, proc);
	p.attach = x->attach;
	sp_fields_begin(&request, mem, SP_G_PAYLOAD + 1);
	if (!x->attach && build(&request, g, x, proc, e) < 0)
		return -1;
	fd = sp_guest_connect(g, e);
	if (fd < 0)
		return -1;
	p.in_started = !x->attach; /* a new process's begins at 0 */
	sp_conn_init(&p.conn, -1);
	sp_buf_init(&p.keep, SP_G_WINDOW);
	sp_sink_init(&p.out[0], 1);
	sp_sink_init(&p.out[1], 2);
	rc = run(&p, fd, end, e);
	memcpy(end->proc, proc, sizeof proc);
	sp_sink_free(&p.out[0]);
	sp_sink_free(&p.out[1]);
	sp_buf_free(&p.keep);
	return rc;
}

int sp_exec_code(int rc, const struct sp_exec_end *end)
{
	if (rc < 0 || end->how == SP_EXEC_FAILED)
		return OWN_FAILURE;
	if (end->how == SP_EXEC_SIGNALLED)
		return 128 + end->value;
	return end->how == SP_EXEC_EXITED ? end->value : 0;
}

int sp_exec_tell(int fd, int rc, const struct sp_exec_end *end, const struct sp_err *failed,
		 struct sp_err *e)
{
	sp_auto_json *o = sp_json_new_object();
	sp_auto_str line = SP_STR_INIT;
	struct sp_json *err;

	if (rc < 0) {
		err = sp_json_put_object(o, "error");
		sp_json_put_str(err, "code", sp_code_name((int)failed->code));
		sp_json_put_int(err, "exit", (int)failed->code);
		sp_json_put_str(err, "message", failed->msg);
	} else if (end->how == SP_EXEC_DETACHED) {
		sp_json_put_str(o, "detached", end->proc);
	} else {
		sp_json_put_int(o, end->how == SP_EXEC_SIGNALLED ? "signalled" : "exited",
				end->value);
	}
	sp_json_print(o, &line);
	sp_str_addc(&line, '\n');
	if (sp_fd_write(fd, line.p, line.len) < 0)
		return sp_fail(e, SP_FAIL, errno, "write the status to descriptor %d", fd);
	return 0;
}
