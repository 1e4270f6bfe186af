/* SPDX-License-Identifier: Apache-2.0 */
/* The option parser, from lines as arguments: it ends, stays within argv, and gives each option a
 * value if and only if its kind takes one. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "text/opt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARGS 64

static const struct sp_opt opts[] = {
	SP_OPT_JSON,
	SP_OPT_WAIT,
	{ 1, 'n', "number", SP_NUMBER, "N", "how many" },
	{ 2, 's', "size", SP_SIZE, "SIZE", "how much" },
	{ 3, 0, "span", SP_SPAN, "T", "how long" },
	{ 4, 'e', "env", SP_TEXT, "K=V", "a variable" },
};
static const struct sp_tool tool = { "space-x", "Do x.", "ID...", SP_ARG_SANDBOX, opts,
				     SP_NELEM(opts) };

static void take_value(const struct sp_opt_state *st, int key)
{
	struct sp_err e;
	int64_t v = 5;

	assert(st->opt && key == st->opt->key);
	assert((st->value != NULL) == (st->opt->kind != SP_NONE));
	if (key == 1 && sp_opt_number(st, -3, 70, &v, &e) == 0)
		assert(v >= -3 && v <= 70);
	if (key == 2 && sp_opt_size(st, 1, 1 << 20, &v, &e) == 0)
		assert(v >= 1 && v <= 1 << 20);
	if (key == 3 && sp_opt_span(st, &v, &e) == 0)
		assert(v >= 0);
	if (key == 4 && sp_opt_env(st->value, &e) == 0)
		assert(strchr(st->value, '='));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *argv[ARGS + 2] = { NULL }, name[] = "space-x";
	sp_auto_free char *text = sp_xmalloc(size + 1);
	struct sp_opt_state st = { .argc = 1, .argv = argv };
	struct sp_err e = { 0 };
	size_t steps = 0;
	int key;

	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	argv[0] = name;
	for (char *p = text; p && st.argc <= ARGS; st.argc++) {
		argv[st.argc] = p;
		p = strchr(p, '\n');
		if (p)
			*p++ = '\0';
		/* These print and end the program, which is tested elsewhere. */
		if (strcmp(argv[st.argc], "--help") == 0 ||
		    strcmp(argv[st.argc], "--version") == 0 ||
		    strcmp(argv[st.argc], "--describe") == 0)
			return 0;
	}
	while ((key = sp_opt_next(&st, &tool, &e)) > 0) {
		take_value(&st, key);
		assert(++steps <= size + 1);
	}
	assert(st.i >= 1 && st.i <= st.argc);
	assert(key == 0 || e.code == SP_USAGE);
	return 0;
}
