/* SPDX-License-Identifier: Apache-2.0 */
/* Events: numbered, readable from any of them on, whole whatever happens to a writer. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kill_at.h"
#include "roots.h"
#include "state/event.h"
#include "sys/clock.h"
#include "tap.h"

struct got {
	int n, bad, stop_after;
	char seq[64][32], what[64][32];
};

static int take(const char *line, size_t n, void *arg)
{
	struct got *g = arg;
	struct sp_err e;
	sp_auto_json *o = sp_json_parse(line, n, &e);
	const char *seq = sp_json_str(o, "seq"), *what = sp_json_str(o, "what");

	if (!seq || !what)
		g->bad++;
	if (g->n < 64) {
		snprintf(g->seq[g->n], 32, "%s", seq ? seq : "");
		snprintf(g->what[g->n], 32, "%s", what ? what : "");
	}
	g->n++;
	return g->stop_after && g->n >= g->stop_after ? 7 : 0;
}

static struct got read_from(const struct sp_roots *r, const char *since)
{
	struct got g = { 0 };
	struct sp_err e;

	if (sp_event_read(r, since, 0, take, &g, &e) < 0)
		g.n = -(int)e.code;
	return g;
}

static int add(const struct sp_roots *r, const char *what)
{
	struct sp_err e;

	return sp_event_add(r, what, "saaaaaaaaaaaaaaaaaaaa", "oaaaaaaaaaaaaaaaaaaaa", NULL, &e);
}

static int append(const struct sp_roots *r, const char *name, const char *text)
{
	struct sp_err e;
	sp_auto_fd fd = sp_fs_open(r->store, name, O_WRONLY | O_APPEND, 0, &e);

	return fd < 0 ? -1 : sp_fd_write(fd, text, strlen(text));
}

static void basics(const struct sp_roots *r)
{
	struct got g = read_from(r, NULL);
	sp_auto_json *more = sp_json_new_object();
	sp_auto_str text = SP_STR_INIT;
	struct sp_err e;
	char next[32];

	ok(g.n == 0, "none yet");
	ok(read_from(r, "0.0").n == 0, "the first one's number, before it is there");
	sp_json_put_str(more, "text", "two\nlines");
	ok(add(r, "a.one") == 0 && sp_event_add(r, "a.two", NULL, NULL, more, &e) == 0, "add two");
	g = read_from(r, NULL);
	ok(g.n == 3 && !g.bad, "read them");
	is_str(g.seq[0], "0.0", "the first is at 0.0");
	is_str(g.what[0], "events.epoch", "it begins the epoch");
	is_str(g.what[2], "a.two", "the last");
	ok(sp_fs_read(r->store, "events", 4096, &text, &e) == 0 &&
		   strncmp(text.p + atoi(g.seq[2] + 2), "{\"seq\"", 6) == 0,
	   "a number is where its line begins");
	snprintf(next, sizeof next, "0.%zu", text.len);
	ok(read_from(r, g.seq[1]).n == 2, "from one on, itself included");
	ok(read_from(r, next).n == 0, "from the next one on: none");
	ok(read_from(r, "0.1").n == -SP_USAGE && read_from(r, "0.99999").n == -SP_USAGE &&
		   read_from(r, "1.0").n == 0 && read_from(r, "5.3").n == -SP_USAGE,
	   "numbers that no line has");
	ok(read_from(r, "").n == -SP_USAGE && read_from(r, "0").n == -SP_USAGE &&
		   read_from(r, "0.").n == -SP_USAGE && read_from(r, ".0").n == -SP_USAGE &&
		   read_from(r, "-1.0").n == -SP_USAGE && read_from(r, "0.0x").n == -SP_USAGE &&
		   read_from(r, "0.-1").n == -SP_USAGE &&
		   read_from(r, "99999999999999999999.0").n == -SP_USAGE &&
		   read_from(r, "0.99999999999999999999").n == -SP_USAGE,
	   "and text that is no number");
}

static void epochs(const struct sp_roots *r)
{
	struct got g, before = read_from(r, NULL);
	struct sp_err e;
	sp_auto_fd fd = -1;

	ok(append(r, "events", "{\"seq\":\"0.4") == 0, "a writer dies in the middle of a line");
	ok(read_from(r, NULL).n == before.n, "half a line is none");
	ok(add(r, "b.one") == 0 && sp_fs_exists(r->store, "events.1"), "the next begins an epoch");
	g = read_from(r, NULL);
	ok(g.n == before.n + 2 && !g.bad, "read over both");
	is_str(g.seq[g.n - 2], "1.0", "its first number");
	is_str(g.what[g.n - 1], "b.one", "its event");
	ok(read_from(r, before.seq[1]).n == g.n - 1, "from the old epoch on");
	ok(read_from(r, "1.0").n == 2, "from the new one on");
	ok(read_from(r, "0.9999").n == 2,
	   "from one that was lost with the old epoch: what follows");

	ok(sp_fs_replace(r->store, "events.1",
			 "{\"seq\":\"1.0\",\"what\":\"events.epoch\",\"boot\":\"x\"}\n", 46, 0600,
			 &e) == 0 &&
		   add(r, "c.one") == 0 && sp_fs_exists(r->store, "events.2"),
	   "another boot begins an epoch too");
	fd = sp_fs_open(r->store, "events.3", O_WRONLY | O_CREAT, 0600, &e);
	ok(add(r, "d.one") == 0, "a writer died before its first line");
	g = read_from(r, "3.0");
	ok(g.n == 2 && strcmp(g.what[0], "events.epoch") == 0, "the next one writes it");
	ok(add(r, "d.two") == 0 && read_from(r, "3.0").n == 3 &&
		   !sp_fs_exists(r->store, "events.4"),
	   "and goes on there");
	ok(sp_fs_replace(r->store, "events.x", "", 0, 0600, &e) == 0 &&
		   sp_fs_replace(r->store, "events.007", "", 0, 0600, &e) == 0 &&
		   add(r, "e") == 0 && !sp_fs_exists(r->store, "events.8"),
	   "other files are no epochs");
}

static void large(const struct sp_roots *r)
{
	sp_auto_free char *text = sp_xcalloc(1, SP_EVENT_MAX + 1);
	sp_auto_json *more = sp_json_new_object();
	struct got before = read_from(r, NULL);
	struct sp_err e;

	memset(text, 'x', SP_EVENT_MAX);
	sp_json_put_str(more, "x", text);
	ok(sp_event_add(r, "f", NULL, NULL, more, &e) < 0 && read_from(r, NULL).n == before.n,
	   "an event that is too large is refused");
	text[SP_EVENT_MAX - 500] = '\0';
	sp_json_put_str(more, "x", text);
	ok(sp_event_add(r, "f", NULL, NULL, more, &e) == 0 && read_from(r, NULL).n == before.n + 1,
	   "one just below the limit is not");
}

static void many(const struct sp_roots *r)
{
	struct got before = read_from(r, NULL), g;

	fflush(stdout);
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			int bad = 0;

			for (int k = 0; k < 100; k++)
				bad += add(r, "many") < 0;
			_exit(bad != 0);
		}
	for (int i = 0; i < 4; i++)
		wait(NULL);
	g = read_from(r, NULL);
	ok(g.n == before.n + 400 && !g.bad, "four writers at once, nothing lost or mixed");
}

/* --- following -------------------------------------------------------------------------------- */

static void follow(const struct sp_roots *r)
{
	struct got g = read_from(r, NULL);
	int n = g.n, status = -1, rc;
	struct sp_err e;
	int64_t begun = sp_clock_mono();
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) { /* reads all there is, then three hundred more, over an epoch's end */
		memset(&g, 0, sizeof g);
		g.stop_after = n + 301;
		rc = sp_event_read(r, NULL, 1, take, &g, &e);
		_exit(rc == 7 && !g.bad ? 0 : 1);
	}
	for (int i = 0; i < 300; i++) {
		if (i == 150)
			append(r, "events.3", "{\"torn");
		add(r, "follow");
		if (i % 50 == 0)
			usleep(2000);
	}
	alarm(30);
	waitpid(pid, &status, 0);
	ok(status == 0, "a follower sees every event, over a torn end too");
	ok(sp_clock_mono() - begun < 20000000000, "without waiting for a clock");
	memset(&g, 0, sizeof g);
	g.stop_after = 1;
	ok(sp_event_read(r, "4.0", 1, take, &g, &e) == 7 && g.n == 1, "it ends when it is told to");
}

static void add_killed(void *arg)
{
	add(arg, "killed");
}

static void killed(struct sp_roots *r)
{
	int n, rc = 1, bad = 0;

	for (n = 1; rc == 1 && n < 200; n++) {
		struct got before = read_from(r, NULL), now;

		rc = kill_at_change(n, add_killed, r);
		bad += add(r, "after") < 0;
		now = read_from(r, NULL);
		bad += now.bad || now.n < before.n + 1 || now.n > before.n + 3;
	}
	if (rc < 0)
		tap_skip("killed at each system call", "no ptrace here");
	else
		ok(!bad, "a writer killed at each of its %d changes does no harm", n - 2);
}

int main(void)
{
	struct sp_roots r = roots_make();

	alarm(120);
	basics(&r);
	epochs(&r);
	large(&r);
	many(&r);
	follow(&r);
	killed(&r);
	tmp_clear();
	return tap_done();
}
