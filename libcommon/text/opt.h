/* SPDX-License-Identifier: Apache-2.0 */
/* A tool's options, in one table that feeds the parser, --help, --describe, the man page check and
 * the completions.
 *
 * Parsing stops at the first operand; "--" is accepted; abbreviations are not. Every tool also has
 * --help, --version and --describe, answered inside sp_opt_next without privilege or state.
 */
#ifndef SP_TEXT_OPT_H
#define SP_TEXT_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* What an option's value or an operand is; chooses dynamic completion. */
enum sp_arg {
	SP_NONE, /* takes no value */
	SP_TEXT,
	SP_NUMBER,
	SP_SIZE, /* 256M, 4G: bytes, or K M G T of 1024 */
	SP_SPAN, /* 90s 5m 2h 1d */
	SP_FILE,
	SP_DIR,
	SP_ARG_SANDBOX,
	SP_ARG_SNAPSHOT,
	SP_ARG_IMAGE,
	SP_ARG_ANY, /* sandbox, snapshot or image */
	SP_ARG_OP,
	SP_ARG_KERNEL,
	SP_ARG_COMMAND, /* a command of the guest and its arguments */
	SP_ARG_GUESTPATH, /* PATH or SANDBOX:PATH */
};

struct sp_opt {
	int key;           /* what sp_opt_next returns; > 0 */
	char letter;       /* or 0 */
	const char *name;  /* long name without dashes */
	enum sp_arg kind;
	const char *value; /* its name in help, "N"; NULL for SP_NONE */
	const char *help;  /* one line, lower case, no full stop */
};

struct sp_tool {
	const char *name;     /* "space-pause" */
	const char *about;    /* "Pause running sandboxes." */
	const char *operands; /* "SANDBOX..." */
	enum sp_arg operand;  /* kind of the operands, for completion */
	const struct sp_opt *opts;
	size_t nopts;
};

/* The options that many tools share, for use inside tables (the help text is one fact). */
enum { SP_O_JSON = 1000, SP_O_WAIT, SP_O_REQUEST_ID };
#define SP_OPT_JSON { SP_O_JSON, 'j', "json", SP_NONE, NULL, "print JSON" }
#define SP_OPT_WAIT { SP_O_WAIT, 'w', "wait", SP_NONE, NULL, "wait, and print what came out" }
#define SP_OPT_REQUEST_ID                                                                          \
	{ SP_O_REQUEST_ID, 0, "request-id", SP_TEXT, "R", "the same R gives the same operation" }

/* Parser state; zero it, set argc and argv. */
struct sp_opt_state {
	int argc;
	char **argv;
	int i;             /* after the loop: index of the first operand */
	const char *rest;  /* inside a cluster of letters */
	const char *value; /* the current option's value */
	const struct sp_opt *opt;
};

/* The key of the next option, 0 at the end of options, -1 with SP_USAGE. Prints and exits 0 for
 * --help, --version, --describe. */
int sp_opt_next(struct sp_opt_state *st, const struct sp_tool *tool, struct sp_err *e);

/* Values; each names the option in its message and fails with SP_USAGE. */
int sp_opt_number(const struct sp_opt_state *st, int64_t min, int64_t max, int64_t *out,
		  struct sp_err *e);
int sp_opt_size(const struct sp_opt_state *st, int64_t min, int64_t max, int64_t *out,
		struct sp_err *e);
int sp_opt_span(const struct sp_opt_state *st, int64_t *ns, struct sp_err *e);
int sp_opt_env(const char *text, struct sp_err *e); /* checks K=V: K is [A-Za-z_][A-Za-z0-9_]* */
int sp_size_parse(const char *text, int64_t *out);  /* -1 on bad text or overflow */
void sp_size_format(int64_t v, char out[static 32]); /* the same way back: "4G", "1000" */

/* Operands, with "-" standing for ids read from standard input, one a line (first tab-separated
 * field), blank lines passed over; bounded at 65,536 operands. Calls fn for each, goes on after a
 * failure (fn prints nothing: the error is printed here as "tool: OPERAND: msg"), returns the worst
 * code. min: fewer operands than that is SP_USAGE. */
int sp_each_operand(const struct sp_tool *tool, int argc, char **argv, size_t min,
		    int (*fn)(const char *operand, void *arg, struct sp_err *e), void *arg);

/* Prints "space-pause: msg" (with --json set before: one JSON line with code and message) to
 * standard error. */
void sp_tool_complain(const struct sp_tool *tool, const struct sp_err *e);
void sp_tool_set_json(bool on);

/* Ends a tool: flushes and closes stdout, turns a write error into failure, prints *e if rc < 0.
 * rc >= 0 is the exit status as it stands. Returns what main returns. */
int sp_finish(const struct sp_tool *tool, int rc, struct sp_err *e);

#endif
