/* SPDX-License-Identifier: Apache-2.0 */
#include "api/table.h"

#include <string.h>

#include "sandbox/model.h"
#include "text/id.h"
#include "text/opt.h"

#define REQUEST_ID                                                                                 \
	{                                                                                          \
		"request_id", SP_F_REQUEST, false, 0, 0, NULL                                      \
	}
#define WAIT                                                                                       \
	{                                                                                          \
		"wait", SP_F_BOOL, false, 0, 0, NULL                                               \
	}
#define OPERAND(name)                                                                              \
	{                                                                                          \
		name, SP_F_TEXT, true, 0, INT64_MAX, NULL                                          \
	}
#define TEXT(name, required)                                                                       \
	{                                                                                          \
		name, SP_F_TEXT, required, 0, 4096, NULL                                           \
	}
#define NAME(required)                                                                             \
	{                                                                                          \
		"name", SP_F_NAME, required, 0, 0, NULL                                            \
	}
#define BOOL(name)                                                                                 \
	{                                                                                          \
		name, SP_F_BOOL, false, 0, 0, NULL                                                 \
	}
#define NUMBER(name, min, max)                                                                     \
	{                                                                                          \
		name, SP_F_NUMBER, false, min, max, NULL                                           \
	}
#define ONE_ID                                                                                     \
	{                                                                                          \
		"ids", SP_F_OPERANDS, true, 1, 1, NULL                                             \
	}

static const struct sp_field create_fields[] = {
	OPERAND("image"),
	NAME(false),
	NUMBER("cpus", 1, SP_MAX_CPUS),
	NUMBER("memory", SP_MIN_MEMORY, SP_MAX_MEMORY),
	NUMBER("disk", SP_DISK_STEP, SP_MAX_DISK),
	{ "env", SP_F_ENV, false, 0, 1024, NULL },
	{ "meta", SP_F_TAGS, false, 0, 256, NULL },
	NUMBER("n", 1, SP_MAX_CHILDREN),
	BOOL("require_kvm"),
	REQUEST_ID,
	WAIT,
};
static const struct sp_field one_fields[] = { ONE_ID, REQUEST_ID, WAIT };
static const struct sp_field rm_fields[] = { ONE_ID, BOOL("cascade"), REQUEST_ID, WAIT };
static const struct sp_field snap_fields[] = { OPERAND("sandbox"), BOOL("files"), NAME(false),
					       REQUEST_ID, WAIT };
static const struct sp_field branch_fields[] = { OPERAND("source"), NUMBER("n", 1, SP_MAX_CHILDREN),
						 NAME(false), REQUEST_ID, WAIT };
static const struct sp_field import_fields[] = {
	NAME(true),
	TEXT("source", true),
	NUMBER("size", SP_DISK_STEP, SP_MAX_DISK),
	NUMBER("cpus", 1, SP_MAX_CPUS),
	NUMBER("memory", SP_MIN_MEMORY, SP_MAX_MEMORY),
	BOOL("warm"),
	TEXT("auth_file", false),
};
static const struct sp_field ls_fields[] = {
	{ "what", SP_F_CHOICE, false, 0, 0, "sandboxes snapshots images ops" },
	{ "ids", SP_F_OPERANDS, false, 0, 65536, NULL },
	BOOL("tree"),
	BOOL("bytes"),
};
static const struct sp_field op_fields[] = { OPERAND("id") };
static const struct sp_field opwait_fields[] = { OPERAND("id"),
						 NUMBER("timeout_ms", 0, INT32_MAX) };
static const struct sp_field kernel_add_fields[] = { TEXT("deb", false), TEXT("vmlinuz", false),
						     TEXT("modules", false) };
static const struct sp_field kernel_rm_fields[] = { OPERAND("version") };

#define LIFECYCLE(kind)                                                                            \
	static int run_##kind(struct sp_api *a, const struct sp_json *request,                     \
			      struct sp_json **answer, struct sp_err *e)                           \
	{                                                                                          \
		return sp_local_lifecycle(a, #kind, request, answer, e);                           \
	}
LIFECYCLE(create)
LIFECYCLE(pause)
LIFECYCLE(resume)
LIFECYCLE(rm)
LIFECYCLE(snap)
LIFECYCLE(branch)

static struct sp_api_op ops[] = {
	{ "create", create_fields, SP_NELEM(create_fields), true, run_create },
	{ "pause", one_fields, SP_NELEM(one_fields), true, run_pause },
	{ "resume", one_fields, SP_NELEM(one_fields), true, run_resume },
	{ "rm", rm_fields, SP_NELEM(rm_fields), true, run_rm },
	{ "snap", snap_fields, SP_NELEM(snap_fields), true, run_snap },
	{ "branch", branch_fields, SP_NELEM(branch_fields), true, run_branch },
	{ "import", import_fields, SP_NELEM(import_fields), false, NULL },
	{ "ls", ls_fields, SP_NELEM(ls_fields), false, sp_local_ls },
	{ "op", op_fields, SP_NELEM(op_fields), false, sp_local_op },
	{ "opwait", opwait_fields, SP_NELEM(opwait_fields), false, sp_local_opwait },
	{ "kernel-add", kernel_add_fields, SP_NELEM(kernel_add_fields), false, NULL },
	{ "kernel-ls", NULL, 0, false, NULL },
	{ "kernel-rm", kernel_rm_fields, SP_NELEM(kernel_rm_fields), false, NULL },
	{ "doctor", NULL, 0, false, NULL },
};

const struct sp_api_op *sp_api_find(const char *name)
{
	for (size_t i = 0; i < SP_NELEM(ops); i++)
		if (strcmp(ops[i].name, name) == 0)
			return &ops[i];
	return NULL;
}

void sp_api_provide(const char *name, sp_api_run *run)
{
	for (size_t i = 0; i < SP_NELEM(ops); i++)
		if (strcmp(ops[i].name, name) == 0)
			ops[i].run = run;
}

static int check_number(const struct sp_field *f, const struct sp_json *request, struct sp_err *e)
{
	int64_t v = sp_json_i64(request, f->name, f->min);

	/* Two defaults that both come back mean that no number is there. */
	if (v == f->min && sp_json_i64(request, f->name, f->min - 1) != f->min)
		return sp_fail(e, SP_USAGE, 0, "%s: not a number", f->name);
	if (v < f->min || v > f->max)
		return sp_fail(e, SP_USAGE, 0, "%s: from %lld to %lld", f->name, (long long)f->min,
			       (long long)f->max);
	return 0;
}

static int check_bool(const struct sp_field *f, const struct sp_json *request, struct sp_err *e)
{
	if (sp_json_bool(request, f->name, false) != sp_json_bool(request, f->name, true))
		return sp_fail(e, SP_USAGE, 0, "%s: neither true nor false", f->name);
	return 0;
}

static int check_list(const struct sp_field *f, const struct sp_json *v, struct sp_err *e)
{
	bool tags = f->type == SP_F_TAGS;
	int64_t n = (int64_t)sp_json_len(v);

	if (tags ? !sp_json_is_object(v) : !sp_json_is_array(v))
		return sp_fail(e, SP_USAGE, 0, "%s: not %s", f->name,
			       tags ? "an object" : "a list");
	if (n < f->min || n > f->max)
		return sp_fail(e, SP_USAGE, 0, "%s: from %lld to %lld", f->name, (long long)f->min,
			       (long long)f->max);
	for (const struct sp_json *c = sp_json_first(v); c; c = sp_json_next(c)) {
		const char *s = sp_json_value_str(c);

		if (!s)
			return sp_fail(e, SP_USAGE, 0, "%s: holds something that is no text",
				       f->name);
		if (f->type == SP_F_ENV && sp_opt_env(s, e) < 0)
			return -1;
	}
	return 0;
}

static bool is_choice(const char *choices, const char *s)
{
	size_t n = strlen(s);

	while (*choices) {
		size_t len = strcspn(choices, " ");

		if (n == len && strncmp(choices, s, n) == 0)
			return true;
		choices += len + (choices[len] == ' ');
	}
	return false;
}

static bool is_request_id(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-");

	return n >= 1 && n <= 128 && !s[n];
}

static int check_text(const struct sp_field *f, const struct sp_json *v, struct sp_err *e)
{
	const char *s = sp_json_value_str(v);

	if (!s)
		return sp_fail(e, SP_USAGE, 0, "%s: not a text", f->name);
	if (f->type == SP_F_TEXT && (int64_t)strlen(s) > f->max)
		return sp_fail(e, SP_USAGE, 0, "%s: too long", f->name);
	if (f->type == SP_F_NAME && !sp_name_is_valid(s))
		return sp_fail(e, SP_USAGE, 0, "%s '%s': not a name ([a-z0-9][a-z0-9-]*)", f->name,
			       s);
	if (f->type == SP_F_CHOICE && !is_choice(f->choices, s))
		return sp_fail(e, SP_USAGE, 0, "%s '%s': not one of: %s", f->name, s, f->choices);
	if (f->type == SP_F_REQUEST && !is_request_id(s))
		return sp_fail(e, SP_USAGE, 0, "%s: 1 to 128 of A-Z a-z 0-9 . _ : -", f->name);
	return 0;
}

static int check_field(const struct sp_field *f, const struct sp_json *request, struct sp_err *e)
{
	const struct sp_json *v = sp_json_get(request, f->name);

	if (!v)
		return f->required ? sp_fail(e, SP_USAGE, 0, "%s: missing", f->name) : 0;
	switch (f->type) {
	case SP_F_NUMBER:
		return check_number(f, request, e);
	case SP_F_BOOL:
		return check_bool(f, request, e);
	case SP_F_OPERANDS:
	case SP_F_ENV:
	case SP_F_TAGS:
		return check_list(f, v, e);
	case SP_F_TEXT:
	case SP_F_NAME:
	case SP_F_CHOICE:
	case SP_F_REQUEST:
		return check_text(f, v, e);
	}
	return sp_fail(e, SP_FAIL, 0, "%s: unknown type", f->name);
}

static bool is_field(const struct sp_api_op *op, const char *key)
{
	for (size_t i = 0; i < op->nfields; i++)
		if (strcmp(op->fields[i].name, key) == 0)
			return true;
	return false;
}

int sp_api_check(const struct sp_api_op *op, const struct sp_json *request, struct sp_err *e)
{
	if (!sp_json_is_object(request))
		return sp_fail(e, SP_USAGE, 0, "the request is not an object");
	for (const struct sp_json *c = sp_json_first(request); c; c = sp_json_next(c))
		if (!is_field(op, sp_json_key(c)))
			return sp_fail(e, SP_USAGE, 0, "%s takes no '%.60s'", op->name,
				       sp_json_key(c));
	for (size_t i = 0; i < op->nfields; i++)
		if (check_field(&op->fields[i], request, e) < 0)
			return -1;
	return 0;
}
