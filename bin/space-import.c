/* SPDX-License-Identifier: Apache-2.0 */
/* space-import: makes an image of a root folder, a tar, an image layout, a docker archive or what a
 * registry has. Works in the foreground, with its progress on a terminal. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/import.h"
#include "base/err.h"
#include "text/json.h"
#include "text/opt.h"
#include "text/table.h"

#define MIB (1LL << 20)

enum { O_SIZE = 1, O_CPUS, O_MEM, O_NO_WARM, O_AUTH_FILE };

static const struct sp_opt opts[] = {
	SP_OPT_JSON,
	{ O_SIZE, 0, "size", SP_SIZE, "SIZE", "size of the disk (content + 25 % + 1G)" },
	{ O_CPUS, 0, "cpus", SP_NUMBER, "N", "processors of its sandboxes (1)" },
	{ O_MEM, 0, "mem", SP_SIZE, "SIZE", "memory of its sandboxes (256M)" },
	{ O_NO_WARM, 0, "no-warm", SP_NONE, NULL, "do not boot it in the background" },
	{ O_AUTH_FILE, 0, "auth-file", SP_FILE, "FILE",
	  "registry credentials (docker's config.json)" },
};

static const struct sp_tool tool = {
	"space-import", "Make an image.", "NAME SOURCE", SP_FILE, opts, SP_NELEM(opts),
};

struct args {
	struct sp_json *request;
	bool json;
};

/* One line that is written over again and again. */
struct line {
	bool shown;
};

static void show(int64_t bytes, const char *what, void *arg)
{
	struct line *l = arg;

	l->shown = true;
	if (bytes >= MIB)
		fprintf(stderr, "\r%s: %lld MiB\033[K", what, (long long)(bytes / MIB));
	else
		fprintf(stderr, "\r%s\033[K", what);
	fflush(stderr);
}

static int put_option(struct sp_opt_state *st, int key, struct args *a, struct sp_err *e)
{
	int64_t n;

	switch (key) {
	case SP_O_JSON:
		a->json = true;
		sp_tool_set_json(true);
		return 0;
	case O_SIZE:
		if (sp_opt_size(st, 64 * MIB, 16LL << 40, &n, e) < 0)
			return -1;
		sp_json_put_i64(a->request, "size", (n + MIB - 1) / MIB * MIB);
		return 0;
	case O_CPUS:
		if (sp_opt_number(st, 1, 32, &n, e) < 0)
			return -1;
		sp_json_put_int(a->request, "cpus", (int)n);
		return 0;
	case O_MEM:
		if (sp_opt_size(st, 64 * MIB, 1LL << 40, &n, e) < 0)
			return -1;
		sp_json_put_i64(a->request, "memory", n);
		return 0;
	case O_NO_WARM:
		sp_json_put_bool(a->request, "warm", false);
		return 0;
	case O_AUTH_FILE:
	default:
		sp_json_put_str(a->request, "auth_file", st->value);
		return 0;
	}
}

static int parse(int argc, char **argv, struct args *a, struct sp_err *e)
{
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	int key;

	sp_json_put_bool(a->request, "warm", true);
	while ((key = sp_opt_next(&st, &tool, e)) > 0)
		if (put_option(&st, key, a, e) < 0)
			return -1;
	if (key < 0)
		return -1;
	if (argc - st.i != 2)
		return sp_fail(e, SP_USAGE, 0, "wants a name and a source (see --help)");
	sp_json_put_str(a->request, "name", argv[st.i]);
	sp_json_put_str(a->request, "source", argv[st.i + 1]);
	return 0;
}

static int run(const struct args *a, struct sp_err *e)
{
	struct line line = { false };
	sp_auto_api *api = NULL;
	sp_auto_json *answer = NULL;
	sp_auto_str text = SP_STR_INIT;
	int rc;

	if (sp_api_open(&api, true, e) < 0)
		return -1;
	rc = sp_api_import(api, a->request, isatty(STDERR_FILENO) ? show : NULL, &line, &answer, e);
	if (line.shown)
		fputs("\r\033[K", stderr);
	if (rc < 0)
		return -1;
	if (a->json) {
		sp_json_print(answer, &text);
		puts(text.p);
	} else {
		const char *id = sp_json_str(answer, "id");

		sp_row_print(&id, 1);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sp_err e = { SP_OK, 0, "" };
	struct args a = { sp_json_new_object(), false };
	int rc = parse(argc, argv, &a, &e);

	if (rc == 0)
		rc = run(&a, &e);
	sp_json_free(&a.request);
	return sp_finish(&tool, rc, &e);
}
