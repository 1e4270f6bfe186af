/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/lifecycle.h"

enum { O_N = 1, O_NAME, O_CPUS, O_MEM, O_DISK, O_ENV, O_META, O_REQUIRE };

static const struct sp_opt opts[] = {
	SP_OPT_WAIT,
	{ O_N, 'n', "number", SP_NUMBER, "N", "how many sandboxes to make (1)" },
	{ O_NAME, 0, "name", SP_TEXT, "NAME", "its name; of several: NAME-1, NAME-2, ..." },
	{ O_CPUS, 0, "cpus", SP_NUMBER, "N", "processors (the image's, else 1)" },
	{ O_MEM, 0, "mem", SP_SIZE, "SIZE", "memory (the image's, else 256M)" },
	{ O_DISK, 0, "disk", SP_SIZE, "SIZE", "disk, if larger than the image's" },
	{ O_ENV, 0, "env", SP_TEXT, "K=V", "in the environment of its commands; repeatable" },
	{ O_META, 0, "meta", SP_TEXT, "K=V", "a note in its record; repeatable" },
	{ O_REQUIRE, 0, "require", SP_TEXT, "kvm", "refuse to run it under emulation" },
	SP_OPT_JSON,
	SP_OPT_REQUEST_ID,
};
static const struct sp_tool tool = {
	.name = "space-create",
	.about = "Make sandboxes from an image.",
	.operands = "IMAGE...",
	.operand = SP_ARG_IMAGE,
	.opts = opts,
	.nopts = SP_NELEM(opts),
};

static struct sp_json *child_of(struct sp_json *request, const char *key, bool object)
{
	struct sp_json *o = sp_json_get_mut(request, key);

	if (o)
		return o;
	return object ? sp_json_put_object(request, key) : sp_json_put_array(request, key);
}

static int take_meta(struct sp_json *request, const char *text, struct sp_err *e)
{
	const char *eq = strchr(text, '=');
	sp_auto_str key = SP_STR_INIT;

	if (!eq || eq == text)
		return sp_fail(e, SP_USAGE, 0, "--meta '%s': not K=V", text);
	sp_str_addn(&key, text, (size_t)(eq - text));
	sp_json_put_str(child_of(request, "meta", true), key.p, eq + 1);
	return 0;
}

static int take_number(struct sp_json *request, const struct sp_opt_state *st, const char *key,
		       int64_t max, struct sp_err *e)
{
	int64_t v;

	if (sp_opt_number(st, 1, max, &v, e) < 0)
		return -1;
	sp_json_put_i64(request, key, v);
	return 0;
}

static int take_size(struct sp_json *request, const struct sp_opt_state *st, const char *key,
		     struct sp_err *e)
{
	int64_t v;

	if (sp_opt_size(st, 1, INT64_MAX, &v, e) < 0)
		return -1;
	sp_json_put_i64(request, key, v);
	return 0;
}

static int take_option(struct sp_json *q, int key, const struct sp_opt_state *st, struct sp_err *e)
{
	switch (key) {
	case O_N:
		return take_number(q, st, "n", 256, e);
	case O_CPUS:
		return take_number(q, st, "cpus", 32, e);
	case O_MEM:
		return take_size(q, st, "memory", e);
	case O_DISK:
		return take_size(q, st, "disk", e);
	case O_META:
		return take_meta(q, st->value, e);
	case O_ENV:
		if (sp_opt_env(st->value, e) < 0)
			return -1;
		sp_json_push_str(child_of(q, "env", false), st->value);
		return 0;
	case O_REQUIRE:
		if (strcmp(st->value, "kvm") != 0)
			return sp_fail(e, SP_USAGE, 0, "--require '%s': only kvm", st->value);
		sp_json_put_bool(q, "require_kvm", true);
		return 0;
	default:
		sp_json_put_str(q, "name", st->value);
		return 0;
	}
}

static int run(int argc, char **argv, struct sp_err *e)
{
	sp_auto_json *request = sp_json_new_object();
	struct sp_lifecycle l = {
		.tool = &tool, .op = "create", .operand = "image", .request = request
	};
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	int key;

	while ((key = sp_opt_next(&st, &tool, e)) > 0)
		if (!sp_lifecycle_option(&l, key, &st) && take_option(request, key, &st, e) < 0)
			return -1;
	return key < 0 ? -1 : sp_lifecycle_run(&l, argc - st.i, argv + st.i, e);
}

int main(int argc, char **argv)
{
	struct sp_err e;

	return sp_finish(&tool, run(argc, argv, &e), &e);
}
