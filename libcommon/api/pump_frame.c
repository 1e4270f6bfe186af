/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "api/pump.h"
#include "sys/tty.h"

/* OFF_IN: how much input the process has taken. What we kept from there on is sent again. */
static int take_in_offset(struct sp_pump *p, uint64_t off, struct sp_err *e)
{
	if (!p->in_started) {
		p->in_started = true;
		p->in_base = p->in_sent = off;
		return 0;
	}
	if (off < p->in_base || off > p->in_base + sp_buf_len(&p->keep))
		return sp_fail(e, SP_CONFLICT, 0, "process '%s' got input from elsewhere", p->proc);
	sp_buf_drop(&p->keep, (size_t)(off - p->in_base));
	p->in_base = p->in_sent = off;
	return 0;
}

static int on_opened(struct sp_pump *p, const unsigned char *data, uint32_t len, struct sp_err *e)
{
	if (p->phase != SP_PUMP_OPENING || sp_fields_check(data, len) < 0)
		return sp_fail(e, SP_FAIL, 0, "the guest agent answered out of turn");
	p->phase = SP_PUMP_RUNNING;
	p->begun = p->attach = true;
	p->tries = 0;
	p->eof_sent = false;
	if (p->x->detach) {
		p->done = true;
		return 0;
	}
	if (take_in_offset(p, sp_fields_num(data, len, SP_T_OFF_IN, 0), e) < 0)
		return -1;
	if (p->x->tty && p->x->input && isatty(0))
		sp_tty_raw(0);
	if (p->x->tty)
		sp_pump_send_size(p);
	for (int sig = 1; sig < 64; sig++)
		if (p->due & (1ull << sig))
			sp_pump_send_signal(p, sig);
	p->due = 0;
	return 0;
}

static int on_data(struct sp_pump *p, const struct sp_g_header *h, const unsigned char *data,
		   struct sp_err *e)
{
	uint64_t off;

	if (p->phase != SP_PUMP_RUNNING || h->stream < 1 || h->stream > 2 ||
	    sp_frame_get_u64(data, h->len, &off) < 0)
		return sp_fail(e, SP_FAIL, 0, "the guest agent sent output out of turn");
	if (sp_sink_put(&p->out[h->stream - 1], off, data + 8, h->len - 8) < 0)
		return sp_fail(e, SP_FAIL, 0, "the guest agent sent output beyond the window");
	return 0;
}

static int on_ack(struct sp_pump *p, const struct sp_g_header *h, const unsigned char *data,
		  struct sp_err *e)
{
	uint64_t off;

	if (h->stream || sp_frame_get_u64(data, h->len, &off) < 0 || off < p->in_base ||
	    off > p->in_sent)
		return sp_fail(e, SP_FAIL, 0, "the guest agent acknowledged what was not sent");
	sp_buf_drop(&p->keep, (size_t)(off - p->in_base));
	p->in_base = off;
	return 0;
}

static int on_exit(struct sp_pump *p, const unsigned char *data, uint32_t len, struct sp_err *e)
{
	if (p->phase != SP_PUMP_RUNNING || sp_fields_check(data, len) < 0)
		return sp_fail(e, SP_FAIL, 0, "the guest agent told an end out of turn");
	p->status = (uint32_t)sp_fields_num(data, len, SP_T_STATUS, 0);
	p->phase = SP_PUMP_OVER;
	sp_tty_restore();
	return 0;
}

/* A process that nobody knows was not begun, when the cut came between our request and its answer:
 * then the request is made again. */
static int on_error(struct sp_pump *p, const struct sp_g_header *h, const unsigned char *data,
		    struct sp_err *e)
{
	sp_conn_error(h, data, e);
	if (e->code == SP_ABSENT && p->attach && !p->x->attach && !p->begun) {
		p->attach = false;
		p->phase = SP_PUMP_WAITING;
		return sp_pump_lost(p, e);
	}
	if (e->code == SP_ABSENT && p->begun)
		return sp_fail(e, SP_ABSENT, 0, "process '%s' is gone: sandbox '%s' booted anew",
			       p->proc, p->g->operand);
	return -1;
}

static int on_frame(struct sp_pump *p, const struct sp_g_header *h, const unsigned char *data,
		    struct sp_err *e)
{
	switch (h->type) {
	case SP_G_OPENED:
		return on_opened(p, data, h->len, e);
	case SP_G_DATA:
		return on_data(p, h, data, e);
	case SP_G_ACK:
		return on_ack(p, h, data, e);
	case SP_G_EOF:
		return 0; /* EXIT comes after it */
	case SP_G_EXIT:
		return on_exit(p, data, h->len, e);
	case SP_G_ERROR:
		return on_error(p, h, data, e);
	case SP_G_LOST:
		return sp_pump_lost(p, e);
	default:
		return sp_fail(e, SP_FAIL, 0, "the guest agent spoke out of turn");
	}
}

int sp_pump_frames(struct sp_pump *p, struct sp_err *e)
{
	const unsigned char *data;
	struct sp_g_header h;
	int got = 0;

	while (p->conn.fd >= 0 && p->phase != SP_PUMP_OVER && !p->done &&
	       (got = sp_conn_take(&p->conn, &h, &data)) == 1)
		if (on_frame(p, &h, data, e) < 0)
			return -1;
	if (got < 0)
		return sp_fail(e, SP_FAIL, 0, "the monitor sent what is no frame");
	if (p->conn.ended && p->phase != SP_PUMP_OVER && !p->done)
		return sp_pump_lost(p, e);
	return 0;
}
