/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: what the host asks, and what its tasks have to say, in turn. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/str.h"

#define DATA_MOST (SP_G_PAYLOAD - 8)

static struct sp_session *find(struct sp_agent *a, uint32_t chan)
{
	for (unsigned i = 0; i < SP_AGENT_SESSIONS; i++)
		if (a->sessions[i] && a->sessions[i]->chan == chan)
			return a->sessions[i];
	return NULL;
}

/* A free place; one whose EXIT was sent and whose CLOSE never came is given up for it. */
static unsigned free_place(struct sp_agent *a)
{
	unsigned said = SP_AGENT_SESSIONS;

	for (unsigned i = 0; i < SP_AGENT_SESSIONS; i++) {
		if (!a->sessions[i])
			return i;
		if (a->sessions[i]->exit_sent)
			said = i;
	}
	return said;
}

/* What is not a process has no life without its session. */
static void task_stop(struct sp_agent *a, struct sp_task *t)
{
	if (t->child)
		kill(t->pid, SIGTERM); /* before its pipes close: an end of input means done */
	sp_task_free(a, t);
}

static void give_up(struct sp_agent *a, struct sp_session *s)
{
	struct sp_task *t = s->task;
	bool said = s->exit_sent;

	sp_session_end(a, s);
	if (t->kind == SP_TASK_PROC)
		sp_proc_let_go(a, t, said);
	else
		task_stop(a, t);
}

struct sp_session *sp_session_new(struct sp_agent *a, uint32_t chan, struct sp_task *t)
{
	struct sp_session *s = sp_xcalloc(1, sizeof *s);
	unsigned at = free_place(a);

	if (a->sessions[at])
		give_up(a, a->sessions[at]);
	*s = (struct sp_session){ .chan = chan, .task = t };
	a->sessions[at] = s;
	t->session = s;
	return s;
}

void sp_session_end(struct sp_agent *a, struct sp_session *s)
{
	for (unsigned i = 0; i < SP_AGENT_SESSIONS; i++)
		if (a->sessions[i] == s)
			a->sessions[i] = NULL;
	s->task->session = NULL;
	free(s);
}

void sp_session_drop_all(struct sp_agent *a)
{
	for (unsigned i = 0; i < SP_AGENT_SESSIONS; i++) {
		struct sp_session *s = a->sessions[i];

		if (!s)
			continue;
		if (s->task->kind == SP_TASK_PROC && s->task->id[0])
			sp_session_end(a, s); /* still held: its client may come back */
		else
			give_up(a, s);
	}
}

void sp_session_opened(struct sp_agent *a, struct sp_session *s)
{
	const struct sp_task *t = s->task;
	unsigned char mem[128];
	struct sp_fields f;

	sp_fields_begin(&f, mem, sizeof mem);
	if (t->kind == SP_TASK_PROC) {
		sp_fields_add_str(&f, SP_T_PROC, t->id[0] ? t->id : NULL);
		sp_fields_add_u32(&f, SP_T_PID, (uint32_t)t->pid);
		sp_fields_add_u64(&f, SP_T_OFF_IN, t->in.end);
	}
	sp_channel_send(a, s->chan, SP_G_OPENED, &f);
	s->opened = true;
}

/* From the host */

static void fault(struct sp_agent *a, struct sp_session *s, const char *why)
{
	sp_channel_error(a, s->chan, SP_USAGE, "%s", why);
	give_up(a, s);
}

static void open_session(struct sp_agent *a, const struct sp_g_header *h, const unsigned char *p)
{
	if (!a->ready)
		sp_channel_error(a, h->chan, SP_BUSY, "the guest is not ready");
	else if (sp_fields_check(p, h->len) < 0)
		sp_channel_error(a, h->chan, SP_USAGE, "the request is not well formed");
	else if (free_place(a) == SP_AGENT_SESSIONS)
		sp_channel_error(a, h->chan, SP_BUSY, "too many sessions in the guest");
	else if (h->type == SP_G_EXEC)
		sp_proc_exec(a, h->chan, p, h->len);
	else if (h->type == SP_G_ATTACH)
		sp_proc_attach(a, h->chan, p, h->len);
	else if (h->type == SP_G_KILL)
		sp_proc_kill(a, h->chan, p, h->len);
	else if (h->type == SP_G_DIAL)
		sp_dial_open(a, h->chan, p, h->len);
	else if (h->type > SP_G_DIAL)
		sp_channel_error(a, h->chan, SP_USAGE, "this guest agent knows no such request");
	else
		sp_worker_start(a, h->chan, h, p);
}

static const char *take_input(struct sp_agent *a, struct sp_task *t, const struct sp_g_header *h,
			      const unsigned char *p)
{
	uint64_t off;

	if (h->stream || sp_frame_get_u64(p, h->len, &off) < 0)
		return "not input";
	if (off != t->in.end || (t->in.eof && h->type == SP_G_DATA))
		return "input at the wrong offset";
	if (h->type == SP_G_EOF)
		sp_task_input_eof(a, t);
	else if (!t->in.gone && sp_buf_space(&t->in.buf) < h->len - 8)
		return "input beyond the window";
	else
		sp_task_input_data(a, t, p + 8, h->len - 8);
	return NULL;
}

static const char *take_ack(struct sp_agent *a, struct sp_task *t, const struct sp_g_header *h,
			    const unsigned char *p)
{
	struct sp_output *o;
	uint64_t off;

	if (h->stream < 1 || h->stream > 2 || sp_frame_get_u64(p, h->len, &off) < 0)
		return "not an acknowledgement";
	o = &t->out[h->stream - 1];
	if (off > o->sent)
		return "an acknowledgement of what was not sent";
	if (off > o->acked) {
		o->acked = off;
		sp_task_output_watch(a, t);
	}
	return NULL;
}

static void within(struct sp_agent *a, struct sp_session *s, const struct sp_g_header *h,
		   const unsigned char *p)
{
	struct sp_task *t = s->task;
	const char *why = NULL;

	switch (h->type) {
	case SP_G_DATA:
	case SP_G_EOF:
		why = take_input(a, t, h, p);
		break;
	case SP_G_ACK:
		why = take_ack(a, t, h, p);
		break;
	case SP_G_SIGNAL:
		if (t->kind == SP_TASK_PROC && sp_fields_check(p, h->len) == 0)
			sp_proc_signal(a, t, (int)sp_fields_num(p, h->len, SP_T_SIGNAL, 0));
		break;
	case SP_G_RESIZE:
		if (t->is_tty && sp_fields_check(p, h->len) == 0)
			sp_proc_resize(t, p, h->len);
		break;
	case SP_G_CLOSE:
	case SP_G_ERROR:
		give_up(a, s);
		break;
	default:
		why = "not a frame of a session";
	}
	if (why)
		fault(a, s, why);
}

void sp_session_frame(struct sp_agent *a, const struct sp_g_header *h, const unsigned char *p)
{
	struct sp_session *s = find(a, h->chan);

	if (h->type >= SP_G_EXEC && h->type < SP_G_OPENED) {
		if (s)
			fault(a, s, "the session is open already");
		else
			open_session(a, h, p);
	} else if (s) {
		within(a, s, h, p);
	} /* else: late, for one that is over */
}

/* To the host */

static bool pump_ack(struct sp_agent *a, struct sp_session *s)
{
	struct sp_input *in = &s->task->in;
	uint64_t done = in->end - sp_buf_len(&in->buf);

	if (done <= in->acked || !sp_frame_put_u64(&a->ch.out, s->chan, SP_G_ACK, 0, done))
		return false;
	in->acked = done;
	return true;
}

static bool pump_output(struct sp_agent *a, struct sp_session *s, unsigned i)
{
	struct sp_output *o = &s->task->out[i];
	const unsigned char *data;
	uint64_t most;
	size_t n;

	if (o->sent < o->ring.base)
		o->sent = o->acked = o->ring.base; /* the oldest are gone: a gap */
	most = o->acked + SP_G_WINDOW - o->sent;
	if (o->sent == o->ring.end || !most)
		return false;
	data = sp_ring_at(&o->ring, o->sent, &n);
	n = n < most ? n : (size_t)most;
	n = n < DATA_MOST ? n : DATA_MOST;
	if (!sp_frame_put_data(&a->ch.out, s->chan, (uint8_t)(i + 1), o->sent, data, (uint32_t)n))
		return false;
	o->sent += n;
	return true;
}

static bool output_is_sent(const struct sp_output *o)
{
	return o->ended && o->sent == o->ring.end;
}

static bool pump_eof(struct sp_agent *a, struct sp_session *s, unsigned i)
{
	struct sp_output *o = &s->task->out[i];

	if (!o->used || o->eof_sent || !output_is_sent(o))
		return false;
	o->eof_sent =
		sp_frame_put_u64(&a->ch.out, s->chan, SP_G_EOF, (uint8_t)(i + 1), o->ring.end);
	return o->eof_sent;
}

static bool pump_proc(struct sp_agent *a, struct sp_session *s)
{
	struct sp_task *t = s->task;
	unsigned char mem[16];
	struct sp_fields f;
	bool moved = pump_eof(a, s, 0);

	moved |= pump_eof(a, s, 1);
	if (!t->ended || s->exit_sent || !t->out[0].eof_sent || !t->out[1].eof_sent)
		return moved;
	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u32(&f, SP_T_STATUS, (uint32_t)t->status);
	sp_channel_send(a, s->chan, SP_G_EXIT, &f);
	s->exit_sent = true;
	return true;
}

static void finish(struct sp_agent *a, struct sp_session *s)
{
	struct sp_task *t = s->task;

	sp_session_end(a, s);
	sp_task_free(a, t);
}

static bool pump_dial(struct sp_agent *a, struct sp_session *s)
{
	bool moved = s->task->connected && pump_eof(a, s, 0);

	if (!s->task->out[0].eof_sent || !s->task->in.gone)
		return moved;
	sp_channel_send(a, s->chan, SP_G_END, NULL);
	finish(a, s);
	return true;
}

/* Answers of a worker go on as they are; its last word waits for the stream, and an EOF for the
 * good one: so a file that broke off never looks whole. */
static bool pump_worker(struct sp_agent *a, struct sp_session *s)
{
	struct sp_task *t = s->task;
	const unsigned char *p = NULL;
	struct sp_g_header h;
	bool last;

	if (sp_frame_peek(&t->ctl_buf, &h, &p) != 1) {
		if (t->ctl.fd >= 0)
			return false;
		sp_channel_error(a, s->chan, SP_FAIL, "the guest agent's worker was killed");
		finish(a, s);
		return true;
	}
	last = h.type == SP_G_END || h.type == SP_G_ERROR;
	if (last && t->out[0].used && !output_is_sent(&t->out[0]))
		return false;
	if (h.type == SP_G_END)
		pump_eof(a, s, 0);
	sp_frame_put(&a->ch.out, s->chan, (enum sp_g_type)h.type, 0, p, h.len);
	sp_buf_drop(&t->ctl_buf, SP_G_HEADER + (size_t)h.len);
	sp_watch_set(a, &t->ctl, EPOLLIN);
	if (last)
		finish(a, s);
	else if (h.type == SP_G_OPENED)
		s->opened = true;
	return true;
}

static bool pump(struct sp_agent *a, struct sp_session *s)
{
	struct sp_task *t = s->task;
	bool moved = pump_ack(a, s);

	if (s->opened) {
		moved |= pump_output(a, s, 0);
		moved |= pump_output(a, s, 1);
	}
	if (t->kind == SP_TASK_PROC)
		moved |= pump_proc(a, s);
	else if (t->kind == SP_TASK_DIAL)
		moved |= pump_dial(a, s);
	else
		moved |= pump_worker(a, s);
	return moved;
}

void sp_session_pump(struct sp_agent *a)
{
	bool moved = true;

	while (moved) {
		moved = false;
		for (unsigned i = 0; i < SP_AGENT_SESSIONS; i++) {
			struct sp_session *s = a->sessions[(a->turn + i) % SP_AGENT_SESSIONS];

			if (!sp_channel_has_room(a)) {
				a->turn = (a->turn + i) % SP_AGENT_SESSIONS;
				return;
			}
			if (s)
				moved |= pump(a, s);
		}
	}
}
