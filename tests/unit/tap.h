/* SPDX-License-Identifier: Apache-2.0 */
/* A unit test prints TAP: ok(condition, "what"), and return tap_done() from main. What this host
 * cannot run is told by tap_skip("what", "why"): STRICT=1 counts it as a failure. */
#ifndef SP_TESTS_TAP_H
#define SP_TESTS_TAP_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int tap_n, tap_bad;

#define ok(cond, ...) tap_ok((cond), __FILE__, __LINE__, #cond, __VA_ARGS__)
#define is_str(got, want, ...) tap_is_str((got), (want), __FILE__, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 5, 6), unused)) static bool tap_ok(bool good, const char *file,
								 int line, const char *cond,
								 const char *fmt, ...)
{
	__builtin_va_list ap;

	printf("%sok %d - ", good ? "" : "not ", ++tap_n);
	__builtin_va_start(ap, fmt);
	vprintf(fmt, ap);
	__builtin_va_end(ap);
	putchar('\n');
	if (!good) {
		tap_bad++;
		printf("# %s:%d: %s\n", file, line, cond);
	}
	fflush(stdout);
	return good;
}

#define tap_is_str(got, want, file, line, ...)                                                     \
	do {                                                                                       \
		const char *g_ = (got), *w_ = (want);                                              \
		if (!tap_ok(g_ && w_ && strcmp(g_, w_) == 0, file, line, "strings equal",          \
			    __VA_ARGS__))                                                          \
			printf("# got '%s', want '%s'\n", g_ ? g_ : "(null)", w_ ? w_ : "(null)"); \
	} while (0)

__attribute__((unused)) static void tap_skip(const char *what, const char *why)
{
	printf("ok %d - %s # SKIP %s\n", ++tap_n, what, why);
}

__attribute__((unused)) static int tap_done(void)
{
	printf("1..%d\n", tap_n);
	return tap_bad ? 1 : 0;
}

#endif
