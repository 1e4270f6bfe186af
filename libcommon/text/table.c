/* SPDX-License-Identifier: Apache-2.0 */
#include "text/table.h"

#include <stdio.h>
#include <string.h>

#include "text/utf8.h"

static void escape_bytes(struct sp_str *out, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sp_str_addf(out, "\\x%02x", (unsigned)(unsigned char)p[i]);
}

void sp_text_escape(struct sp_str *out, const char *s, size_t n)
{
	for (size_t i = 0, len; i < n; i += len) {
		uint32_t cp = 0;

		len = sp_utf8_next(s + i, n - i, &cp);
		if (!len)
			escape_bytes(out, s + i, len = 1);
		else if (cp == '\t')
			sp_str_add(out, "\\t");
		else if (cp == '\n')
			sp_str_add(out, "\\n");
		else if (cp == '\\')
			sp_str_add(out, "\\\\");
		else if (sp_utf8_is_unsafe(cp))
			escape_bytes(out, s + i, len);
		else
			sp_str_addn(out, s + i, len);
	}
}

void sp_row_print(const char *const *cells, size_t n)
{
	sp_auto_str line = SP_STR_INIT;

	for (size_t i = 0; i < n; i++) {
		const char *cell = cells[i] ? cells[i] : "-";

		if (i)
			sp_str_addc(&line, '\t');
		sp_text_escape(&line, cell, strlen(cell));
	}
	sp_str_addc(&line, '\n');
	fwrite(line.p, 1, line.len, stdout);
}
