/* SPDX-License-Identifier: Apache-2.0 */
#include "api/lifecycle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/id.h"
#include "text/table.h"

#define AT_ONCE 32

struct pending {
	char op[SP_ID_SIZE];
	char *operand;
};

struct run {
	struct sp_lifecycle *l;
	struct sp_api *api;
	struct pending wait[AT_ONCE]; /* a ring: oldest at `first` */
	size_t first, n;
	int worst;
};

bool sp_lifecycle_option(struct sp_lifecycle *l, int key, const struct sp_opt_state *st)
{
	switch (key) {
	case SP_O_JSON:
		l->json = true;
		sp_tool_set_json(true);
		return true;
	case SP_O_WAIT:
		l->wait = true;
		return true;
	case SP_O_REQUEST_ID:
		sp_json_put_str(l->request, "request_id", st->value);
		return true;
	default:
		return false;
	}
}

static void print_json(const struct sp_json *o)
{
	sp_auto_str text = SP_STR_INIT;

	sp_json_print(o, &text);
	printf("%s\n", text.p);
	fflush(stdout); /* the next in a pipe goes on at once */
}

static void print_id(const char *id)
{
	sp_row_print(&id, 1);
	fflush(stdout);
}

void sp_lifecycle_print(const struct sp_tool *tool, const struct sp_json *answer, bool json)
{
	const struct sp_json *results = sp_json_get(answer, "results");
	size_t n = sp_json_len(results), good = 0;

	for (const struct sp_json *c = sp_json_first(results); c; c = sp_json_next(c)) {
		const char *id = sp_json_str(c, "id"), *msg = sp_json_str(c, "message");
		struct sp_err e = { .code = SP_FAIL };

		if (!msg) {
			good++;
			if (!json)
				print_id(id);
		} else if (n > 1 && !json) {
			snprintf(e.msg, sizeof e.msg, "%s", msg);
			sp_tool_complain(tool, &e);
		}
	}
	if (json && (good || !sp_json_get(answer, "error")))
		print_json(answer);
}

static void note(struct run *x, const char *operand, struct sp_err *e)
{
	int code = e->code ? (int)e->code : SP_FAIL;

	if (operand)
		sp_wrap(e, "%.100s", operand);
	sp_tool_complain(x->l->tool, e);
	x->worst = code > x->worst ? code : x->worst;
}

/* One line for a person who waits: what the operation does, and for how long by now. */
static void show_progress(struct run *x, const struct pending *p, int seconds)
{
	sp_auto_json *q = sp_json_new_object();
	sp_auto_json *rec = NULL;
	const struct sp_json *phases;
	const char *doing = NULL;
	struct sp_err e;

	sp_json_put_str(q, "id", p->op);
	if (sp_api_call(x->api, "op", q, &rec, &e) < 0)
		return;
	phases = sp_json_get(rec, "phases");
	if (sp_json_len(phases))
		doing = sp_json_str(sp_json_at(phases, sp_json_len(phases) - 1), "name");
	fprintf(stderr, "\r\033[K%s: %s: %s, %d s", x->l->tool->name, p->operand,
		doing ? doing : "waits for its turn", seconds);
}

/* Waits for the end; on a terminal it tells every second how far it is. */
static int await(struct run *x, const struct pending *p, struct sp_json **answer, struct sp_err *e)
{
	bool tell = isatty(2) && !x->l->json;
	sp_auto_json *q = sp_json_new_object();
	int rc, seconds = 0;

	sp_json_put_str(q, "id", p->op);
	if (tell)
		sp_json_put_int(q, "timeout_ms", 1000);
	for (;;) {
		rc = sp_api_call(x->api, "opwait", q, answer, e);
		if (rc == 0 || *answer || e->code != SP_BUSY || !tell)
			break;
		show_progress(x, p, ++seconds);
	}
	if (seconds)
		fputs("\r\033[K", stderr);
	return rc;
}

static void finish_oldest(struct run *x)
{
	struct pending *p = &x->wait[x->first];
	sp_auto_json *answer = NULL;
	struct sp_err e = { .code = SP_OK };
	int rc;

	x->first = (x->first + 1) % AT_ONCE;
	x->n--;
	rc = await(x, p, &answer, &e);
	if (answer)
		sp_lifecycle_print(x->l->tool, answer, x->l->json);
	if (rc < 0)
		note(x, p->operand, &e);
	free(sp_take_ptr(&p->operand));
}

static int begin(const char *operand, void *arg, struct sp_err *e)
{
	struct run *x = arg;
	struct sp_lifecycle *l = x->l;
	sp_auto_json *answer = NULL;
	struct pending *p;

	if (strcmp(l->operand, "ids") == 0)
		sp_json_push_str(sp_json_put_array(l->request, "ids"), operand);
	else
		sp_json_put_str(l->request, l->operand, operand);
	if (sp_api_call(x->api, l->op, l->request, &answer, e) < 0)
		return -1;
	if (!l->wait) {
		if (l->json)
			print_json(answer);
		else
			print_id(sp_json_str(answer, "op"));
		return 0;
	}
	if (x->n == AT_ONCE)
		finish_oldest(x);
	p = &x->wait[(x->first + x->n++) % AT_ONCE];
	snprintf(p->op, sizeof p->op, "%s", sp_json_str(answer, "op"));
	p->operand = sp_xstrdup(operand);
	return 0;
}

int sp_lifecycle_run(struct sp_lifecycle *l, int argc, char **argv, struct sp_err *e)
{
	sp_auto_api *api = NULL;
	struct run x = { .l = l };
	int worst;

	if (argc < 1)
		return sp_fail(e, SP_USAGE, 0, "too few operands: %s", l->tool->operands);
	if (sp_api_open(&api, true, e) < 0)
		return -1;
	x.api = api;
	worst = sp_each_operand(l->tool, argc, argv, 1, begin, &x);
	while (x.n)
		finish_oldest(&x);
	return worst > x.worst ? worst : x.worst;
}
