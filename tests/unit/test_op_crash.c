/* SPDX-License-Identifier: Apache-2.0 */
/* The operation journal when its writers die: killed between any two system calls, at a phase, or
 * with the power. Whatever is left, the next writer gets its turn, every operation ends, and the
 * queue is empty after it. */
#include "kill_at.h"
#include "op_rig.h"
#include "state/record.h"
#include "sys/clock.h"

#define REQUEST "once"

struct work {
	const struct sp_roots *r;
	int tell; /* takes a letter for each thing that the worker was promised */
	const char *key;
};

static void tell(const struct work *w, char c)
{
	if (write(w->tell, &c, 1) < 0)
		_exit(1);
}

static void whole_life(void *arg)
{
	const struct work *w = arg;
	char id[SP_ID_SIZE];
	struct sp_op *op = op_begin(w->r, BOX, w->key, id);
	struct sp_err e;

	if (!op) /* its request was begun by one that died */
		return;
	tell(w, 'b');
	if (sp_op_claim(op, &e) < 0 || sp_op_await_turn(op, op_repair, &e) < 0)
		return;
	if (sp_op_intend(op, "id", sp_json_new_string("x"), &e) < 0)
		return;
	tell(w, 'i');
	sp_op_phase(op, "one", false, &e);
	sp_op_result(op, "x", NULL);
	if (sp_op_end(op, NULL, &e) == 0)
		tell(w, 'e');
}

/* Calls fn with each operation there is. */
struct all {
	const struct sp_roots *r;
	int running, failed, succeeded, damaged, intent;
};

static int count_op(int dirfd, const char *name, void *arg)
{
	struct all *a = arg;
	struct sp_err e;
	sp_auto_json *rec = NULL;
	const char *s;

	if (!sp_id_is_valid(name, SP_OPERATION))
		return 0;
	rec = sp_record_load(dirfd, name, &e);
	s = sp_json_str(rec, "state");
	if (!s)
		a->damaged++;
	else if (strcmp(s, "running") == 0)
		a->running++;
	else if (strcmp(s, "failed") == 0)
		a->failed++;
	else
		a->succeeded++;
	a->intent += sp_json_str(sp_json_get(rec, "intent"), "id") != NULL;
	return 0;
}

static struct all count_ops(const struct sp_roots *r)
{
	struct all a = { .r = r };
	struct sp_err e;
	sp_auto_fd ops = sp_fs_open_dir(r->store, SP_DIR_OPS, &e);

	sp_fs_each(ops, count_op, &a, &e);
	return a;
}

/* The next writer: its turn comes, and what was left over is gone. */
static int next_writer(const struct sp_roots *r)
{
	char id[SP_ID_SIZE];
	struct sp_op *op = op_begin(r, BOX, NULL, id);
	struct sp_err e;
	int bad = 0;

	if (!op)
		return 1;
	if (sp_op_await_turn(op, op_repair, &e) < 0 || sp_op_end(op, NULL, &e) < 0) {
		printf("# next writer: %s\n", e.msg);
		bad = 1;
	}
	sp_op_free(&op);
	return bad;
}

static int sweep(const struct sp_roots *r)
{
	struct sp_err e;
	sp_auto_fd lock = sp_root_lock(r, &e);

	return lock < 0 || sp_op_sweep(r, &e) < 0;
}

/* What the dead worker had been promised holds. */
static int promises(const char *told, ssize_t n, const struct all *before, const struct all *now)
{
	bool begun = memchr(told, 'b', (size_t)n), intent = memchr(told, 'i', (size_t)n),
	     end = memchr(told, 'e', (size_t)n);
	int new_ops = now->running + now->failed + now->succeeded - before->running -
		      before->failed - before->succeeded;

	if (now->running || now->damaged || new_ops > 2 || new_ops < 1 + begun)
		return 1; /* it, and the next writer */
	if (intent && now->intent == before->intent)
		return 1;
	return end && now->succeeded - before->succeeded != 2;
}

static void killed_anywhere(struct sp_roots *r)
{
	int n, rc = 1, bad = 0;

	for (n = 1; rc == 1 && n < 1000; n++) {
		struct all before = count_ops(r), now;
		struct work w = { .r = r };
		char told[8], key[32];
		ssize_t got;
		int p[2];

		snprintf(key, sizeof key, "killed-%d", n);
		w.key = key;
		if (pipe2(p, O_CLOEXEC) < 0)
			abort();
		w.tell = p[1];
		rc = kill_at_change(n, whole_life, &w);
		close(p[1]);
		got = sp_fd_read(p[0], told, sizeof told);
		close(p[0]);
		if (rc < 0) {
			tap_skip("killed at each system call", "no ptrace here");
			return;
		}
		bad += next_writer(r) || sweep(r) || roots_count(r, SP_DIR_QUEUE) != 0;
		now = count_ops(r);
		if (promises(told, got, &before, &now)) {
			printf("# at %d: told %.*s, %d running %d failed %d succeeded %d damaged\n",
			       n, (int)got, told, now.running, now.failed, now.succeeded,
			       now.damaged);
			bad++;
		}
	}
	ok(!bad && rc == 0, "a whole operation, killed at each of its %d changes", n - 2);
}

/* The same request id after each death: once it was begun it is that operation for ever. */
static void killed_with_request(struct sp_roots *r)
{
	int n, rc = 1, bad = 0, runs = 0;

	for (n = 1; rc == 1 && n < 1000; n++) {
		struct work w = { .r = r };
		char id[SP_ID_SIZE], again[SP_ID_SIZE], key[32];
		struct sp_op *op;
		struct sp_err e;
		int p[2];

		snprintf(key, sizeof key, "again-%d", n);
		w.key = key;
		if (pipe2(p, O_CLOEXEC) < 0)
			abort();
		w.tell = p[1];
		rc = kill_at_change(n, whole_life, &w);
		op = op_begin(r, BOX, w.key, id);
		if (op) { /* it never was */
			runs++;
			bad += sp_op_await_turn(op, op_repair, &e) < 0 ||
			       sp_op_end(op, NULL, &e) < 0;
			sp_op_free(&op);
		} else {
			bad += op_repair(r, id, &e) != 0;
		}
		op = op_begin(r, BOX, w.key, again);
		bad += op != NULL || strcmp(id, again) != 0;
		sp_op_free(&op);
		close(p[0]);
		close(p[1]);
	}
	if (rc < 0)
		tap_skip("one request id", "no ptrace here");
	else
		ok(!bad && runs > 5 && runs < n,
		   "one request id through each death: one operation");
	ok(sweep(r) == 0 && roots_count(r, SP_DIR_QUEUE) == 0, "nothing is left in the queue");
}

static void repair_it(void *arg)
{
	const struct work *w = arg;
	struct sp_err e;

	op_repair(w->r, w->key, &e);
}

static void killed_repairer(struct sp_roots *r)
{
	int n, rc = 1, bad = 0;

	for (n = 1; rc == 1 && n < 1000; n++) {
		struct child c = op_child(r, BOX, op_hold);
		struct work w = { .r = r, .key = c.id };

		op_kill(&c);
		rc = kill_at_change(n, repair_it, &w);
		if (next_writer(r) || sweep(r) || roots_count(r, SP_DIR_QUEUE) != 0 ||
		    strcmp(op_state(r, c.id), "failed") != 0) {
			printf("# at %d: %s, %d in the queue\n", n, op_state(r, c.id),
			       roots_count(r, SP_DIR_QUEUE));
			bad++;
		}
	}
	if (rc < 0)
		tap_skip("a killed repairer", "no ptrace here");
	else
		ok(!bad, "a repairer, killed at each of its %d changes, is repaired", n - 2);
}

static void at_a_phase(struct sp_roots *r)
{
	struct work w = { .r = r };
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setenv("SPACE_CRASH_AT", "test.one", 1);
		w.tell = open("/dev/null", O_WRONLY | O_CLOEXEC);
		whole_life(&w);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "SPACE_CRASH_AT kills at its phase");
	ok(op_open(r) == 1 && next_writer(r) == 0 && op_open(r) == 0,
	   "and the next writer repairs");
	pid = fork();
	if (pid == 0) {
		setenv("SPACE_CRASH_AT", "test.on", 1);
		w.tell = open("/dev/null", O_WRONLY | O_CLOEXEC);
		whole_life(&w);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	ok(status == 0, "at no other phase");
}

/* --- the power goes --------------------------------------------------------------------------- */

static int forget(int dirfd, const char *name, void *arg)
{
	(void)arg;
	return unlinkat(dirfd, name, 0) < 0;
}

/* What was not flushed is gone, and the boot is another. */
static void power_off(const struct sp_roots *r, bool stamp)
{
	struct sp_err e;
	sp_auto_fd queue = sp_fs_open_dir(r->store, SP_DIR_QUEUE, &e), index = -1;
	sp_auto_fd lock = sp_fs_open(r->store, ".lock", O_RDWR, 0, &e), ops = -1;

	sp_fs_each(queue, forget, NULL, &e);
	ops = sp_fs_open_dir(r->store, SP_DIR_OPS, &e);
	index = openat(ops, "by-request", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (index >= 0)
		sp_fs_each(index, forget, NULL, &e);
	if (stamp)
		sp_fd_pwrite(lock, "00000000", 8, 2);
	else if (ftruncate(lock, 0) < 0)
		abort();
}

static int next_id(const struct sp_roots *r, const char *id, void *arg)
{
	struct sp_str *s = arg;

	(void)r;
	sp_str_add(s, id);
	sp_str_add(s, " ");
	return 0;
}

static void power(struct sp_roots *r)
{
	struct child c[3];
	struct sp_str got = SP_STR_INIT;
	sp_auto_str want = SP_STR_INIT;
	struct sp_err e;
	char id[SP_ID_SIZE], before[SP_ID_SIZE];
	struct sp_op *op = op_begin(r, NULL, REQUEST, before);
	uint64_t seq;

	ok(op && sp_op_end(op, NULL, &e) == 0, "an ended operation with a request id");
	seq = (uint64_t)sp_json_i64(sp_op_record(op), "seq", 0);
	sp_op_free(&op);
	for (int i = 0; i < 3; i++) {
		c[i] = op_child(r, i == 1 ? BOX2 : BOX, op_hold);
		sp_str_addf(&want, "%s ", c[i].id);
		op_kill(&c[i]);
	}
	power_off(r, true);
	ok(roots_count(r, SP_DIR_QUEUE) == 0, "the power went, and the queue with it");
	ok(sp_op_each_open(r, next_id, &got, &e) == 0, "three are open");
	is_str(got.p, want.p, "in their order");
	sp_str_free(&got);
	ok(roots_count(r, SP_DIR_QUEUE) == 6, "with tickets and owners as before");
	ok(!op_begin(r, NULL, REQUEST, id) && strcmp(id, before) == 0,
	   "the request id is known still");
	op = op_begin(r, BOX, NULL, id);
	ok(sp_json_i64(sp_op_record(op), "seq", 0) > (int64_t)seq, "numbers go on");
	ok(sp_op_await_turn(op, op_repair, &e) == 0, "the next writer repairs those of its box");
	ok(op_open(r) == 2 && strcmp(op_state(r, c[1].id), "running") == 0, "and no others");
	ok(sp_op_end(op, NULL, &e) == 0 && op_repair(r, c[1].id, &e) == 0, "which end too");
	sp_op_free(&op);
	ok(roots_count(r, SP_DIR_QUEUE) == 0, "and the queue is empty");
}

/* The stamp alone is lost, while operations live. */
static void stamp(struct sp_roots *r)
{
	struct child c = op_child(r, BOX, op_end_when_told);
	struct sp_op *op = NULL;
	struct sp_err e;
	sp_auto_fd lock = sp_fs_open(r->store, ".lock", O_RDWR, 0, &e);

	ok(ftruncate(lock, 0) == 0 && op_open(r) == 1, "the stamp is lost, the queue made again");
	ok(sp_op_adopt(r, c.id, &op, &e) < 0 && e.code == SP_BUSY, "who lives keeps his operation");
	ok(op_reap(&c) == 0 && strcmp(op_state(r, c.id), "succeeded") == 0, "and ends it");
	ok(roots_count(r, SP_DIR_QUEUE) == 0, "the queue is empty");
}

static void relock(void *arg)
{
	struct sp_err e;

	sp_root_lock(arg, &e);
}

static void killed_rebuild(struct sp_roots *r)
{
	int n, rc = 1, bad = 0;

	for (n = 1; rc == 1 && n < 2000; n++) {
		struct child c = op_child(r, BOX, op_hold);

		op_kill(&c);
		power_off(r, n % 2);
		rc = kill_at_change(n, relock, r);
		bad += op_open(r) != 1 || roots_count(r, SP_DIR_QUEUE) != 2;
		bad += next_writer(r) || roots_count(r, SP_DIR_QUEUE) != 0;
	}
	if (rc < 0)
		tap_skip("rebuilding killed", "no ptrace here");
	else
		ok(!bad, "who rebuilds the queue and is killed does no harm");
}

int main(void)
{
	struct sp_roots r = roots_make();

	alarm(200);
	killed_rebuild(&r);
	killed_anywhere(&r);
	killed_with_request(&r);
	killed_repairer(&r);
	at_a_phase(&r);
	power(&r);
	stamp(&r);
	ok(count_ops(&r).running == 0 && count_ops(&r).damaged == 0, "at the end all have ended");
	tmp_clear();
	return tap_done();
}
