/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/proc.h"
#include "text/log.h"

const struct sp_verb *sp_verb_find(const char *kind)
{
	static const struct sp_verb *const all[] = {
		&sp_verb_create, &sp_verb_pause,  &sp_verb_resume, &sp_verb_rm,
		&sp_verb_snap,   &sp_verb_branch, &sp_verb_warm,   &sp_verb_import,
	};

	for (size_t i = 0; kind && i < SP_NELEM(all); i++)
		if (strcmp(all[i]->kind, kind) == 0)
			return all[i];
	return NULL;
}

void sp_task_fill(struct sp_task *t, const struct sp_roots *r, struct sp_op *op)
{
	const struct sp_json *rec = sp_op_record(op);

	*t = (struct sp_task){
		.roots = r,
		.op = op,
		.id = sp_op_id(op),
		.owner = sp_json_str(rec, "owner"),
		.request = sp_json_get(rec, "request"),
		.subjects = sp_json_get(rec, "subjects"),
	};
	if (!t->owner)
		t->owner = SP_OWNER_LOCAL;
}

const char *sp_task_subject(const struct sp_task *t, size_t i)
{
	const char *s = sp_json_value_str(sp_json_at(t->subjects, i));

	return s ? s : "";
}

int sp_task_phase(struct sp_task *t, const char *name, struct sp_err *e)
{
	static const struct {
		const char *kind, *phase;
	} known[] = {
#define SP_PHASE(kind, phase, outcome, text) { #kind, #phase },
#include "sandbox/phases.def"
#undef SP_PHASE
	};
	const char *kind = sp_json_str(sp_op_record(t->op), "kind");

	if (t->repairing)
		return 0;
	for (size_t i = 0; kind && i < SP_NELEM(known); i++)
		if (strcmp(known[i].kind, kind) == 0 && strcmp(known[i].phase, name) == 0)
			return sp_op_phase(t->op, name, false, e);
	return sp_fail(e, SP_FAIL, 0, "phase '%s' is not in phases.def", name);
}

struct worker {
	const struct sp_roots *roots;
	const struct sp_verb *verb;
	struct sp_op *op;
	int claimed; /* pipe: one byte when the operation is ours */
};

static int work(void *arg)
{
	struct worker *w = arg;
	struct sp_task t;
	struct sp_err e, e2;
	int rc;

	sp_log_set_op(sp_op_id(w->op));
	if (sp_op_claim(w->op, &e) < 0)
		return 1;
	sp_fd_write(w->claimed, "", 1);
	sp_fd_close(&w->claimed);
	sp_task_fill(&t, w->roots, w->op);
	rc = sp_op_await_turn(w->op, sp_repair, &e);
	if (rc == 0)
		rc = w->verb->act(&t, &e);
	if (sp_op_end(w->op, rc < 0 ? &e : NULL, &e2) < 0) {
		sp_log(SP_LOG_ERR, "cannot record the end: %s", e2.msg);
		return 1;
	}
	return rc < 0 ? (int)e.code : 0;
}

static int begin(const struct sp_roots *r, const char *owner, const struct sp_verb *verb,
		 const struct sp_json *request, const char *request_id, struct sp_op **out,
		 char op[static SP_ID_SIZE], bool *existing, struct sp_err *e)
{
	sp_auto_json *subjects = sp_json_new_array();
	sp_auto_free const char **ids = NULL;
	struct sp_op_req q = {
		.kind = verb->kind, .owner = owner, .request = request, .request_id = request_id
	};

	*existing = false;
	if (sp_repair_all(r, e) < 0)
		return -1;
	if (request_id) {
		int seen = sp_op_seen(r, &q, op, e);

		if (seen != 0) {
			*existing = seen > 0;
			return seen < 0 ? -1 : 0;
		}
	}
	if (verb->plan(r, owner, request, subjects, e) < 0)
		return -1;
	q.nsubjects = sp_json_len(subjects);
	ids = sp_xcalloc(q.nsubjects, sizeof *ids);
	for (size_t i = 0; i < q.nsubjects; i++)
		ids[i] = sp_json_value_str(sp_json_at(subjects, i));
	q.subjects = ids;
	return sp_op_begin(r, &q, out, op, existing, e);
}

int sp_task_begin_here(const struct sp_roots *r, const char *owner, const struct sp_verb *verb,
		       const struct sp_json *request, const char *request_id, struct sp_op **out,
		       char op[static SP_ID_SIZE], struct sp_err *e)
{
	bool existing;

	*out = NULL;
	if (begin(r, owner, verb, request, request_id, out, op, &existing, e) < 0)
		return -1;
	return existing ? 0 : sp_op_claim(*out, e);
}

static void free_op(struct sp_op **op)
{
	if (*op)
		sp_op_free(op);
}

int sp_task_begin(const struct sp_roots *r, const char *owner, const struct sp_verb *verb,
		  const struct sp_json *request, const char *request_id, char op[static SP_ID_SIZE],
		  struct sp_err *e)
{
	__attribute__((cleanup(free_op))) struct sp_op *o = NULL;
	struct worker w = { .roots = r, .verb = verb };
	bool existing;
	int p[2], keep[3];
	char c;

	if (begin(r, owner, verb, request, request_id, &o, op, &existing, e) < 0)
		return -1;
	if (existing)
		return 0;
	if (pipe2(p, O_CLOEXEC) < 0) {
		sp_fail(e, SP_FAIL, errno, "pipe");
		return -1; /* unclaimed: the next writer ends it as interrupted */
	}
	w.op = o;
	w.claimed = p[1];
	keep[0] = r->store;
	keep[1] = r->run;
	keep[2] = p[1];
	if (sp_proc_detach(work, &w, keep, 3, NULL, e) < 0) {
		struct sp_err e2;

		sp_fd_close(&p[0]);
		sp_fd_close(&p[1]);
		if (sp_op_end(o, e, &e2) < 0)
			sp_log(SP_LOG_ERR, "cannot record the end: %s", e2.msg);
		return -1;
	}
	sp_fd_close(&p[1]);
	/* Before the claim the operation is ours, and would look abandoned if we ended here. */
	if (sp_fd_read(p[0], &c, 1) < 0)
		sp_log(SP_LOG_WARN, "worker: %s", strerror(errno));
	sp_fd_close(&p[0]);
	return 0;
}

int sp_task_wait(const struct sp_roots *r, const char *op, int timeout_ms, struct sp_json **rec,
		 struct sp_err *e)
{
	int64_t until = sp_clock_mono() + (int64_t)timeout_ms * 1000000;
	int rc, left = timeout_ms;

	for (;;) {
		rc = sp_op_wait(r, op, left, rec, e);
		if (rc != 0)
			return rc < 0 ? -1 : 0;
		if (sp_repair(r, op, e) < 0)
			return -1;
		if (timeout_ms >= 0) {
			left = (int)((until - sp_clock_mono()) / 1000000);
			left = left < 0 ? 0 : left;
		}
	}
}

static enum sp_code code_of(const struct sp_json *o)
{
	int64_t exit = sp_json_i64(o, "exit", SP_FAIL);

	return exit > SP_OK && exit <= SP_HOST ? (enum sp_code)exit : SP_FAIL;
}

int sp_task_verdict(const struct sp_json *rec, struct sp_err *e)
{
	const struct sp_json *err = sp_json_get(rec, "error");
	const char *state = sp_json_str(rec, "state"), *msg = sp_json_str(err, "message");

	if (state && strcmp(state, "succeeded") == 0)
		return 0;
	return sp_fail(e, code_of(err), 0, "%s", msg ? msg : "the operation failed");
}
