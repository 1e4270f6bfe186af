/* SPDX-License-Identifier: Apache-2.0 */
/* Text output: tab-separated records with everything foreign escaped.
 *
 * Control characters, DEL, C1, bidi marks (U+061C, U+200E/F, U+202A-E, U+2066-9), tab, newline,
 * backslash and bytes that are not UTF-8 come out as \t \n \\ or \xNN.
 */
#ifndef SP_TEXT_TABLE_H
#define SP_TEXT_TABLE_H

#include <stddef.h>

#include "base/str.h"

void sp_text_escape(struct sp_str *out, const char *s, size_t n);
/* One record: n cells joined by tabs and a newline, each escaped; NULL prints "-". To stdout. */
void sp_row_print(const char *const *cells, size_t n);

#endif
