/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to a sandbox's guest channel: one session (guest/mux.h), as frames. Not blocking:
 * what polls calls fill and flush; simple requests call sp_conn_wait.
 *
 * Contract: start with sp_conn_init, end with sp_conn_close; a frame is lent until the next take.
 * What the guest says is hostile: texts are escaped before they go into an error.
 */
#ifndef SP_API_CONN_H
#define SP_API_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "guest/frame.h"
#include "guest/proto.h"

/* How long a request may stay without its first answer, in ms. The agent answers at once; a load of
 * the machine is given 30 s (monitor/ctl.h), during which a request waits. */
#define SP_CONN_PATIENCE 60000

struct sp_conn {
	int fd;
	struct sp_buf in, out;
	size_t taken; /* bytes of the frame lent last */
	bool ended;   /* the other side closed it */
};

void sp_conn_init(struct sp_conn *c, int fd); /* takes the descriptor; -1: none yet */
void sp_conn_close(struct sp_conn *c);
#define sp_auto_conn __attribute__((cleanup(sp_conn_close))) struct sp_conn

/* Queues a request or a frame of fields. */
int sp_conn_ask(struct sp_conn *c, enum sp_g_type type, const struct sp_fields *f,
		struct sp_err *e);
void sp_conn_fill(struct sp_conn *c);  /* receives what is there, sets ended */
void sp_conn_flush(struct sp_conn *c); /* sends what goes */
/* 1 a frame, 0 none whole yet, -1 what came is none. */
int sp_conn_take(struct sp_conn *c, struct sp_g_header *h, const unsigned char **p);
/* Waits for the next frame, sending what is queued: 1 a frame; -1 an ERROR or LOST of the guest's,
 * the end of the connection, or patience (ms, -1 for ever) at its end, as *e. */
int sp_conn_wait(struct sp_conn *c, int ms, struct sp_g_header *h, const unsigned char **p,
		 struct sp_err *e);
/* What an ERROR or LOST says. Always -1. */
int sp_conn_error(const struct sp_g_header *h, const unsigned char *p, struct sp_err *e);

#endif
