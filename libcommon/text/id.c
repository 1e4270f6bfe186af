/* SPDX-License-Identifier: Apache-2.0 */
#include "text/id.h"

#include <string.h>

#include "sys/clock.h"

static bool is_small(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

void sp_id_make(enum sp_kind kind, char out[static SP_ID_SIZE])
{
	out[0] = (char)kind;
	sp_random_text(out + 1, SP_ID_LEN - 1);
}

bool sp_id_looks_like(const char *s)
{
	size_t n = 0;

	if (!is_small(s[0]))
		return false;
	while (n <= SP_ID_LEN && (is_small(s[n]) || is_digit(s[n])))
		n++;
	return n == SP_ID_LEN && !s[n];
}

bool sp_id_is_valid(const char *s, enum sp_kind kind)
{
	return s[0] == (char)kind && sp_id_looks_like(s);
}

bool sp_name_is_valid(const char *s)
{
	size_t n = 0;

	if (!is_small(s[0]) && !is_digit(s[0]))
		return false;
	while (n < SP_NAME_SIZE && (is_small(s[n]) || is_digit(s[n]) || s[n] == '-'))
		n++;
	return n < SP_NAME_SIZE && !s[n] && !sp_id_looks_like(s);
}
