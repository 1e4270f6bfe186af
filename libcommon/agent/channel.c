/* SPDX-License-Identifier: Apache-2.0 */
/* The channel's bytes: the marker, frames in, frames out.
 *
 * Out has two bounds. Streams put DATA only while less than OUT_STREAMS waits, so that an answer
 * is never far behind. Frames are taken in only while OUT_SMALL of room is left for what they make
 * the agent say, and a single small frame is at most OUT_SMALL: so an answer always fits. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/str.h"

#define CHUNK 65536u
#define IN_MOST (SP_G_HEADER + SP_G_PAYLOAD + CHUNK)
#define OUT_MOST (256u * 1024)
#define OUT_STREAMS (128u * 1024)
#define OUT_SMALL (8u * 1024)
#define WRITE_MOST 32768u /* what a virtio port takes at once */
#define TURNS 4

void sp_channel_init(struct sp_agent *a)
{
	struct sp_channel *ch = &a->ch;

	sp_buf_init(&ch->in, IN_MOST);
	sp_buf_init(&ch->out, OUT_MOST);
	memcpy(ch->marker, SP_G_COLD_MARKER, SP_G_MARKER_LEN);
	ch->cold = true;
}

bool sp_channel_has_room(const struct sp_agent *a)
{
	return sp_buf_len(&a->ch.out) < OUT_STREAMS;
}

void sp_channel_send(struct sp_agent *a, uint32_t chan, enum sp_g_type type,
		     const struct sp_fields *f)
{
	sp_frame_put(&a->ch.out, chan, type, 0, f ? f->mem : NULL, f ? (uint32_t)f->len : 0);
}

void sp_channel_error(struct sp_agent *a, uint32_t chan, enum sp_code code, const char *fmt, ...)
{
	unsigned char mem[1024];
	char message[512];
	struct sp_fields f;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u32(&f, SP_T_CODE, code);
	sp_fields_add_str(&f, SP_T_MESSAGE, message);
	sp_channel_send(a, chan, SP_G_ERROR, &f);
}

void sp_channel_greet(struct sp_agent *a)
{
	struct sp_channel *ch = &a->ch;
	unsigned char mem[64];
	struct timespec up;
	struct sp_fields f;

	clock_gettime(CLOCK_BOOTTIME, &up);
	sp_buf_drop(&ch->out, sp_buf_len(&ch->out));
	sp_buf_put(&ch->out, ch->marker, SP_G_MARKER_LEN);
	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u32(&f, SP_T_VERSION, SP_G_VERSION);
	sp_fields_add_u64(&f, SP_T_GENERATION, a->resume.acked);
	sp_fields_add_u64(&f, SP_T_VALUE, (uint64_t)up.tv_sec * 1000000000u + (uint64_t)up.tv_nsec);
	sp_channel_send(a, 0, SP_G_HELLO, &f);
	ch->greeted = true;
}

/* Their marker came. At a cold boot it only begins the frames; later it says that what both sides
 * knew of the connection is void. */
static void on_marker(struct sp_agent *a)
{
	struct sp_channel *ch = &a->ch;

	sp_buf_drop(&ch->in, sp_buf_len(&ch->in));
	ch->tail_len = 0;
	ch->synced = true;
	if (ch->cold)
		return;
	a->ready = false;
	sp_session_drop_all(a);
	sp_freeze_forget(a);
	sp_resume_cancel(a);
	sp_channel_greet(a);
}

/* How many bytes of data belong to and before a marker that ends in it; 0: none does. What came
 * before is remembered in tail, as far as a marker can begin there. */
static size_t marker_end(struct sp_channel *ch, const unsigned char *data, size_t n)
{
	unsigned char seam[2 * (SP_G_MARKER_LEN - 1)], *at;
	size_t take = n < sizeof ch->tail ? n : sizeof ch->tail, keep;

	memcpy(seam, ch->tail, ch->tail_len);
	memcpy(seam + ch->tail_len, data, take);
	at = memmem(seam, ch->tail_len + take, ch->marker, SP_G_MARKER_LEN);
	if (at)
		return (size_t)(at - seam) + SP_G_MARKER_LEN - ch->tail_len;
	at = memmem(data, n, ch->marker, SP_G_MARKER_LEN);
	if (at)
		return (size_t)(at - data) + SP_G_MARKER_LEN;
	if (n >= sizeof ch->tail) {
		ch->tail_len = sizeof ch->tail;
		memcpy(ch->tail, data + n - sizeof ch->tail, sizeof ch->tail);
		return 0;
	}
	keep = ch->tail_len < sizeof ch->tail - n ? ch->tail_len : sizeof ch->tail - n;
	memmove(ch->tail, ch->tail + ch->tail_len - keep, keep);
	memcpy(ch->tail + keep, data, n);
	ch->tail_len = keep + n;
	return 0;
}

/* Bytes that were read into the room at the end of in. */
static void take(struct sp_agent *a, size_t n)
{
	struct sp_channel *ch = &a->ch;
	unsigned char *data = sp_buf_head(&ch->in) + sp_buf_len(&ch->in);
	size_t end;

	while ((end = marker_end(ch, data, n))) {
		const unsigned char *rest = data + end;

		n -= end;
		on_marker(a); /* empties in, whose memory stays */
		data = sp_buf_head(&ch->in);
		memmove(data, rest, n);
	}
	if (ch->synced)
		sp_buf_added(&ch->in, n);
}

static void on_hang_up(struct sp_agent *a)
{
	struct sp_channel *ch = &a->ch;

	ch->readable = false;
	if (!a->boot) {
		a->stop = true; /* an inherited socket never comes back */
		return;
	}
	/* A hang-up says nothing about bytes: the kernel learns of connections in a work queue of
	 * its own, so that bytes of the next connection can be read before it, and this is
	 * reported after its marker came. The marker alone tells. Only of the first greeting a
	 * part may be lost with a connection: it is said again. */
	if (ch->cold)
		sp_channel_greet(a);
}

static bool channel_read(struct sp_agent *a)
{
	struct sp_channel *ch = &a->ch;
	unsigned char *room;
	ssize_t n;

	if (!ch->readable || ch->w.fd < 0 || !ch->greeted || sp_buf_space(&ch->in) < CHUNK ||
	    sp_buf_space(&ch->out) < OUT_SMALL)
		return false;
	room = sp_buf_room(&ch->in, CHUNK);
	n = read(ch->w.fd, room, CHUNK);
	if (n > 0) {
		take(a, (size_t)n);
		return true;
	}
	if (n == 0) {
		on_hang_up(a);
		return false;
	}
	if (errno == EINTR)
		return true;
	ch->readable = false;
	if (errno != EAGAIN) {
		sp_watch_close(a, &ch->w); /* the device is gone */
		if (!a->boot)
			a->stop = true;
		else
			sp_port_open(a);
	}
	return false;
}

static void agent_frame(struct sp_agent *a, const struct sp_g_header *h, const unsigned char *p)
{
	if (sp_fields_check(p, h->len) < 0)
		return;
	switch (h->type) {
	case SP_G_WELCOME:
		sp_resume_welcome(a, p, h->len);
		break;
	case SP_G_FREEZE:
		sp_freeze_begin(a, p, h->len);
		break;
	case SP_G_THAW:
		sp_freeze_thaw(a);
		break;
	case SP_G_METRICS:
		sp_metrics_send(a);
		break;
	default:
		break; /* of a later version */
	}
}

static bool channel_parse(struct sp_agent *a)
{
	struct sp_channel *ch = &a->ch;
	const unsigned char *p;
	struct sp_g_header h;
	bool any = false;
	int r = 0;

	while (ch->synced && sp_buf_space(&ch->out) >= OUT_SMALL &&
	       (r = sp_frame_peek(&ch->in, &h, &p)) == 1) {
		any = true;
		if (h.chan)
			sp_session_frame(a, &h, p);
		else
			agent_frame(a, &h, p);
		sp_buf_drop(&ch->in, SP_G_HEADER + (size_t)h.len);
	}
	if (r < 0) {
		sp_say(a, "what came on the channel is no frame: waiting for the next marker");
		ch->synced = false;
		sp_buf_drop(&ch->in, sp_buf_len(&ch->in));
	}
	return any;
}

static bool channel_flush(struct sp_agent *a)
{
	struct sp_channel *ch = &a->ch;
	size_t n = sp_buf_len(&ch->out);
	ssize_t w;

	if (!n || !ch->writable || ch->w.fd < 0)
		return false;
	w = write(ch->w.fd, sp_buf_head(&ch->out), n < WRITE_MOST ? n : WRITE_MOST);
	if (w > 0)
		sp_buf_drop(&ch->out, (size_t)w);
	else if (w < 0 && errno != EINTR)
		ch->writable = false; /* full, or nobody there: an edge will tell */
	return w > 0;
}

bool sp_channel_drive(struct sp_agent *a)
{
	unsigned turns = 0;
	bool moved;

	do {
		moved = channel_read(a);
		moved |= channel_parse(a);
		sp_session_pump(a);
		moved |= channel_flush(a);
	} while (moved && ++turns < TURNS && !a->stop);
	return moved;
}

void sp_channel_event(struct sp_agent *a, struct sp_watch *w, uint32_t events)
{
	(void)w;
	(void)events;
	a->ch.readable = a->ch.writable = true;
}
