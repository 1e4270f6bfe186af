/* SPDX-License-Identifier: Apache-2.0 */
/* What the next writer does with an operation whose worker died (phases.def has it phase by phase;
 * each verb's repair, beside its act, has the steps). */
#include <stdio.h>
#include <string.h>

#include "sandbox/model.h"
#include "sandbox/task.h"
#include "state/op.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "text/log.h"
#include "vol/store.h"

struct ahead {
	const struct sp_task *t;
	const char *seq; /* of our own ticket, 16 hex digits */
};

/* Tickets are <subject>.<seq>.<op> (state/op.h). */
static int ticket_ahead(int dirfd, const char *name, void *arg)
{
	const struct ahead *a = arg;
	size_t n = sp_json_len(a->t->subjects);

	(void)dirfd;
	if (strlen(name) != SP_ID_LEN + 1 + 16 + 1 + SP_ID_LEN)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (strncmp(name, sp_task_subject(a->t, i), SP_ID_LEN) == 0)
			return strncmp(name + SP_ID_LEN + 1, a->seq, 16) < 0;
	return 0;
}

/* An operation behind another on one of its subjects never had its turn: nothing to undo, and
 * nothing that its subjects may be touched for. */
static bool had_its_turn(const struct sp_task *t)
{
	char seq[17];
	struct ahead a = { .t = t, .seq = seq };
	struct sp_err e;
	sp_auto_fd dir = sp_fs_open_dir(t->roots->store, SP_DIR_QUEUE, &e);

	snprintf(seq, sizeof seq, "%016llx",
		 (unsigned long long)sp_json_i64(sp_op_record(t->op), "seq", 0));
	return dir < 0 || sp_fs_each(dir, ticket_ahead, &a, &e) <= 0;
}

/* 1 repaired, 0 there was nothing to do. */
static int repair(const struct sp_roots *r, const char *op, struct sp_err *e)
{
	struct sp_op *o = NULL;
	const struct sp_verb *verb;
	struct sp_task t;
	struct sp_err why;
	int rc;

	if (sp_op_adopt(r, op, &o, e) < 0)
		return e->code == SP_BUSY || e->code == SP_ABSENT ? 0 : -1;
	if (!o)
		return 0;
	sp_task_fill(&t, r, o);
	t.repairing = true;
	verb = sp_verb_find(sp_json_str(sp_op_record(o), "kind"));
	if (!verb)
		rc = sp_fail(&why, SP_FAIL, 0, "its worker died; its kind is unknown here");
	else if (!had_its_turn(&t))
		rc = sp_fail(&why, SP_BUSY, 0, "its worker died before its turn; nothing changed");
	else
		rc = verb->repair(&t, &why);
	rc = sp_op_end(o, rc < 0 ? &why : NULL, e);
	sp_op_free(&o);
	return rc < 0 ? -1 : 1;
}

/* A worker that died may have left things under hidden names, too. */
static int sweep(const struct sp_roots *r, struct sp_err *e)
{
	sp_auto_fd lock = sp_root_lock(r, e);

	return lock < 0 ? -1 : sp_store_sweep(r, e);
}

int sp_repair(const struct sp_roots *r, const char *op, struct sp_err *e)
{
	int rc = repair(r, op, e);

	return rc > 0 ? sweep(r, e) : rc;
}

static int repair_one(const struct sp_roots *r, const char *op, void *arg)
{
	int *repaired = arg;
	struct sp_err e;
	int rc = repair(r, op, &e);

	if (rc < 0)
		sp_log(SP_LOG_WARN, "repair of %s: %s", op, e.msg);
	*repaired += rc > 0;
	return 0;
}

int sp_repair_all(const struct sp_roots *r, struct sp_err *e)
{
	int repaired = 0;

	if (sp_op_each_open(r, repair_one, &repaired, e) < 0)
		return -1;
	return repaired ? sweep(r, e) : 0;
}
