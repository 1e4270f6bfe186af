/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: one object, filled where a call fails, wrapped going up, printed once in main().
 *
 * Contract: functions that can fail return 0 (or a non-negative value) on success and -1 on
 * failure, with *e filled. *e is the caller's; it is never allocated and need not be cleared
 * first. Messages are lower case, one line, no full stop, with quotes round user text.
 */
#ifndef SP_BASE_ERR_H
#define SP_BASE_ERR_H

enum sp_code {
#define SP_EXIT(sym, code, name, meaning) sym = code,
#include "base/exitcodes.def"
#undef SP_EXIT
};

struct sp_err {
	enum sp_code code; /* what the program will exit with */
	int sys;           /* errno behind it, or 0 */
	char msg[512];
};

/* Fills *e; where sys is not 0, ": strerror(sys)" is appended. Always returns -1. */
int sp_fail(struct sp_err *e, enum sp_code code, int sys, const char *fmt, ...)
	__attribute__((format(printf, 4, 5), cold));

/* Puts "<fmt>: " before the message already in *e. Always returns -1. */
int sp_wrap(struct sp_err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));

/* Short name of a code ("busy"), as used in JSON; "failed" for a number that the table has not. */
const char *sp_code_name(int code);

/* The code that best tells what an errno means to a caller: ENOENT is SP_ABSENT, EEXIST is
 * SP_CONFLICT, EACCES and EPERM are SP_DENIED, ENOSPC, EAGAIN and ETIMEDOUT are SP_BUSY, the rest
 * SP_FAIL. */
enum sp_code sp_code_of_errno(int sys);

#endif
