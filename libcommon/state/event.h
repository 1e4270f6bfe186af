/* SPDX-License-Identifier: Apache-2.0 */
/* Events: store/events, JSON lines appended under a lock. A sequence number is EPOCH.OFFSET, the
 * byte offset where the line begins; a torn tail (no newline at the end) begins a new epoch, in a
 * new file events.<epoch>. {"seq":"0.123","at":"ns","what":"sandbox.paused","id":"s…","op":"o…",…} */
#ifndef SP_STATE_EVENT_H
#define SP_STATE_EVENT_H

#include "base/err.h"
#include "state/roots.h"
#include "text/json.h"

int sp_event_add(const struct sp_roots *r, const char *what, const char *id, const char *op,
		 const struct sp_json *more, struct sp_err *e);
/* Calls fn with each line (no newline) from since (NULL: the beginning). follow: goes on for ever
 * with inotify, until fn returns other than 0. */
int sp_event_read(const struct sp_roots *r, const char *since, int follow,
		  int (*fn)(const char *line, size_t n, void *arg), void *arg, struct sp_err *e);

#endif
