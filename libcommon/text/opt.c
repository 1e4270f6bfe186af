/* SPDX-License-Identifier: Apache-2.0 */
#include "text/opt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/clock.h"
#include "text/opt_help.h"

static const struct sp_opt *find_name(const struct sp_tool *t, const char *name, size_t n)
{
	for (size_t i = 0; i < t->nopts; i++) {
		if (strlen(t->opts[i].name) == n && memcmp(t->opts[i].name, name, n) == 0)
			return &t->opts[i];
	}
	return NULL;
}

static const struct sp_opt *find_letter(const struct sp_tool *t, char c)
{
	for (size_t i = 0; i < t->nopts; i++) {
		if (t->opts[i].letter && t->opts[i].letter == c)
			return &t->opts[i];
	}
	return NULL;
}

static int take_value(struct sp_opt_state *st, const char *text, struct sp_err *e)
{
	if (st->opt->kind == SP_NONE)
		return st->opt->key;
	st->value = text;
	if (!text) {
		if (st->i >= st->argc)
			return sp_fail(e, SP_USAGE, 0, "--%s needs a value: %s", st->opt->name,
				       st->opt->value);
		st->value = st->argv[st->i++];
	}
	return st->opt->key;
}

static int next_letter(struct sp_opt_state *st, const struct sp_tool *tool, struct sp_err *e)
{
	char c = *st->rest++;
	const char *rest = *st->rest ? st->rest : NULL;

	st->opt = find_letter(tool, c);
	if (!st->opt)
		return sp_fail(e, SP_USAGE, 0, "unknown option '-%c'", c);
	if (st->opt->kind != SP_NONE || !rest)
		st->rest = NULL;
	return take_value(st, st->opt->kind == SP_NONE ? NULL : rest, e);
}

static int next_long(struct sp_opt_state *st, const struct sp_tool *tool, const char *text,
		     struct sp_err *e)
{
	const char *eq = strchr(text, '=');
	size_t n = eq ? (size_t)(eq - text) : strlen(text);

	if (!eq)
		sp_opt_answer(tool, text);
	st->opt = find_name(tool, text, n);
	if (!st->opt)
		return sp_fail(e, SP_USAGE, 0, "unknown option '--%.*s'", (int)(n < 64 ? n : 64),
			       text);
	if (eq && st->opt->kind == SP_NONE)
		return sp_fail(e, SP_USAGE, 0, "--%s takes no value", st->opt->name);
	return take_value(st, eq ? eq + 1 : NULL, e);
}

int sp_opt_next(struct sp_opt_state *st, const struct sp_tool *tool, struct sp_err *e)
{
	const char *arg;

	if (!st->i)
		st->i = 1;
	st->value = NULL;
	if (st->rest)
		return next_letter(st, tool, e);
	if (st->i >= st->argc)
		return 0;
	arg = st->argv[st->i];
	if (arg[0] != '-' || !arg[1]) /* an operand; "-" is one */
		return 0;
	st->i++;
	if (arg[1] != '-') {
		st->rest = arg + 1;
		return next_letter(st, tool, e);
	}
	if (!arg[2])
		return 0;
	return next_long(st, tool, arg + 2, e);
}

static int bad_value(const struct sp_opt_state *st, struct sp_err *e, const char *want)
{
	return sp_fail(e, SP_USAGE, 0, "--%s: '%.64s' is not %s", st->opt->name, st->value, want);
}

static int parse_number(const char *text, const char **end, int64_t *out)
{
	bool minus = *text == '-';
	const char *p = text + minus;
	int64_t v = 0;

	if (*p < '0' || *p > '9')
		return -1;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *p - '0', &v))
			return -1;
	}
	/* Counted downwards, so that the least number fits too. */
	if (!minus && __builtin_sub_overflow(0, v, &v))
		return -1;
	*end = p;
	*out = v;
	return 0;
}

int sp_opt_number(const struct sp_opt_state *st, int64_t min, int64_t max, int64_t *out,
		  struct sp_err *e)
{
	const char *end;
	int64_t v;

	if (parse_number(st->value, &end, &v) < 0 || *end)
		return bad_value(st, e, "a number");
	if (v < min || v > max)
		return sp_fail(e, SP_USAGE, 0, "--%s: %lld is not from %lld to %lld", st->opt->name,
			       (long long)v, (long long)min, (long long)max);
	*out = v;
	return 0;
}

int sp_size_parse(const char *text, int64_t *out)
{
	static const char units[] = "KMGT";
	const char *end, *unit;
	int64_t v;

	if (*text == '-' || parse_number(text, &end, &v) < 0)
		return -1;
	if (*end) {
		unit = strchr(units, *end);
		if (!unit || end[1] ||
		    __builtin_mul_overflow(v, INT64_C(1) << 10 * (unit - units + 1), &v))
			return -1;
	}
	*out = v;
	return 0;
}

int sp_opt_size(const struct sp_opt_state *st, int64_t min, int64_t max, int64_t *out,
		struct sp_err *e)
{
	char least[32], most[32];
	int64_t v;

	if (sp_size_parse(st->value, &v) < 0)
		return bad_value(st, e, "a size (512M, 4G)");
	if (v < min || v > max) {
		sp_size_format(min, least);
		sp_size_format(max, most);
		return sp_fail(e, SP_USAGE, 0, "--%s: %.64s is not from %s to %s", st->opt->name,
			       st->value, least, most);
	}
	*out = v;
	return 0;
}

void sp_size_format(int64_t v, char out[static 32])
{
	static const char units[] = "KMGT";
	int unit = -1;

	while (unit < 3 && v && v % 1024 == 0) {
		v /= 1024;
		unit++;
	}
	if (unit < 0)
		snprintf(out, 32, "%lld", (long long)v);
	else
		snprintf(out, 32, "%lld%c", (long long)v, units[unit]);
}

int sp_opt_span(const struct sp_opt_state *st, int64_t *ns, struct sp_err *e)
{
	if (sp_clock_parse_span(st->value, ns) < 0)
		return bad_value(st, e, "a time (90s, 5m, 2h, 1d)");
	return 0;
}

int sp_opt_env(const char *text, struct sp_err *e)
{
	const char *p = text;

	while ((*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z') || *p == '_' ||
	       (p > text && *p >= '0' && *p <= '9'))
		p++;
	if (p == text || *p != '=')
		return sp_fail(e, SP_USAGE, 0, "'%.64s' is not NAME=VALUE", text);
	return 0;
}
