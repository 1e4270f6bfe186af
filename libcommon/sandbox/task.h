/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that a worker of their own carries out.
 *
 * sp_task_begin, in the caller: repairs what dead workers left, asks the verb's plan (cheap checks,
 * changes nothing; what it refuses leaves no operation behind), begins the operation and starts a
 * detached worker, which claims it before sp_task_begin returns. The worker awaits its turn, checks
 * again, acts in the phases of phases.def and ends the operation; its caller may be killed at any
 * time without harm. Everything that a verb is about to make is named by the operation's subjects,
 * written durably before the worker starts, so a repairer knows where to look.
 *
 * repair, in whoever finds the worker dead: looks at what is there (never at how far the phases
 * got) and finishes the operation (0) or undoes it (-1 with the error to be recorded). It must be
 * safe at every point, before the first step too, and when it is killed itself and begun again.
 */
#ifndef SP_SANDBOX_TASK_H
#define SP_SANDBOX_TASK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "state/op.h"
#include "state/roots.h"
#include "text/id.h"
#include "text/json.h"

struct sp_task {
	const struct sp_roots *roots;
	struct sp_op *op;
	const char *id;
	const char *owner;
	const struct sp_json *request; /* lent by the operation's record */
	const struct sp_json *subjects;
	bool repairing; /* phases are not marked */
};

struct sp_verb {
	const char *kind;
	int (*plan)(const struct sp_roots *r, const char *owner, const struct sp_json *request,
		    struct sp_json *subjects, struct sp_err *e);
	int (*act)(struct sp_task *t, struct sp_err *e);
	int (*repair)(struct sp_task *t, struct sp_err *e);
};

extern const struct sp_verb sp_verb_create, sp_verb_pause, sp_verb_resume, sp_verb_rm, sp_verb_snap,
	sp_verb_branch, sp_verb_warm, sp_verb_import;

const struct sp_verb *sp_verb_find(const char *kind); /* NULL */

/* request_id may be NULL. op gets the operation's id (an earlier one's, if request_id was seen). */
int sp_task_begin(const struct sp_roots *r, const char *owner, const struct sp_verb *verb,
		  const struct sp_json *request, const char *request_id, char op[static SP_ID_SIZE],
		  struct sp_err *e);
/* The same without a worker: the caller claims it, works and ends it (import). */
int sp_task_begin_here(const struct sp_roots *r, const char *owner, const struct sp_verb *verb,
		       const struct sp_json *request, const char *request_id, struct sp_op **out,
		       char op[static SP_ID_SIZE], struct sp_err *e);
void sp_task_fill(struct sp_task *t, const struct sp_roots *r, struct sp_op *op);

/* Waits for the end, repairing when the worker is dead. timeout_ms -1: none; SP_BUSY past it. 0
 * with the final record in *rec, whatever its state. */
int sp_task_wait(const struct sp_roots *r, const char *op, int timeout_ms, struct sp_json **rec,
		 struct sp_err *e);
/* The error of a final record into *e: 0 when it succeeded, else -1. */
int sp_task_verdict(const struct sp_json *rec, struct sp_err *e);

/* The subject number i, or "" beyond the end. */
const char *sp_task_subject(const struct sp_task *t, size_t i);
/* Marks a phase of phases.def. */
int sp_task_phase(struct sp_task *t, const char *name, struct sp_err *e);

/* Repairs one operation; one whose worker lives, or that has ended, is left alone (0). */
int sp_repair(const struct sp_roots *r, const char *op, struct sp_err *e);
/* Repairs every open operation whose worker is dead. */
int sp_repair_all(const struct sp_roots *r, struct sp_err *e);

#endif
