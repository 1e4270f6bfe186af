/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of a monitor, and what they say to each other.
 *
 * The keeper holds privilege: it makes the jail, starts the VMM, takes checkpoints, answers on the
 * control socket. The reader holds none: it has a uid of its own, an empty root and a closed system
 * call filter, and it alone parses what the VMM and the guest write (control connection, guest
 * channel, console). The keeper takes only struct sp_half_msg from it, of fixed size, and believes
 * nothing in it that would let a broken reader do more than spoil its own sandbox.
 *
 * One request at a time goes from the keeper; the reader answers each with SP_H_DONE. Events come
 * whenever they happen.
 */
#ifndef SP_MONITOR_HALF_H
#define SP_MONITOR_HALF_H

#include <stdint.h>

#include "guest/mux.h"
#include "vmm/engine.h"

enum sp_half_type {
	/* keeper to reader; a descriptor goes along where it says (fd) */
	SP_H_START = 1, /* greet the VMM; value 1: and load the machine from (fd) */
	SP_H_CHANNEL,   /* the guest channel's (fd) and the welcome to give */
	SP_H_CONT,
	SP_H_STOP,
	SP_H_SAVE, /* device state into (fd) */
	SP_H_STATE, /* DONE's value: enum sp_vm_state */
	SP_H_FREEZE, /* value: ms after which the guest thaws by itself */
	SP_H_THAW,
	SP_H_HANG_UP, /* tell clients: code, text */
	/* reader to keeper */
	SP_H_DONE = 64, /* code, text, value */
	SP_H_READY,     /* the agent has acknowledged; value: hooks that failed */
	SP_H_FROZEN,    /* value: 0 or the guest's errno */
	SP_H_THAWED,
	SP_H_LOST,      /* the guest channel broke */
	SP_H_VM,        /* value: enum sp_vm_state that the VMM told */
};

struct sp_half_msg {
	uint32_t type;
	int32_t code;
	uint64_t value;
	char text[256];
	struct sp_mux_welcome welcome; /* SP_H_CHANNEL only */
};

/* What the reader is born with; descriptors are its own to close. */
struct sp_reader {
	const struct sp_engine *engine;
	int keeper;  /* SOCK_SEQPACKET to the keeper */
	int control; /* of the VMM */
	int console; /* of the VMM: a stream socket */
	int log;     /* what the VMM prints: a pipe */
	int ring;    /* the console's file */
	int clients; /* listening socket for the guest channel's clients */
};

/* The reader's life: never returns before the keeper is gone. For sp_jail_run. */
int sp_reader_main(void *reader);

#endif
