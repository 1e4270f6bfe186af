/* SPDX-License-Identifier: Apache-2.0 */
/* A strict reading of RFC 8259 that builds nothing. cJSON is lenient (trailing bytes, raw control
 * characters, "01", bytes that are not UTF-8, \u0000 that cuts a key short), so text goes through
 * here before it goes there. */
#include <string.h>

#include "text/json.h"
#include "text/utf8.h"

struct scan {
	const char *p, *end;
	char open[SP_JSON_DEPTH]; /* the closing brackets that are due */
	int depth;
};

static void skip_space(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
		s->p++;
}

static int peek(const struct scan *s)
{
	return s->p < s->end ? (unsigned char)*s->p : -1;
}

static bool is_digit(int c)
{
	return c >= '0' && c <= '9';
}

static int hex4(const char *p, uint32_t *v)
{
	*v = 0;
	for (int i = 0; i < 4; i++) {
		char c = p[i];
		int d = is_digit(c)            ? c - '0'
			: c >= 'a' && c <= 'f' ? c - 'a' + 10
			: c >= 'A' && c <= 'F' ? c - 'A' + 10
					       : -1;

		if (d < 0)
			return -1;
		*v = *v << 4 | (uint32_t)d;
	}
	return 0;
}

static const char *scan_unicode(struct scan *s)
{
	uint32_t v, low;

	if (s->end - s->p < 4 || hex4(s->p, &v) < 0)
		return "bad \\u escape";
	s->p += 4;
	if (!v)
		return "a NUL in a string";
	if (v >= 0xdc00 && v < 0xe000)
		return "half a surrogate pair";
	if (v < 0xd800 || v >= 0xdc00)
		return NULL;
	if (s->end - s->p < 6 || s->p[0] != '\\' || s->p[1] != 'u' || hex4(s->p + 2, &low) < 0 ||
	    low < 0xdc00 || low >= 0xe000)
		return "half a surrogate pair";
	s->p += 6;
	return NULL;
}

static const char *scan_string(struct scan *s)
{
	for (s->p++; s->p < s->end;) {
		uint32_t cp;
		size_t len = sp_utf8_next(s->p, (size_t)(s->end - s->p), &cp);
		const char *why;

		if (!len)
			return "not UTF-8";
		if (cp < 0x20)
			return "a control character in a string";
		s->p += len;
		if (cp == '"')
			return NULL;
		if (cp != '\\')
			continue;
		if (s->p == s->end)
			break;
		if (*s->p == 'u') {
			s->p++;
			why = scan_unicode(s);
			if (why)
				return why;
		} else if (*s->p && strchr("\"\\/bfnrt", *s->p)) {
			s->p++;
		} else {
			return "unknown escape";
		}
	}
	return "a string without end";
}

static bool scan_digits(struct scan *s)
{
	const char *start = s->p;

	while (is_digit(peek(s)))
		s->p++;
	return s->p > start;
}

static const char *scan_number(struct scan *s)
{
	const char *start = s->p;

	if (peek(s) == '-')
		s->p++;
	if (peek(s) == '0')
		s->p++;
	else if (!scan_digits(s))
		return "unexpected character";
	if (peek(s) == '.') {
		s->p++;
		if (!scan_digits(s))
			return "bad number";
	}
	if (peek(s) == 'e' || peek(s) == 'E') {
		s->p++;
		if (peek(s) == '+' || peek(s) == '-')
			s->p++;
		if (!scan_digits(s))
			return "bad number";
	}
	return s->p - start > 62 ? "a number too long" : NULL; /* cJSON looks at 63 characters */
}

static const char *scan_word(struct scan *s)
{
	static const char *const words[] = { "true", "false", "null" };

	for (size_t i = 0; i < SP_NELEM(words); i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(s->end - s->p) >= n && memcmp(s->p, words[i], n) == 0) {
			s->p += n;
			return NULL;
		}
	}
	return "unexpected character";
}

static const char *scan_key(struct scan *s)
{
	const char *why;

	skip_space(s);
	if (peek(s) != '"')
		return "a key is due";
	why = scan_string(s);
	if (why)
		return why;
	skip_space(s);
	if (peek(s) != ':')
		return "':' is due";
	s->p++;
	return NULL;
}

/* Begins a value. *done: it is whole; else its first element is due. */
static const char *scan_value(struct scan *s, bool *done)
{
	int c;

	*done = true;
	skip_space(s);
	c = peek(s);
	if (c == '"')
		return scan_string(s);
	if (c != '{' && c != '[')
		return c == '-' || is_digit(c) ? scan_number(s) : scan_word(s);
	if (s->depth == SP_JSON_DEPTH)
		return "nested too deep";
	s->p++;
	s->open[s->depth++] = c == '{' ? '}' : ']';
	skip_space(s);
	if (peek(s) == s->open[s->depth - 1]) {
		s->p++;
		s->depth--;
		return NULL;
	}
	*done = false;
	return c == '{' ? scan_key(s) : NULL;
}

/* After a whole value: closes what ends here, up to a comma or the end of the outermost. */
static const char *scan_after(struct scan *s)
{
	while (s->depth) {
		char close = s->open[s->depth - 1];

		skip_space(s);
		if (peek(s) == ',') {
			s->p++;
			return close == '}' ? scan_key(s) : NULL;
		}
		if (peek(s) != close)
			return close == '}' ? "',' or '}' is due" : "',' or ']' is due";
		s->p++;
		s->depth--;
	}
	return NULL;
}

const char *sp_json_scan(const char *text, size_t n, size_t *at)
{
	struct scan s = { .p = text, .end = text + n };
	const char *why;
	bool done;

	do {
		why = scan_value(&s, &done);
		if (!why && done)
			why = scan_after(&s);
	} while (!why && (s.depth || !done));
	skip_space(&s);
	if (!why && s.p < s.end)
		why = "bytes after the value";
	*at = (size_t)(s.p - text);
	return why;
}
