/* SPDX-License-Identifier: Apache-2.0 */
/* Talking to a monitor: start one for a sandbox, ask it for something.
 *
 * space-monitor is started detached with an inherited SOCK_SEQPACKET socket on which it gets one
 * struct sp_mon_spec and answers one struct sp_mon_report. Afterwards it listens on
 * RUN/<sandbox>/ctl (root only, peer checked), one request a connection, served in order. All
 * messages are fixed structs (same host, same build: `size` is checked).
 *
 * RUN/<sandbox>/: life (OFD-locked; holds "pid start boot" as text), ctl, guest (clients of the
 * guest channel: guest/mux.h). The console is sandboxes/<id>/console (monitor/console.h).
 */
#ifndef SP_MONITOR_CTL_H
#define SP_MONITOR_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "state/roots.h"
#include "text/id.h"
#include "vmm/engine.h"

/* How to start. The monitor opens everything itself from the store by these ids. */
struct sp_mon_spec {
	uint32_t size;
	char sandbox[SP_ID_SIZE];
	char base[SP_ID_SIZE];    /* checkpoint whose mem and vmstate to load; "": cold boot */
	char kernel[64];          /* kernels/<this> for a cold boot */
	char hostname[64];
	uint64_t generation;      /* new for every start */
	unsigned char marker[16]; /* of the checkpoint loaded (meta.json "marker", hex) */
	bool same;
	struct sp_machine machine; /* from the checkpoint's record, or from the probe */
	uint32_t ready_ms;         /* how long the agent may take; 0: 30 s load, 120 s cold boot */
};

struct sp_mon_report {
	uint32_t size;
	/* enum sp_code; with SP_BUSY the machine is up, its agent is silent ("flagged") */
	int32_t code;
	char message[480];
	int64_t spawned_ns, greeted_ns, loaded_ns, running_ns, ready_ns; /* since the spec came */
	uint32_t hooks_failed;
};

enum sp_mon_verb { SP_MON_CHECKPOINT = 1, SP_MON_STATUS, SP_MON_QUIT };

struct sp_mon_request {
	uint32_t size;
	uint32_t verb;
	char op[SP_ID_SIZE];
	/* CHECKPOINT: publish checkpoints/<checkpoint>, with this meta.json (the monitor adds
	 * "marker",
	 * "mem_bytes", "vmstate_bytes", "stopped_ns"). */
	char checkpoint[SP_ID_SIZE];
	bool files;     /* disk only, file systems frozen for the instant */
	bool then_quit; /* pause: the machine is not continued; the monitor ends after its answer */
	uint32_t meta_len;
	char meta[16384];
};

struct sp_mon_answer {
	uint32_t size;
	int32_t code;
	char message[480];
	uint32_t vm_state; /* enum sp_vm_state */
	bool agent_ready;
	char doing[SP_ID_SIZE]; /* STATUS: operation being served, or "" */
	int64_t stopped_ns;     /* how long the machine stood still */
	int64_t phases_ns
		[8]; /* freeze/flush, stop+save, snapshot, scan+copy, cont, write, publish, total */
	uint64_t pages_copied, pages_written;
};

/* Starts a monitor (finding space-monitor beside us or in libexec); *report is the socket on which
 * its report will come. Where a launcher listens on RUN/launch.sock, it is asked to start it. */
int sp_mon_start(const struct sp_roots *r, const struct sp_mon_spec *spec, int *report,
		 struct sp_err *e);
/* Waits for the report; its failure comes as *e (SP_BUSY: up but silent; *out filled then). A
 * monitor that died first is SP_FAIL. */
int sp_mon_await(int report, struct sp_mon_report *out, struct sp_err *e);
/* One request and its answer; SP_CONFLICT "is not running" where no monitor listens. */
int sp_mon_call(const struct sp_roots *r, const char *sandbox, const struct sp_mon_request *q,
		struct sp_mon_answer *a, struct sp_err *e);
/* 1 a monitor or its VMM lives, 0 none, -1 error. */
int sp_mon_is_alive(const struct sp_roots *r, const char *sandbox, struct sp_err *e);
/* Ends whatever runs: QUIT, then kill by identity; waits until `life` is free; removes
 * RUN/<sandbox>. */
int sp_mon_end(const struct sp_roots *r, const char *sandbox, struct sp_err *e);
/* Connects to RUN/<sandbox>/guest; SP_CONFLICT where it is not running. */
int sp_mon_guest(const struct sp_roots *r, const char *sandbox, struct sp_err *e);

#endif
