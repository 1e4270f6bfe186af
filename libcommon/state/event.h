/* SPDX-License-Identifier: Apache-2.0 */
/* Events: store/events, JSON lines appended under a lock. A sequence number is EPOCH.OFFSET, the
 * byte offset where the line begins; epoch 0 is the file events, epoch N the file events.N.
 * {"seq":"0.123","at":"ns","what":"sandbox.paused","id":"s…","op":"o…",…}
 *
 * A torn tail (no newline at the end) begins a new epoch, and so does a boot: events are not
 * flushed one by one, so the last of them may be lost with the power, and an offset must never mean
 * two things. A full file too begins one. The first line of an epoch says so:
 * {"seq":"1.0","at":"ns","what":"events.epoch","boot":"…"}.
 */
#ifndef SP_STATE_EVENT_H
#define SP_STATE_EVENT_H

#include "base/err.h"
#include "state/roots.h"
#include "text/json.h"

#define SP_EVENT_MAX (64 * 1024)         /* bytes of one line */
#define SP_EVENT_FILE_MAX (64LL << 20)   /* a file that has reached it begins a new epoch */

/* more: further keys, or NULL; what, id and op may be NULL. */
int sp_event_add(const struct sp_roots *r, const char *what, const char *id, const char *op,
		 const struct sp_json *more, struct sp_err *e);
/* Calls fn with each line (no newline) from since (NULL: the beginning), the one that has this
 * number included. A number that no line has or will have next is SP_USAGE; one of an earlier epoch
 * whose line was lost means what came after it. follow: goes on for ever with inotify, until fn
 * returns other than 0, which is returned. */
int sp_event_read(const struct sp_roots *r, const char *since, int follow,
		  int (*fn)(const char *line, size_t n, void *arg), void *arg, struct sp_err *e);

#endif
