/* SPDX-License-Identifier: Apache-2.0 */
/* QMP, QEMU's machine protocol (qemu-qmp-ref(7)): JSON lines over a connected socket.
 *
 * Contract: the other end is hostile. A line is at most SP_QMP_LINE bytes; every call has a
 * deadline; whatever does not parse ends the conversation. Events that arrive in between are
 * noted, the last run state among them.
 */
#ifndef SP_VMM_QMP_H
#define SP_VMM_QMP_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "text/json.h"
#include "vmm/engine.h"

#define SP_QMP_LINE (64 * 1024)

struct sp_qmp {
	int fd;
	struct sp_buf in;
	enum sp_vm_state told; /* the last state that an event told */
	bool migrated, migration_failed;
	bool ended;            /* end of file, or the conversation is broken */
};

void sp_qmp_init(struct sp_qmp *q, int fd);
/* Takes the greeting and negotiates. */
int sp_qmp_greet(struct sp_qmp *q, int ms, struct sp_err *e);
/* One command; args is JSON text or NULL; fd (or -1) goes along. *ret (may be NULL) gets
 * "return". */
int sp_qmp_call(struct sp_qmp *q, const char *name, const char *args, int fd, int ms,
		struct sp_json **ret, struct sp_err *e);
/* Reads until the incoming migration is over. */
int sp_qmp_await_migration(struct sp_qmp *q, int ms, struct sp_err *e);
/* Takes what has arrived without waiting. */
int sp_qmp_drain(struct sp_qmp *q, struct sp_err *e);

#endif
