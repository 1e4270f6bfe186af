/* SPDX-License-Identifier: Apache-2.0 */
/* Makers of the store killed between any two system calls: making it, mounting it, growing it,
 * taking it down. The next tool finds or makes a whole one, and no mount or loop device stays. */
#include "kill_at.h"
#include "store_rig.h"

/* Every one would be thorough and slow: SPACE_TEST_STEP=1 does that. */
static int step_of(int usual)
{
	const char *s = getenv("SPACE_TEST_STEP");

	return s && atoi(s) > 0 ? atoi(s) : usual;
}

static void open_it(void *arg)
{
	struct sp_roots r;
	struct sp_err e;

	(void)arg;
	sp_store_open(&r, true, &e);
}

static void close_it(void *arg)
{
	(void)arg;
	rig_down();
}

static void need_it(void *arg)
{
	struct sp_roots r;
	struct sp_err e;

	(void)arg;
	if (sp_store_open(&r, true, &e) == 0)
		sp_store_need(&r, 0, &e);
}

static int files_in_state(void)
{
	sp_auto_fd fd = open(rig_state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -1 : tmp_count(fd);
}

/* A whole store, once; then none. */
static int next_tool(int n, const char *kept)
{
	struct sp_roots r;
	struct sp_err e;
	int bad = 0;

	if (rig_open(&r, true, &e) != 0) {
		printf("# at %d: %s\n", n, e.msg);
		return 1;
	}
	if (!sp_fs_exists(r.store, "format") || !sp_fs_exists(r.store, SP_DIR_WARM) ||
	    (kept && !sp_fs_exists(r.store, kept)))
		bad = 1;
	sp_roots_close(&r);
	if (rig_mounts() != 1 || rig_loops() != 1 || files_in_state() != 4)
		bad = 1;
	if (bad)
		printf("# at %d: %d mounts, %d loops, %d files\n", n, rig_mounts(), rig_loops(),
		       files_in_state());
	return bad;
}

static void verdict(int rc, int bad, int n, const char *what)
{
	if (rc < 0)
		tap_skip(what, "no ptrace here");
	else
		ok(!bad && rc == 0, "%s, killed among its %d system calls", what, n);
}

static void making(void)
{
	struct sp_err e;
	int n, step = step_of(8), rc = 1, bad = 0;

	for (n = 1; rc == 1 && n < 2000; n += step) {
		rc = kill_at(n, open_it, NULL);
		bad += next_tool(n, NULL);
		bad += rig_down() != 0 || rig_loops() != 0 || rig_mounts() != 0;
		bad += sp_fs_remove_tree(AT_FDCWD, rig_state, &e) < 0;
	}
	verdict(rc, bad, n, "making the store");
}

static int keep(const char *name)
{
	struct sp_roots r;
	struct sp_err e;
	int rc = rig_open(&r, true, &e);

	if (rc == 0)
		rc = sp_fs_replace(r.store, name, "x", 1, 0600, &e);
	sp_roots_close(&r);
	return rc;
}

static void mounting(void)
{
	int n, step = step_of(4), rc = 1, bad = keep("kept");

	for (n = 1; rc == 1 && n < 2000; n += step) {
		bad += rig_down() != 0;
		rc = kill_at(n, open_it, NULL);
		bad += next_tool(n, "kept");
	}
	verdict(rc, bad, n, "mounting it");
}

static void closing(void)
{
	int n, step = step_of(2), rc = 1, bad = keep("kept");

	for (n = 1; rc == 1 && n < 2000; n += step) {
		rc = kill_at(n, close_it, NULL);
		bad += next_tool(n, "kept");
	}
	verdict(rc, bad, n, "taking it down");
	ok(rig_down() == 0 && rig_loops() == 0, "down");
}

static void growing(void)
{
	struct sp_roots r;
	struct sp_err e;
	struct statfs f;
	int n, step = step_of(8), rc = 1, bad = 0;

	for (n = 1; rc == 1 && n < 2000; n += step) {
		if (rig_down() != 0 || sp_fs_remove_tree(AT_FDCWD, rig_state, &e) < 0 ||
		    keep("kept"))
			bad++;
		rc = kill_at(n, need_it, NULL);
		bad += next_tool(n, "kept");
		if (rig_open(&r, true, &e) != 0 || sp_store_need(&r, 0, &e) < 0) {
			printf("# at %d: %s\n", n, e.msg);
			bad++;
			continue;
		}
		if (fstatfs(r.store, &f) < 0 ||
		    (int64_t)f.f_bavail * (int64_t)f.f_bsize < SP_STORE_RESERVE)
			bad++;
		sp_roots_close(&r);
	}
	verdict(rc, bad, n, "growing it");
}

int main(void)
{
	if (!rig_may())
		return 0;
	tmp_make();
	rig_place("");
	alarm(400);
	making();
	mounting();
	closing();
	growing();
	ok(rig_down() == 0 && rig_mounts() == 0 && rig_loops() == 0, "at the end nothing is left");
	tmp_clear();
	return tap_done();
}
