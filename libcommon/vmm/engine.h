/* SPDX-License-Identifier: Apache-2.0 */
/* Engines: what a VMM must be able to do, as one table of functions.
 *
 * Two processes use an engine. The keeper (privileged half of the monitor) prepares descriptors and
 * starts the VMM in its jail with `command`. The reader (the half without rights) holds the control
 * connection and calls the rest; every byte that the VMM writes there is hostile. Each call has a
 * deadline and fails with SP_BUSY past it. The state is asked, never guessed from an error.
 */
#ifndef SP_VMM_ENGINE_H
#define SP_VMM_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "jail/jail.h"

#define SP_MACHINE_QEMU "pc-q35-7.2"

struct sp_engine;

/* What is fixed in a machine for its life, and recorded in every checkpoint of it. */
struct sp_machine {
	char engine[16];   /* "qemu" */
	char version[64];  /* of the engine */
	char accel[8];     /* "kvm" or "tcg" */
	char cpu_model[32];
	char machine[32];  /* versioned machine type */
	char devices[32];  /* name of the device set: "v1" */
	uint32_t cpus;
	uint64_t memory; /* bytes, multiple of 2 MiB */
};

/* Descriptors that the VMM gets, at these numbers inside. */
struct sp_vm_fds {
	int disk;     /* rootfs.img, read-write, locked (OFD) */
	int mem;      /* RAM file, read-only */
	int control;  /* one end of a socketpair: QMP, or -1 */
	int channel;  /* listening unix socket for the guest channel */
	int console;  /* write end: serial output */
	int tap;      /* the network card's tap, with vnet header off */
	int kernel, initrd; /* cold boot only, else -1 */
};

struct sp_vm_command {
	char path[256];        /* program as seen inside the jail */
	char *argv[96];        /* malloc'd strings, NULL-terminated */
	char *envp[8];
	struct sp_jail_bind binds[8];
	size_t nbinds;
};

enum sp_vm_state { SP_VM_UNKNOWN, SP_VM_PAUSED, SP_VM_RUNNING, SP_VM_STOPPED_IO, SP_VM_ENDED };

struct sp_vm; /* the reader's view of one VMM: control connection and its buffers */

struct sp_engine {
	const char *name;
	/* Can this host run it, and how: fills engine, version, accel, cpu_model, machine,
	 * devices. */
	int (*probe)(bool require_kvm, struct sp_machine *out, struct sp_err *e);
	/* The command line for a cold boot or a load (generation id: text uuid, new for every
	 * start). */
	int (*command)(const struct sp_machine *m, const struct sp_vm_fds *fds, bool load,
		       const char *cmdline, const char *genid, struct sp_vm_command *out,
		       struct sp_err *e);
	struct sp_vm *(*attach)(int control_fd, struct sp_err *e); /* greeting taken */
	void (*detach)(struct sp_vm **vm);
	int (*load)(struct sp_vm *vm, int state_fd, int ms, struct sp_err *e); /* then paused */
	int (*cont)(struct sp_vm *vm, struct sp_err *e);
	int (*stop)(struct sp_vm *vm, struct sp_err *e);
	/* Device state into state_fd (an empty file, write-only; closed here), of a stopped
	 * machine. */
	int (*save)(struct sp_vm *vm, int state_fd, struct sp_err *e);
	int (*state)(struct sp_vm *vm, enum sp_vm_state *out, struct sp_err *e);
	int (*quit)(struct sp_vm *vm, struct sp_err *e);
	int (*fd)(const struct sp_vm *vm);   /* readable: call events */
	/* Takes what came; 0, or -1 when the connection ended. *out: last state told, or
	 * UNKNOWN. */
	int (*events)(struct sp_vm *vm, enum sp_vm_state *out, struct sp_err *e);
};

extern const struct sp_engine sp_engine_qemu;
const struct sp_engine *sp_engine_find(const char *name); /* NULL */
void sp_vm_command_free(struct sp_vm_command *c);

/* Is KVM real? Runs a few instructions in long mode with paging, in a process with a deadline; the
 * verdict is kept in /run/space-kvm with the boot id. 1 yes, 0 no with the reason in why. */
int sp_kvm_probe(char *why, size_t n);

#endif
