/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the mux (guest/mux.h): what its three files share.
 *
 *   mux.c         life, memory, the step
 *   mux_guest.c   the channel: greeting, frames that come from the guest, what goes to it
 *   mux_client.c  the clients: their frames in, their sessions' output out
 *
 * Memory is bounded so: one read buffer and one write buffer for the channel; a session holds at
 * most a window of each of its two outputs (more is the guest's fault), MUX_CTL of other frames,
 * one last frame, and one frame of its client's that is not whole or has to wait. All of it is
 * taken when needed and given back when empty. Writes are sendmsg with MSG_NOSIGNAL, so that a
 * client that died is an error and not a signal.
 */
#ifndef SP_GUEST_MUX_INT_H
#define SP_GUEST_MUX_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "guest/frame.h"
#include "guest/mux.h"
#include "guest/proto.h"

#define MUX_IN (2u * (SP_G_HEADER + SP_G_PAYLOAD)) /* from the guest, before it is taken apart */
#define MUX_OUT (256u * 1024)                      /* to the guest; clients wait beyond it */
#define MUX_OUT_MORE 8192u                         /* room above that for CLOSE, FREEZE, THAW */
#define MUX_CTL (2u * (SP_G_HEADER + SP_G_PAYLOAD)) /* OPENED, ENTRY that a client left unread */
#define MUX_LAST 8192u                              /* the last frame of a session */
#define MUX_GARBAGE (1u << 20)                      /* most bytes before the guest's marker */
#define MUX_READS 4                                 /* reads of the channel in one step */
#define MUX_SPARES 2

/* Whose event it is: below these, the client of that slot. */
#define MUX_WHO_LISTEN 1000u
#define MUX_WHO_CHANNEL 1001u

enum mux_phase {
	MUX_IDLE,    /* no channel: clients that come wait for the next one */
	MUX_MARKER,  /* the guest's marker has not come */
	MUX_HELLO,   /* the marker came, HELLO not */
	MUX_GREETED, /* HELLO came, READY not */
	MUX_OPEN,
	MUX_BROKEN, /* the guest broke the protocol: clients that come are refused */
};

/* One output of a session on its way to the client. */
struct mux_output {
	struct sp_buf data;
	uint64_t base;  /* stream offset of its first byte */
	uint64_t acked; /* by the client */
	bool started;   /* base is known */
	bool eof, eof_told;
};

enum client_state {
	CLIENT_NONE,
	CLIENT_NEW,  /* connected, nothing opened yet */
	CLIENT_OPEN, /* has a channel */
	CLIENT_OVER, /* gets what is buffered and the last frame, then is closed */
};

struct mux_client {
	int fd;
	enum client_state state;
	uint32_t chan;   /* number of the slot in its low bits */
	uint32_t events; /* what epoll is asked */
	bool waits;      /* has a whole frame in `in` for which there was no room */
	bool opened, exited;
	struct sp_buf in, ctl, last;
	struct mux_output out[2]; /* streams 1 and 2 */
	unsigned char head[SP_G_HEADER + 8]; /* of the DATA frame that is being sent */
	uint32_t head_off, head_len, left;   /* left: its bytes that are still in out[turn] */
	int turn;
	uint64_t in_next, in_acked; /* input: sent on, acknowledged by the guest */
	bool in_started, in_eof, ack_due;
};

struct mux_fact {
	enum sp_mux_event what;
	uint64_t value;
};

struct sp_mux {
	int ep, listen, channel;
	bool deaf; /* no descriptor was left for another client */
	enum mux_phase phase;
	struct sp_mux_welcome welcome;
	uint32_t channel_events;
	size_t garbage;
	uint32_t freezes, thaws; /* asked and not answered */
	struct sp_buf in, out;
	struct sp_buf spare[MUX_SPARES];
	struct mux_fact facts[8];
	unsigned nfacts;
	unsigned turn;                   /* who is served first */
	uint32_t opened[SP_G_SESSIONS]; /* sessions that a slot has had */
	struct mux_client clients[SP_G_SESSIONS];
};

/* mux.c */
void sp_mux_tell(struct sp_mux *m, enum sp_mux_event what, uint64_t value);
unsigned char *sp_mux_room(struct sp_mux *m, struct sp_buf *b, size_t n); /* NULL: bound reached */
void sp_mux_give_back(struct sp_mux *m, struct sp_buf *b); /* memory of an empty buffer */
int sp_mux_watch(struct sp_mux *m, int op, int fd, uint32_t events, uint32_t who);
/* Sends what the two pieces hold (b may be empty): bytes sent, 0 not now, -1 the peer is gone. */
long sp_mux_send(int fd, const void *a, size_t na, const void *b, size_t nb);

/* mux_guest.c */
void sp_mux_guest_read(struct sp_mux *m);
void sp_mux_guest_flush(struct sp_mux *m);
void sp_mux_guest_drop(struct sp_mux *m, enum mux_phase next); /* closes the channel */
int sp_mux_guest_greet(struct sp_mux *m);                      /* a load: marker and WELCOME */

/* mux_client.c */
void sp_mux_client_accept(struct sp_mux *m);
void sp_mux_client_event(struct sp_mux *m, struct mux_client *c, uint32_t events);
void sp_mux_client_take(struct sp_mux *m, struct mux_client *c);  /* its frames, to the guest */
void sp_mux_client_flush(struct sp_mux *m, struct mux_client *c); /* to it, and its interest */
void sp_mux_client_close(struct sp_mux *m, struct mux_client *c);
/* Ends the session with one last frame after what is buffered; tell: the guest gets CLOSE. */
void sp_mux_client_end(struct sp_mux *m, struct mux_client *c, enum sp_g_type type, int code,
		       const char *message, bool tell);
/* A frame of the guest's for this session. */
void sp_mux_client_frame(struct sp_mux *m, struct mux_client *c, const struct sp_g_header *h,
			 const unsigned char *p);

#endif
