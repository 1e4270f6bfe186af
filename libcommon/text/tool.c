/* SPDX-License-Identifier: Apache-2.0 */
/* What every tool does the same way: its operands, its complaints, its end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/fd.h"
#include "text/json.h"
#include "text/opt.h"
#include "text/table.h"

#define OPERANDS_MAX 65536
#define LINE_MAX_ 4096

static bool as_json;

void sp_tool_set_json(bool on)
{
	as_json = on;
}

static void complain(const struct sp_tool *tool, const char *operand, const struct sp_err *e)
{
	sp_auto_str line = SP_STR_INIT;
	sp_auto_json *j = NULL;
	int code = e->code ? (int)e->code : SP_FAIL;

	if (as_json) {
		j = sp_json_new_object();
		sp_json_put_str(j, "code", sp_code_name(code));
		sp_json_put_int(j, "exit", code);
		sp_json_put_str(j, "message", e->msg);
		sp_json_put_str(j, "operand", operand);
		sp_json_print(j, &line);
	} else {
		sp_str_addf(&line, "%s: ", tool->name);
		if (operand) {
			sp_text_escape(&line, operand, strlen(operand));
			sp_str_add(&line, ": ");
		}
		sp_text_escape(&line, e->msg, strlen(e->msg));
	}
	sp_str_addc(&line, '\n');
	sp_fd_write(2, line.p, line.len);
}

void sp_tool_complain(const struct sp_tool *tool, const struct sp_err *e)
{
	complain(tool, NULL, e);
}

int sp_finish(const struct sp_tool *tool, int rc, struct sp_err *e)
{
	struct sp_err write_err;
	bool bad = ferror(stdout);

	errno = 0;
	if (fclose(stdout) != 0)
		bad = bad || errno != EBADF; /* closed from the start, and nothing was written */
	if (rc < 0) {
		complain(tool, NULL, e);
		return e->code ? (int)e->code : SP_FAIL;
	}
	if (bad) {
		sp_fail(&write_err, SP_FAIL, errno, "write standard output");
		complain(tool, NULL, &write_err);
		return rc ? rc : SP_FAIL;
	}
	return rc;
}

struct each {
	const struct sp_tool *tool;
	int (*fn)(const char *operand, void *arg, struct sp_err *e);
	void *arg;
	size_t n;
	int worst;
};

static void note(struct each *x, const char *operand, const struct sp_err *e)
{
	int code = e->code ? (int)e->code : SP_FAIL;

	complain(x->tool, operand, e);
	x->worst = code > x->worst ? code : x->worst;
}

static int one(struct each *x, const char *operand)
{
	struct sp_err e = { 0 };

	if (x->n++ >= OPERANDS_MAX) {
		sp_fail(&e, SP_USAGE, 0, "more than %d operands", OPERANDS_MAX);
		note(x, NULL, &e);
		return -1;
	}
	if (x->fn(operand, x->arg, &e) < 0)
		note(x, operand, &e);
	fflush(stdout); /* the next program of a pipe can begin; an error stays for sp_finish */
	return 0;
}

static int from_stdin(struct each *x)
{
	char line[LINE_MAX_];
	struct sp_err e;

	while (fgets(line, sizeof line, stdin)) {
		size_t n = strlen(line);

		if (n == sizeof line - 1 && line[n - 1] != '\n') {
			sp_fail(&e, SP_USAGE, 0, "a line of standard input is too long");
			note(x, NULL, &e);
			return -1;
		}
		line[strcspn(line, "\t\r\n")] = '\0';
		if (line[0] && one(x, line) < 0)
			return -1;
	}
	if (ferror(stdin)) {
		sp_fail(&e, SP_FAIL, errno, "read standard input");
		note(x, NULL, &e);
		return -1;
	}
	return 0;
}

int sp_each_operand(const struct sp_tool *tool, int argc, char **argv, size_t min,
		    int (*fn)(const char *operand, void *arg, struct sp_err *e), void *arg)
{
	struct each x = { .tool = tool, .fn = fn, .arg = arg };
	struct sp_err e;
	bool used_stdin = false, has_dash = false;

	for (int i = 0; i < argc; i++)
		has_dash = has_dash || strcmp(argv[i], "-") == 0;
	if (!has_dash && (size_t)argc < min) {
		sp_fail(&e, SP_USAGE, 0, "too few operands: %s",
			tool->operands ? tool->operands : "none");
		note(&x, NULL, &e);
		return x.worst;
	}
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "-") != 0) {
			if (one(&x, argv[i]) < 0)
				return x.worst;
		} else if (!used_stdin) {
			used_stdin = true;
			if (from_stdin(&x) < 0)
				return x.worst;
		}
	}
	if (x.n < min) {
		sp_fail(&e, SP_USAGE, 0, "standard input names nothing to work on");
		note(&x, NULL, &e);
	}
	return x.worst;
}
