/* SPDX-License-Identifier: Apache-2.0 */
/* The operation journal (space-state(5)): ops/<id>, one record an operation.
 *
 *   {"format":1, "id":"o…", "kind":"pause", "owner":"local", "seq":"17",
 *    "subjects":["s…"], "request":{…}, "request_id":"…"?, "state":"running"|"succeeded"|"failed",
 *    "worker":{"pid":1,"start":"…","boot":"…"}, "intent":{…}, "phases":[{"name":"…","at":"ns"}],
 *    "results":[{"id":"…"} | {"id":"…"?,"code":"busy","message":"…"}],
 *    "error":{"code":"busy","exit":5,"message":"…"}?, "created":"ns", "ended":"ns"?}
 *
 * Life: begin writes the intent durably and takes a ticket (seq, under the root lock; an empty
 * file queue/<subject>.<seq, 16 hex>.<op> per subject); the worker claims it, awaits its turn
 * (every earlier ticket of its subjects gone), acts in named phases, ends it: the final record,
 * then an event, then the tickets removed. Whoever finds an unfinished operation whose worker is
 * dead repairs it (sandbox layer: finish or undo by kind, from intent).
 */
#ifndef SP_STATE_OP_H
#define SP_STATE_OP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "state/roots.h"
#include "text/id.h"
#include "text/json.h"

struct sp_op; /* an unfinished operation that we work on */

struct sp_op_req {
	const char *kind;
	const char *owner;
	const char *const *subjects; /* ids whose queue it joins */
	size_t nsubjects;
	const struct sp_json *request; /* as asked; copied */
	const char *request_id;        /* or NULL; [A-Za-z0-9._:-]{1,128} */
	const struct sp_json
		*intent; /* or NULL: what is intended already; copied, spares a write */
};

/* Begins an operation. With a request_id that was seen before (per owner), *existing is true and
 * only its id is set; if kind or request differ from then, SP_CONFLICT. */
int sp_op_begin(const struct sp_roots *r, const struct sp_op_req *q, struct sp_op **out,
		char id[static SP_ID_SIZE], bool *existing, struct sp_err *e);
/* Was its request_id seen before? 1 with the id (subjects are not looked at), 0, -1 SP_CONFLICT. */
int sp_op_seen(const struct sp_roots *r, const struct sp_op_req *q, char id[static SP_ID_SIZE],
	       struct sp_err *e);
void sp_op_free(struct sp_op **op);

const char *sp_op_id(const struct sp_op *op);
const struct sp_json *sp_op_record(const struct sp_op *op);

/* In the worker process (after sp_proc_detach): it is now ours to finish. Until then it belongs to
 * the process that began it, which must not end before; SP_CONFLICT when it did and another took
 * the operation over. */
int sp_op_claim(struct sp_op *op, struct sp_err *e);
/* Waits until every earlier ticket on our subjects is gone, by inotify on queue/ and the pidfd of
 * each owner ahead; an owner that died is handed to repair(). */
int sp_op_await_turn(struct sp_op *op,
		     int (*repair)(const struct sp_roots *r, const char *op_id, struct sp_err *e),
		     struct sp_err *e);
/* Adds facts that an undo needs, before acting on them; durable. */
int sp_op_intend(struct sp_op *op, const char *key, struct sp_json *take, struct sp_err *e);
/* Marks that a step begins (recorded with its time; written with the next durable write, or at once
 * when durable). Test hook: if SPACE_CRASH_AT is "<kind>.<phase>" the process kills itself with
 * SIGKILL here, after the write. */
int sp_op_phase(struct sp_op *op, const char *name, bool durable, struct sp_err *e);
void sp_op_result(struct sp_op *op, const char *id, const struct sp_err *err); /* err NULL: good */
/* Ends it: failed with *err, or succeeded when err is NULL. A write that fails here is tried on
 * until it holds or e is filled. */
int sp_op_end(struct sp_op *op, const struct sp_err *err, struct sp_err *e);

/* For a repairer: the operation becomes ours if its worker is dead (root lock). SP_BUSY: it lives.
 * *out NULL without an error: it has ended meanwhile. */
int sp_op_adopt(const struct sp_roots *r, const char *id, struct sp_op **out, struct sp_err *e);
/* Takes away what ended operations, and begins that never were, left in queue/ and among the
 * request
 * ids. Under the root lock, which the caller holds. */
int sp_op_sweep(const struct sp_roots *r, struct sp_err *e);
/* Ids of unfinished operations, oldest first. */
int sp_op_each_open(const struct sp_roots *r,
		    int (*fn)(const struct sp_roots *r, const char *op_id, void *arg), void *arg,
		    struct sp_err *e);

struct sp_json *sp_op_load(const struct sp_roots *r, const char *id, struct sp_err *e);
/* Waits for the end by inotify and the worker's pidfd. 1 ended (*rec is the final record), 0 the
 * worker died first (repair it, call again), -1 error; SP_BUSY when timeout_ms (-1: none)
 * passed. */
int sp_op_wait(const struct sp_roots *r, const char *id, int timeout_ms, struct sp_json **rec,
	       struct sp_err *e);
/* The root lock (store/.lock). Returns the descriptor to close. The first to take it after a boot
 * makes the queue again. */
int sp_root_lock(const struct sp_roots *r, struct sp_err *e);

#endif
