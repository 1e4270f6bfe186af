/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/mux_int.h"

#define CLIENT_IN (SP_G_HEADER + SP_G_PAYLOAD)
#define OPENING_FIRST SP_G_EXEC
#define OPENING_LAST (SP_G_OPENED - 1)

static void put_last(struct mux_client *c, enum sp_g_type type, int code, const char *message)
{
	unsigned char mem[512];
	struct sp_fields f;

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u32(&f, SP_T_CODE, (uint32_t)code);
	sp_fields_add(&f, SP_T_MESSAGE, message, strnlen(message, sizeof mem - 64));
	sp_frame_put(&c->last, 0, type, 0, mem, (uint32_t)f.len);
}

void sp_mux_client_end(struct sp_mux *m, struct mux_client *c, enum sp_g_type type, int code,
		       const char *message, bool tell)
{
	if (tell && c->state == CLIENT_OPEN && m->phase == MUX_OPEN)
		sp_frame_put(&m->out, c->chan, SP_G_CLOSE, 0, NULL, 0);
	if (!sp_buf_len(&c->last)) /* an EXIT that waits to be read stands */
		put_last(c, type, code, message);
	c->state = CLIENT_OVER;
	c->waits = false;
	sp_buf_drop(&c->in, sp_buf_len(&c->in));
	sp_mux_give_back(m, &c->in);
}

/* The guest did what it must not: its session is lost, no other one. */
static void fault(struct sp_mux *m, struct mux_client *c, const char *why)
{
	sp_mux_client_end(m, c, SP_G_ERROR, SP_FAIL, why, true);
}

/* The client did. */
static void refuse(struct sp_mux *m, struct mux_client *c, const char *why)
{
	sp_mux_client_end(m, c, SP_G_ERROR, SP_USAGE, why, true);
}

void sp_mux_client_close(struct sp_mux *m, struct mux_client *c)
{
	if (c->state == CLIENT_OPEN && m->phase == MUX_OPEN)
		sp_frame_put(&m->out, c->chan, SP_G_CLOSE, 0, NULL, 0);
	sp_mux_watch(m, EPOLL_CTL_DEL, c->fd, 0, 0);
	close(c->fd);
	sp_buf_drop(&c->in, sp_buf_len(&c->in));
	sp_buf_drop(&c->ctl, sp_buf_len(&c->ctl));
	sp_buf_drop(&c->last, sp_buf_len(&c->last));
	sp_mux_give_back(m, &c->in);
	sp_mux_give_back(m, &c->ctl);
	sp_mux_give_back(m, &c->last);
	for (int i = 0; i < 2; i++) {
		sp_buf_drop(&c->out[i].data, sp_buf_len(&c->out[i].data));
		sp_mux_give_back(m, &c->out[i].data);
	}
	*c = (struct mux_client){ .fd = -1 };
	if (m->deaf)
		m->deaf = sp_mux_watch(m, EPOLL_CTL_MOD, m->listen, EPOLLIN, MUX_WHO_LISTEN) < 0;
}

static void turn_away(int fd, enum sp_code code, const char *why)
{
	struct mux_client c = { .fd = fd };

	sp_buf_init(&c.last, MUX_LAST);
	put_last(&c, SP_G_ERROR, (int)code, why);
	sp_mux_send(fd, sp_buf_head(&c.last), sp_buf_len(&c.last), NULL, 0);
	sp_buf_free(&c.last);
	close(fd);
}

static struct mux_client *free_slot(struct sp_mux *m)
{
	for (size_t i = 0; i < SP_G_SESSIONS; i++)
		if (m->clients[i].state == CLIENT_NONE)
			return &m->clients[i];
	return NULL;
}

static void begin(struct sp_mux *m, struct mux_client *c, int fd)
{
	uint32_t slot = (uint32_t)(c - m->clients);

	*c = (struct mux_client){ .fd = fd, .state = CLIENT_NEW, .events = EPOLLIN };
	sp_buf_init(&c->in, CLIENT_IN);
	sp_buf_init(&c->ctl, MUX_CTL);
	sp_buf_init(&c->last, MUX_LAST);
	sp_buf_init(&c->out[0].data, SP_G_WINDOW);
	sp_buf_init(&c->out[1].data, SP_G_WINDOW);
	if (sp_mux_watch(m, EPOLL_CTL_ADD, fd, EPOLLIN, slot) < 0)
		sp_mux_client_close(m, c);
}

void sp_mux_client_accept(struct sp_mux *m)
{
	for (int i = 0; i < 8; i++) {
		int fd = accept4(m->listen, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct mux_client *c;

		if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
			return;
		if (fd < 0) {
			/* Out of descriptors: level-triggered, it would be told again at once. */
			m->deaf = sp_mux_watch(m, EPOLL_CTL_MOD, m->listen, 0, MUX_WHO_LISTEN) == 0;
			return;
		}
		c = free_slot(m);
		if (m->phase == MUX_BROKEN)
			turn_away(fd, SP_FAIL, "the guest agent broke the channel");
		else if (!c)
			turn_away(fd, SP_BUSY, "too many sessions with this sandbox at once");
		else
			begin(m, c, fd);
	}
}

/* From the client to the guest */

static bool is_opening(uint8_t type)
{
	return type >= OPENING_FIRST && type <= OPENING_LAST;
}

static const char *check_input(struct mux_client *c, const struct sp_g_header *h,
			       const unsigned char *p)
{
	uint64_t off;

	if (h->stream || c->in_eof || sp_frame_get_u64(p, h->len, &off) < 0)
		return "not input of a session";
	if (!c->in_started) {
		c->in_started = true;
		c->in_next = c->in_acked = off;
	}
	if (off != c->in_next)
		return "input at the wrong offset";
	if (h->type == SP_G_EOF) {
		c->in_eof = true;
		return NULL;
	}
	c->in_next += h->len - 8;
	return c->in_next - c->in_acked > SP_G_WINDOW ? "input beyond the window" : NULL;
}

static const char *check_ack(struct mux_client *c, const struct sp_g_header *h,
			     const unsigned char *p)
{
	struct mux_output *o;
	uint64_t off;

	if (h->stream < 1 || h->stream > 2 || sp_frame_get_u64(p, h->len, &off) < 0)
		return "not an acknowledgement";
	o = &c->out[h->stream - 1];
	if (!o->started || off < o->acked || off > o->base)
		return "an acknowledgement of what was not sent";
	o->acked = off;
	return NULL;
}

/* NULL: the frame may go to the guest. */
static const char *check_frame(struct mux_client *c, const struct sp_g_header *h,
			       const unsigned char *p)
{
	if (c->state == CLIENT_NEW)
		return is_opening(h->type) ? NULL : "a session begins with a request";
	switch (h->type) {
	case SP_G_DATA:
	case SP_G_EOF:
		return check_input(c, h, p);
	case SP_G_ACK:
		return check_ack(c, h, p);
	case SP_G_SIGNAL:
	case SP_G_RESIZE:
	case SP_G_CLOSE:
	case SP_G_ERROR:
		return NULL;
	default:
		return "not a frame of a session";
	}
}

static void open_session(struct sp_mux *m, struct mux_client *c)
{
	uint32_t slot = (uint32_t)(c - m->clients);

	c->chan = ++m->opened[slot] * SP_G_SESSIONS + slot;
	if (!c->chan) /* slot 0 came round */
		c->chan = ++m->opened[slot] * SP_G_SESSIONS + slot;
	c->state = CLIENT_OPEN;
}

void sp_mux_client_take(struct sp_mux *m, struct mux_client *c)
{
	const unsigned char *p;
	struct sp_g_header h;
	const char *why;
	int r;

	c->waits = false;
	while ((r = sp_frame_peek(&c->in, &h, &p)) == 1) {
		if (m->phase != MUX_OPEN || sp_buf_len(&m->out) + SP_G_HEADER + h.len > MUX_OUT) {
			c->waits = true;
			return;
		}
		why = check_frame(c, &h, p);
		if (why) {
			refuse(m, c, why);
			return;
		}
		if (c->state == CLIENT_NEW)
			open_session(m, c);
		if (h.type == SP_G_CLOSE) {
			sp_mux_client_close(m, c);
			return;
		}
		if (sp_mux_room(m, &m->out, SP_G_HEADER + (size_t)h.len))
			sp_frame_put(&m->out, c->chan, (enum sp_g_type)h.type, h.stream, p, h.len);
		sp_buf_drop(&c->in, SP_G_HEADER + (size_t)h.len);
	}
	if (r < 0)
		refuse(m, c, "not a frame");
	else
		sp_mux_give_back(m, &c->in);
}

void sp_mux_client_event(struct sp_mux *m, struct mux_client *c, uint32_t events)
{
	size_t room = sp_buf_space(&c->in);
	ssize_t n;

	if (c->state == CLIENT_NONE || !(events & ~EPOLLOUT))
		return;
	if (c->state == CLIENT_OVER || c->waits || !room) {
		/* Nothing of it is read now: told all the same, it is the hang-up. */
		if (events & (EPOLLHUP | EPOLLERR))
			sp_mux_client_close(m, c);
		return;
	}
	n = read(c->fd, sp_mux_room(m, &c->in, room), room);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		sp_mux_give_back(m, &c->in);
		return;
	}
	if (n <= 0) {
		sp_mux_client_close(m, c);
		return;
	}
	sp_buf_added(&c->in, (size_t)n);
	sp_mux_client_take(m, c);
}

/* From the guest to the client */

static void take_data(struct sp_mux *m, struct mux_client *c, struct mux_output *o, uint64_t off,
		      const unsigned char *p, uint32_t len)
{
	unsigned char *to;

	if (!o->started || (off > o->base && !sp_buf_len(&o->data))) {
		o->started = true; /* bytes that the agent no longer has are a jump */
		o->base = o->acked = off;
	}
	if (o->eof || off != o->base + sp_buf_len(&o->data)) {
		fault(m, c, "the guest agent sent output at the wrong offset");
		return;
	}
	if (!len)
		return;
	to = off + len - o->acked <= SP_G_WINDOW ? sp_mux_room(m, &o->data, len) : NULL;
	if (!to) {
		fault(m, c, "the guest agent sent output beyond the window");
		return;
	}
	memcpy(to, p, len);
	sp_buf_added(&o->data, len);
}

static void take_output(struct sp_mux *m, struct mux_client *c, const struct sp_g_header *h,
			const unsigned char *p)
{
	struct mux_output *o;
	uint64_t off;

	if (h->stream < 1 || h->stream > 2 || sp_frame_get_u64(p, h->len, &off) < 0 ||
	    off > UINT64_MAX - 2 * SP_G_WINDOW) {
		fault(m, c, "the guest agent sent output that is none");
		return;
	}
	o = &c->out[h->stream - 1];
	take_data(m, c, o, off, p + 8, h->type == SP_G_DATA ? h->len - 8 : 0);
	if (h->type == SP_G_EOF)
		o->eof = true;
}

static void take_ack(struct sp_mux *m, struct mux_client *c, const struct sp_g_header *h,
		     const unsigned char *p)
{
	uint64_t off;

	if (h->stream || sp_frame_get_u64(p, h->len, &off) < 0 ||
	    (c->in_started && (off < c->in_acked || off > c->in_next))) {
		fault(m, c, "the guest agent acknowledged what was not sent");
		return;
	}
	if (!c->in_started)
		return; /* of another session's input: OFF_IN tells it */
	c->in_acked = off;
	c->ack_due = true;
}

static void take_fields(struct sp_mux *m, struct mux_client *c, const struct sp_g_header *h,
			const unsigned char *p)
{
	bool last = h->type != SP_G_OPENED && h->type != SP_G_ENTRY;
	struct sp_buf *b = last ? &c->last : &c->ctl;

	if (sp_fields_check(p, h->len) < 0 || (h->type == SP_G_OPENED && c->opened)) {
		fault(m, c, "the guest agent sent an answer that is not well formed");
		return;
	}
	c->opened |= h->type == SP_G_OPENED;
	if (!sp_mux_room(m, b, SP_G_HEADER + (size_t)h->len)) {
		fault(m, c, "the guest agent answered more than was read");
		return;
	}
	sp_frame_put(b, 0, (enum sp_g_type)h->type, 0, p, h->len);
	c->exited |= h->type == SP_G_EXIT;
	if (h->type == SP_G_END || h->type == SP_G_ERROR)
		sp_mux_client_end(m, c, SP_G_END, 0, "", false);
}

void sp_mux_client_frame(struct sp_mux *m, struct mux_client *c, const struct sp_g_header *h,
			 const unsigned char *p)
{
	if (c->exited)
		return; /* all is said; the client's CLOSE is still to come */
	switch (h->type) {
	case SP_G_DATA:
	case SP_G_EOF:
		take_output(m, c, h, p);
		break;
	case SP_G_ACK:
		take_ack(m, c, h, p);
		break;
	case SP_G_OPENED:
	case SP_G_ENTRY:
	case SP_G_EXIT:
	case SP_G_END:
	case SP_G_ERROR:
		take_fields(m, c, h, p);
		break;
	default:
		fault(m, c, "the guest agent sent a frame of an unknown type");
	}
}

/* A DATA frame of what output s holds: its header in head[], its bytes stay where they are. */
static void begin_data(struct mux_client *c, int s)
{
	struct mux_output *o = &c->out[s];
	size_t n = sp_buf_len(&o->data);
	struct sp_buf head = { .mem = c->head, .cap = sizeof c->head, .max = sizeof c->head };

	n = n > SP_G_PAYLOAD - 8 ? SP_G_PAYLOAD - 8 : n;
	sp_frame_put_data(&head, 0, (uint8_t)(s + 1), o->base, NULL, 0);
	for (int i = 0; i < 4; i++)
		c->head[i] = (unsigned char)((n + 8) >> (8 * i));
	c->head_off = 0;
	c->head_len = sizeof c->head;
	c->left = (uint32_t)n;
	c->turn = s;
}

/* What comes next, once the frame that was being sent is out. False: nothing. */
static bool next_frame(struct sp_mux *m, struct mux_client *c)
{
	if (c->ack_due) {
		c->ack_due = false;
		return sp_frame_put_u64(&c->ctl, 0, SP_G_ACK, 0, c->in_acked);
	}
	for (int i = 0; i < 2; i++) {
		int s = (c->turn + 1 + i) % 2;
		struct mux_output *o = &c->out[s];

		if (sp_buf_len(&o->data)) {
			begin_data(c, s);
			return true;
		}
		if (o->eof && !o->eof_told) {
			o->eof_told = true;
			return sp_frame_put_u64(&c->ctl, 0, SP_G_EOF, (uint8_t)(s + 1), o->base);
		}
	}
	if (sp_buf_len(&c->last) && sp_mux_room(m, &c->ctl, sp_buf_len(&c->last))) {
		sp_buf_put(&c->ctl, sp_buf_head(&c->last), sp_buf_len(&c->last));
		sp_buf_drop(&c->last, sp_buf_len(&c->last));
		sp_mux_give_back(m, &c->last);
		return true;
	}
	return false;
}

/* One send: 1 go on, 0 not now, -1 it is gone. A DATA frame is begun only when ctl is empty, and
 * ctl holds whole frames: so frames never mix. */
static int send_some(struct sp_mux *m, struct mux_client *c)
{
	struct mux_output *o = &c->out[c->turn];
	size_t head = c->head_len - c->head_off;
	long n;

	if (head + c->left) {
		n = sp_mux_send(c->fd, c->head + c->head_off, head,
				c->left ? sp_buf_head(&o->data) : NULL, c->left);
		if (n <= 0)
			return (int)n;
		head = (size_t)n < head ? (size_t)n : head;
		c->head_off += (uint32_t)head;
		n -= (long)head;
		c->left -= (uint32_t)n;
		o->base += (uint64_t)n;
		sp_buf_drop(&o->data, (size_t)n);
		sp_mux_give_back(m, &o->data);
		return 1;
	}
	n = sp_mux_send(c->fd, sp_buf_head(&c->ctl), sp_buf_len(&c->ctl), NULL, 0);
	if (n <= 0)
		return (int)n;
	sp_buf_drop(&c->ctl, (size_t)n);
	sp_mux_give_back(m, &c->ctl);
	return 1;
}

static bool has_frame(const struct mux_client *c)
{
	return c->head_len > c->head_off || c->left || sp_buf_len(&c->ctl);
}

void sp_mux_client_flush(struct sp_mux *m, struct mux_client *c)
{
	uint32_t want = 0;
	int r = 1;

	while (r == 1 && (has_frame(c) || next_frame(m, c)))
		r = send_some(m, c);
	if (r < 0 || (r == 1 && c->state == CLIENT_OVER)) {
		sp_mux_client_close(m, c);
		return;
	}
	if (r == 0)
		want |= EPOLLOUT;
	if (c->state != CLIENT_OVER && !c->waits && sp_buf_space(&c->in))
		want |= EPOLLIN;
	if (want != c->events) {
		sp_mux_watch(m, EPOLL_CTL_MOD, c->fd, want, (uint32_t)(c - m->clients));
		c->events = want;
	}
}
