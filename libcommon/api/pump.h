/* SPDX-License-Identifier: Apache-2.0 */
/* One process in a guest, run or attached to, with our descriptors at its ends. Inside of the api
 * layer: session.h says what it does for the user.
 *
 *   OPENING  the request is out, its answer is not here
 *   RUNNING  the process has our input and we have its output
 *   WAITING  the connection is gone; the sandbox is watched until it runs again, then OPENING
 *   OVER     the process ended; what it wrote is on its way out
 *
 * Input that the guest has not acknowledged is kept (at most a window, which is also the most that
 * may be under way), so that after a cut it goes on from the offset that the agent names.
 */
#ifndef SP_API_PUMP_H
#define SP_API_PUMP_H

#include "api/conn.h"
#include "api/guest.h"
#include "api/sink.h"

enum sp_pump_phase { SP_PUMP_OPENING, SP_PUMP_RUNNING, SP_PUMP_WAITING, SP_PUMP_OVER };

struct sp_pump {
	struct sp_guest *g;
	const struct sp_exec *x;
	const struct sp_fields *request; /* EXEC; not used to attach */
	const char *proc;
	enum sp_pump_phase phase;
	struct sp_conn conn;
	bool attach; /* the next request is ATTACH */
	bool begun;  /* OPENED has come */
	bool done;   /* detached: nothing more to do */
	unsigned tries;
	int64_t deadline; /* of OPENING */

	struct sp_buf keep; /* input from in_base on */
	uint64_t in_base, in_sent;
	bool in_started, in_eof, eof_sent;

	struct sp_sink out[2];
	bool pipe_told; /* the process knows that nobody reads it */

	int signals; /* signalfd */
	uint64_t due; /* signals to be sent once it runs */
	int strike, strikes;
	int64_t strike_at;

	uint32_t status; /* as waitpid tells it, when OVER */
};

/* pump.c */
int sp_pump_run(struct sp_pump *p, struct sp_err *e);
/* The connection is fd, or lost when -1. */
int sp_pump_open(struct sp_pump *p, int fd, struct sp_err *e);
int sp_pump_lost(struct sp_pump *p, struct sp_err *e);

/* pump_frame.c: what the guest says. */
int sp_pump_frames(struct sp_pump *p, struct sp_err *e);

/* pump_local.c: what comes from this side. */
int sp_pump_signals(struct sp_pump *p, struct sp_err *e);
void sp_pump_send_signal(struct sp_pump *p, int sig);
void sp_pump_send_size(struct sp_pump *p);
void sp_pump_read_input(struct sp_pump *p);
void sp_pump_send_input(struct sp_pump *p);
void sp_pump_send_acks(struct sp_pump *p);
void sp_pump_check_sinks(struct sp_pump *p);

#endif
