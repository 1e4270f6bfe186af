/* SPDX-License-Identifier: Apache-2.0 */
#include "text/opt_help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static const char *kind_name(enum sp_arg kind)
{
	switch (kind) {
	case SP_NONE:
		return "none";
	case SP_TEXT:
		return "text";
	case SP_NUMBER:
		return "number";
	case SP_SIZE:
		return "size";
	case SP_SPAN:
		return "span";
	case SP_FILE:
		return "file";
	case SP_DIR:
		return "dir";
	case SP_ARG_SANDBOX:
		return "sandbox";
	case SP_ARG_SNAPSHOT:
		return "snapshot";
	case SP_ARG_IMAGE:
		return "image";
	case SP_ARG_ANY:
		return "any";
	case SP_ARG_OP:
		return "op";
	case SP_ARG_KERNEL:
		return "kernel";
	case SP_ARG_COMMAND:
		return "command";
	case SP_ARG_GUESTPATH:
		return "guestpath";
	}
	return "none";
}

static void option_text(const struct sp_opt *o, struct sp_str *out)
{
	sp_str_clear(out);
	if (o->letter)
		sp_str_addf(out, "-%c, ", o->letter);
	else
		sp_str_add(out, "    ");
	sp_str_addf(out, "--%s", o->name);
	if (o->kind != SP_NONE)
		sp_str_addf(out, " %s", o->value);
}

static void print_help(const struct sp_tool *t)
{
	sp_auto_str text = SP_STR_INIT;
	size_t width = 0;

	printf("usage: %s%s%s%s\n%s\n\n", t->name, t->nopts ? " [OPTION...]" : "",
	       t->operands && *t->operands ? " " : "", t->operands ? t->operands : "", t->about);
	for (size_t i = 0; i < t->nopts; i++) {
		option_text(&t->opts[i], &text);
		width = text.len > width ? text.len : width;
	}
	if (width < 21) /* of the last line */
		width = 21;
	for (size_t i = 0; i < t->nopts; i++) {
		option_text(&t->opts[i], &text);
		printf("  %-*s  %s\n", (int)width, text.p, t->opts[i].help);
	}
	printf("      %-*s  print this, or the version\n", (int)width - 4, "--help, --version");
}

static const char *or_dash(const char *s)
{
	return s && *s ? s : "-";
}

static void print_description(const struct sp_tool *t)
{
	printf("%s\t%s\t%s\t%s\n", t->name, t->about, or_dash(t->operands), kind_name(t->operand));
	for (size_t i = 0; i < t->nopts; i++) {
		const struct sp_opt *o = &t->opts[i];
		char letter[2] = { o->letter ? o->letter : '-', '\0' };

		printf("%s\t%s\t%s\t%s\t%s\n", letter, o->name, kind_name(o->kind),
		       o->kind == SP_NONE ? "-" : or_dash(o->value), o->help);
	}
}

void sp_opt_answer(const struct sp_tool *tool, const char *name)
{
	struct sp_err e;

	if (strcmp(name, "help") == 0)
		print_help(tool);
	else if (strcmp(name, "version") == 0)
		printf("%s %s\n", tool->name, SP_VERSION);
	else if (strcmp(name, "describe") == 0)
		print_description(tool);
	else
		return;
	exit(sp_finish(tool, 0, &e));
}
