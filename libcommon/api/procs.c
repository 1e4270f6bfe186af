/* SPDX-License-Identifier: Apache-2.0 */
/* Listing and signalling processes that space-exec began. */
#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "api/conn.h"
#include "api/guest.h"

static int ask(struct sp_guest *g, struct sp_conn *c, enum sp_g_type type,
	       const struct sp_fields *f, struct sp_err *e)
{
	int fd = sp_guest_connect(g, e);

	sp_conn_init(c, fd);
	return fd < 0 ? -1 : sp_conn_ask(c, type, f, e);
}

/* The guest's word for it, and so checked: an id that is none is not shown as one. */
static void take_entry(struct sp_guest_proc *out, const unsigned char *p, uint32_t len)
{
	int status = (int)sp_fields_num(p, len, SP_T_STATUS, 0);
	const unsigned char *arg;
	uint32_t pos = 0, n;
	uint8_t tag;

	*out = (struct sp_guest_proc){ .args = sp_json_new_array() };
	if (sp_fields_text(p, len, SP_T_PROC, out->id, sizeof out->id) < 0 ||
	    !sp_id_is_valid(out->id, SP_PROCESS))
		out->id[0] = '\0';
	out->pid = (uint32_t)sp_fields_num(p, len, SP_T_PID, 0);
	out->began = (int64_t)sp_fields_num(p, len, SP_T_TIME, 0);
	if (sp_fields_num(p, len, SP_T_STATE, 0) == 'x') {
		out->how = WIFSIGNALED(status) ? SP_EXEC_SIGNALLED : SP_EXEC_EXITED;
		out->value = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
	}
	while (sp_fields_next(p, len, &pos, &tag, &arg, &n) == 1) {
		sp_auto_str text = SP_STR_INIT;

		if (tag != SP_T_ARG)
			continue;
		sp_str_addn(&text, arg, n);
		sp_json_push_str(out->args, text.p);
	}
}

int sp_guest_ps(struct sp_guest *g, void (*fn)(const struct sp_guest_proc *p, void *arg), void *arg,
		struct sp_err *e)
{
	unsigned char mem[1];
	struct sp_fields f;
	struct sp_conn c;
	struct sp_g_header h = { 0 };
	const unsigned char *p;
	unsigned seen = 0;
	int rc;

	sp_fields_begin(&f, mem, sizeof mem);
	rc = ask(g, &c, SP_G_PS, &f, e);
	while (rc == 0 && (rc = sp_conn_wait(&c, SP_CONN_PATIENCE, &h, &p, e)) == 1) {
		struct sp_guest_proc one;

		if (h.type == SP_G_END)
			break;
		if (h.type != SP_G_ENTRY || sp_fields_check(p, h.len) < 0 || ++seen > SP_G_PROCS) {
			rc = sp_fail(e, SP_FAIL, 0, "the guest agent's answer is not a list");
			break;
		}
		take_entry(&one, p, h.len);
		if (one.id[0])
			fn(&one, arg);
		sp_json_free(&one.args);
		rc = 0;
	}
	sp_conn_close(&c);
	return rc < 0 ? -1 : 0;
}

int sp_guest_kill(struct sp_guest *g, const char *proc, int sig, struct sp_err *e)
{
	unsigned char mem[64];
	struct sp_fields f;
	struct sp_conn c;
	struct sp_g_header h = { 0 };
	const unsigned char *p;
	int rc;

	if (!sp_id_is_valid(proc, SP_PROCESS))
		return sp_fail(e, SP_ABSENT, 0, "no such process");
	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_str(&f, SP_T_PROC, proc);
	sp_fields_add_u32(&f, SP_T_SIGNAL, (uint32_t)sig);
	rc = ask(g, &c, SP_G_KILL, &f, e);
	if (rc == 0)
		rc = sp_conn_wait(&c, SP_CONN_PATIENCE, &h, &p, e);
	if (rc == 1 && h.type != SP_G_END)
		rc = sp_fail(e, SP_FAIL, 0, "the guest agent's answer makes no sense");
	sp_conn_close(&c);
	return rc < 0 ? -1 : 0;
}

int sp_signal_parse(const char *text)
{
	const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
	char *end;
	long n;

	if (isdigit((unsigned char)*text)) {
		n = strtol(text, &end, 10);
		return *end || n < 1 || n > 64 ? -1 : (int)n;
	}
	for (int sig = 1; sig < NSIG; sig++) {
		const char *abbrev = sigabbrev_np(sig);

		if (abbrev && strcasecmp(abbrev, name) == 0)
			return sig;
	}
	return -1;
}
