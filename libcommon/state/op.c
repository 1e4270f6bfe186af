/* SPDX-License-Identifier: Apache-2.0 */
/* An operation's own life: begin, claim, steps, end. op_int.h tells what lies where, and why. */
#include "state/op.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state/event.h"
#include "state/op_int.h"
#include "state/record.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"

#define END_TRIES 3

void sp_op_put_worker(struct sp_json *rec, const struct sp_proc_id *who)
{
	struct sp_json *w = sp_json_put_object(rec, "worker");

	sp_json_put_int(w, "pid", (int)who->pid);
	sp_json_put_i64(w, "start", (int64_t)who->start);
	sp_json_put_str(w, "boot", who->boot);
}

bool sp_op_get_worker(const struct sp_json *rec, struct sp_proc_id *who)
{
	const struct sp_json *w = sp_json_get(rec, "worker");
	const char *boot = sp_json_str(w, "boot");

	*who = (struct sp_proc_id){ .pid = (pid_t)sp_json_i64(w, "pid", 0),
				    .start = (uint64_t)sp_json_i64(w, "start", 0) };
	if (!boot || strlen(boot) >= sizeof who->boot)
		return false;
	memcpy(who->boot, boot, strlen(boot) + 1);
	return who->pid > 0;
}

bool sp_op_is_open(const struct sp_json *rec)
{
	const char *state = sp_json_str(rec, "state");

	return state && strcmp(state, "running") == 0;
}

static int check(const struct sp_op_req *q, struct sp_err *e)
{
	size_t i, k;

	if (!sp_name_is_valid(q->kind) || !sp_name_is_valid(q->owner))
		return sp_fail(e, SP_FAIL, 0, "operation of no valid kind or owner");
	if (q->nsubjects > SP_OP_SUBJECTS_MAX)
		return sp_fail(e, SP_USAGE, 0, "more than %d subjects in one operation",
			       SP_OP_SUBJECTS_MAX);
	for (i = 0; i < q->nsubjects; i++) {
		if (!sp_op_subject_is_valid(q->subjects[i]))
			return sp_fail(e, SP_FAIL, 0, "'%s' can have no queue", q->subjects[i]);
		for (k = 0; k < i; k++)
			if (strcmp(q->subjects[i], q->subjects[k]) == 0)
				return sp_fail(e, SP_USAGE, 0, "'%s' is named twice",
					       q->subjects[i]);
	}
	if (q->request_id && !sp_op_request_is_valid(q->request_id))
		return sp_fail(e, SP_USAGE, 0, "request id is not 1 to 128 of [A-Za-z0-9._:-]");
	return 0;
}

static struct sp_json *first_record(const struct sp_op_req *q, const struct sp_op *op)
{
	struct sp_json *rec = sp_json_new_object(), *a;
	size_t i;

	sp_json_put_int(rec, "format", SP_FORMAT);
	sp_json_put_str(rec, "id", op->id);
	sp_json_put_str(rec, "kind", q->kind);
	sp_json_put_str(rec, "owner", q->owner);
	a = sp_json_put_array(rec, "subjects");
	for (i = 0; i < q->nsubjects; i++)
		sp_json_push_str(a, q->subjects[i]);
	sp_json_put(rec, "request", q->request ? sp_json_copy(q->request) : sp_json_new_object());
	sp_json_put_str(rec, "request_id", q->request_id);
	sp_json_put_str(rec, "state", "running");
	sp_op_put_worker(rec, &op->worker);
	sp_json_put(rec, "intent", q->intent ? sp_json_copy(q->intent) : sp_json_new_object());
	sp_json_put_array(rec, "phases");
	sp_json_put_array(rec, "results");
	sp_json_put_i64(rec, "created", sp_clock_real());
	return rec;
}

/* The first record, whole and flushed, under a temporary name: outside the root lock, so that
 * operations which begin at the same time wait for the disk together. */
static int write_aside(int ops, struct sp_op *op, char tmp[static 40], struct sp_err *e)
{
	sp_auto_str text = SP_STR_INIT;
	sp_auto_fd fd = -1;

	if (sp_record_print(op->rec, &text, e) < 0)
		return -1;
	sp_fs_random_name(SP_FS_TMP, tmp);
	fd = openat(ops, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || sp_fd_write(fd, text.p, text.len) < 0 || fsync(fd) < 0) {
		sp_fail(e, sp_code_of_errno(errno), errno, "write operation");
		if (fd >= 0)
			unlinkat(ops, tmp, 0);
		return -1;
	}
	return 0;
}

struct begin {
	const struct sp_roots *roots;
	const struct sp_op_req *q;
	int ops, queue, lock;
	char tmp[40];
};

/* Under the root lock: owner, tickets, request id, and the rename that is the commit. */
static int enter(struct begin *b, struct sp_op *op, struct sp_err *e)
{
	struct sp_op_owner own = { .who = op->worker };
	struct sp_ticket t = { 0 };
	size_t i;

	if (sp_op_next_seq(b->lock, &op->seq, e) < 0)
		return -1;
	own.seq = t.seq = op->seq;
	if (sp_owner_put(b->queue, op->id, &own, e) < 0)
		return -1;
	memcpy(t.op, op->id, sizeof t.op);
	for (i = 0; i < b->q->nsubjects; i++) {
		snprintf(t.subject, sizeof t.subject, "%s", b->q->subjects[i]);
		if (sp_ticket_make(b->queue, &t, e) < 0)
			return -1;
	}
	if (b->q->request_id &&
	    sp_op_request_put(b->ops, b->q->owner, b->q->request_id, op->id, e) < 0)
		return -1;
	return sp_fs_rename_new(b->ops, b->tmp, b->ops, op->id, e);
}

static void undo(const struct begin *b, const struct sp_op *op)
{
	struct sp_err none;

	unlinkat(b->ops, b->tmp, 0);
	unlinkat(b->ops, op->id, 0);
	if (b->q->request_id)
		sp_op_request_drop(b->ops, b->q->owner, b->q->request_id, op->id);
	sp_op_leave(b->queue, op->id, &none);
}

static int open_dirs(const struct sp_roots *r, int *ops, int *queue, struct sp_err *e)
{
	*ops = sp_op_dir(r, SP_DIR_OPS, e);
	if (*ops < 0)
		return -1;
	*queue = sp_op_dir(r, SP_DIR_QUEUE, e);
	return *queue < 0 ? -1 : 0;
}

/* 1 when the request id is known already; then its operation is made sure to be on disk before
 * anyone is told of it. */
static int seen(const struct sp_roots *r, const struct sp_op_req *q, int ops,
		char id[static SP_ID_SIZE], struct sp_err *e)
{
	int rc = sp_op_request_find(r, q, id, e);

	if (rc == 1 && sp_fs_sync_dir(ops, e) < 0)
		return -1;
	return rc;
}

int sp_op_seen(const struct sp_roots *r, const struct sp_op_req *q, char id[static SP_ID_SIZE],
	       struct sp_err *e)
{
	sp_auto_fd ops = -1, lock = -1;

	if (check(q, e) < 0)
		return -1;
	if (!q->request_id)
		return 0;
	lock = sp_root_lock(r, e);
	if (lock < 0)
		return -1;
	ops = sp_op_dir(r, SP_DIR_OPS, e);
	return ops < 0 ? -1 : seen(r, q, ops, id, e);
}

static int begin_locked(struct begin *b, struct sp_op *op, char id[static SP_ID_SIZE],
			struct sp_err *e)
{
	int rc = 0;

	b->lock = sp_root_lock(b->roots, e);
	if (b->lock < 0)
		return -1;
	if (b->q->request_id)
		rc = seen(b->roots, b->q, b->ops, id, e);
	if (rc == 0)
		rc = enter(b, op, e);
	if (rc != 0)
		undo(b, op);
	sp_fd_close(&b->lock);
	return rc;
}

int sp_op_begin(const struct sp_roots *r, const struct sp_op_req *q, struct sp_op **out,
		char id[static SP_ID_SIZE], bool *existing, struct sp_err *e)
{
	sp_auto_fd ops = -1, queue = -1;
	struct begin b = { .roots = r, .q = q, .lock = -1 };
	struct sp_op *op;
	int rc;

	*out = NULL;
	*existing = false;
	if (check(q, e) < 0 || open_dirs(r, &ops, &queue, e) < 0)
		return -1;
	if (q->request_id && sp_op_request_is_known(ops, q->owner, q->request_id)) {
		rc = sp_op_seen(r, q, id, e);
		*existing = rc > 0;
		if (rc != 0)
			return rc < 0 ? -1 : 0;
	}
	b.ops = ops;
	b.queue = queue;
	op = sp_xcalloc(1, sizeof *op);
	op->roots = r;
	sp_id_make(SP_OPERATION, op->id);
	rc = sp_proc_identify(0, &op->worker, e);
	if (rc == 0) {
		op->rec = first_record(q, op);
		rc = write_aside(ops, op, b.tmp, e);
	}
	if (rc == 0)
		rc = begin_locked(&b, op, id, e);
	if (rc == 0 && sp_fs_sync_dir(ops, e) < 0) {
		undo(&b, op);
		rc = -1;
	}
	*existing = rc > 0;
	if (rc != 0) {
		sp_op_free(&op);
		return rc < 0 ? -1 : 0;
	}
	sp_json_put_i64(op->rec, "seq", (int64_t)op->seq);
	memcpy(id, op->id, SP_ID_SIZE);
	*out = op;
	return 0;
}

void sp_op_free(struct sp_op **op)
{
	if (!*op)
		return;
	sp_json_free(&(*op)->rec);
	free(*op);
	*op = NULL;
}

const char *sp_op_id(const struct sp_op *op)
{
	return op->id;
}

const struct sp_json *sp_op_record(const struct sp_op *op)
{
	return op->rec;
}

static bool same_process(const struct sp_proc_id *a, const struct sp_proc_id *b)
{
	return a->pid == b->pid && a->start == b->start && strcmp(a->boot, b->boot) == 0;
}

int sp_op_claim(struct sp_op *op, struct sp_err *e)
{
	sp_auto_fd queue = -1, lock = -1;
	struct sp_op_owner own;
	struct sp_proc_id me;

	if (sp_proc_identify(0, &me, e) < 0)
		return -1;
	lock = sp_root_lock(op->roots, e);
	if (lock < 0)
		return -1;
	queue = sp_op_dir(op->roots, SP_DIR_QUEUE, e);
	if (queue < 0)
		return -1;
	if (sp_owner_get(queue, op->id, &own) != 1 || !same_process(&own.who, &op->worker))
		return sp_fail(e, SP_CONFLICT, 0, "operation %s was taken over", op->id);
	if (!same_process(&me, &own.who)) {
		own.who = me;
		if (sp_owner_put(queue, op->id, &own, e) < 0)
			return -1;
	}
	op->worker = me;
	sp_op_put_worker(op->rec, &me);
	return 0;
}

static int save(struct sp_op *op, struct sp_err *e)
{
	sp_auto_fd ops = sp_op_dir(op->roots, SP_DIR_OPS, e);

	return ops < 0 ? -1 : sp_record_save(ops, op->id, op->rec, e);
}

int sp_op_intend(struct sp_op *op, const char *key, struct sp_json *take, struct sp_err *e)
{
	sp_json_put(sp_json_get_mut(op->rec, "intent"), key, take);
	if (save(op, e) < 0)
		return sp_wrap(e, "operation %s", op->id);
	return 0;
}

static void crash_here(const struct sp_op *op, const char *phase)
{
	const char *at = getenv("SPACE_CRASH_AT");
	const char *kind = sp_json_str(op->rec, "kind");
	size_t n = strlen(kind);

	if (at && strncmp(at, kind, n) == 0 && at[n] == '.' && strcmp(at + n + 1, phase) == 0)
		kill(getpid(), SIGKILL);
}

int sp_op_phase(struct sp_op *op, const char *name, bool durable, struct sp_err *e)
{
	struct sp_json *p = sp_json_new_object();

	sp_json_put_str(p, "name", name);
	sp_json_put_i64(p, "at", sp_clock_real());
	sp_json_push(sp_json_get_mut(op->rec, "phases"), p);
	if (durable && save(op, e) < 0)
		return sp_wrap(e, "operation %s", op->id);
	crash_here(op, name);
	return 0;
}

static void put_error(struct sp_json *o, const struct sp_err *err)
{
	sp_json_put_str(o, "code", sp_code_name((int)err->code));
	sp_json_put_int(o, "exit", (int)err->code);
	sp_json_put_str(o, "message", err->msg);
}

void sp_op_result(struct sp_op *op, const char *id, const struct sp_err *err)
{
	struct sp_json *o = sp_json_new_object();

	sp_json_put_str(o, "id", id);
	if (err)
		put_error(o, err);
	sp_json_push(sp_json_get_mut(op->rec, "results"), o);
}

/* A full store may have room again once the deletions of the running transaction are committed:
 * syncfs(2) waits for just that. */
static int save_end(struct sp_op *op, struct sp_err *e)
{
	int i;

	for (i = 0; i < END_TRIES; i++) {
		if (save(op, e) == 0)
			return 0;
		syncfs(op->roots->store);
	}
	return sp_wrap(e, "operation %s", op->id);
}

static void announce(const struct sp_op *op, bool failed)
{
	sp_auto_json *more = sp_json_new_object();
	const struct sp_json *subjects = sp_json_get(op->rec, "subjects");
	struct sp_err none;

	sp_json_put_str(more, "kind", sp_json_str(op->rec, "kind"));
	sp_json_put_str(more, "owner", sp_json_str(op->rec, "owner"));
	sp_event_add(op->roots, failed ? "op.failed" : "op.succeeded",
		     sp_json_value_str(sp_json_at(subjects, 0)), op->id, more, &none);
}

int sp_op_end(struct sp_op *op, const struct sp_err *err, struct sp_err *e)
{
	sp_auto_fd queue = -1;
	struct sp_err none;

	sp_json_put_str(op->rec, "state", err ? "failed" : "succeeded");
	sp_json_put_i64(op->rec, "ended", sp_clock_real());
	if (err)
		put_error(sp_json_put_object(op->rec, "error"), err);
	if (save_end(op, e) < 0)
		return -1;
	/* Ended. What fails from here on is left over, and whoever meets it takes it away. */
	announce(op, err != NULL);
	queue = sp_op_dir(op->roots, SP_DIR_QUEUE, &none);
	if (queue >= 0)
		sp_op_leave(queue, op->id, &none);
	return 0;
}
