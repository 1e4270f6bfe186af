/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char sp_str_empty[1];

static _Noreturn void die_no_memory(void)
{
	static const char msg[] = "out of memory\n";

	fwrite(msg, 1, sizeof msg - 1, stderr);
	abort();
}

void *sp_xmalloc(size_t n)
{
	void *p = malloc(n ? n : 1);

	if (!p)
		die_no_memory();
	return p;
}

void *sp_xcalloc(size_t n, size_t m)
{
	void *p = calloc(n ? n : 1, m ? m : 1);

	if (!p)
		die_no_memory();
	return p;
}

char *sp_xstrdup(const char *s)
{
	size_t n = strlen(s) + 1;

	return memcpy(sp_xmalloc(n), s, n);
}

char *sp_xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *p = NULL;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&p, fmt, ap);
	va_end(ap);
	if (n < 0)
		die_no_memory();
	return p;
}

void sp_free_ptr(void *pp)
{
	free(*(void **)pp);
}

void sp_str_free(struct sp_str *s)
{
	if (s->cap)
		free(s->p);
	*s = (struct sp_str)SP_STR_INIT;
}

void sp_str_clear(struct sp_str *s)
{
	s->len = 0;
	if (s->cap)
		s->p[0] = '\0';
}

char *sp_str_room(struct sp_str *s, size_t n)
{
	size_t need = s->len + n + 1, cap = s->cap ? s->cap : 64;

	if (need <= n)
		die_no_memory();
	if (need > s->cap) {
		while (cap < need)
			cap = cap > (size_t)-1 / 2 ? need : cap * 2;
		s->p = s->cap ? realloc(s->p, cap) : malloc(cap);
		if (!s->p)
			die_no_memory();
		s->cap = cap;
		s->p[s->len] = '\0';
	}
	return s->p + s->len;
}

void sp_str_addn(struct sp_str *s, const void *data, size_t n)
{
	char *to = sp_str_room(s, n);

	if (n)
		memcpy(to, data, n);
	s->len += n;
	s->p[s->len] = '\0';
}

void sp_str_add(struct sp_str *s, const char *text)
{
	sp_str_addn(s, text, strlen(text));
}

void sp_str_addc(struct sp_str *s, char c)
{
	sp_str_addn(s, &c, 1);
}

void sp_str_vaddf(struct sp_str *s, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	if (n < 0)
		die_no_memory();
	vsnprintf(sp_str_room(s, (size_t)n), (size_t)n + 1, fmt, again);
	va_end(again);
	s->len += (size_t)n;
}

void sp_str_addf(struct sp_str *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	sp_str_vaddf(s, fmt, ap);
	va_end(ap);
}

char *sp_str_take(struct sp_str *s)
{
	char *p = s->cap ? s->p : sp_xstrdup("");

	*s = (struct sp_str)SP_STR_INIT;
	return p;
}

bool sp_str_has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}
