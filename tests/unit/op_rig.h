/* SPDX-License-Identifier: Apache-2.0 */
/* Operations for tests: begun, worked on in a child, repaired in the plainest way. */
#ifndef SP_TESTS_OP_RIG_H
#define SP_TESTS_OP_RIG_H

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "roots.h"
#include "state/op.h"
#include "tap.h"

#define BOX "saaaaaaaaaaaaaaaaaaaa"
#define BOX2 "sbbbbbbbbbbbbbbbbbbbb"

static inline struct sp_op *op_begin(const struct sp_roots *r, const char *subject,
				     const char *request_id, char id[static SP_ID_SIZE])
{
	const char *subjects[] = { subject };
	struct sp_op_req q = { .kind = "test",
			       .owner = "local",
			       .subjects = subjects,
			       .nsubjects = subject ? 1 : 0,
			       .request_id = request_id };
	struct sp_op *op = NULL;
	struct sp_err e;
	bool existing;

	if (sp_op_begin(r, &q, &op, id, &existing, &e) < 0)
		printf("# begin: %s\n", e.msg);
	return op;
}

/* A child that begins an operation, tells its id, and then dies or goes on as fn says. */
struct child {
	pid_t pid;
	int to; /* a byte, or its end, lets the child go on */
	char id[SP_ID_SIZE];
};

static inline struct child op_child(const struct sp_roots *r, const char *subject,
				    void (*fn)(struct sp_op *op, int go))
{
	struct child c = { 0 };
	int up[2], down[2];

	if (pipe2(up, O_CLOEXEC) < 0 || pipe2(down, O_CLOEXEC) < 0)
		abort();
	signal(SIGPIPE, SIG_IGN);
	fflush(stdout);
	c.pid = fork();
	if (c.pid == 0) {
		struct sp_op *op = op_begin(r, subject, NULL, c.id);

		close(down[1]);
		if (write(up[1], c.id, sizeof c.id) < 0)
			_exit(1);
		fn(op, down[0]);
		_exit(0);
	}
	close(up[1]);
	close(down[0]);
	if (sp_fd_read(up[0], c.id, sizeof c.id) != sizeof c.id)
		abort();
	close(up[0]);
	c.to = down[1];
	return c;
}

static inline int op_reap(struct child *c)
{
	int status = -1;

	/* Bytes, for a later child may hold a copy of this descriptor. */
	if (c->to >= 0 && write(c->to, "\0", 2) < 0)
		status = -1;
	sp_fd_close(&c->to);
	waitpid(c->pid, &status, 0);
	return status;
}

static inline void op_kill(struct child *c)
{
	kill(c->pid, SIGKILL);
	op_reap(c);
}

/* What children do: hold the operation until they are let go, then end it, or just leave. */
static inline void op_end_when_told(struct sp_op *op, int go)
{
	struct sp_err e;
	char ch;

	if (read(go, &ch, 1) < 0 || sp_op_end(op, NULL, &e) < 0)
		_exit(1);
	if (read(go, &ch, 1) < 0) /* the end must be seen without that of its process */
		_exit(1);
}

static inline void op_tell(const struct child *c)
{
	if (write(c->to, "", 1) < 0)
		abort();
}

static inline void op_hold(struct sp_op *op, int go)
{
	char ch;

	(void)op;
	if (read(go, &ch, 1) < 0)
		_exit(1);
}

/* As the sandbox layer's: adopt, end as failed. */
__attribute__((unused)) static int op_repair(const struct sp_roots *r, const char *id,
					     struct sp_err *e)
{
	struct sp_err why = { .code = SP_FAIL, .msg = "its worker died" };
	struct sp_op *op = NULL;
	int rc;

	if (sp_op_adopt(r, id, &op, e) < 0)
		return e->code == SP_BUSY || e->code == SP_ABSENT ? 0 : -1;
	if (!op)
		return 0;
	rc = sp_op_end(op, &why, e);
	sp_op_free(&op);
	return rc;
}

static inline const char *op_state(const struct sp_roots *r, const char *id)
{
	static char state[16];
	struct sp_err e;
	sp_auto_json *rec = sp_op_load(r, id, &e);
	const char *s = sp_json_str(rec, "state");

	snprintf(state, sizeof state, "%s", s ? s : "none");
	return state;
}

static inline int op_count_open(const struct sp_roots *r, const char *id, void *arg)
{
	(void)r;
	(void)id;
	++*(int *)arg;
	return 0;
}

__attribute__((unused)) static int op_open(const struct sp_roots *r)
{
	struct sp_err e;
	int n = 0;

	return sp_op_each_open(r, op_count_open, &n, &e) < 0 ? -1 : n;
}

#endif
