/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

int sp_fail(struct sp_err *e, enum sp_code code, int sys, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	e->code = code;
	e->sys = sys;
	va_start(ap, fmt);
	vsnprintf(e->msg, sizeof e->msg, fmt, ap);
	va_end(ap);
	if (sys) {
		n = strlen(e->msg);
		snprintf(e->msg + n, sizeof e->msg - n, ": %s", strerror(sys));
	}
	return -1;
}

int sp_wrap(struct sp_err *e, const char *fmt, ...)
{
	char old[sizeof e->msg];
	va_list ap;
	size_t n;

	memcpy(old, e->msg, sizeof old);
	va_start(ap, fmt);
	vsnprintf(e->msg, sizeof e->msg, fmt, ap);
	va_end(ap);
	n = strlen(e->msg);
	snprintf(e->msg + n, sizeof e->msg - n, ": %.*s", (int)(sizeof old - 1), old);
	return -1;
}

const char *sp_code_name(int code)
{
	switch (code) {
#define SP_EXIT(sym, num, name, meaning)                                                           \
	case num:                                                                                  \
		return name;
#include "base/exitcodes.def"
#undef SP_EXIT
	default:
		return "failed";
	}
}

enum sp_code sp_code_of_errno(int sys)
{
	switch (sys) {
	case ENOENT:
	case ESRCH:
		return SP_ABSENT;
	case EEXIST:
		return SP_CONFLICT;
	case EACCES:
	case EPERM:
		return SP_DENIED;
	case ENOSPC:
	case EDQUOT:
	case EAGAIN:
	case ETIMEDOUT:
		return SP_BUSY;
	default:
		return SP_FAIL;
	}
}
