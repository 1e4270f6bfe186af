/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pump.h"

#include <errno.h>
#include <poll.h>

#include "sys/clock.h"
#include "sys/tty.h"

#define TRIES 100 /* connections in a row that end before they answer */

static int ask_attach(struct sp_pump *p, struct sp_err *e)
{
	bool from_end = p->x->from_now && !p->begun;
	unsigned char mem[128];
	struct sp_fields f;

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_str(&f, SP_T_PROC, p->proc);
	for (int i = 0; i < 2; i++) {
		/* What was not written yet is asked for again: it still is in the guest, and so
		 * pauses without end cannot pile it up here. */
		sp_sink_rewind(&p->out[i]);
		sp_fields_add_u64(&f, i ? SP_T_OFF_ERR : SP_T_OFF_OUT,
				  from_end ? UINT64_MAX : p->out[i].next);
	}
	return sp_conn_ask(&p->conn, SP_G_ATTACH, &f, e);
}

int sp_pump_open(struct sp_pump *p, int fd, struct sp_err *e)
{
	sp_conn_close(&p->conn);
	sp_conn_init(&p->conn, fd);
	p->phase = SP_PUMP_OPENING;
	p->deadline = sp_clock_mono() + (int64_t)SP_CONN_PATIENCE * 1000000;
	if (++p->tries > TRIES)
		return sp_fail(e, SP_FAIL, 0, "the guest channel ends before it answers");
	return p->attach ? ask_attach(p, e) : sp_conn_ask(&p->conn, SP_G_EXEC, p->request, e);
}

static int try_again(struct sp_pump *p, struct sp_err *e)
{
	int fd, r = sp_guest_reconnect(p->g, &fd, e);

	return r <= 0 ? r : sp_pump_open(p, fd, e);
}

/* Our terminal is a usual one while nothing runs at its other end, so that ^C ends us. */
int sp_pump_lost(struct sp_pump *p, struct sp_err *e)
{
	sp_tty_restore();
	sp_conn_close(&p->conn);
	/* A cut between our request and its answer: the process may have been begun. */
	if (p->phase == SP_PUMP_OPENING)
		p->attach = true;
	p->phase = SP_PUMP_WAITING;
	if (p->x->lost)
		p->x->lost(p->x->lost_arg);
	return try_again(p, e);
}

/* A silent agent: for as long as something is done to the sandbox that is no wonder. */
static int check_patience(struct sp_pump *p, struct sp_err *e)
{
	int busy;

	if (p->phase != SP_PUMP_OPENING || sp_clock_mono() < p->deadline)
		return 0;
	busy = sp_guest_is_busy(p->g, e);
	if (busy == 0)
		return sp_fail(e, SP_BUSY, 0, "the guest agent does not answer");
	p->deadline = sp_clock_mono() + (int64_t)SP_CONN_PATIENCE * 1000000;
	return busy < 0 ? -1 : 0;
}

static int wait_ms(const struct sp_pump *p)
{
	int64_t left = (p->deadline - sp_clock_mono()) / 1000000 + 1;

	if (p->phase != SP_PUMP_OPENING)
		return -1;
	return left < 0 ? 0 : (int)left;
}

enum { W_SIGNALS, W_GUEST, W_INPUT, W_OUT, W_ERR, W_ALL };

static void prepare(struct sp_pump *p, struct pollfd w[static W_ALL])
{
	bool wants = p->phase == SP_PUMP_RUNNING && p->x->input && !p->in_eof &&
		     sp_buf_space(&p->keep);

	w[W_SIGNALS] = (struct pollfd){ .fd = p->signals, .events = POLLIN };
	w[W_GUEST] = (struct pollfd){ .fd = p->conn.fd, .events = POLLIN };
	if (sp_buf_len(&p->conn.out))
		w[W_GUEST].events |= POLLOUT;
	if (p->phase == SP_PUMP_WAITING)
		w[W_GUEST].fd = p->g->watch;
	if (p->phase == SP_PUMP_OVER)
		w[W_GUEST].fd = -1;
	w[W_INPUT] = (struct pollfd){ .fd = wants ? 0 : -1, .events = POLLIN };
	for (int i = 0; i < 2; i++)
		w[W_OUT + i] = (struct pollfd){
			.fd = sp_buf_len(&p->out[i].buf) ? p->out[i].fd : -1, .events = POLLOUT
		};
}

static int turn(struct sp_pump *p, struct sp_err *e)
{
	struct pollfd w[W_ALL];

	sp_pump_send_input(p);
	sp_pump_send_acks(p);
	if (p->conn.fd >= 0)
		sp_conn_flush(&p->conn);
	prepare(p, w);
	if (poll(w, W_ALL, wait_ms(p)) < 0 && errno != EINTR)
		return sp_fail(e, SP_FAIL, errno, "poll");
	if (w[W_SIGNALS].revents && sp_pump_signals(p, e) < 0)
		return -1;
	for (int i = 0; i < 2; i++)
		if (w[W_OUT + i].revents)
			sp_sink_flush(&p->out[i]);
	if (w[W_INPUT].revents)
		sp_pump_read_input(p);
	if (p->phase == SP_PUMP_WAITING)
		return w[W_GUEST].revents ? try_again(p, e) : 0;
	if (w[W_GUEST].revents & ~POLLOUT) {
		sp_conn_fill(&p->conn);
		if (sp_pump_frames(p, e) < 0)
			return -1;
	}
	sp_pump_check_sinks(p);
	return check_patience(p, e);
}

int sp_pump_run(struct sp_pump *p, struct sp_err *e)
{
	while (!p->done) {
		if (p->phase == SP_PUMP_OVER && !sp_buf_len(&p->out[0].buf) &&
		    !sp_buf_len(&p->out[1].buf))
			break;
		if (turn(p, e) < 0)
			return -1;
	}
	return 0;
}
