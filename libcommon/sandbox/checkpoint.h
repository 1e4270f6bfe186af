/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: taking them, who needs them, removing them.
 *
 * Who needs a checkpoint is decided under the root lock, and a sandbox becomes visible under the
 * same lock only if its checkpoint is still there: so none is removed below a sandbox that starts.
 */
#ifndef SP_SANDBOX_CHECKPOINT_H
#define SP_SANDBOX_CHECKPOINT_H

#include <stdbool.h>

#include "base/err.h"
#include "monitor/ctl.h"
#include "sandbox/model.h"
#include "state/roots.h"
#include "text/json.h"

struct sp_take {
	const char *sandbox, *checkpoint;
	const char *kind, *why, *op;
	bool files, then_quit;
};

/* Is there room for one of this sandbox? At worst every page has changed. SP_BUSY with figures. */
int sp_checkpoint_room(const struct sp_roots *r, const struct sp_json *rec, bool files,
		       struct sp_err *e);
/* Of a running sandbox, by its monitor. */
int sp_checkpoint_take(const struct sp_roots *r, const struct sp_json *rec, const struct sp_take *t,
		       struct sp_mon_answer *answer, struct sp_err *e);
/* Of one that does not run: from the checkpoint it is paused in, or (files) from its own disk. */
int sp_checkpoint_take_still(const struct sp_roots *r, const struct sp_json *rec,
			     const struct sp_take *t, struct sp_err *e);
/* Waits until a monitor that serves a request is done with it: 1 the checkpoint is published,
 * 0 it is not and nothing of it is left. */
int sp_checkpoint_settle(const struct sp_roots *r, const char *sandbox, const char *checkpoint,
			 struct sp_err *e);
bool sp_checkpoint_exists(const struct sp_roots *r, const char *id);

/* Writes meta.json into the subvolume checkpoints/.new-<id>, makes it durable and read-only, and
 * publishes it. Takes meta. */
int sp_checkpoint_publish(const struct sp_roots *r, const char *id, struct sp_json *meta,
			  struct sp_err *e);
void sp_checkpoint_new_name(const char *id, char out[static 40]); /* ".new-<id>" */

/* Ids of the sandboxes that need it to run or to resume (a new array). Under the root lock where
 * the answer must last. */
struct sp_json *sp_checkpoint_needed_by(const struct sp_roots *r, const char *id, struct sp_err *e);
/* Removes one that goes by itself (pause, branch, unlinked warm) if nothing needs it, else leaves
 * it alone. `but`: the operation that asks (another open one on it keeps it). */
int sp_checkpoint_collect(const struct sp_roots *r, const char *id, const char *but,
			  struct sp_err *e);
/* Removes it and what names it, whoever needs it. Absent: fine. With the root lock held. */
int sp_checkpoint_unlink(const struct sp_roots *r, const char *id, char trash[static 40],
			 struct sp_err *e); /* trash "" when there was none */
int sp_checkpoint_empty(const struct sp_roots *r, const char *trash, struct sp_err *e);

/* Removes the names file from a folder that came with a subvolume snapshot; absent: fine. */
int sp_checkpoint_strip(int dirfd, bool memory_too, struct sp_err *e);

#endif
