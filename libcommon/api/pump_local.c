/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "api/pump.h"
#include "sys/clock.h"
#include "sys/tty.h"

#define SECOND 1000000000
#define ENOUGH 3 /* of one signal within a second: the user wants out */

/* Control frames are small; where even they find no room, the guest takes nothing anyway. */
static void send_fields(struct sp_pump *p, enum sp_g_type type, const struct sp_fields *f)
{
	sp_frame_put(&p->conn.out, 0, type, 0, f->mem, (uint32_t)f->len);
}

void sp_pump_send_signal(struct sp_pump *p, int sig)
{
	unsigned char mem[16];
	struct sp_fields f;

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u32(&f, SP_T_SIGNAL, (uint32_t)sig);
	send_fields(p, SP_G_SIGNAL, &f);
}

void sp_pump_send_size(struct sp_pump *p)
{
	unsigned char mem[32];
	struct sp_fields f;
	uint32_t rows, cols;

	if (!sp_tty_size(&rows, &cols))
		return;
	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u32(&f, SP_T_ROWS, rows);
	sp_fields_add_u32(&f, SP_T_COLS, cols);
	send_fields(p, SP_G_RESIZE, &f);
}

static bool is_enough(struct sp_pump *p, int sig)
{
	int64_t now = sp_clock_mono();

	if (sig != p->strike || now - p->strike_at > SECOND) {
		p->strike = sig;
		p->strikes = 0;
		p->strike_at = now;
	}
	return ++p->strikes >= ENOUGH;
}

static int give_up(const struct sp_pump *p, struct sp_err *e)
{
	if (p->phase == SP_PUMP_OVER)
		return sp_fail(e, SP_FAIL, 0, "interrupted before all output was written");
	if (!p->begun)
		return sp_fail(e, SP_FAIL, 0, "interrupted before the process began");
	return sp_fail(e, SP_FAIL, 0, "interrupted; process '%s' goes on with the sandbox",
		       p->proc);
}

static int on_signal(struct sp_pump *p, int sig, struct sp_err *e)
{
	bool ends = sig != SIGUSR1 && sig != SIGUSR2;

	if (sig == SIGWINCH || sig == SIGCONT) {
		if (sig == SIGCONT && sp_tty_is_raw())
			sp_tty_raw(0); /* the shell had it meanwhile */
		if (p->x->tty && p->phase == SP_PUMP_RUNNING)
			sp_pump_send_size(p);
		return 0;
	}
	if (ends && is_enough(p, sig))
		return give_up(p, e);
	if (p->phase == SP_PUMP_RUNNING) {
		sp_pump_send_signal(p, sig);
		return 0;
	}
	/* There is no process that could take it now. One that is about to begin will. */
	if (ends && (p->begun || p->due || p->phase != SP_PUMP_OPENING))
		return give_up(p, e);
	p->due |= 1ull << sig;
	return 0;
}

int sp_pump_signals(struct sp_pump *p, struct sp_err *e)
{
	struct signalfd_siginfo si;

	while (read(p->signals, &si, sizeof si) == (ssize_t)sizeof si)
		if (on_signal(p, (int)si.ssi_signo, e) < 0)
			return -1;
	return 0;
}

void sp_pump_read_input(struct sp_pump *p)
{
	size_t room = sp_buf_space(&p->keep);
	unsigned char *to;
	ssize_t n;

	room = room > 65536 ? 65536 : room;
	to = sp_buf_room(&p->keep, room);
	n = read(0, to, room);
	if (n > 0)
		sp_buf_added(&p->keep, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		p->in_eof = true;
}

void sp_pump_send_input(struct sp_pump *p)
{
	uint64_t end = p->in_base + sp_buf_len(&p->keep);

	if (p->phase != SP_PUMP_RUNNING || !p->x->input)
		return;
	while (p->in_sent < end) {
		size_t n = (size_t)(end - p->in_sent);
		const unsigned char *at = sp_buf_head(&p->keep) + (p->in_sent - p->in_base);

		n = n > SP_G_PAYLOAD - 8 ? SP_G_PAYLOAD - 8 : n;
		if (!sp_frame_put_data(&p->conn.out, 0, 0, p->in_sent, at, (uint32_t)n))
			return;
		p->in_sent += n;
	}
	if (p->in_eof && !p->eof_sent)
		p->eof_sent = sp_frame_put_u64(&p->conn.out, 0, SP_G_EOF, 0, end);
}

/* Not at once: an acknowledgement only has to come before the guest's window is used up. */
void sp_pump_send_acks(struct sp_pump *p)
{
	if (p->phase != SP_PUMP_RUNNING)
		return;
	for (uint8_t i = 0; i < 2; i++) {
		struct sp_sink *s = &p->out[i];
		uint64_t done = sp_sink_done(s);

		if (s->started && done >= s->told + SP_G_WINDOW / 4 &&
		    sp_frame_put_u64(&p->conn.out, 0, SP_G_ACK, i + 1, done))
			s->told = done;
	}
}

/* When nobody reads an output any more, the process is told as a pipe would tell it. */
void sp_pump_check_sinks(struct sp_pump *p)
{
	if (p->phase != SP_PUMP_RUNNING || p->pipe_told)
		return;
	if (!(p->out[0].closed && p->out[0].sys) && !(p->out[1].closed && p->out[1].sys))
		return;
	p->pipe_told = true;
	sp_pump_send_signal(p, SIGPIPE);
}
