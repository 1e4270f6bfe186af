/* SPDX-License-Identifier: Apache-2.0 */
/* A mux with a scripted guest at its other end and clients that are plain sockets, all in one
 * thread: rig_settle() lets the mux do all that it can. Shared by test_mux and fuzz_mux. */
#ifndef SP_TESTS_MUX_RIG_H
#define SP_TESTS_MUX_RIG_H

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "guest/frame.h"
#include "guest/mux.h"

#define RIG_CLIENTS 8

static char big[SP_G_PAYLOAD];

struct rig_peer { /* a guest or a client: its socket and what came on it */
	int fd;
	bool ended;
	struct sp_buf in;
};

struct rig {
	struct sp_mux *m;
	struct sockaddr_un addr;
	socklen_t addr_len;
	struct rig_peer guest, client[RIG_CLIENTS];
	unsigned seen[SP_MUX_LOST + 1]; /* events, by kind */
	uint64_t value;                 /* of the last one */
};

__attribute__((unused)) static void rig_settle(struct rig *r)
{
	struct pollfd p = { .fd = sp_mux_fd(r->m), .events = POLLIN };
	enum sp_mux_event ev;

	for (int i = 0; i < 10000; i++) {
		while ((ev = sp_mux_step(r->m, &r->value)) != SP_MUX_NONE)
			r->seen[ev]++;
		if (poll(&p, 1, 0) == 0)
			return;
	}
	assert(false && "the mux comes to rest");
}

__attribute__((unused)) static void rig_begin(struct rig *r)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sp_err e;

	memset(r, 0, sizeof *r);
	r->guest.fd = -1;
	sp_buf_init(&r->guest.in, 64u << 20);
	for (int i = 0; i < RIG_CLIENTS; i++) {
		r->client[i].fd = -1;
		sp_buf_init(&r->client[i].in, 64u << 20);
	}
	r->addr.sun_family = AF_UNIX; /* autobind: an abstract name that nobody else has */
	assert(bind(fd, (struct sockaddr *)&r->addr, sizeof(sa_family_t)) == 0);
	assert(listen(fd, 128) == 0);
	r->addr_len = sizeof r->addr;
	assert(getsockname(fd, (struct sockaddr *)&r->addr, &r->addr_len) == 0);
	r->m = sp_mux_new(fd, &e);
	assert(r->m);
}

__attribute__((unused)) static void rig_close(struct rig_peer *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	p->ended = false;
	sp_buf_free(&p->in);
}

__attribute__((unused)) static void rig_end(struct rig *r)
{
	rig_close(&r->guest);
	for (int i = 0; i < RIG_CLIENTS; i++)
		rig_close(&r->client[i]);
	sp_mux_free(&r->m);
}

/* Connects the channel; the guest's end is r->guest. */
__attribute__((unused)) static struct sp_mux_welcome rig_connect(struct rig *r, bool cold)
{
	struct sp_mux_welcome w = { .generation = 7, .same = true, .cold = cold };
	struct sp_err e;
	int sv[2];

	memset(w.marker_now, 0xa5, sizeof w.marker_now);
	memset(w.marker_next, 0x5a, sizeof w.marker_next);
	memset(w.entropy, 0x33, sizeof w.entropy);
	strcpy(w.hostname, "box");
	strcpy(w.id, "s0123456789abcdefghij");
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
	rig_close(&r->guest);
	r->guest.fd = sv[0];
	assert(sp_mux_connect(r->m, sv[1], &w, &e) == 0);
	return w;
}

__attribute__((unused)) static struct rig_peer *rig_client(struct rig *r, int i)
{
	struct rig_peer *p = &r->client[i];

	rig_close(p);
	p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert(connect(p->fd, (struct sockaddr *)&r->addr, r->addr_len) == 0);
	rig_settle(r);
	return p;
}

/* Writes all of it, letting the mux read when the socket is full. False: the mux closed it, or
 * takes no more. */
__attribute__((unused)) static bool rig_send(struct rig *r, struct rig_peer *p, const void *data,
					     size_t n)
{
	const char *at = data;

	while (n) {
		ssize_t done = send(p->fd, at, n, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (done < 0 && errno != EAGAIN)
			return false;
		rig_settle(r);
		if (done < 0)
			done = send(p->fd, at, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (done < 0)
			return false;
		at += done;
		n -= (size_t)done;
	}
	rig_settle(r);
	return true;
}

__attribute__((unused)) static bool rig_frame(struct rig *r, struct rig_peer *p, uint32_t chan,
					      int type, int stream, const void *data, size_t n)
{
	struct sp_buf b;
	bool good;

	sp_buf_init(&b, SP_G_HEADER + SP_G_PAYLOAD);
	assert(sp_frame_put(&b, chan, (enum sp_g_type)type, (uint8_t)stream, data, (uint32_t)n));
	good = rig_send(r, p, sp_buf_head(&b), sp_buf_len(&b));
	sp_buf_free(&b);
	return good;
}

__attribute__((unused)) static bool rig_u64(struct rig *r, struct rig_peer *p, uint32_t chan,
					    int type, int stream, uint64_t v)
{
	unsigned char le[8];

	for (int i = 0; i < 8; i++)
		le[i] = (unsigned char)(v >> (8 * i));
	return rig_frame(r, p, chan, type, stream, le, 8);
}

__attribute__((unused)) static bool rig_data(struct rig *r, struct rig_peer *p, uint32_t chan,
					     int stream, uint64_t off, const void *data, size_t n)
{
	struct sp_buf b;
	bool good;

	sp_buf_init(&b, SP_G_HEADER + SP_G_PAYLOAD);
	assert(sp_frame_put_data(&b, chan, (uint8_t)stream, off, data, (uint32_t)n));
	good = rig_send(r, p, sp_buf_head(&b), sp_buf_len(&b));
	sp_buf_free(&b);
	return good;
}

/* What the peer has been sent so far goes into its buffer. */
__attribute__((unused)) static void rig_pull(struct rig *r, struct rig_peer *p)
{
	for (;;) {
		unsigned char *to = sp_buf_room(&p->in, 65536);
		ssize_t n = recv(p->fd, to, 65536, MSG_DONTWAIT);

		if (n > 0)
			sp_buf_added(&p->in, (size_t)n);
		if (n == 0 || (n < 0 && errno != EAGAIN))
			p->ended = true;
		if (n <= 0)
			return;
		rig_settle(r);
	}
}

/* Takes the next frame off: its type, 0 none, -1 the connection ended. The payload is lent until
 * the next call on this peer. */
__attribute__((unused)) static int rig_next(struct rig *r, struct rig_peer *p,
					    struct sp_g_header *h, const unsigned char **payload)
{
	int got;

	rig_pull(r, p);
	got = sp_frame_peek(&p->in, h, payload);
	assert(got >= 0);
	if (!got)
		return p->ended ? -1 : 0;
	p->in.off += SP_G_HEADER + h->len; /* not sp_buf_drop: the payload stays where it is */
	p->in.len -= SP_G_HEADER + h->len;
	return h->type;
}

__attribute__((unused)) static void rig_hello(struct rig *r)
{
	unsigned char mem[64];
	struct sp_fields f;

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u32(&f, SP_T_VERSION, 1);
	rig_frame(r, &r->guest, 0, SP_G_HELLO, 0, mem, f.len);
}

__attribute__((unused)) static void rig_ready(struct rig *r, uint64_t generation)
{
	unsigned char mem[64];
	struct sp_fields f;

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u64(&f, SP_T_GENERATION, generation);
	sp_fields_add_u64(&f, SP_T_VALUE, 2);
	rig_frame(r, &r->guest, 0, SP_G_READY, 0, mem, f.len);
}

__attribute__((unused)) static void rig_skip_marker(struct rig *r)
{
	rig_pull(r, &r->guest);
	sp_buf_drop(&r->guest.in, SP_G_MARKER_LEN);
}

/* A loaded machine whose agent is ready, its WELCOME taken. */
__attribute__((unused)) static void rig_begin_ready(struct rig *r)
{
	struct sp_mux_welcome w;
	const unsigned char *p;
	struct sp_g_header h;

	rig_begin(r);
	w = rig_connect(r, false);
	rig_send(r, &r->guest, w.marker_now, SP_G_MARKER_LEN);
	rig_hello(r);
	rig_ready(r, 7);
	rig_skip_marker(r);
	assert(rig_next(r, &r->guest, &h, &p) == SP_G_WELCOME);
}

/* Opens a session; its channel. */
__attribute__((unused)) static uint32_t rig_open_on(struct rig *r, int i)
{
	const unsigned char *p;
	struct sp_g_header h;
	uint32_t chan;

	rig_frame(r, rig_client(r, i), 0, SP_G_EXEC, 0, NULL, 0);
	assert(rig_next(r, &r->guest, &h, &p) == SP_G_EXEC);
	chan = h.chan;
	rig_frame(r, &r->guest, chan, SP_G_OPENED, 0, NULL, 0);
	assert(rig_next(r, &r->client[i], &h, &p) == SP_G_OPENED);
	return chan;
}

/* The next frame of a client is this type, with this code in it (-1: any). */
__attribute__((unused)) static bool rig_client_got(struct rig *r, int i, int type, int code)
{
	const unsigned char *p;
	struct sp_g_header h;
	int got = rig_next(r, &r->client[i], &h, &p);

	if (got != type)
		printf("# client %d got %d, not %d\n", i, got, type);
	return got == type &&
	       (code < 0 || sp_fields_num(p, h.len, SP_T_CODE, 999) == (uint64_t)code);
}

__attribute__((unused)) static bool rig_guest_got(struct rig *r, int type, uint32_t chan)
{
	const unsigned char *p;
	struct sp_g_header h;
	int got = rig_next(r, &r->guest, &h, &p);

	if (got != type)
		printf("# the guest got %d, not %d\n", got, type);
	return got == type && h.chan == chan;
}

/* The session still carries output. */
__attribute__((unused)) static bool rig_works(struct rig *r, int i, uint32_t chan, uint64_t off)
{
	const unsigned char *p;
	struct sp_g_header h;

	rig_data(r, &r->guest, chan, 1, off, "good", 4);
	return rig_next(r, &r->client[i], &h, &p) == SP_G_DATA && h.chan == 0 && h.stream == 1 &&
	       h.len == 12 && memcmp(p + 8, "good", 4) == 0;
}

/* Sends n bytes of output in frames of `step`. */
__attribute__((unused)) static void rig_output(struct rig *r, uint32_t chan,
						       uint64_t off, size_t n, size_t step)
{
	while (n) {
		size_t part = n < step ? n : step;

		rig_data(r, &r->guest, chan, 1, off, big, part);
		off += part;
		n -= part;
	}
}

__attribute__((unused)) static size_t rig_drain(struct rig *r, int i, int *last)
{
	const unsigned char *p;
	struct sp_g_header h;
	size_t n = 0;
	int t;

	*last = 0;
	while ((t = rig_next(r, &r->client[i], &h, &p)) > 0) {
		n += t == SP_G_DATA ? h.len - 8 : 0;
		*last = t;
	}
	return n;
}

#endif
