/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/extra.h"
#include "sys/clock.h"
#include "text/opt.h"
#include "text/table.h"

enum { O_DEB = 1, O_VMLINUZ, O_MODULES };

static const struct sp_opt opts[] = {
	{ O_DEB, 0, "deb", SP_FILE, "FILE", "add: from this package" },
	{ O_VMLINUZ, 0, "vmlinuz", SP_FILE, "FILE", "add: this kernel, with --modules" },
	{ O_MODULES, 0, "modules", SP_DIR, "DIR", "add: the folder of its modules" },
	SP_OPT_JSON,
};
static const struct sp_tool tool = {
	.name = "space-kernel",
	.about = "Install, list and remove guest kernels.",
	.operands = "add|ls|rm [VERSION...]",
	.operand = SP_ARG_KERNEL,
	.opts = opts,
	.nopts = SP_NELEM(opts),
};

struct args {
	const char *deb, *vmlinuz, *modules;
	bool json;
};

/* Options may stand before and after the verb. Leaves st->i at the first operand. */
static int parse(struct sp_opt_state *st, struct args *a, struct sp_err *e)
{
	int key;

	while ((key = sp_opt_next(st, &tool, e)) > 0) {
		if (key == O_DEB)
			a->deb = st->value;
		else if (key == O_VMLINUZ)
			a->vmlinuz = st->value;
		else if (key == O_MODULES)
			a->modules = st->value;
		else
			a->json = true;
	}
	sp_tool_set_json(a->json);
	return key;
}

static void print_json(const struct sp_json *v)
{
	sp_auto_str line = SP_STR_INIT;

	sp_json_print(v, &line);
	puts(line.p);
}

static int add(const struct args *a, struct sp_err *e)
{
	sp_auto_api *api = NULL;
	sp_auto_json *request = sp_json_new_object();
	sp_auto_json *answer = NULL;

	if (a->deb ? a->vmlinuz || a->modules : !a->vmlinuz != !a->modules)
		return sp_fail(e, SP_USAGE, 0, "either --deb, or --vmlinuz and --modules");
	sp_json_put_str(request, "deb", a->deb);
	sp_json_put_str(request, "vmlinuz", a->vmlinuz);
	sp_json_put_str(request, "modules", a->modules);
	if (sp_api_open(&api, true, e) < 0 ||
	    sp_api_call(api, "kernel-add", request, &answer, e) < 0)
		return -1;
	if (a->json)
		print_json(answer);
	else
		sp_row_print((const char *[]){ sp_json_str(answer, "version") }, 1);
	return 0;
}

static void print_kernel(const struct sp_json *k)
{
	char added[32];
	const char *cells[] = { sp_json_str(k, "version"), added, sp_json_str(k, "vmlinuz_bytes"),
				sp_json_str(k, "initrd_bytes"),
				sp_json_bool(k, "default", false) ? "default" : NULL };

	sp_clock_format(sp_json_i64(k, "added", 0), added);
	sp_row_print(cells, SP_NELEM(cells));
}

static int list(const struct args *a, struct sp_err *e)
{
	sp_auto_api *api = NULL;
	sp_auto_json *request = sp_json_new_object();
	sp_auto_json *answer = NULL;
	const struct sp_json *items;

	if (sp_api_open(&api, false, e) < 0)
		return e->code == SP_ABSENT ? 0 : -1; /* no store: no kernels */
	if (sp_api_call(api, "kernel-ls", request, &answer, e) < 0)
		return -1;
	items = sp_json_get(answer, "items");
	for (size_t i = 0; items && i < sp_json_len(items); i++) {
		if (a->json)
			print_json(sp_json_at(items, i));
		else
			print_kernel(sp_json_at(items, i));
	}
	return 0;
}

struct removal {
	struct sp_api *api;
	bool json;
};

static int remove_one(const char *version, void *arg, struct sp_err *e)
{
	const struct removal *r = arg;
	sp_auto_json *request = sp_json_new_object();
	sp_auto_json *answer = NULL;

	sp_json_put_str(request, "version", version);
	if (sp_api_call(r->api, "kernel-rm", request, &answer, e) < 0)
		return -1;
	if (r->json)
		print_json(request);
	else
		sp_row_print(&version, 1);
	return 0;
}

static int remove_all(const struct args *a, int argc, char **argv, struct sp_err *e)
{
	sp_auto_api *api = NULL;
	struct removal r = { .json = a->json };

	if (!argc)
		return sp_fail(e, SP_USAGE, 0, "rm needs a version");
	if (sp_api_open(&api, false, e) < 0)
		return -1;
	r.api = api;
	return sp_each_operand(&tool, argc, argv, 1, remove_one, &r);
}

static int run(int argc, char **argv, struct sp_err *e)
{
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	struct args a = { 0 };
	const char *verb;

	sp_api_use_extra();
	if (parse(&st, &a, e) < 0)
		return -1;
	if (st.i == argc)
		return sp_fail(e, SP_USAGE, 0, "too few operands: %s", tool.operands);
	verb = argv[st.i];
	st = (struct sp_opt_state){ .argc = argc - st.i, .argv = argv + st.i };
	if (parse(&st, &a, e) < 0)
		return -1;
	if (strcmp(verb, "rm") != 0 && st.i < st.argc)
		return sp_fail(e, SP_USAGE, 0, "'%s' takes no operands", verb);
	if (strcmp(verb, "add") != 0 && (a.deb || a.vmlinuz || a.modules))
		return sp_fail(e, SP_USAGE, 0, "--deb, --vmlinuz and --modules belong to add");
	if (strcmp(verb, "add") == 0)
		return add(&a, e);
	if (strcmp(verb, "ls") == 0)
		return list(&a, e);
	if (strcmp(verb, "rm") == 0)
		return remove_all(&a, st.argc - st.i, st.argv + st.i, e);
	return sp_fail(e, SP_USAGE, 0, "'%s' is none of add, ls, rm", verb);
}

int main(int argc, char **argv)
{
	struct sp_err e;

	return sp_finish(&tool, run(argc, argv, &e), &e);
}
