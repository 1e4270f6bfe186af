/* SPDX-License-Identifier: Apache-2.0 */
/* The operation journal: life, request ids, order, waiting, adoption. */
#include <sys/syscall.h>

#include "kill_at.h"
#include "op_rig.h"
#include "sys/clock.h"

static int begin(const struct sp_roots *r, const char *kind, const char *owner, const char *json,
		 const char *request_id, char id[static SP_ID_SIZE], bool *existing,
		 struct sp_err *e)
{
	sp_auto_json *req = json ? sp_json_parse(json, strlen(json), e) : NULL;
	struct sp_op_req q = {
		.kind = kind, .owner = owner, .request = req, .request_id = request_id
	};
	struct sp_op *op = NULL;
	int rc = sp_op_begin(r, &q, &op, id, existing, e);

	if (op)
		sp_op_end(op, NULL, e);
	sp_op_free(&op);
	return rc;
}

static void life(const struct sp_roots *r)
{
	char id[SP_ID_SIZE];
	struct sp_op *op = op_begin(r, BOX, NULL, id);
	struct sp_err e, bad = { .code = SP_BUSY, .msg = "no room" };
	sp_auto_json *rec = sp_op_load(r, id, &e), *end = NULL;
	const struct sp_json *a;

	ok(op && sp_id_is_valid(id, SP_OPERATION), "begin");
	is_str(sp_json_str(rec, "state"), "running", "it runs");
	ok(sp_json_i64(rec, "seq", 0) == 1, "it has a number");
	ok(sp_json_i64(sp_json_get(rec, "worker"), "pid", 0) == getpid(), "its beginner has it");
	ok(roots_count(r, SP_DIR_QUEUE) == 2, "a ticket and an owner");
	ok(op_open(r) == 1, "it is listed as open");
	ok(sp_op_claim(op, &e) == 0 && sp_op_await_turn(op, NULL, &e) == 0, "claim, and our turn");
	ok(sp_op_intend(op, "id", sp_json_new_string("x"), &e) == 0, "intend");
	ok(sp_op_phase(op, "one", false, &e) == 0 && sp_op_phase(op, "two", true, &e) == 0,
	   "phases");
	sp_json_free(&rec);
	rec = sp_op_load(r, id, &e);
	is_str(sp_json_str(sp_json_get(rec, "intent"), "id"), "x", "the intent is kept");
	ok(sp_json_len(sp_json_get(rec, "phases")) == 2, "and the phases");
	sp_op_result(op, "sx", NULL);
	sp_op_result(op, NULL, &bad);
	ok(sp_op_end(op, &bad, &e) == 0, "end");
	sp_op_free(&op);
	ok(sp_op_wait(r, id, 0, &end, &e) == 1, "it has ended");
	is_str(sp_json_str(end, "state"), "failed", "as failed");
	is_str(sp_json_str(sp_json_get(end, "error"), "code"), "busy", "with a code");
	is_str(sp_json_str(sp_json_get(end, "error"), "message"), "no room", "and a message");
	a = sp_json_get(end, "results");
	ok(sp_json_len(a) == 2 && strcmp(sp_json_str(sp_json_at(a, 0), "id"), "sx") == 0 &&
		   strcmp(sp_json_str(sp_json_at(a, 1), "message"), "no room") == 0,
	   "its results");
	ok(sp_json_i64(end, "seq", 0) == 1 && sp_json_i64(end, "ended", 0) > 0, "number and time");
	ok(roots_count(r, SP_DIR_QUEUE) == 0 && op_open(r) == 0, "nothing waits any more");
	ok(!sp_op_load(r, "oaaaaaaaaaaaaaaaaaaaa", &e) && e.code == SP_ABSENT, "no such operation");
	sp_json_free(&end);
	ok(sp_op_wait(r, "oaaaaaaaaaaaaaaaaaaaa", 0, &end, &e) < 0 && e.code == SP_ABSENT,
	   "to wait for");
	ok(sp_op_wait(r, "../events", 0, &end, &e) < 0 && e.code == SP_ABSENT, "nor by a path");
}

static void bad_requests(const struct sp_roots *r)
{
	static const char *const ids[] = { "", "a/b", "a b", "\xc3\xa9", "a\n" };
	char id[SP_ID_SIZE], longer[130];
	bool existing;
	struct sp_err e;
	int wrong = 0;
	const char *twice[] = { BOX, BOX };
	struct sp_op_req q = {
		.kind = "test", .owner = "local", .subjects = twice, .nsubjects = 2
	};
	struct sp_op *op;

	for (size_t i = 0; i < SP_NELEM(ids); i++)
		wrong += begin(r, "test", "local", NULL, ids[i], id, &existing, &e) == 0 ||
			 e.code != SP_USAGE;
	memset(longer, 'a', 129);
	longer[129] = '\0';
	wrong += begin(r, "test", "local", NULL, longer, id, &existing, &e) == 0;
	ok(!wrong, "request ids that are none");
	longer[128] = '\0';
	ok(begin(r, "test", "local", NULL, longer, id, &existing, &e) == 0, "128 characters");
	ok(begin(r, "test", "local", NULL, "..", id, &existing, &e) == 0 &&
		   begin(r, "test", "local", NULL, ".", id, &existing, &e) == 0,
	   "dots alone");
	ok(begin(r, "test", "../x", NULL, NULL, id, &existing, &e) < 0, "an owner that is none");
	ok(sp_op_begin(r, &q, &op, id, &existing, &e) < 0 && e.code == SP_USAGE, "a subject twice");
	ok(roots_count(r, SP_DIR_QUEUE) == 0, "nothing of it stays");
}

static void request_ids(const struct sp_roots *r)
{
	char a[SP_ID_SIZE], b[SP_ID_SIZE];
	bool existing;
	struct sp_err e;
	struct sp_op_req q = { .kind = "create", .owner = "local", .request_id = "k1" };

	ok(sp_op_seen(r, &q, b, &e) == 0, "not seen yet");
	ok(begin(r, "create", "local", "{\"a\":1,\"b\":{\"c\":[1,2],\"d\":null}}", "k1", a,
		 &existing, &e) == 0 &&
		   !existing,
	   "a request id");
	ok(begin(r, "create", "local", "{\"b\":{\"d\":null,\"c\":[1,2]},\"a\":1}", "k1", b,
		 &existing, &e) == 0 &&
		   existing && strcmp(a, b) == 0,
	   "again, keys in another order: the same operation");
	ok(begin(r, "create", "local", "{\"a\":1,\"b\":{\"c\":[2,1],\"d\":null}}", "k1", b,
		 &existing, &e) < 0 &&
		   e.code == SP_CONFLICT,
	   "another request: conflict");
	ok(begin(r, "create", "local", "{\"a\":1}", "k1", b, &existing, &e) < 0,
	   "a part of it too");
	ok(begin(r, "pause", "local", "{\"a\":1,\"b\":{\"c\":[1,2],\"d\":null}}", "k1", b,
		 &existing, &e) < 0 &&
		   e.code == SP_CONFLICT,
	   "another kind: conflict");
	ok(sp_op_seen(r, &q, b, &e) < 0 && e.code == SP_CONFLICT, "seen says so too");
	ok(begin(r, "create", "other", "{}", "k1", b, &existing, &e) == 0 && !existing,
	   "another owner's is another");
	ok(begin(r, "create", "local", NULL, "k2", a, &existing, &e) == 0 && !existing &&
		   begin(r, "create", "local", "{}", "k2", b, &existing, &e) == 0 && existing &&
		   strcmp(a, b) == 0,
	   "no request is an empty one");
	q.request_id = "k2";
	ok(sp_op_seen(r, &q, b, &e) == 1 && strcmp(a, b) == 0, "seen");
}

/* Two at once with one request id: one operation. */
static void request_race(const struct sp_roots *r)
{
	int twice = 0;

	fflush(stdout);
	for (int round = 0; round < 20; round++) {
		char key[16], id[2][SP_ID_SIZE];
		int p[2][2];

		snprintf(key, sizeof key, "race%d", round);
		for (int i = 0; i < 2; i++) {
			if (pipe2(p[i], O_CLOEXEC) < 0)
				abort();
			if (fork() == 0) {
				bool existing;
				struct sp_err e;

				begin(r, "test", "local", NULL, key, id[i], &existing, &e);
				_exit(write(p[i][1], id[i], SP_ID_SIZE) < 0);
			}
			close(p[i][1]);
		}
		for (int i = 0; i < 2; i++) {
			if (sp_fd_read(p[i][0], id[i], SP_ID_SIZE) != SP_ID_SIZE)
				twice++;
			close(p[i][0]);
			wait(NULL);
		}
		twice += strcmp(id[0], id[1]) != 0;
	}
	ok(!twice, "two at once with one request id: one operation");
}

/* --- order ------------------------------------------------------------------------------------ */

struct crowd {
	const struct sp_roots *r;
	int wrong;
};

/* Works on one box as one of many; alone there, or it ends with a status. */
static void crowd_worker(const struct sp_roots *r, int rounds)
{
	struct sp_err e;

	for (int i = 0; i < rounds; i++) {
		char id[SP_ID_SIZE];
		struct sp_op *op = op_begin(r, BOX, NULL, id);
		int fd;

		if (!op || sp_op_await_turn(op, NULL, &e) < 0)
			_exit(2);
		fd = openat(r->store, "alone", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0)
			_exit(3);
		close(fd);
		usleep(200);
		if (unlinkat(r->store, "alone", 0) < 0 || sp_op_end(op, NULL, &e) < 0)
			_exit(4);
		sp_op_free(&op);
	}
	_exit(0);
}

static void order(const struct sp_roots *r)
{
	int bad = 0;
	struct child a, b;
	struct sp_err e;
	char id[SP_ID_SIZE];
	struct sp_op *op;
	sp_auto_json *end = NULL;

	fflush(stdout);
	for (int i = 0; i < 6; i++)
		if (fork() == 0)
			crowd_worker(r, 15);
	for (int i = 0; i < 6; i++) {
		int status;

		wait(&status);
		bad += status != 0;
	}
	ok(!bad, "ninety operations of six workers on one box: one at a time");
	ok(roots_count(r, SP_DIR_QUEUE) == 0, "and no ticket stays");

	a = op_child(r, BOX, op_end_when_told);
	op = op_begin(r, BOX2, NULL, id);
	ok(sp_op_await_turn(op, NULL, &e) == 0 && sp_op_end(op, NULL, &e) == 0,
	   "another box does not wait");
	sp_op_free(&op);
	b = op_child(r, BOX, op_end_when_told);
	ok(sp_op_wait(r, b.id, 20, &end, &e) < 0 && e.code == SP_BUSY, "time is up: busy");
	op_reap(&a);
	op_reap(&b);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void waiting(const struct sp_roots *r)
{
	sp_auto_json *rec = NULL;
	struct sp_err e;
	struct child c = op_child(r, BOX, op_hold);
	int bad = 0;
	int64_t begun;

	op_kill(&c);
	ok(sp_op_wait(r, c.id, 10000, &rec, &e) == 0, "its worker died: repair it");
	ok(op_repair(r, c.id, &e) == 0 && sp_op_wait(r, c.id, 0, &rec, &e) == 1, "repaired");
	is_str(sp_json_str(rec, "state"), "failed", "as failed");
	sp_json_free(&rec);

	/* Ends race with the watch being set: each must be seen, and at once. */
	begun = sp_clock_mono();
	for (int i = 0; i < 100; i++) {
		c = op_child(r, BOX, op_end_when_told);
		op_tell(&c);
		if (i % 2) /* its process ends right after it: no sign of a death before the end */
			op_tell(&c);
		if (i % 4 < 2)
			usleep((unsigned)i * 10);
		bad += sp_op_wait(r, c.id, 20000, &rec, &e) != 1;
		sp_json_free(&rec);
		op_reap(&c);
	}
	ok(!bad, "a hundred ends, all seen");
	ok(sp_clock_mono() - begun < 15000000000, "and none waited for a clock");
	for (int i = 0; i < 40; i++) {
		c = op_child(r, BOX, op_hold);
		kill(c.pid, SIGKILL);
		bad += sp_op_wait(r, c.id, 20000, &rec, &e) != 0;
		op_reap(&c);
		bad += op_repair(r, c.id, &e) != 0;
	}
	ok(!bad, "forty deaths, all seen");
}

static void no_inotify(const struct sp_roots *r)
{
	sp_auto_json *rec = NULL;
	struct sp_err e;
	struct child c = op_child(r, BOX, op_end_when_told);
	int fds[512], n = 0, rc;

	while (n < 512 && (fds[n] = syscall(SYS_inotify_init1, 0) < 0 ? -1 : 1) >= 0)
		n++;
	if (n == 512) {
		tap_skip("no inotify left", "the limit is too high to reach");
	} else {
		op_tell(&c);
		rc = sp_op_wait(r, c.id, 20000, &rec, &e);
		ok(rc == 1, "with no inotify left the end is still seen");
	}
	sp_fd_close(&c.to);
	op_reap(&c);
	sp_fd_close_from(100);
}

/* --- adoption --------------------------------------------------------------------------------- */

static void adoption(const struct sp_roots *r)
{
	struct sp_err e;
	struct sp_op *op = NULL;
	struct child c = op_child(r, BOX, op_hold);
	char id[SP_ID_SIZE];
	int won = 0;

	ok(sp_op_adopt(r, c.id, &op, &e) < 0 && e.code == SP_BUSY && !op, "it lives: busy");
	op_kill(&c);
	fflush(stdout);
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			int rc = sp_op_adopt(r, c.id, &op, &e);

			usleep(100000); /* alive until all have tried */
			_exit(rc == 0 && op ? 0 : e.code == SP_BUSY ? 1 : 2);
		}
	for (int i = 0; i < 4; i++) {
		int status;

		wait(&status);
		won += WEXITSTATUS(status) == 0 ? 1 : WEXITSTATUS(status) == 1 ? 0 : 100;
	}
	ok(won == 1, "four repairers at once: one gets it");
	ok(sp_op_adopt(r, c.id, &op, &e) == 0 && op, "and when that one died too, the next");
	ok(sp_json_i64(sp_op_record(op), "seq", 0) > 0, "with its number");
	ok(sp_op_end(op, NULL, &e) == 0, "which ends it");
	sp_op_free(&op);
	ok(sp_op_adopt(r, c.id, &op, &e) == 0 && !op, "ended meanwhile: nothing to adopt");
	ok(sp_op_adopt(r, "oaaaaaaaaaaaaaaaaaaaa", &op, &e) < 0 && e.code == SP_ABSENT,
	   "none such");

	/* Begun by a process that died before its worker claimed it. */
	c = op_child(r, BOX, op_hold);
	op_kill(&c);
	op = op_begin(r, BOX, NULL, id);
	ok(sp_op_await_turn(op, op_repair, &e) == 0, "who comes next repairs it and goes on");
	is_str(op_state(r, c.id), "failed", "it has ended");
	ok(sp_op_end(op, NULL, &e) == 0, "and so does the next one");
	sp_op_free(&op);
}

/* The worker of a beginner that died before the claim finds its operation gone. */
static void late_claim(const struct sp_roots *r)
{
	int up[2], go[2], status = 0;
	char id[SP_ID_SIZE], verdict = '?';
	struct sp_op *mine = NULL;
	struct sp_err e;

	if (pipe2(up, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
		abort();
	fflush(stdout);
	if (fork() == 0) {
		struct sp_op *op = op_begin(r, BOX, NULL, id);

		if (write(up[1], id, sizeof id) < 0 || fork() != 0)
			_exit(0);
		if (read(go[0], id, 1) < 0)
			_exit(1);
		verdict = sp_op_claim(op, &e) < 0 && e.code == SP_CONFLICT ? 'c' : 'x';
		_exit(write(up[1], &verdict, 1) < 0);
	}
	if (sp_fd_read(up[0], id, sizeof id) != sizeof id)
		abort();
	wait(&status);
	ok(sp_op_adopt(r, id, &mine, &e) == 0 && mine,
	   "a beginner that died is followed by a repairer");
	ok(write(go[1], "", 1) == 1 && read(up[0], &verdict, 1) == 1 && verdict == 'c',
	   "and its late worker may not claim");
	ok(sp_op_end(mine, NULL, &e) == 0, "the repairer ends it");
	sp_op_free(&mine);
	for (int i = 0; i < 2; i++) {
		close(up[i]);
		close(go[i]);
	}
}

/* --- what it costs ---------------------------------------------------------------------------- */

static struct sp_op *costed;

static void cost_begin(void *r)
{
	char id[SP_ID_SIZE];

	op_begin(r, BOX2, NULL, id);
}

static void cost_life(void *r)
{
	char id[SP_ID_SIZE];
	struct sp_err e;

	costed = op_begin(r, BOX2, NULL, id);
	sp_op_claim(costed, &e);
	sp_op_await_turn(costed, op_repair, &e);
	sp_op_phase(costed, "one", false, &e);
	sp_op_end(costed, NULL, &e);
}

static void cost(struct sp_roots *r)
{
	struct sp_err e;
	int n = count_calls(SYS_fsync, cost_begin, r);
	char id[SP_ID_SIZE];
	struct sp_op *op = op_begin(r, BOX2, NULL, id);

	ok(sp_op_await_turn(op, op_repair, &e) == 0 && sp_op_end(op, NULL, &e) == 0, "cleared");
	sp_op_free(&op);
	if (n < 0) {
		tap_skip("what it costs", "no ptrace here");
		return;
	}
	ok(n == 2, "begin is one durable write (a file and its folder): %d fsync", n);
	n = count_calls(SYS_fsync, cost_life, r);
	ok(n == 4, "a whole operation is two: %d fsync", n);
}

int main(void)
{
	struct sp_roots r = roots_make();

	alarm(120);
	life(&r);
	bad_requests(&r);
	request_ids(&r);
	request_race(&r);
	order(&r);
	waiting(&r);
	no_inotify(&r);
	adoption(&r);
	late_claim(&r);
	cost(&r);
	ok(roots_count(&r, SP_DIR_QUEUE) == 0, "at the end the queue is empty");
	tmp_clear();
	return tap_done();
}
