/* SPDX-License-Identifier: Apache-2.0 */
/* The outside end of the guest channel: many clients, one byte stream. Runs in the monitor's
 * reading half, which has no rights: single-threaded, never blocks, every buffer bounded.
 *
 * Clients connect to a listening unix socket and speak the same frames (channel number 0; the mux
 * gives each connection a channel of its own). A client that does not read stops its own session
 * only; a guest that sends beyond a window, an unknown type, or a frame for no session loses that
 * session (a late frame for a closed one is passed over) or, where the framing itself is broken,
 * the channel: then the mux says so and every client gets LOST.
 */
#ifndef SP_GUEST_MUX_H
#define SP_GUEST_MUX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "guest/proto.h"

struct sp_mux;

struct sp_mux_welcome {
	uint64_t generation;
	bool same; /* the same sandbox goes on (resume), else another one (create, branch) */
	bool cold; /* a boot: the cold marker; else a load: marker_now */
	unsigned char marker_now[SP_G_MARKER_LEN];
	unsigned char marker_next[SP_G_MARKER_LEN];
	unsigned char entropy[64];
	char hostname[64];
	char id[32];
};

enum sp_mux_event {
	SP_MUX_NONE,
	SP_MUX_READY,    /* value: hooks that failed */
	SP_MUX_FROZEN,   /* value: 0, or an errno of the guest */
	SP_MUX_THAWED,
	SP_MUX_LOST,     /* the channel broke or hung up */
};

struct sp_mux *sp_mux_new(int listen_fd, struct sp_err *e); /* takes the descriptor */
void sp_mux_free(struct sp_mux **m);
int sp_mux_fd(const struct sp_mux *m); /* an epoll descriptor: readable means call step */
/* Does what can be done now; returns the events one at a time (call until SP_MUX_NONE). */
enum sp_mux_event sp_mux_step(struct sp_mux *m, uint64_t *value);
/* The channel is connected (the descriptor is taken): begins the greeting. The time sent is the
 * clock at the moment of sending. */
int sp_mux_connect(struct sp_mux *m, int channel_fd, const struct sp_mux_welcome *w,
		   struct sp_err *e);
int sp_mux_freeze(struct sp_mux *m, uint32_t thaw_ms, struct sp_err *e);
int sp_mux_thaw(struct sp_mux *m, struct sp_err *e);
/* Tells every client LOST with code and message, after what they have buffered; no new sessions
 * until the next connect. */
void sp_mux_hang_up(struct sp_mux *m, int code, const char *message);

#endif
