/* SPDX-License-Identifier: Apache-2.0 */
#include "text/utf8.h"

size_t sp_utf8_next(const char *p, size_t n, uint32_t *cp)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char c = (unsigned char)p[0];
	size_t len = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
	uint32_t v;

	if (!len || len > n)
		return 0;
	v = len == 1 ? c : c & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		unsigned char more = (unsigned char)p[i];

		if ((more & 0xc0) != 0x80)
			return 0;
		v = v << 6 | (more & 0x3f);
	}
	if (v < least[len] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
		return 0;
	*cp = v;
	return len;
}

bool sp_utf8_is_unsafe(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x61c || cp == 0x200e ||
	       cp == 0x200f || (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069);
}
