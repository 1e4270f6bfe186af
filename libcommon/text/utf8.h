/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, and which characters of foreign text must not reach a terminal as they are. */
#ifndef SP_TEXT_UTF8_H
#define SP_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the character at p and its code point; 0 where the n bytes begin with none (cut
 * off, over-long, surrogate, beyond U+10FFFF). n >= 1. */
size_t sp_utf8_next(const char *p, size_t n, uint32_t *cp);
/* Controls (C0, DEL, C1), bidi marks, and the line and paragraph separators. */
bool sp_utf8_is_unsafe(uint32_t cp);

#endif
