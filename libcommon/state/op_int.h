/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the operation journal: shared by op*.c, seen by nobody else.
 *
 * Beside the durable record ops/<id> an unfinished operation has, in queue/:
 *
 *   .<op>                          its owner: a symbolic link whose text is
 *                                  "1 <pid> <start> <boot id> <seq, 16 hex>"
 *   <subject>.<seq, 16 hex>.<op>   an empty file for each subject: its tickets
 *
 * Nothing in queue/ is flushed, for all of it can be made again from ops/: store/.lock holds the
 * boot id under which the queue is valid, and the first to take the root lock after a boot rebuilds
 * it (op_queue.c). So an operation costs two durable writes, its first record and its last, and
 * to claim one costs none. A link is replaced in one step and, unlike a file, is never half there.
 *
 * Order within begin, under the root lock: owner, tickets, request id, and last the record, which
 * is the commit. At the end: the record, durably; the event; the tickets; the owner. So a running
 * operation always has all its tickets and its owner, and whatever else is found is left over.
 */
#ifndef SP_STATE_OP_INT_H
#define SP_STATE_OP_INT_H

#include <stdint.h>

#include "state/op.h"
#include "sys/proc.h"

#define SP_OP_SUBJECTS_MAX 4096
#define SP_OP_SUBJECT_SIZE 65
#define SP_OP_TICKET_SIZE (SP_OP_SUBJECT_SIZE + 1 + 16 + 1 + SP_ID_SIZE)

struct sp_op {
	const struct sp_roots *roots;
	char id[SP_ID_SIZE];
	uint64_t seq;
	struct sp_proc_id worker;
	struct sp_json *rec;
};

struct sp_op_owner {
	struct sp_proc_id who;
	uint64_t seq;
};

struct sp_ticket {
	char subject[SP_OP_SUBJECT_SIZE];
	uint64_t seq;
	char op[SP_ID_SIZE];
};

/* op_queue.c. queue and ops are descriptors of the folders. */
int sp_op_dir(const struct sp_roots *r, const char *name, struct sp_err *e);
bool sp_op_subject_is_valid(const char *s);
int sp_owner_get(int queue, const char *op, struct sp_op_owner *out); /* 1, 0 none, -1 unreadable */
int sp_owner_put(int queue, const char *op, const struct sp_op_owner *o, struct sp_err *e);
void sp_ticket_name(const struct sp_ticket *t, char out[static SP_OP_TICKET_SIZE]);
bool sp_ticket_parse(const char *name, struct sp_ticket *out);
int sp_ticket_make(int queue, const struct sp_ticket *t, struct sp_err *e);
/* Removes an operation's tickets, then its owner, whatever the record says. */
int sp_op_leave(int queue, const char *op, struct sp_err *e);
/* The next sequence number; lock is the root lock's descriptor. */
int sp_op_next_seq(int lock, uint64_t *seq, struct sp_err *e);

/* Is queue/ of this boot? No lock needed. */
bool sp_op_queue_is_valid(const struct sp_roots *r);

/* op_repair.c. What its owner did not come to after the last record (rec; NULL: there never was a
 * record): that made durable, and its place in the queue given up. Left to an owner that lives. */
int sp_op_finish_end(const struct sp_roots *r, const char *id, const struct sp_json *rec,
		     struct sp_err *e);
/* Makes queue/ and the request ids again from ops/; the highest number in use comes
 * back in *seq. Under the root lock. */
int sp_op_rebuild(const struct sp_roots *r, uint64_t *seq, struct sp_err *e);

/* op_request.c. Both under the root lock. find: 1 and id when it is there and means the same,
 * 0 none, -1 error (SP_CONFLICT: it meant something else). */
int sp_op_request_find(const struct sp_roots *r, const struct sp_op_req *q,
		       char id[static SP_ID_SIZE], struct sp_err *e);
int sp_op_request_put(int ops, const char *owner, const char *request_id, const char *id,
		      struct sp_err *e);
void sp_op_request_drop(int ops, const char *owner, const char *request_id, const char *id);
bool sp_op_request_is_valid(const char *request_id);
bool sp_op_request_is_known(int ops, const char *owner,
			    const char *request_id); /* no lock needed */
int sp_op_request_sweep(int ops, struct sp_err *e);  /* those whose operation is gone */

/* op.c */
void sp_op_put_worker(struct sp_json *rec, const struct sp_proc_id *who);
bool sp_op_get_worker(const struct sp_json *rec, struct sp_proc_id *who);
bool sp_op_is_open(const struct sp_json *rec); /* its state is "running" */

/* A pidfd of an owner; -1 with errno ESRCH when it is dead (a zombie is dead). */
int sp_owner_open(const struct sp_proc_id *who);

#endif
