/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sys/proc.h"
#include "text/opt.h"

static const struct sp_tool tool = {
	.name = "space",
	.about = "Run space-VERB; \"space help [VERB]\" shows its page.",
	.operands = "VERB [ARG...]",
	.operand = SP_TEXT,
};

/* A verb is part of a program's name, never a path. */
static bool is_verb(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz-");

	return n >= 1 && n <= 32 && !s[n] && s[0] != '-';
}

static int help(int argc, char **argv, struct sp_err *e)
{
	char page[64] = "space";
	char man[] = "man", section[] = "7";
	char *with_section[] = { man, section, page, NULL };
	char *plain[] = { man, page, NULL };

	if (argc > 1)
		return sp_fail(e, SP_USAGE, 0, "help takes one verb");
	if (argc == 1 && !is_verb(argv[0]))
		return sp_fail(e, SP_ABSENT, 0, "no such verb '%s'", argv[0]);
	if (argc == 1)
		snprintf(page, sizeof page, "space-%s", argv[0]);
	execvp(man, argc == 1 ? plain : with_section);
	return sp_fail(e, SP_HOST, errno, "man");
}

static int run(int argc, char **argv, struct sp_err *e)
{
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	char name[64], path[4096];

	if (sp_opt_next(&st, &tool, e) < 0)
		return -1;
	argc -= st.i;
	argv += st.i;
	if (argc < 1)
		return sp_fail(e, SP_USAGE, 0, "which verb? (space help shows them)");
	if (strcmp(argv[0], "help") == 0)
		return help(argc - 1, argv + 1, e);
	if (!is_verb(argv[0]))
		return sp_fail(e, SP_ABSENT, 0, "no such verb '%s'", argv[0]);
	snprintf(name, sizeof name, "space-%s", argv[0]);
	if (sp_proc_helper(name, path, sizeof path, e) < 0)
		return sp_fail(e, SP_ABSENT, 0, "no such verb '%s'", argv[0]);
	argv[0] = name;
	execv(path, argv);
	return sp_fail(e, SP_HOST, errno, "%s", path);
}

int main(int argc, char **argv)
{
	struct sp_err e;

	return sp_finish(&tool, run(argc, argv, &e), &e);
}
