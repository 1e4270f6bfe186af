/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox seen by its sessions: reaching its guest channel now, and again after a pause. Inside
 * of the api layer. */
#ifndef SP_API_GUEST_H
#define SP_API_GUEST_H

#include "api/session.h"
#include "state/roots.h"

struct sp_guest {
	struct sp_api *api;
	char operand[SP_NAME_SIZE]; /* as asked, for messages */
	char id[SP_ID_SIZE];
	struct sp_json *record; /* as of opening */
	int dir;                /* sandboxes/<id> */
	int watch;              /* inotify, or -1 */
};

/* A connection to its guest channel. SP_CONFLICT with the state in the message when it does not
 * run. */
int sp_guest_connect(struct sp_guest *g, struct sp_err *e);
/* The same, after a connection was lost: 1 *fd is connected, 0 not yet (wait for the watch to be
 * readable, then ask again), -1 it will not come back. */
int sp_guest_reconnect(struct sp_guest *g, int *fd, struct sp_err *e);
/* Is an operation on it under way or queued: 1 yes, 0 no, -1 error. */
int sp_guest_is_busy(struct sp_guest *g, struct sp_err *e);

#endif
