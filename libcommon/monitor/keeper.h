/* SPDX-License-Identifier: Apache-2.0 */
/* The privileged half of a monitor (monitor/half.h), one a sandbox: its state, shared by the files
 * that start the machine, take checkpoints and serve the control socket. Single-threaded. */
#ifndef SP_MONITOR_KEEPER_H
#define SP_MONITOR_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jail/jail.h"
#include "monitor/ctl.h"
#include "monitor/half.h"
#include "state/roots.h"
#include "vmm/engine.h"

struct sp_keeper {
	struct sp_roots roots;
	struct sp_mon_spec spec;
	const struct sp_engine *engine;
	int run;  /* RUN/<sandbox> */
	int box;  /* sandboxes/<sandbox> */
	int life; /* locked as long as we live */
	int disk; /* rootfs.img; locked on a descriptor that the VMM inherits */
	int mem;  /* the RAM file that the VMM maps */
	/* the RAM file of the last checkpoint of this very machine; -1 before the first */
	int prev;
	int ctl;
	int half; /* to the reader */
	int starter; /* the socket that the spec came on; hung up: whoever asked for us is gone */
	int net, tap;
	struct sp_jail_slot slot;
	pid_t vmm, reader;
	int vmm_pidfd, reader_pidfd;
	enum sp_vm_state vm; /* as last told */
	bool ready, lost;    /* the agent has acknowledged; its channel broke */
	bool thawed;
	int frozen;          /* -1 not asked or not answered, else the guest's errno */
	uint32_t hooks_failed;
	unsigned char marker_next[SP_G_MARKER_LEN];
	char ended_why[300];
};

/* Everything from the spec to a machine that runs and an agent that has acknowledged. Fills the
 * report's times. SP_BUSY: it runs, the agent is silent. */
int sp_keeper_start(struct sp_keeper *k, struct sp_mon_report *rep, struct sp_err *e);
/* Ends the VMM and the reader, and removes what was made in RUN. */
void sp_keeper_end(struct sp_keeper *k);
/* Serves the control socket until the machine has ended. */
void sp_keeper_serve(struct sp_keeper *k);

/* One request to the reader and its answer; fd (or -1) goes along and stays the caller's. */
int sp_keeper_ask(struct sp_keeper *k, enum sp_half_type type, uint64_t value, int fd, int ms,
		  uint64_t *answer, struct sp_err *e);
int sp_keeper_send(struct sp_keeper *k, const struct sp_half_msg *m, int fd, int ms,
		   uint64_t *answer, struct sp_err *e);
/* Reads one message of the reader (waits up to ms); events are noted in *k. 1 and *m an answer, 0
 * an
 * event, -1 with SP_BUSY when nothing came, SP_FAIL when the reader is gone. */
int sp_keeper_hear(struct sp_keeper *k, int ms, struct sp_half_msg *m, struct sp_err *e);
/* Waits until *flag is set by an event. */
int sp_keeper_await(struct sp_keeper *k, const bool *flag, int ms, struct sp_err *e);

int sp_keeper_checkpoint(struct sp_keeper *k, const struct sp_mon_request *q,
			 struct sp_mon_answer *a, struct sp_err *e);

#endif
