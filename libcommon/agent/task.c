/* SPDX-License-Identifier: Apache-2.0 */
/* A task is what a session is about: a process, a worker of the agent's own, or a connection. Here
 * are its streams: an input with a window, outputs with a ring each. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/str.h"

#define READ_MOST 65536u
#define TTY_LEFT (128u * 1024) /* more than a terminal's own buffers hold */

static void on_input(struct sp_agent *a, struct sp_watch *w, uint32_t events);
static void on_output(struct sp_agent *a, struct sp_watch *w, uint32_t events);
static void on_errors(struct sp_agent *a, struct sp_watch *w, uint32_t events);

#define TASK_OF(w, member) ((struct sp_task *)((char *)(w)-offsetof(struct sp_task, member)))

struct sp_task *sp_task_new(enum sp_task_kind kind)
{
	struct sp_task *t = sp_xcalloc(1, sizeof *t);

	t->kind = kind;
	t->tty = -1;
	t->held = true;
	t->in.w = (struct sp_watch){ .fd = -1, .fn = on_input };
	t->ctl.fd = -1;
	sp_buf_init(&t->in.buf, SP_G_WINDOW);
	sp_buf_init(&t->args, 4096);
	sp_buf_init(&t->ctl_buf, 2 * (SP_G_HEADER + SP_G_PAYLOAD));
	t->out[0].w = (struct sp_watch){ .fd = -1, .fn = on_output };
	t->out[1].w = (struct sp_watch){ .fd = -1, .fn = on_errors };
	return t;
}

void sp_task_free(struct sp_agent *a, struct sp_task *t)
{
	sp_watch_close(a, &t->in.w);
	sp_watch_close(a, &t->ctl);
	for (int i = 0; i < 2; i++) {
		sp_watch_close(a, &t->out[i].w);
		sp_ring_free(&t->out[i].ring);
	}
	if (t->tty >= 0)
		close(t->tty);
	if (t->child)
		t->child->ended = NULL;
	sp_buf_free(&t->in.buf);
	sp_buf_free(&t->args);
	sp_buf_free(&t->ctl_buf);
	free(t);
}

/* Three pipes. Ours are kept in the task and do not block; the child's come in fds. */
int sp_task_pipes(struct sp_task *t, bool with_in, int fds[3])
{
	int *ours[3] = { &t->in.w.fd, &t->out[0].w.fd, &t->out[1].w.fd };

	fds[0] = fds[1] = fds[2] = -1;
	for (int i = with_in ? 0 : 1; i < 3; i++) {
		int p[2], mine = i == 0 ? 1 : 0;

		if (pipe2(p, O_CLOEXEC))
			return -1;
		*ours[i] = p[mine];
		fds[i] = p[!mine];
		fcntl(p[mine], F_SETFL, O_NONBLOCK);
	}
	return 0;
}

void sp_task_watch_fds(struct sp_agent *a, struct sp_task *t)
{
	t->in.gone = t->in.w.fd < 0;
	for (int i = 0; i < 2; i++) {
		if (t->out[i].w.fd < 0)
			t->out[i].ended = true;
		else
			sp_watch_set(a, &t->out[i].w, EPOLLIN);
	}
}

/* Input */

void sp_task_input_gone(struct sp_agent *a, struct sp_task *t)
{
	sp_watch_close(a, &t->in.w);
	sp_buf_free(&t->in.buf);
	t->in.gone = true;
}

/* The end of what the host sends: a pipe is closed, a socket half closed, a terminal told. */
static void input_end(struct sp_agent *a, struct sp_task *t)
{
	struct termios how;

	if (t->kind == SP_TASK_DIAL)
		shutdown(t->in.w.fd, SHUT_WR);
	else if (t->is_tty && tcgetattr(t->in.w.fd, &how) == 0 && (how.c_lflag & ICANON))
		sp_write_all(t->in.w.fd, &how.c_cc[VEOF], 1);
	sp_task_input_gone(a, t);
}

static void input_flush(struct sp_agent *a, struct sp_task *t)
{
	struct sp_input *in = &t->in;

	while (!in->gone && sp_buf_len(&in->buf)) {
		ssize_t n = write(in->w.fd, sp_buf_head(&in->buf), sp_buf_len(&in->buf));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			sp_task_input_gone(a, t); /* it reads no more, which is its right */
		else
			sp_buf_drop(&in->buf, (size_t)n);
	}
	if (!in->gone && in->eof && !sp_buf_len(&in->buf))
		input_end(a, t);
	sp_watch_set(a, &in->w, sp_buf_len(&in->buf) ? EPOLLOUT : 0);
}

void sp_task_input_data(struct sp_agent *a, struct sp_task *t, const unsigned char *data, size_t n)
{
	t->in.end += n;
	if (!t->in.gone)
		sp_buf_put(&t->in.buf, data, n);
	if (t->kind != SP_TASK_DIAL || t->connected)
		input_flush(a, t);
}

void sp_task_input_eof(struct sp_agent *a, struct sp_task *t)
{
	t->in.eof = true;
	if (t->kind != SP_TASK_DIAL || t->connected)
		input_flush(a, t);
}

static void on_input(struct sp_agent *a, struct sp_watch *w, uint32_t events)
{
	(void)events;
	input_flush(a, TASK_OF(w, in.w));
}

/* Output */

static void output_end(struct sp_agent *a, struct sp_output *o)
{
	sp_watch_close(a, &o->w);
	o->ended = true;
}

static void output_read(struct sp_agent *a, struct sp_task *t, struct sp_output *o)
{
	uint64_t keep = t->held ? o->acked : o->ring.end;
	size_t most = READ_MOST;
	ssize_t n;

	if (t->ended && o->left < most)
		most = (size_t)o->left;
	n = most ? sp_ring_read(&o->ring, o->w.fd, most, keep) : 0;
	if (n == -2) {
		sp_watch_set(a, &o->w, 0); /* until room is made */
		return;
	}
	if (n > 0 && t->ended)
		o->left -= (uint64_t)n;
	/* A terminal's master gives EIO when no slave is open: there is nothing more to come. */
	if (n == 0 || (n < 0 && (errno != EAGAIN || t->ended)))
		output_end(a, o);
}

static void on_output(struct sp_agent *a, struct sp_watch *w, uint32_t events)
{
	struct sp_task *t = TASK_OF(w, out[0].w);

	(void)events;
	output_read(a, t, &t->out[0]);
}

static void on_errors(struct sp_agent *a, struct sp_watch *w, uint32_t events)
{
	struct sp_task *t = TASK_OF(w, out[1].w);

	(void)events;
	output_read(a, t, &t->out[1]);
}

/* What an ended process left in its pipes is read now, as far as the ring goes; the rest as room
 * is made. Not more than was there at its end: what still holds the pipe open does not count. */
static void output_drain(struct sp_agent *a, struct sp_task *t, struct sp_output *o)
{
	uint64_t before;

	do {
		before = o->ring.end;
		output_read(a, t, o);
	} while (!o->ended && o->ring.end != before);
}

void sp_task_output_watch(struct sp_agent *a, struct sp_task *t)
{
	for (int i = 0; i < 2; i++) {
		struct sp_output *o = &t->out[i];

		if (o->ended)
			continue;
		if (t->ended)
			output_drain(a, t, o);
		else
			sp_watch_set(a, &o->w, EPOLLIN);
	}
}

void sp_task_drain(struct sp_agent *a, struct sp_task *t)
{
	if (t->tty >= 0) {
		close(t->tty);
		t->tty = -1;
	}
	sp_task_input_gone(a, t);
	for (int i = 0; i < 2; i++) {
		int n = 0;

		if (t->out[i].ended)
			continue;
		if (t->is_tty)
			t->out[i].left = TTY_LEFT;
		else if (ioctl(t->out[i].w.fd, FIONREAD, &n) == 0 && n > 0)
			t->out[i].left = (uint64_t)n;
		output_drain(a, t, &t->out[i]);
	}
}
