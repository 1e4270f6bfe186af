/* SPDX-License-Identifier: Apache-2.0 */
/* Growable strings, allocation that cannot fail, and cleanup attributes.
 *
 * Contract: a struct sp_str is the caller's; start it with SP_STR_INIT, free it with sp_str_free
 * (or declare it sp_auto_str). .p is never NULL and always ends in a NUL that .len does not
 * count. Running out of memory ends the process (callers bound every foreign length first).
 */
#ifndef SP_BASE_STR_H
#define SP_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define SP_NELEM(a) (sizeof(a) / sizeof((a)[0]))

void *sp_xmalloc(size_t n);          /* ends the process when there is no memory */
void *sp_xcalloc(size_t n, size_t m);
char *sp_xstrdup(const char *s);
char *sp_xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void sp_free_ptr(void *pp); /* frees *(void **)pp; for sp_auto_free */
#define sp_auto_free __attribute__((cleanup(sp_free_ptr)))

/* Hands a pointer over: returns *pp and sets it to NULL. */
#define sp_take_ptr(pp)                                                                            \
	__extension__({                                                                            \
		__typeof__(*(pp)) sp_t_ = *(pp);                                                   \
		*(pp) = NULL;                                                                      \
		sp_t_;                                                                             \
	})

struct sp_str {
	char *p;
	size_t len, cap; /* cap 0: p is static and empty */
};

extern char sp_str_empty[1];
#define SP_STR_INIT { sp_str_empty, 0, 0 }

void sp_str_free(struct sp_str *s); /* and makes it empty again */
#define sp_auto_str __attribute__((cleanup(sp_str_free))) struct sp_str

void sp_str_clear(struct sp_str *s); /* empty, memory kept */
void sp_str_add(struct sp_str *s, const char *text);
void sp_str_addn(struct sp_str *s, const void *data, size_t n);
void sp_str_addc(struct sp_str *s, char c);
void sp_str_addf(struct sp_str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sp_str_vaddf(struct sp_str *s, const char *fmt, va_list ap);
char *sp_str_room(struct sp_str *s, size_t n); /* n writable bytes at the end; then add to .len */
char *sp_str_take(struct sp_str *s);           /* the malloc'd text; s becomes empty */

bool sp_str_has_prefix(const char *s, const char *prefix);

#endif
