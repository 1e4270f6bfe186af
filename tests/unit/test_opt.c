/* SPDX-License-Identifier: Apache-2.0 */
/* Options, operands, and how a tool ends. What prints and exits is run in a child. */
#include <sys/wait.h>
#include <unistd.h>

#include "sys/proc.h"
#include "tap.h"
#include "text/opt.h"
#include "tmp.h"

enum { O_N = 1, O_ENV, O_SIZE, O_SPAN };
static const struct sp_opt opts[] = {
	SP_OPT_JSON,
	SP_OPT_WAIT,
	{ O_N, 'n', "number", SP_NUMBER, "N", "how many" },
	{ O_ENV, 0, "env", SP_TEXT, "K=V", "a variable" },
	{ O_SIZE, 0, "mem", SP_SIZE, "SIZE", "memory" },
	{ O_SPAN, 0, "timeout", SP_SPAN, "T", "how long" },
};
static const struct sp_tool tool = { "space-x",      "Do x.", "SANDBOX...",
				     SP_ARG_SANDBOX, opts,    SP_NELEM(opts) };

/* Parses words, and tells what came as text: "n=3 j | a b" or "! message". */
static const char *parse(const char *words)
{
	static char out[1000], copy[1000];
	static char *argv[64];
	struct sp_opt_state st = { .argv = argv };
	struct sp_err e;
	int key;

	out[0] = '\0';
	snprintf(copy, sizeof copy, "tool %s", words);
	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		argv[st.argc++] = w;
	argv[st.argc] = NULL;
	while ((key = sp_opt_next(&st, &tool, &e)) > 0) {
		strcat(out, st.opt->name);
		if (st.value)
			strcat(strcat(out, "="), st.value);
		strcat(out, " ");
		ok(key == st.opt->key, "key of %s", st.opt->name);
	}
	if (key < 0) {
		snprintf(out, sizeof out, "! %s", e.msg);
		ok(e.code == SP_USAGE, "wrong use");
		return out;
	}
	strcat(out, "|");
	for (int i = st.i; i < st.argc; i++)
		strcat(strcat(out, " "), argv[i]);
	return out;
}

static void parsing(void)
{
	is_str(parse(""), "|", "nothing");
	is_str(parse("a b"), "| a b", "operands");
	is_str(parse("-j -w a"), "json wait | a", "letters");
	is_str(parse("-jw a"), "json wait | a", "a cluster");
	is_str(parse("-n3 a"), "number=3 | a", "a value that sticks");
	is_str(parse("-n 3 a"), "number=3 | a", "a value that follows");
	is_str(parse("-jn3"), "json number=3 |", "a cluster with a value");
	is_str(parse("-jn 3"), "json number=3 |", "and one that follows");
	is_str(parse("--number=3 --json a"), "number=3 json | a", "long");
	is_str(parse("--number 3"), "number=3 |", "long, value follows");
	is_str(parse("--env A=b=c"), "env=A=b=c |", "a value with =");
	is_str(parse("--env="), "env= |", "an empty value");
	is_str(parse("-n -5"), "number=-5 |", "a value may begin with a dash");
	is_str(parse("a -j"), "| a -j", "the first operand ends it");
	is_str(parse("-j -- -w"), "json | -w", "-- ends it");
	is_str(parse("-j - -w"), "json | - -w", "- is an operand");
	is_str(parse("-x"), "! unknown option '-x'", "unknown letter");
	is_str(parse("-jx"), "! unknown option '-x'", "in a cluster");
	is_str(parse("--nope=1"), "! unknown option '--nope'", "unknown name");
	is_str(parse("--num 3"), "! unknown option '--num'", "no abbreviation");
	is_str(parse("--json=1"), "! --json takes no value", "a value too much");
	is_str(parse("-n"), "! --number needs a value: N", "a value too few");
	is_str(parse("--number"), "! --number needs a value: N", "long");
}

static void values(void)
{
	struct sp_opt_state st = { .opt = &opts[2] };
	struct sp_err e;
	int64_t v = -1;

#define V(text) (st.value = (text), &st)
	ok(sp_opt_number(V("7"), 1, 9, &v, &e) == 0 && v == 7, "number");
	ok(sp_opt_number(V("-7"), -9, 9, &v, &e) == 0 && v == -7, "below zero");
	ok(sp_opt_number(V("9223372036854775807"), 0, INT64_MAX, &v, &e) == 0 && v == INT64_MAX,
	   "most");
	ok(sp_opt_number(V("-9223372036854775808"), INT64_MIN, 0, &v, &e) == 0 && v == INT64_MIN,
	   "least");
	ok(sp_opt_number(V("9223372036854775808"), 0, INT64_MAX, &v, &e) == -1, "one more");
	ok(sp_opt_number(V("10"), 1, 9, &v, &e) == -1, "too many");
	is_str(e.msg, "--number: 10 is not from 1 to 9", "says what fits");
	ok(sp_opt_number(V("x"), 1, 9, &v, &e) == -1 && sp_opt_number(V(""), 1, 9, &v, &e) == -1 &&
		   sp_opt_number(V("1x"), 1, 9, &v, &e) == -1 &&
		   sp_opt_number(V(" 1"), 1, 9, &v, &e) == -1 &&
		   sp_opt_number(V("-"), 1, 9, &v, &e) == -1 && e.code == SP_USAGE,
	   "no numbers");
	ok(sp_opt_size(V("256M"), 0, INT64_MAX, &v, &e) == 0 && v == 256 << 20, "size");
	ok(sp_opt_size(V("100"), 0, 99, &v, &e) == -1, "too large");
	ok(sp_opt_size(V("1G"), 4096, 512 << 20, &v, &e) == -1, "too large");
	is_str(e.msg, "--number: 1G is not from 4K to 512M", "says what fits");
	ok(sp_opt_span(V("5m"), &v, &e) == 0 && v == INT64_C(300000000000), "span");
	ok(sp_opt_span(V("soon"), &v, &e) == -1 && e.code == SP_USAGE, "no span");
	ok(sp_size_parse("8388607T", &v) == 0 && sp_size_parse("8388608T", &v) == -1, "overflow");
	ok(sp_size_parse("1k", &v) == -1 && sp_size_parse("1KB", &v) == -1 &&
		   sp_size_parse("-1", &v) == -1 && sp_size_parse("", &v) == -1,
	   "no sizes");
	ok(sp_opt_env("A_1=x y", &e) == 0 && sp_opt_env("_=", &e) == 0, "variables");
	ok(sp_opt_env("1A=x", &e) == -1 && sp_opt_env("=x", &e) == -1 &&
		   sp_opt_env("A", &e) == -1 && sp_opt_env("A-B=x", &e) == -1,
	   "no variables");
}

/* Runs fn in a child with its standard descriptors redirected; *out and *err get what it wrote. */
static int in_child(int (*fn)(void), const char *in, const char *out_to, char out[static 4096],
		    char err[static 4096])
{
	int o[2], r[2], i[2], status;
	ssize_t n;
	pid_t pid;

	fflush(stdout);
	if (pipe(o) < 0 || pipe(r) < 0 || pipe(i) < 0 || sp_fd_write(i[1], in, strlen(in)) < 0)
		abort();
	close(i[1]);
	pid = fork();
	if (!pid) {
		dup2(i[0], 0);
		dup2(out_to ? open(out_to, O_WRONLY | O_CLOEXEC) : o[1], 1);
		dup2(r[1], 2);
		sp_proc_exit(fn());
	}
	close(o[1]);
	close(r[1]);
	close(i[0]);
	n = sp_fd_read(o[0], out, 4095);
	out[n > 0 ? n : 0] = '\0';
	n = sp_fd_read(r[0], err, 4095);
	err[n > 0 ? n : 0] = '\0';
	close(o[0]);
	close(r[0]);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int one(const char *operand, void *arg, struct sp_err *e)
{
	(void)arg;
	if (operand[0] == 'b')
		return sp_fail(e, SP_BUSY, 0, "lock is held");
	if (operand[0] == 'n')
		return sp_fail(e, SP_ABSENT, 0, "no such sandbox");
	puts(operand);
	return 0;
}

static int each(const char *const *argv, int argc)
{
	char **args = (char **)(uintptr_t)argv;
	struct sp_err e;

	return sp_finish(&tool, sp_each_operand(&tool, argc, args, 1, one, NULL), &e);
}

static int run_each(void)
{
	const char *const argv[] = { "a", "b", "n\x1b", "-", "z", "-", NULL };

	return each(argv, 6);
}

static int run_none(void)
{
	return each(NULL, 0);
}

static int run_empty(void)
{
	const char *const argv[] = { "-", NULL };

	return each(argv, 1);
}

static int run_json(void)
{
	const char *const argv[] = { "b", NULL };

	sp_tool_set_json(true);
	return each(argv, 1);
}

static int run_arg(const char *arg)
{
	const char *const argv[] = { "space-x", arg, NULL };
	struct sp_opt_state st = { .argc = 2, .argv = (char **)(uintptr_t)argv };
	struct sp_err e;

	while (sp_opt_next(&st, &tool, &e) > 0) {
	}
	return 99;
}

static int run_help(void)
{
	return run_arg("--help");
}

static int run_version(void)
{
	return run_arg("--version");
}

static int run_describe(void)
{
	return run_arg("--describe");
}

static int run_fail(void)
{
	struct sp_err e;

	return sp_finish(&tool, sp_fail(&e, SP_HOST, 0, "no\nnews"), &e);
}

static int run_closed(void)
{
	struct sp_err e;

	close(1);
	return sp_finish(&tool, 0, &e);
}

static void operands(void)
{
	char out[4096], err[4096];

	ok(in_child(run_each, "s1\tx\n\ns2\n", NULL, out, err) == 5, "the worst code");
	is_str(out, "a\ns1\ns2\nz\n", "each, standard input in its place and once");
	is_str(err, "space-x: b: lock is held\nspace-x: n\\x1b: no such sandbox\n",
	       "each complaint");
	ok(in_child(run_none, "", NULL, out, err) == 2, "none");
	is_str(err, "space-x: too few operands: SANDBOX...\n", "says so");
	ok(in_child(run_empty, "\n\n", NULL, out, err) == 2, "an empty standard input");
	ok(in_child(run_json, "", NULL, out, err) == 5, "JSON");
	is_str(err,
	       "{\"code\":\"busy\",\"exit\":5,\"message\":\"lock is held\",\"operand\":\"b\"}\n",
	       "complaint as JSON");
}

static void endings(void)
{
	char out[4096], err[4096];

	ok(in_child(run_help, "", NULL, out, err) == 0 && !err[0], "--help");
	ok(strstr(out, "usage: space-x [OPTION...] SANDBOX...\nDo x.\n") == out,
	   "begins with its use");
	ok(strstr(out, "\n  -n, --number N") && strstr(out, "\n      --env K=V"),
	   "has its options");
	ok(in_child(run_version, "", NULL, out, err) == 0, "--version");
	is_str(out, "space-x " SP_VERSION "\n", "name and number");
	ok(in_child(run_describe, "", NULL, out, err) == 0, "--describe");
	is_str(out,
	       "space-x\tDo x.\tSANDBOX...\tsandbox\n"
	       "j\tjson\tnone\t-\tprint JSON\n"
	       "w\twait\tnone\t-\twait, and print what came out\n"
	       "n\tnumber\tnumber\tN\thow many\n"
	       "-\tenv\ttext\tK=V\ta variable\n"
	       "-\tmem\tsize\tSIZE\tmemory\n"
	       "-\ttimeout\tspan\tT\thow long\n",
	       "the table");
	ok(in_child(run_help, "", "/dev/full", out, err) == 1, "a full disk is a failure");
	is_str(err, "space-x: write standard output: No space left on device\n", "and told");
	ok(in_child(run_fail, "", NULL, out, err) == 7, "the error's code");
	is_str(err, "space-x: no\\nnews\n", "one line");
	ok(in_child(run_closed, "", NULL, out, err) == 0, "closed from the start, nothing written");
}

int main(void)
{
	parsing();
	values();
	operands();
	endings();
	return tap_done();
}
