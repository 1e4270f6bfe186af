/* SPDX-License-Identifier: Apache-2.0 */
/* Records: kept whole, refused when they are damaged, too new or too large. */
#include <unistd.h>

#include "kill_at.h"
#include "state/record.h"
#include "tap.h"
#include "tmp.h"

static enum sp_code code_of(const char *text)
{
	struct sp_err e = { .code = SP_OK };
	sp_auto_json *rec = sp_record_parse(text, strlen(text), &e);

	return rec ? SP_OK : e.code;
}

static void parse(void)
{
	ok(code_of("{\"format\":1}") == SP_OK, "the smallest");
	ok(code_of("{\"format\":1,\"id\":\"x\"}\n") == SP_OK, "with a newline after it");
	ok(code_of("{\"format\":2}") == SP_HOST, "a newer format is told apart");
	ok(code_of("{\"format\":0}") == SP_FAIL && code_of("{\"format\":-1}") == SP_FAIL &&
		   code_of("{\"format\":\"x\"}") == SP_FAIL && code_of("{}") == SP_FAIL,
	   "no format");
	ok(code_of("[]") == SP_FAIL && code_of("1") == SP_FAIL && code_of("\"format\"") == SP_FAIL,
	   "no object");
	ok(code_of("") == SP_FAIL && code_of("{\"format\":1") == SP_FAIL &&
		   code_of("{\"format\":1}}") == SP_FAIL,
	   "no JSON");
}

static void files(int dir)
{
	struct sp_err e;
	sp_auto_json *rec = sp_json_new_object(), *got = NULL;
	sp_auto_fd sub = -1;

	ok(!sp_record_load(dir, "none", &e) && e.code == SP_ABSENT, "none there");
	sp_json_put_str(rec, "id", "x");
	ok(sp_record_save(dir, "a", rec, &e) == 0, "save");
	got = sp_record_load(dir, "a", &e);
	is_str(sp_json_str(got, "id"), "x", "load");
	ok(sp_json_i64(got, "format", 0) == SP_FORMAT, "the format was put in");
	sp_json_free(&got);
	sp_json_put_str(rec, "id", "y");
	ok(sp_record_save(dir, "a", rec, &e) == 0 && tmp_count(dir) == 1,
	   "replace, nothing beside it");
	got = sp_record_load(dir, "a", &e);
	is_str(sp_json_str(got, "id"), "y", "load again");
	sp_json_free(&got);

	ok(sp_fs_mkdir(dir, "sub", 0700, &e) == 0, "a folder");
	sub = sp_fs_open_dir(dir, "sub", &e);
	ok(sp_record_save(sub, "a", rec, &e) == 0, "save in it");
	got = sp_record_load(dir, "sub/a", &e);
	ok(got, "load by path");
	sp_json_free(&got);
	ok(!sp_record_load(sub, "../a", &e), "no way out of the folder");
	ok(symlinkat("a", dir, "link") == 0 && !sp_record_load(dir, "link", &e),
	   "no link is followed");
}

static void large(int dir)
{
	struct sp_err e;
	sp_auto_json *rec = sp_json_new_object();
	sp_auto_free char *text = sp_xcalloc(1, SP_RECORD_MAX + 1);

	memset(text, 'x', SP_RECORD_MAX);
	sp_json_put_str(rec, "x", text);
	ok(sp_record_save(dir, "large", rec, &e) < 0 && e.code == SP_FAIL, "too large to save");
	ok(!sp_fs_exists(dir, "large"), "and not saved");
	ok(sp_fs_replace(dir, "large", text, SP_RECORD_MAX + 1, 0600, &e) == 0 &&
		   !sp_record_load(dir, "large", &e),
	   "too large to load");
}

/* Around the size up to which a record is read in one go. */
static void sizes(int dir)
{
	struct sp_err e;
	int bad = 0;

	for (size_t n = 8100; n < 8300; n++) {
		sp_auto_free char *text = sp_xcalloc(1, n + 1);
		sp_auto_json *rec = sp_json_new_object(), *got = NULL;

		memset(text, 'x', n);
		sp_json_put_str(rec, "x", text);
		sp_json_put_str(rec, "end", "here");
		if (n % 20 == 0 || (n > 8150 && n < 8195)) {
			bad += sp_record_save(dir, "sized", rec, &e) < 0;
			got = sp_record_load(dir, "sized", &e);
			bad += !got || strlen(sp_json_str(got, "x")) != n;
		}
	}
	ok(!bad, "every size around 8 KiB");
}

struct saving {
	int dir, value;
};

static void save_value(void *arg)
{
	const struct saving *s = arg;
	sp_auto_json *rec = sp_json_new_object();
	struct sp_err e;

	sp_json_put_int(rec, "value", s->value);
	sp_record_save(s->dir, "killed", rec, &e);
}

/* Killed between any two system calls, a reader sees the old or the new. */
static void killed(int dir)
{
	struct saving s = { .dir = dir, .value = 0 };
	struct sp_err e;
	int n, rc = 1, bad = 0, last = 0;

	save_value(&s);
	for (n = 1; rc == 1 && n < 100; n++) {
		sp_auto_json *got = NULL;
		int64_t v;

		s.value = n;
		rc = kill_at_change(n, save_value, &s);
		got = sp_record_load(dir, "killed", &e);
		v = sp_json_i64(got, "value", -1);
		if (v != last && v != n)
			bad++;
		last = (int)v;
	}
	if (rc < 0) {
		tap_skip("killed at each system call", "no ptrace here");
		return;
	}
	ok(bad == 0 && rc == 0, "killed at each of its %d changes: old or new", n - 2);
	ok(last == n - 1, "and the last one was not killed");
}

int main(void)
{
	int dir = tmp_make();

	parse();
	files(dir);
	large(dir);
	sizes(dir);
	killed(dir);
	tmp_clear();
	return tap_done();
}
