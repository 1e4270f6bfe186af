/* SPDX-License-Identifier: Apache-2.0 */
/* Operations whose worker died: taken over, listed, and the queue made again after a boot. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state/op_int.h"
#include "state/record.h"
#include "sys/fd.h"
#include "sys/fs.h"

struct sp_json *sp_op_load(const struct sp_roots *r, const char *id, struct sp_err *e)
{
	sp_auto_fd queue = -1;
	struct sp_op_owner own;
	struct sp_json *rec;
	char path[sizeof SP_DIR_OPS + SP_ID_SIZE];

	if (!sp_id_is_valid(id, SP_OPERATION)) {
		sp_fail(e, SP_ABSENT, 0, "no such operation");
		return NULL;
	}
	snprintf(path, sizeof path, SP_DIR_OPS "/%s", id);
	rec = sp_record_load(r->store, path, e);
	if (!rec && e->code == SP_ABSENT)
		sp_fail(e, SP_ABSENT, 0, "no such operation");
	if (!rec || !sp_op_is_open(rec))
		return rec;
	queue = sp_op_dir(r, SP_DIR_QUEUE, e);
	if (queue >= 0 && sp_owner_get(queue, id, &own) == 1) {
		sp_op_put_worker(rec, &own.who);
		sp_json_put_i64(rec, "seq", (int64_t)own.seq);
	}
	return rec;
}

/* 1 alive, 0 dead, -1 cannot tell. */
static int is_alive(const struct sp_proc_id *who, struct sp_err *e)
{
	sp_auto_fd fd = sp_owner_open(who);

	if (fd >= 0)
		return 1;
	if (errno == ESRCH)
		return 0;
	return sp_fail(e, SP_FAIL, errno, "process %d", (int)who->pid);
}

static int refuse_living(const char *id, const struct sp_json *rec, struct sp_err *e)
{
	struct sp_proc_id who;
	int rc;

	if (!sp_op_get_worker(rec, &who))
		return 0; /* a record without one is nobody's */
	rc = is_alive(&who, e);
	if (rc > 0)
		return sp_fail(e, SP_BUSY, 0, "operation %s is worked on by process %d", id,
			       (int)who.pid);
	return rc;
}

/* Its record, if it is open and its worker dead. 1 yes, 0 it has ended, -1 *e. */
static int abandoned(const struct sp_roots *r, const char *id, struct sp_json **rec,
		     struct sp_err *e)
{
	*rec = sp_op_load(r, id, e);
	if (!*rec)
		return -1;
	if (!sp_op_is_open(*rec))
		return 0;
	return refuse_living(id, *rec, e) < 0 ? -1 : 1;
}

int sp_op_adopt(const struct sp_roots *r, const char *id, struct sp_op **out, struct sp_err *e)
{
	sp_auto_fd lock = -1, queue = -1;
	sp_auto_json *rec = NULL;
	struct sp_op_owner own;
	struct sp_op *op;
	int rc;

	*out = NULL;
	rc = abandoned(r, id, &rec, e); /* most are not, and then no lock is needed */
	if (rc < 0 && e->code != SP_ABSENT)
		return -1;
	sp_json_free(&rec);
	lock = sp_root_lock(r, e);
	if (lock < 0)
		return -1;
	queue = sp_op_dir(r, SP_DIR_QUEUE, e);
	if (queue < 0)
		return -1;
	rc = abandoned(r, id, &rec, e);
	if (rc == 0 || (rc < 0 && e->code == SP_ABSENT && sp_id_is_valid(id, SP_OPERATION))) {
		/* Ended, or never begun: nothing but its place in the queue is left. */
		if (sp_op_finish_end(r, id, rec, e) < 0)
			return -1;
		return rc == 0 ? 0 : sp_fail(e, SP_ABSENT, 0, "no such operation");
	}
	if (rc < 0 || sp_proc_identify(0, &own.who, e) < 0)
		return -1;
	own.seq = (uint64_t)sp_json_i64(rec, "seq", 0);
	if (sp_owner_put(queue, id, &own, e) < 0)
		return -1;
	op = sp_xcalloc(1, sizeof *op);
	op->roots = r;
	memcpy(op->id, id, SP_ID_SIZE);
	op->seq = own.seq;
	op->worker = own.who;
	op->rec = sp_take_ptr(&rec);
	sp_op_put_worker(op->rec, &op->worker);
	*out = op;
	return 0;
}

int sp_op_finish_end(const struct sp_roots *r, const char *id, const struct sp_json *rec,
		     struct sp_err *e)
{
	sp_auto_fd queue = sp_op_dir(r, SP_DIR_QUEUE, e), ops = -1;
	struct sp_op_owner own;

	if (queue < 0)
		return -1;
	if (rec && sp_owner_get(queue, id, &own) == 1) {
		if (is_alive(&own.who, e) != 0)
			return 0; /* it is about to do so itself */
		ops = sp_op_dir(r, SP_DIR_OPS, e);
		if (ops < 0 || sp_fs_sync_dir(ops, e) < 0)
			return -1;
	}
	return sp_op_leave(queue, id, e);
}

/* A growing list of operations; bounded by what the folders hold. */
struct found {
	char id[SP_ID_SIZE];
	uint64_t seq;
	int64_t created;
};

struct list {
	struct sp_str mem; /* of struct found */
	const struct sp_roots *roots;
	int ops, queue;
	struct sp_err *e;
};

static struct found *list_at(const struct list *l, size_t i)
{
	return (struct found *)(void *)l->mem.p + i;
}

static size_t list_len(const struct list *l)
{
	return l->mem.len / sizeof(struct found);
}

/* Numbered ones first, by number; the others after them, by age. */
static int by_seq(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (!x->seq != !y->seq)
		return x->seq ? -1 : 1;
	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	if (x->created != y->created)
		return x->created < y->created ? -1 : 1;
	return strcmp(x->id, y->id);
}

static void list_sort(struct list *l)
{
	if (list_len(l))
		qsort(l->mem.p, list_len(l), sizeof(struct found), by_seq);
}

static int owner_entry(int queue, const char *name, void *arg)
{
	struct list *l = arg;
	struct sp_op_owner own;
	struct found f = { 0 };

	if (name[0] != '.' || !sp_id_is_valid(name + 1, SP_OPERATION))
		return 0;
	memcpy(f.id, name + 1, SP_ID_SIZE);
	if (sp_owner_get(queue, f.id, &own) == 1)
		f.seq = own.seq;
	sp_str_addn(&l->mem, &f, sizeof f);
	return 0;
}

int sp_op_each_open(const struct sp_roots *r,
		    int (*fn)(const struct sp_roots *r, const char *op_id, void *arg), void *arg,
		    struct sp_err *e)
{
	sp_auto_fd queue = -1;
	struct list l = { .mem = SP_STR_INIT };
	size_t i;
	int rc = 0;

	if (!sp_op_queue_is_valid(r)) {
		sp_auto_fd lock = sp_root_lock(r, e);

		if (lock < 0)
			return -1;
	}
	queue = sp_op_dir(r, SP_DIR_QUEUE, e);
	if (queue < 0)
		return -1;
	if (sp_fs_each(queue, owner_entry, &l, e) < 0)
		rc = -1;
	list_sort(&l);
	for (i = 0; rc == 0 && i < list_len(&l); i++) {
		const char *id = list_at(&l, i)->id;
		sp_auto_json *rec = sp_op_load(r, id, e);

		if (rec && sp_op_is_open(rec))
			rc = fn(r, id, arg);
	}
	sp_str_free(&l.mem);
	return rc;
}

/* --- making the queue again ------------------------------------------------------------------ */

static int scan_record(int ops, const char *name, void *arg)
{
	struct list *l = arg;
	struct found f = { 0 };
	struct sp_err none;
	struct sp_op_owner own;
	sp_auto_json *rec = NULL;
	const char *request_id, *owner;

	if (!sp_id_is_valid(name, SP_OPERATION))
		return 0;
	rec = sp_record_load(ops, name, &none);
	if (!rec)
		return 0; /* damaged: shown when it is asked for, and no reason to stop all work */
	memcpy(f.id, name, SP_ID_SIZE);
	f.seq = (uint64_t)sp_json_i64(rec, "seq", 0);
	f.created = sp_json_i64(rec, "created", 0);
	if (!f.seq && sp_owner_get(l->queue, name, &own) == 1)
		f.seq = own.seq;
	owner = sp_json_str(rec, "owner");
	request_id = sp_json_str(rec, "request_id");
	if (owner && request_id && sp_name_is_valid(owner) && sp_op_request_is_valid(request_id) &&
	    sp_op_request_put(ops, owner, request_id, name, l->e) < 0)
		return -1;
	if (!sp_op_is_open(rec))
		f.id[0] = '\0'; /* counts for its number only */
	sp_str_addn(&l->mem, &f, sizeof f);
	return 0;
}

static int requeue(struct list *l, struct found *f)
{
	char path[sizeof SP_DIR_OPS + SP_ID_SIZE];
	sp_auto_json *rec = NULL;
	struct sp_op_owner own = { 0 };
	struct sp_ticket t = { .seq = f->seq };
	const struct sp_json *subjects;
	size_t i;

	snprintf(path, sizeof path, SP_DIR_OPS "/%s", f->id);
	rec = sp_record_load(l->roots->store, path, l->e);
	if (!rec)
		return -1;
	/* Who holds it now stays so: the boot may be this one, with only the stamp lost. */
	if (sp_owner_get(l->queue, f->id, &own) != 1)
		sp_op_get_worker(rec, &own.who);
	own.seq = f->seq;
	if (sp_owner_put(l->queue, f->id, &own, l->e) < 0)
		return -1;
	memcpy(t.op, f->id, sizeof t.op);
	subjects = sp_json_get(rec, "subjects");
	for (i = 0; i < sp_json_len(subjects); i++) {
		const char *s = sp_json_value_str(sp_json_at(subjects, i));

		if (!s || !sp_op_subject_is_valid(s))
			continue;
		snprintf(t.subject, sizeof t.subject, "%s", s);
		if (sp_ticket_make(l->queue, &t, l->e) < 0)
			return -1;
	}
	return 0;
}

/* Takes away an entry of the queue whose operation has ended or never was. */
static int sweep_entry(int queue, const char *name, void *arg)
{
	struct list *l = arg;
	const char *id = NULL;
	struct sp_ticket t;
	struct sp_err e;
	sp_auto_json *rec = NULL;

	if (sp_str_has_prefix(name, SP_FS_TMP)) { /* made under the root lock only, which is ours */
		unlinkat(queue, name, 0);
		return 0;
	}
	if (name[0] == '.' && sp_id_is_valid(name + 1, SP_OPERATION))
		id = name + 1;
	else if (sp_ticket_parse(name, &t))
		id = t.op;
	if (!id)
		return 0;
	rec = sp_op_load(l->roots, id, &e);
	if (rec ? sp_op_is_open(rec) : e.code != SP_ABSENT)
		return 0;
	if (rec) /* ended: durable first, and left to its owner where that lives */
		return sp_op_finish_end(l->roots, id, rec, l->e);
	unlinkat(queue, name, 0);
	return 0;
}

int sp_op_sweep(const struct sp_roots *r, struct sp_err *e)
{
	sp_auto_fd ops = sp_op_dir(r, SP_DIR_OPS, e), queue = -1;
	struct list l = { .mem = SP_STR_INIT, .roots = r, .e = e };

	if (ops < 0)
		return -1;
	queue = sp_op_dir(r, SP_DIR_QUEUE, e);
	if (queue < 0 || sp_fs_each(queue, sweep_entry, &l, e) < 0)
		return -1;
	return sp_op_request_sweep(ops, e);
}

static int rebuild(struct list *l, uint64_t *seq)
{
	size_t i;

	*seq = 0;
	if (sp_fs_each(l->ops, scan_record, l, l->e) < 0)
		return -1;
	for (i = 0; i < list_len(l); i++)
		if (list_at(l, i)->seq > *seq)
			*seq = list_at(l, i)->seq;
	list_sort(l);
	for (i = 0; i < list_len(l); i++) {
		struct found *f = list_at(l, i);

		if (!f->id[0])
			continue;
		if (!f->seq)
			f->seq = ++*seq;
		if (requeue(l, f) < 0)
			return -1;
	}
	return sp_op_sweep(l->roots, l->e);
}

int sp_op_rebuild(const struct sp_roots *r, uint64_t *seq, struct sp_err *e)
{
	struct list l = { .mem = SP_STR_INIT, .roots = r, .e = e };
	sp_auto_fd ops = sp_op_dir(r, SP_DIR_OPS, e), queue = -1;
	int rc;

	if (ops < 0)
		return -1;
	queue = sp_op_dir(r, SP_DIR_QUEUE, e);
	if (queue < 0)
		return -1;
	l.ops = ops;
	l.queue = queue;
	rc = rebuild(&l, seq);
	sp_str_free(&l.mem);
	return rc;
}
