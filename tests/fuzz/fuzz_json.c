/* SPDX-License-Identifier: Apache-2.0 */
/* JSON from foreign bytes: what is taken prints as JSON that is taken again and prints the same,
 * and holds nothing that a terminal would obey. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "text/json.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct sp_json *v, int depth)
{
	const struct sp_json *c;

	assert(depth <= SP_JSON_DEPTH);
	for (c = sp_json_first(v); c; c = sp_json_next(c)) {
		if (sp_json_key(c))
			assert(sp_json_get(v, sp_json_key(c)) == c); /* no twin before it */
		walk(c, depth + 1);
	}
}

static void check_safe(const struct sp_str *s)
{
	for (size_t i = 0, n; i < s->len; i += n) {
		uint32_t cp = 0;

		n = sp_utf8_next(s->p + i, s->len - i, &cp);
		assert(n && !sp_utf8_is_unsafe(cp));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	sp_auto_str first = SP_STR_INIT;
	sp_auto_str second = SP_STR_INIT;
	sp_auto_free char *text = sp_xmalloc(size); /* its exact size: a read past it is seen */
	sp_auto_json *j = NULL, *again = NULL;
	struct sp_err e;

	if (size)
		memcpy(text, data, size);
	j = sp_json_parse(text, size, &e);
	if (!j)
		return 0;
	walk(j, 0);
	sp_json_print(j, &first);
	check_safe(&first);
	again = sp_json_parse(first.p, first.len, &e);
	assert(again);
	sp_json_print(again, &second);
	assert(strcmp(first.p, second.p) == 0);
	return 0;
}
