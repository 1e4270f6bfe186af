/* SPDX-License-Identifier: Apache-2.0 */
/* The table of processes, and what sessions do with them. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"

#define OLD_OUTPUT (16u * 1024 * 1024) /* kept of ended processes, all together */

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

static struct sp_task *find(struct sp_agent *a, const char *id)
{
	for (unsigned i = 0; i < a->nprocs; i++)
		if (id[0] && strcmp(a->procs[i]->id, id) == 0)
			return a->procs[i];
	return NULL;
}

static void forget(struct sp_agent *a, struct sp_task *t)
{
	unsigned i = 0;

	while (a->procs[i] != t)
		i++;
	a->nprocs--;
	memmove(a->procs + i, a->procs + i + 1, (a->nprocs - i) * sizeof a->procs[0]);
	sp_task_free(a, t);
}

static bool make_place(struct sp_agent *a)
{
	if (a->nprocs < SP_G_PROCS)
		return true;
	for (unsigned i = 0; i < a->nprocs; i++) {
		if (a->procs[i]->ended && !a->procs[i]->session) {
			forget(a, a->procs[i]);
			return true;
		}
	}
	return false;
}

/* The outputs of ended processes nobody attached to: the oldest go first. */
static void trim(struct sp_agent *a)
{
	uint64_t kept = 0;

	for (unsigned i = a->nprocs; i-- > 0;) {
		struct sp_task *t = a->procs[i];

		if (!t->ended || t->session || t->held)
			continue;
		for (int s = 0; s < 2; s++) {
			kept += t->out[s].ring.end - t->out[s].ring.base;
			if (kept > OLD_OUTPUT)
				sp_ring_free(&t->out[s].ring);
		}
	}
}

static void on_ended(struct sp_agent *a, void *owner, int status)
{
	struct sp_task *t = owner;

	t->child = NULL;
	t->ended = true;
	t->status = status;
	sp_task_drain(a, t);
	if (!t->session && !t->id[0])
		forget(a, t);
	else
		trim(a);
}

void sp_proc_let_go(struct sp_agent *a, struct sp_task *t, bool exit_sent)
{
	if (t->ended && (exit_sent || !t->id[0])) {
		forget(a, t);
		return;
	}
	t->held = false;
	sp_task_output_watch(a, t);
	trim(a);
}

void sp_proc_is_branch(struct sp_agent *a)
{
	for (unsigned i = 0; i < a->nprocs; i++) {
		a->procs[i]->held = false;
		sp_task_output_watch(a, a->procs[i]);
	}
}

/* Begin */

static int open_tty(struct sp_task *t, const unsigned char *p, uint32_t len, bool with_in,
		    int fds[3])
{
	struct winsize size = {
		.ws_row = (unsigned short)sp_fields_num(p, len, SP_T_ROWS, 24),
		.ws_col = (unsigned short)sp_fields_num(p, len, SP_T_COLS, 80),
	};
	int unlock = 0;

	t->is_tty = true;
	t->out[0].w.fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (t->out[0].w.fd < 0 || ioctl(t->out[0].w.fd, TIOCSPTLCK, &unlock))
		return -1;
	t->tty = ioctl(t->out[0].w.fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (t->tty < 0)
		return -1;
	ioctl(t->tty, TIOCSWINSZ, &size);
	if (with_in)
		t->in.w.fd = fcntl(t->out[0].w.fd, F_DUPFD_CLOEXEC, 3);
	fds[0] = fds[1] = fds[2] = t->tty;
	return 0;
}

static void keep_args(struct sp_task *t, const unsigned char *p, uint32_t len)
{
	const unsigned char *data;
	uint32_t pos = 0, n;
	uint8_t tag;

	while (sp_fields_next(p, len, &pos, &tag, &data, &n) == 1)
		if (tag == SP_T_ARG && !sp_buf_put(&t->args, data - 5, n + 5))
			break; /* a very long line is told in part */
}

static int64_t wall_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int begin(struct sp_agent *a, struct sp_task *t, const unsigned char *p, uint32_t len)
{
	bool tty = sp_fields_num(p, len, SP_T_TTY, 0) != 0;
	bool with_in = sp_fields_num(p, len, SP_T_STDIN, 0) != 0;
	int fds[3] = { -1, -1, -1 };
	int rc = tty ? open_tty(t, p, len, with_in, fds) : sp_task_pipes(t, with_in, fds);

	for (int i = 0; rc == 0 && i < 2; i++) {
		t->out[i].used = true;
		if (t->out[i].w.fd >= 0)
			rc = sp_ring_init(&t->out[i].ring);
	}
	if (rc == 0) {
		t->pid = sp_child_fork(a, on_ended, t, &t->child);
		if (t->pid == 0)
			sp_spawn_exec(p, len, fds, tty);
		rc = t->pid < 0 ? -1 : 0;
	}
	for (int i = 0; !tty && i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (rc)
		return -1;
	t->began = wall_clock();
	keep_args(t, p, len);
	sp_task_watch_fds(a, t);
	return 0;
}

static bool id_is_plain(const char *id)
{
	return id[strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789")] == '\0';
}

void sp_proc_exec(struct sp_agent *a, uint32_t chan, const unsigned char *p, uint32_t len)
{
	const unsigned char *d;
	struct sp_session *s;
	char id[SP_AGENT_ID];
	struct sp_task *t;
	uint32_t n;

	if ((sp_fields_text(p, len, SP_T_PROC, id, sizeof id) < 0 &&
	     sp_fields_find(p, len, SP_T_PROC, &d, &n)) ||
	    !id_is_plain(id) || !sp_fields_find(p, len, SP_T_ARG, &d, &n)) {
		sp_channel_error(a, chan, SP_USAGE, "no program, or no valid process id");
		return;
	}
	if (find(a, id)) {
		sp_channel_error(a, chan, SP_CONFLICT, "process '%s' exists", id);
		return;
	}
	if (!make_place(a)) {
		sp_channel_error(a, chan, SP_BUSY, "too many processes begun in the guest");
		return;
	}
	t = sp_task_new(SP_TASK_PROC);
	memcpy(t->id, id, sizeof t->id);
	if (begin(a, t, p, len)) {
		sp_channel_error(a, chan, SP_FAIL, "cannot begin a process: %s", strerror(errno));
		sp_task_free(a, t);
		return;
	}
	a->procs[a->nprocs++] = t;
	s = sp_session_new(a, chan, t);
	sp_session_opened(a, s);
	if (sp_fields_num(p, len, SP_T_DETACH, 0)) {
		sp_channel_send(a, chan, SP_G_END, NULL);
		sp_session_end(a, s);
		sp_proc_let_go(a, t, false);
	}
}

/* Later */

static struct sp_task *named(struct sp_agent *a, uint32_t chan, const unsigned char *p,
			     uint32_t len)
{
	char id[SP_AGENT_ID];
	struct sp_task *t = NULL;

	if (sp_fields_text(p, len, SP_T_PROC, id, sizeof id) == 0 && id_is_plain(id))
		t = find(a, id);
	if (!t)
		sp_channel_error(a, chan, SP_ABSENT, "no process '%s'", id_is_plain(id) ? id : "");
	return t;
}

static uint64_t clamp(uint64_t off, const struct sp_ring *r)
{
	return off > r->end ? r->end : off < r->base ? r->base : off;
}

/* The client that attached last has the process; one before it is told so. Input that waits to be
 * read is forgotten: it was not acknowledged, and is sent again from OFF_IN. */
void sp_proc_attach(struct sp_agent *a, uint32_t chan, const unsigned char *p, uint32_t len)
{
	static const enum sp_g_tag tags[2] = { SP_T_OFF_OUT, SP_T_OFF_ERR };
	struct sp_task *t = named(a, chan, p, len);

	if (!t)
		return;
	if (t->session) {
		sp_channel_error(a, t->session->chan, SP_CONFLICT, "attached from elsewhere");
		sp_session_end(a, t->session);
	}
	t->held = true;
	if (!t->in.gone) {
		t->in.end -= sp_buf_len(&t->in.buf);
		t->in.eof = false;
		sp_buf_drop(&t->in.buf, sp_buf_len(&t->in.buf));
		sp_watch_set(a, &t->in.w, 0);
	}
	t->in.acked = t->in.end;
	for (int i = 0; i < 2; i++) {
		struct sp_output *o = &t->out[i];

		o->sent = o->acked = clamp(sp_fields_num(p, len, tags[i], 0), &o->ring);
		o->eof_sent = false;
	}
	sp_session_opened(a, sp_session_new(a, chan, t));
	sp_task_output_watch(a, t);
}

static int signal_group(const struct sp_task *t, pid_t group, int signal)
{
	if (t->ended || kill(-group, signal) == 0)
		return 0;
	/* Just forked, it leads no group yet. */
	return errno == ESRCH ? kill(t->pid, signal) : -1;
}

void sp_proc_signal(struct sp_agent *a, struct sp_task *t, int signal)
{
	pid_t group = t->pid, front = 0;

	(void)a;
	if (signal < 1 || signal >= NSIG)
		return;
	if (t->is_tty && ioctl(t->out[0].w.fd, TIOCGPGRP, &front) == 0 && front > 1)
		group = front;
	signal_group(t, group, signal);
}

void sp_proc_resize(struct sp_task *t, const unsigned char *p, uint32_t len)
{
	struct winsize size = {
		.ws_row = (unsigned short)sp_fields_num(p, len, SP_T_ROWS, 24),
		.ws_col = (unsigned short)sp_fields_num(p, len, SP_T_COLS, 80),
	};

	if (t->out[0].w.fd >= 0)
		ioctl(t->out[0].w.fd, TIOCSWINSZ, &size);
}

void sp_proc_kill(struct sp_agent *a, uint32_t chan, const unsigned char *p, uint32_t len)
{
	struct sp_task *t = named(a, chan, p, len);
	uint64_t signal = sp_fields_num(p, len, SP_T_SIGNAL, SIGTERM);

	if (!t)
		return;
	if (signal >= NSIG)
		sp_channel_error(a, chan, SP_USAGE, "no signal %llu", (unsigned long long)signal);
	else if (signal_group(t, t->pid, (int)signal) < 0)
		sp_channel_error(a, chan, sp_code_of_errno(errno), "cannot signal '%s': %s", t->id,
				 strerror(errno));
	else
		sp_channel_send(a, chan, SP_G_END, NULL);
}

void sp_proc_kill_all(struct sp_agent *a)
{
	for (unsigned i = 0; i < a->nprocs; i++)
		signal_group(a->procs[i], a->procs[i]->pid, SIGKILL);
}

/* One process as an ENTRY; returns where to go on, or 0 after the last. */
unsigned sp_proc_entry(const struct sp_agent *a, unsigned at, struct sp_fields *f)
{
	const unsigned char *data;
	const struct sp_task *t;
	uint32_t pos = 0, n;
	uint8_t tag;

	if (at >= a->nprocs)
		return 0;
	t = a->procs[at];
	sp_fields_add_str(f, SP_T_PROC, t->id);
	sp_fields_add_u32(f, SP_T_PID, (uint32_t)t->pid);
	sp_fields_add_u8(f, SP_T_STATE, t->ended ? 'x' : 'r');
	if (t->ended)
		sp_fields_add_u32(f, SP_T_STATUS, (uint32_t)t->status);
	sp_fields_add_u64(f, SP_T_TIME, (uint64_t)t->began);
	while (sp_fields_next(sp_buf_head(&t->args), (uint32_t)sp_buf_len(&t->args), &pos, &tag,
			      &data, &n) == 1)
		sp_fields_add(f, SP_T_ARG, data, n);
	return at + 1;
}
