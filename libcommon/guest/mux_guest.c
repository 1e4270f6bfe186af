/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "guest/mux_int.h"
#include "sys/clock.h"

void sp_mux_guest_drop(struct sp_mux *m, enum mux_phase next)
{
	if (m->channel >= 0) {
		/* It came over a socket: others may have it open too, so epoll must be told. */
		sp_mux_watch(m, EPOLL_CTL_DEL, m->channel, 0, 0);
		close(m->channel);
		m->channel = -1;
	}
	m->phase = next;
	m->freezes = m->thaws = 0;
	explicit_bzero(&m->welcome, sizeof m->welcome);
	sp_buf_drop(&m->in, sp_buf_len(&m->in));
	sp_buf_drop(&m->out, sp_buf_len(&m->out));
	sp_mux_give_back(m, &m->in);
	sp_mux_give_back(m, &m->out);
}

/* The channel is no more: sessions end with LOST, and who comes now waits for the next one, or is
 * refused where it was the guest that broke it (it would only do it again). */
static void lose(struct sp_mux *m, enum mux_phase next, const char *why)
{
	sp_mux_guest_drop(m, next);
	for (size_t i = 0; i < SP_G_SESSIONS; i++) {
		struct mux_client *c = &m->clients[i];

		if (c->state == CLIENT_OPEN)
			sp_mux_client_end(m, c, SP_G_LOST, SP_FAIL, why, false);
		else if (c->state == CLIENT_NEW && next == MUX_BROKEN)
			sp_mux_client_end(m, c, SP_G_ERROR, SP_FAIL, why, false);
	}
	sp_mux_tell(m, SP_MUX_LOST, 0);
}

static void broken(struct sp_mux *m, const char *why)
{
	lose(m, MUX_BROKEN, why);
}

static void put_greeting(struct sp_mux *m, const unsigned char *marker)
{
	const struct sp_mux_welcome *w = &m->welcome;
	unsigned char mem[512];
	struct sp_fields f;

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u32(&f, SP_T_VERSION, SP_G_VERSION);
	sp_fields_add_u64(&f, SP_T_GENERATION, w->generation);
	sp_fields_add_u8(&f, SP_T_SAME, w->same);
	sp_fields_add(&f, SP_T_ENTROPY, w->entropy, sizeof w->entropy);
	sp_fields_add(&f, SP_T_MARKER, w->marker_next, sizeof w->marker_next);
	sp_fields_add_str(&f, SP_T_HOSTNAME, w->hostname);
	sp_fields_add_str(&f, SP_T_ID, w->id);
	sp_fields_add_u64(&f, SP_T_TIME, (uint64_t)sp_clock_real());
	sp_buf_put(&m->out, marker, SP_G_MARKER_LEN);
	sp_frame_put(&m->out, 0, SP_G_WELCOME, 0, mem, (uint32_t)f.len);
	explicit_bzero(mem, sizeof mem);
	sp_mux_guest_flush(m);
}

int sp_mux_guest_greet(struct sp_mux *m)
{
	put_greeting(m, m->welcome.marker_now);
	return m->channel < 0 ? -1 : 0;
}

void sp_mux_guest_flush(struct sp_mux *m)
{
	uint32_t want;
	long n = 1;

	if (m->channel < 0)
		return;
	while (n > 0 && sp_buf_len(&m->out)) {
		n = sp_mux_send(m->channel, sp_buf_head(&m->out), sp_buf_len(&m->out), NULL, 0);
		if (n > 0)
			sp_buf_drop(&m->out, (size_t)n);
	}
	if (n < 0) {
		lose(m, MUX_IDLE, "the guest channel was closed");
		return;
	}
	sp_mux_give_back(m, &m->out);
	want = EPOLLIN | (sp_buf_len(&m->out) ? EPOLLOUT : 0u);
	if (want != m->channel_events) {
		sp_mux_watch(m, EPOLL_CTL_MOD, m->channel, want, MUX_WHO_CHANNEL);
		m->channel_events = want;
	}
}

static void on_hello(struct sp_mux *m, const unsigned char *p, uint32_t len)
{
	if (sp_fields_num(p, len, SP_T_VERSION, 0) < 1) {
		broken(m, "the guest agent named no protocol version");
		return;
	}
	m->phase = MUX_GREETED;
	if (m->welcome.cold)
		put_greeting(m, (const unsigned char *)SP_G_COLD_MARKER);
}

static void on_ready(struct sp_mux *m, const unsigned char *p, uint32_t len)
{
	if (sp_fields_num(p, len, SP_T_GENERATION, 0) != m->welcome.generation) {
		broken(m, "the guest agent is ready for another generation");
		return;
	}
	m->phase = MUX_OPEN;
	sp_mux_tell(m, SP_MUX_READY, sp_fields_num(p, len, SP_T_VALUE, 0));
}

/* An answer counts when it is the last that is due: one that came late, to a request that was given
 * up, is not taken for the next one's. One that nobody asked for is passed over. */
static void on_answer(struct sp_mux *m, enum sp_mux_event what, uint32_t *due, uint64_t value)
{
	if (*due && --*due == 0)
		sp_mux_tell(m, what, value);
}

/* Frames of the agent itself. Types that this release does not know are passed over. */
static void on_agent(struct sp_mux *m, const struct sp_g_header *h, const unsigned char *p)
{
	if (sp_fields_check(p, h->len) < 0) {
		broken(m, "the guest agent sent fields that are not well formed");
		return;
	}
	if (m->phase == MUX_HELLO && h->type == SP_G_HELLO)
		on_hello(m, p, h->len);
	else if (m->phase == MUX_GREETED && h->type == SP_G_READY)
		on_ready(m, p, h->len);
	else if (m->phase != MUX_OPEN || h->type == SP_G_HELLO)
		broken(m, "the guest agent spoke out of turn");
	else if (h->type == SP_G_FROZEN)
		on_answer(m, SP_MUX_FROZEN, &m->freezes, sp_fields_num(p, h->len, SP_T_CODE, 0));
	else if (h->type == SP_G_THAWED)
		on_answer(m, SP_MUX_THAWED, &m->thaws, sp_fields_num(p, h->len, SP_T_CODE, 0));
}

static void on_frame(struct sp_mux *m, const struct sp_g_header *h, const unsigned char *p)
{
	struct mux_client *c = &m->clients[h->chan % SP_G_SESSIONS];

	if (!h->chan)
		on_agent(m, h, p);
	else if (m->phase != MUX_OPEN)
		broken(m, "the guest agent spoke out of turn");
	else if (c->state == CLIENT_OPEN && c->chan == h->chan)
		sp_mux_client_frame(m, c, h, p);
	/* else: late, for a session that is over */
}

/* Throws away what comes before the marker: what was on its way when the machine was saved. */
static bool find_marker(struct sp_mux *m)
{
	const void *marker = m->welcome.cold ? (const void *)SP_G_COLD_MARKER :
					       (const void *)m->welcome.marker_now;
	unsigned char *at, *head = sp_buf_head(&m->in);
	size_t n = sp_buf_len(&m->in), drop = n >= SP_G_MARKER_LEN ? n - SP_G_MARKER_LEN + 1 : 0;

	at = n ? memmem(head, n, marker, SP_G_MARKER_LEN) : NULL;
	if (at)
		drop = (size_t)(at - head);
	m->garbage += drop;
	sp_buf_drop(&m->in, at ? drop + SP_G_MARKER_LEN : drop);
	if (m->garbage > MUX_GARBAGE) {
		broken(m, "the guest agent sent no marker");
		return false;
	}
	if (at)
		m->phase = MUX_HELLO;
	return at != NULL;
}

static void take_apart(struct sp_mux *m)
{
	const unsigned char *p;
	struct sp_g_header h;
	int r;

	if (m->phase == MUX_MARKER && !find_marker(m))
		return;
	while ((r = sp_frame_peek(&m->in, &h, &p)) == 1) {
		on_frame(m, &h, p);
		if (m->channel < 0)
			return;
		sp_buf_drop(&m->in, SP_G_HEADER + (size_t)h.len);
	}
	if (r < 0)
		broken(m, "the guest agent sent what is no frame");
}

void sp_mux_guest_read(struct sp_mux *m)
{
	for (int i = 0; i < MUX_READS && m->channel >= 0; i++) {
		size_t room = sp_buf_space(&m->in);
		unsigned char *to = sp_mux_room(m, &m->in, room);
		ssize_t n = read(m->channel, to, room);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n <= 0) {
			lose(m, MUX_IDLE, "the guest channel was closed");
			return;
		}
		sp_buf_added(&m->in, (size_t)n);
		take_apart(m);
		if (m->channel >= 0 && (size_t)n < room)
			break;
	}
	sp_mux_give_back(m, &m->in);
}
