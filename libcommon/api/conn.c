/* SPDX-License-Identifier: Apache-2.0 */
#include "api/conn.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/str.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "text/table.h"

#define CONN_IN (2u * (SP_G_HEADER + SP_G_PAYLOAD))
#define CONN_OUT (SP_G_WINDOW + 2u * (SP_G_HEADER + SP_G_PAYLOAD))

void sp_conn_init(struct sp_conn *c, int fd)
{
	*c = (struct sp_conn){ .fd = fd };
	sp_buf_init(&c->in, CONN_IN);
	sp_buf_init(&c->out, CONN_OUT);
}

void sp_conn_close(struct sp_conn *c)
{
	sp_fd_close(&c->fd);
	sp_buf_free(&c->in);
	sp_buf_free(&c->out);
	sp_conn_init(c, -1);
}

int sp_conn_ask(struct sp_conn *c, enum sp_g_type type, const struct sp_fields *f,
		struct sp_err *e)
{
	if (sp_fields_end(f) < 0)
		return sp_fail(e, SP_USAGE, 0, "the request is longer than %u bytes", SP_G_PAYLOAD);
	if (!sp_frame_put(&c->out, 0, type, 0, f->mem, (uint32_t)f->len))
		return sp_fail(e, SP_BUSY, 0, "the guest channel takes nothing");
	return 0;
}

static void drop_taken(struct sp_conn *c)
{
	sp_buf_drop(&c->in, c->taken);
	c->taken = 0;
}

void sp_conn_fill(struct sp_conn *c)
{
	unsigned char *to;
	size_t room;
	ssize_t n;

	drop_taken(c);
	room = sp_buf_space(&c->in);
	to = sp_buf_room(&c->in, room);
	if (!room || c->fd < 0)
		return;
	do
		n = recv(c->fd, to, room, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		sp_buf_added(&c->in, (size_t)n);
	else if (n == 0 || errno != EAGAIN)
		c->ended = true;
}

/* A peer that is gone shows when it is read: it may have said why. */
void sp_conn_flush(struct sp_conn *c)
{
	ssize_t n = 1;

	while (n > 0 && sp_buf_len(&c->out)) {
		do
			n = send(c->fd, sp_buf_head(&c->out), sp_buf_len(&c->out),
				 MSG_DONTWAIT | MSG_NOSIGNAL);
		while (n < 0 && errno == EINTR);
		if (n > 0)
			sp_buf_drop(&c->out, (size_t)n);
		else if (errno != EAGAIN)
			sp_buf_drop(&c->out, sp_buf_len(&c->out));
	}
}

int sp_conn_take(struct sp_conn *c, struct sp_g_header *h, const unsigned char **p)
{
	int r;

	drop_taken(c);
	r = sp_frame_peek(&c->in, h, p);
	if (r == 1)
		c->taken = SP_G_HEADER + (size_t)h->len;
	return r;
}

int sp_conn_error(const struct sp_g_header *h, const unsigned char *p, struct sp_err *e)
{
	sp_auto_str text = SP_STR_INIT;
	const unsigned char *said;
	uint64_t code = SP_FAIL;
	uint32_t n = 0;

	if (sp_fields_check(p, h->len) == 0) {
		code = sp_fields_num(p, h->len, SP_T_CODE, SP_FAIL);
		if (sp_fields_find(p, h->len, SP_T_MESSAGE, &said, &n))
			sp_text_escape(&text, (const char *)said, n > 400 ? 400 : n);
	}
	if (code < SP_FAIL || code > SP_HOST)
		code = SP_FAIL;
	return sp_fail(e, (enum sp_code)code, 0, "%s",
		       text.len ? text.p : "the guest refused without a reason");
}

/* What the frame means to one who waits for an answer. */
static int judge(int got, const struct sp_g_header *h, const unsigned char *p, struct sp_err *e)
{
	if (got < 0)
		return sp_fail(e, SP_FAIL, 0, "the monitor sent what is no frame");
	if (h->type == SP_G_ERROR || h->type == SP_G_LOST)
		return sp_conn_error(h, p, e);
	return 1;
}

int sp_conn_wait(struct sp_conn *c, int ms, struct sp_g_header *h, const unsigned char **p,
		 struct sp_err *e)
{
	int64_t until = sp_clock_mono() + (int64_t)ms * 1000000;

	for (;;) {
		struct pollfd pf = { .fd = c->fd, .events = POLLIN };
		int got = sp_conn_take(c, h, p), left = ms;

		if (got)
			return judge(got, h, *p, e);
		if (c->ended)
			return sp_fail(e, SP_BUSY, 0, "the sandbox stopped or was paused");
		sp_conn_flush(c);
		pf.events = (short)(POLLIN | (sp_buf_len(&c->out) ? POLLOUT : 0));
		if (ms >= 0)
			left = (int)((until - sp_clock_mono()) / 1000000);
		if (ms >= 0 && left <= 0)
			return sp_fail(e, SP_BUSY, 0, "the guest agent does not answer");
		if (poll(&pf, 1, left) > 0)
			sp_conn_fill(c);
	}
}
