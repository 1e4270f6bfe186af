/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/mux.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/str.h"
#include "guest/mux_int.h"

#define EVENTS 16

void sp_mux_tell(struct sp_mux *m, enum sp_mux_event what, uint64_t value)
{
	if (m->nfacts < SP_NELEM(m->facts))
		m->facts[m->nfacts++] = (struct mux_fact){ what, value };
}

unsigned char *sp_mux_room(struct sp_mux *m, struct sp_buf *b, size_t n)
{
	for (size_t i = 0; !b->mem && i < MUX_SPARES; i++) {
		if (!m->spare[i].mem || m->spare[i].cap > b->max)
			continue;
		b->mem = m->spare[i].mem;
		b->cap = m->spare[i].cap;
		sp_buf_init(&m->spare[i], 0);
	}
	return sp_buf_room(b, n);
}

void sp_mux_give_back(struct sp_mux *m, struct sp_buf *b)
{
	if (!b->mem || b->len)
		return;
	for (size_t i = 0; b->mem && b->cap >= 16384 && i < MUX_SPARES; i++) {
		if (m->spare[i].mem)
			continue;
		m->spare[i].mem = b->mem;
		m->spare[i].cap = b->cap;
		b->mem = NULL;
	}
	sp_buf_free(b);
}

int sp_mux_watch(struct sp_mux *m, int op, int fd, uint32_t events, uint32_t who)
{
	struct epoll_event ev = { .events = events, .data.u32 = who };

	return epoll_ctl(m->ep, op, fd, &ev);
}

long sp_mux_send(int fd, const void *a, size_t na, const void *b, size_t nb)
{
	struct iovec iov[2] = { { .iov_base = (void *)(uintptr_t)a, .iov_len = na },
				{ .iov_base = (void *)(uintptr_t)b, .iov_len = nb } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t n;

	do
		n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN || errno == ENOBUFS ? 0 : -1;
	return n;
}

struct sp_mux *sp_mux_new(int listen_fd, struct sp_err *e)
{
	struct sp_mux *m = sp_xcalloc(1, sizeof *m);

	m->listen = listen_fd;
	m->channel = -1;
	m->ep = epoll_create1(EPOLL_CLOEXEC);
	sp_buf_init(&m->in, MUX_IN);
	sp_buf_init(&m->out, MUX_OUT + MUX_OUT_MORE);
	for (size_t i = 0; i < SP_G_SESSIONS; i++)
		m->clients[i].fd = -1;
	if (m->ep < 0 || fcntl(listen_fd, F_SETFL, O_NONBLOCK) < 0 ||
	    sp_mux_watch(m, EPOLL_CTL_ADD, listen_fd, EPOLLIN, MUX_WHO_LISTEN) < 0) {
		sp_fail(e, SP_FAIL, errno, "set up the guest channel");
		sp_mux_free(&m);
		return NULL;
	}
	return m;
}

void sp_mux_free(struct sp_mux **mp)
{
	struct sp_mux *m = *mp;

	if (!m)
		return;
	for (size_t i = 0; i < SP_G_SESSIONS; i++)
		if (m->clients[i].state != CLIENT_NONE)
			sp_mux_client_close(m, &m->clients[i]);
	sp_mux_guest_drop(m, MUX_IDLE);
	for (size_t i = 0; i < MUX_SPARES; i++)
		sp_buf_free(&m->spare[i]);
	sp_buf_free(&m->in);
	sp_buf_free(&m->out);
	if (m->ep >= 0)
		close(m->ep);
	close(m->listen);
	free(m);
	*mp = NULL;
}

int sp_mux_fd(const struct sp_mux *m)
{
	return m->ep;
}

/* Frames that clients could not hand on for want of room, those first who did not come first last
 * time; then everything that can go out. */
static void move_on(struct sp_mux *m)
{
	bool any = false;

	sp_mux_guest_flush(m);
	for (unsigned i = 0; i < SP_G_SESSIONS; i++) {
		struct mux_client *c = &m->clients[(m->turn + i) % SP_G_SESSIONS];

		if (c->waits && (c->state == CLIENT_NEW || c->state == CLIENT_OPEN))
			sp_mux_client_take(m, c);
	}
	m->turn = (m->turn + 1) % SP_G_SESSIONS;
	for (unsigned i = 0; i < SP_G_SESSIONS; i++) {
		if (m->clients[i].state != CLIENT_NONE)
			sp_mux_client_flush(m, &m->clients[i]);
		any |= m->clients[i].state != CLIENT_NONE;
	}
	sp_mux_guest_flush(m);
	for (size_t i = 0; !any && i < MUX_SPARES; i++)
		sp_buf_free(&m->spare[i]);
}

enum sp_mux_event sp_mux_step(struct sp_mux *m, uint64_t *value)
{
	struct epoll_event ev[EVENTS];
	struct mux_fact fact;
	int n = 0;

	if (!m->nfacts) {
		do
			n = epoll_wait(m->ep, ev, EVENTS, 0);
		while (n < 0 && errno == EINTR);
		for (int i = 0; i < n; i++) {
			if (ev[i].data.u32 == MUX_WHO_LISTEN)
				sp_mux_client_accept(m);
			else if (ev[i].data.u32 == MUX_WHO_CHANNEL && ev[i].events & ~EPOLLOUT)
				sp_mux_guest_read(m);
			else if (ev[i].data.u32 < SP_G_SESSIONS)
				sp_mux_client_event(m, &m->clients[ev[i].data.u32], ev[i].events);
		}
		move_on(m);
	}
	if (!m->nfacts)
		return SP_MUX_NONE;
	fact = m->facts[0];
	memmove(m->facts, m->facts + 1, --m->nfacts * sizeof m->facts[0]);
	*value = fact.value;
	return fact.what;
}

int sp_mux_connect(struct sp_mux *m, int channel_fd, const struct sp_mux_welcome *w,
		   struct sp_err *e)
{
	sp_mux_hang_up(m, SP_BUSY, "the channel was connected again");
	if (fcntl(channel_fd, F_SETFL, O_NONBLOCK) < 0 ||
	    sp_mux_watch(m, EPOLL_CTL_ADD, channel_fd, EPOLLIN, MUX_WHO_CHANNEL) < 0) {
		int sys = errno;

		close(channel_fd);
		return sp_fail(e, SP_FAIL, sys, "watch the guest channel");
	}
	m->channel = channel_fd;
	m->channel_events = EPOLLIN;
	m->welcome = *w;
	m->garbage = 0;
	m->nfacts = 0;
	m->phase = MUX_MARKER;
	if (!w->cold && sp_mux_guest_greet(m) < 0) {
		sp_mux_guest_drop(m, MUX_IDLE);
		return sp_fail(e, SP_FAIL, 0, "the guest channel was closed at once");
	}
	return 0;
}

static int ask(struct sp_mux *m, enum sp_g_type type, uint64_t ms, struct sp_err *e)
{
	unsigned char mem[16];
	struct sp_fields f;

	if (m->phase != MUX_OPEN)
		return sp_fail(e, SP_BUSY, 0, "the guest agent is not ready");
	sp_fields_begin(&f, mem, sizeof mem);
	if (type == SP_G_FREEZE)
		sp_fields_add_u64(&f, SP_T_VALUE, ms);
	if (!sp_frame_put(&m->out, 0, type, 0, mem, (uint32_t)f.len))
		return sp_fail(e, SP_BUSY, 0, "the guest agent takes nothing");
	if (type == SP_G_FREEZE)
		m->freezes++;
	else
		m->thaws++;
	sp_mux_guest_flush(m);
	return 0;
}

int sp_mux_freeze(struct sp_mux *m, uint32_t thaw_ms, struct sp_err *e)
{
	return ask(m, SP_G_FREEZE, thaw_ms, e);
}

int sp_mux_thaw(struct sp_mux *m, struct sp_err *e)
{
	return ask(m, SP_G_THAW, 0, e);
}

void sp_mux_hang_up(struct sp_mux *m, int code, const char *message)
{
	sp_mux_guest_drop(m, MUX_IDLE);
	for (size_t i = 0; i < SP_G_SESSIONS; i++) {
		struct mux_client *c = &m->clients[i];

		if (c->state == CLIENT_OPEN)
			sp_mux_client_end(m, c, SP_G_LOST, code, message, false);
		if (c->state == CLIENT_OVER)
			sp_mux_client_flush(m, c);
	}
}
