/* SPDX-License-Identifier: Apache-2.0 */
/* Names: taken once, moved in one step, dropped only by whom they mean, found by their owner. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kill_at.h"
#include "roots.h"
#include "state/name.h"
#include "tap.h"

#define A "saaaaaaaaaaaaaaaaaaaa"
#define B "cbbbbbbbbbbbbbbbbbbbb"

static void basics(const struct sp_roots *r)
{
	struct sp_err e;
	char id[SP_ID_SIZE] = "";

	ok(sp_name_find(r, "local", "box", id, &e) < 0 && e.code == SP_ABSENT, "none yet");
	ok(sp_name_drop(r, "local", "box", A, &e) == 0, "dropping none is fine");
	ok(sp_name_take(r, "local", "box", A, &e) == 0, "take");
	ok(sp_name_take(r, "local", "box", A, &e) == 0, "take it again, the same");
	ok(sp_name_take(r, "local", "box", B, &e) < 0 && e.code == SP_CONFLICT, "taken by another");
	ok(strstr(e.msg, "box") && strstr(e.msg, A), "and it says by whom");
	ok(sp_name_find(r, "local", "box", id, &e) == 0, "find");
	is_str(id, A, "what it means");
	ok(sp_name_find(r, "other", "box", id, &e) < 0 && e.code == SP_ABSENT,
	   "another owner: absent");
	ok(sp_name_take(r, "other", "box", B, &e) == 0, "another owner may have it too");
	ok(sp_name_move(r, "local", "box", B, &e) == 0 &&
		   sp_name_find(r, "local", "box", id, &e) == 0 && strcmp(id, B) == 0,
	   "move");
	ok(sp_name_move(r, "local", "new", A, &e) == 0 &&
		   sp_name_find(r, "local", "new", id, &e) == 0,
	   "moving what is not there takes it");
	ok(sp_name_drop(r, "local", "box", A, &e) == 0 &&
		   sp_name_find(r, "local", "box", id, &e) == 0,
	   "drop by another id: it stays");
	ok(sp_name_drop(r, "local", "box", B, &e) == 0 &&
		   sp_name_find(r, "local", "box", id, &e) < 0,
	   "drop");
	ok(sp_name_drop_all(r, A, &e) == 0 && sp_name_find(r, "local", "new", id, &e) < 0 &&
		   sp_name_find(r, "other", "box", id, &e) == 0,
	   "drop all names of an id, and no other");
}

static void operands(const struct sp_roots *r)
{
	static const char *const bad[] = { "",    ".",   "..",    "../ops", "a/b", "-a",
					   "Box", "a.b", ".lock", "a b",    "x\n", "\xc3\xa9" };
	char id[SP_ID_SIZE], longer[80];
	struct sp_err e;
	int wrong = 0;

	ok(sp_name_resolve(r, "local", A, id, &e) == 0 && strcmp(id, A) == 0, "an id is itself");
	ok(sp_name_take(r, "local", "web", B, &e) == 0 &&
		   sp_name_resolve(r, "local", "web", id, &e) == 0 && strcmp(id, B) == 0,
	   "a name is what it means");
	for (size_t i = 0; i < SP_NELEM(bad); i++) {
		if (sp_name_resolve(r, "local", bad[i], id, &e) == 0 || e.code != SP_ABSENT)
			wrong++;
		if (sp_name_take(r, "local", bad[i], A, &e) == 0 || e.code != SP_USAGE)
			wrong++;
		if (sp_name_move(r, "local", bad[i], A, &e) == 0 || e.code != SP_USAGE)
			wrong++;
		if (sp_name_take(r, bad[i], "a", A, &e) == 0 || e.code != SP_USAGE)
			wrong++;
		if (sp_name_find(r, bad[i], "web", id, &e) == 0 || e.code != SP_ABSENT)
			wrong++;
	}
	ok(!wrong, "bad names and owners: absent when looked for, wrong use when taken");
	is_str(e.msg, "no such sandbox, snapshot or image", "the words for it");
	memset(longer, 'a', sizeof longer);
	longer[64] = '\0';
	ok(sp_name_take(r, "local", longer, A, &e) < 0, "64 characters are too many");
	longer[63] = '\0';
	ok(sp_name_take(r, "local", longer, A, &e) == 0, "63 are not");
	ok(sp_name_take(r, "local", A, B, &e) < 0 && e.code == SP_USAGE,
	   "no name looks like an id");
}

/* Of two that take the same name one gets it. */
static void race(const struct sp_roots *r)
{
	int twice = 0;

	for (int round = 0; round < 20; round++) {
		char name[16];
		pid_t pid[2];
		int got = 0;

		snprintf(name, sizeof name, "race-%d", round);
		for (int i = 0; i < 2; i++) {
			pid[i] = fork();
			if (pid[i] == 0) {
				struct sp_err e;

				_exit(sp_name_take(r, "local", name, i ? A : B, &e) < 0);
			}
		}
		for (int i = 0; i < 2; i++) {
			int status;

			waitpid(pid[i], &status, 0);
			got += status == 0;
		}
		twice += got != 1;
	}
	ok(!twice, "two at once: one gets it");
}

static void move_it(void *arg)
{
	struct sp_err e;

	sp_name_move(arg, "local", "moved", B, &e);
}

static void killed(struct sp_roots *r)
{
	char id[SP_ID_SIZE];
	struct sp_err e;
	int n, rc = 1, bad = 0;

	for (n = 1; rc == 1 && n < 100; n++) {
		bad += sp_name_move(r, "local", "moved", A, &e) < 0;
		rc = kill_at_change(n, move_it, r);
		bad += sp_name_find(r, "local", "moved", id, &e) < 0 ||
		       (strcmp(id, A) != 0 && strcmp(id, B) != 0);
	}
	if (rc < 0)
		tap_skip("killed at each system call", "no ptrace here");
	else
		ok(!bad && strcmp(id, B) == 0, "killed at each of %d changes: old or new",
		   n - 2);
}

int main(void)
{
	struct sp_roots r = roots_make();

	basics(&r);
	operands(&r);
	race(&r);
	killed(&r);
	tmp_clear();
	return tap_done();
}
