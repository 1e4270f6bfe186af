/* SPDX-License-Identifier: Apache-2.0 */
/* Ids, names, times, sizes, and text for a terminal, from foreign bytes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sys/clock.h"
#include "text/id.h"
#include "text/opt.h"
#include "text/table.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const char *s)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	bool name = sp_name_is_valid(s), id = sp_id_looks_like(s);

	assert(!(name && id));
	if (!name && !id)
		return;
	assert(strspn(s, set) == strlen(s) && s[0] != '-');
	assert(id ? strlen(s) == SP_ID_LEN : strlen(s) >= 1 && strlen(s) < SP_NAME_SIZE);
}

static void check_size(const char *s)
{
	int64_t v = -1, again = -1, ns = -1;
	char text[32];

	if (sp_clock_parse_span(s, &ns) == 0)
		assert(ns >= 0 && ns % 1000000000 == 0);
	if (sp_size_parse(s, &v) < 0)
		return;
	sp_size_format(v, text);
	assert(v >= 0 && sp_size_parse(text, &again) == 0 && again == v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	sp_auto_str out = SP_STR_INIT;
	sp_auto_free char *s = sp_xmalloc(size + 1);
	uint32_t cp = 0;

	if (size)
		memcpy(s, data, size);
	s[size] = '\0';
	check_name(s);
	check_size(s);
	sp_text_escape(&out, s, size);
	assert(out.len >= size && strlen(out.p) == out.len);
	for (size_t i = 0, n; i < out.len; i += n) {
		n = sp_utf8_next(out.p + i, out.len - i, &cp);
		assert(n && !sp_utf8_is_unsafe(cp));
	}
	return 0;
}
