/* SPDX-License-Identifier: Apache-2.0 */
/* Copies files and trees into a sandbox or out of it. */
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#include "api/copy.h"
#include "api/treewrite.h"
#include "sys/proc.h"
#include "text/opt.h"

enum { O_USER = 1, O_BYTES, O_ENTRIES };

#define MAX_BYTES (INT64_C(16) << 30)
#define MAX_ENTRIES 1000000

static const struct sp_opt opts[] = {
	{ O_USER, 'u', "user", SP_TEXT, "U", "in: give it to this user (root without it)" },
	{ O_BYTES, 0, "max-bytes", SP_SIZE, "S", "out: stop beyond this (16G without it)" },
	{ O_ENTRIES, 0, "max-entries", SP_NUMBER, "N", "out: the same for files (1000000)" },
	SP_OPT_JSON,
};

static const struct sp_tool tool = { "space-cp", "Copy files into a sandbox or out of it.",
				     "FROM TO",	 SP_ARG_GUESTPATH,
				     opts,	 SP_NELEM(opts) };

/* Besides reaching the sandbox (which needs no more than CAP_DAC_OVERRIDE): files here are read and
 * written as cp would, whoever they belong to. */
static uint64_t caps(void)
{
	return sp_guest_caps() | 1ull << CAP_DAC_READ_SEARCH;
}

static int parse(int argc, char **argv, struct sp_copy *c, struct sp_err *e)
{
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	int64_t bytes = MAX_BYTES, entries = MAX_ENTRIES;
	int key, rc = 0;

	while (rc == 0 && (key = sp_opt_next(&st, &tool, e)) != 0) {
		if (key < 0)
			return -1;
		if (key == O_USER)
			c->user = st.value;
		else if (key == O_BYTES)
			rc = sp_opt_size(&st, 0, INT64_MAX, &bytes, e);
		else if (key == O_ENTRIES)
			rc = sp_opt_number(&st, 1, INT64_MAX, &entries, e);
		else
			sp_tool_set_json(true);
	}
	if (rc < 0)
		return -1;
	if (argc - st.i != 2)
		return sp_fail(e, SP_USAGE, 0, "needs two operands: %s", tool.operands);
	c->from = argv[st.i];
	c->to = argv[st.i + 1];
	c->max_bytes = (uint64_t)bytes;
	c->max_entries = (uint64_t)entries;
	return 0;
}

static int copy(struct sp_copy *c, struct sp_err *e)
{
	sp_auto_api *api = NULL;
	sp_auto_guest *g = NULL;
	char box[SP_NAME_SIZE] = "", other[SP_NAME_SIZE] = "";
	bool out = sp_copy_operand(c->from, box, &c->from) == 1;

	if (sp_copy_operand(c->to, out ? other : box, &c->to) == out)
		return sp_fail(e, SP_USAGE, 0,
			       out ? "both are in sandboxes: copy out of one, then into the other" :
				     "neither is in a sandbox (SANDBOX:PATH)");
	if (sp_api_open(&api, false, e) < 0)
		return -1;
	g = sp_guest_open(api, box, e);
	if (!g || sp_priv_keep(caps(), e) < 0)
		return -1;
	sp_treewrite_tidy_on_signals();
	return out ? sp_copy_out(g, c, e) : sp_copy_in(g, c, e);
}

int main(int argc, char **argv)
{
	struct sp_copy c = { 0 };
	struct sp_err e = { 0 };
	int rc = parse(argc, argv, &c, &e);

	if (rc == 0)
		rc = copy(&c, &e);
	if (c.skipped)
		fprintf(stderr, "%s: %llu special files were passed over\n", tool.name,
			(unsigned long long)c.skipped);
	return sp_finish(&tool, rc, &e);
}
