/* SPDX-License-Identifier: Apache-2.0 */
#include "state/record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "sys/fd.h"
#include "sys/fs.h"

#define SMALL 8192

struct sp_json *sp_record_parse(const char *text, size_t n, struct sp_err *e)
{
	sp_auto_json *rec = NULL;
	int64_t format;

	if (n > SP_RECORD_MAX) {
		sp_fail(e, SP_FAIL, 0, "record is larger than %d bytes", SP_RECORD_MAX);
		return NULL;
	}
	rec = sp_json_parse(text, n, e);
	if (!rec)
		return NULL;
	if (!sp_json_is_object(rec)) {
		sp_fail(e, SP_FAIL, 0, "record is not an object");
		return NULL;
	}
	format = sp_json_i64(rec, "format", 0);
	if (format < 1) {
		sp_fail(e, SP_FAIL, 0, "record has no format number");
		return NULL;
	}
	if (format > SP_FORMAT) {
		sp_fail(e, SP_HOST, 0, "made by a newer release (format %lld, this one reads %d)",
			(long long)format, SP_FORMAT);
		return NULL;
	}
	return sp_take_ptr(&rec);
}

struct sp_json *sp_record_load(int dirfd, const char *name, struct sp_err *e)
{
	sp_auto_fd fd = -1;
	sp_auto_str text = SP_STR_INIT;
	char small[SMALL]; /* most are, and then no memory is asked for their text */
	struct sp_json *rec;
	ssize_t n;

	if (strchr(name, '/'))
		fd = sp_fs_open_beneath(dirfd, name, O_RDONLY | O_CLOEXEC, 0);
	else
		fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		sp_fail(e, sp_code_of_errno(errno), errno, "record '%s'", name);
		return NULL;
	}
	n = sp_fd_read(fd, small, sizeof small);
	if (n < 0) {
		sp_fail(e, sp_code_of_errno(errno), errno, "record '%s'", name);
		return NULL;
	}
	if ((size_t)n == sizeof small) {
		sp_str_addn(&text, small, sizeof small);
		if (sp_fd_slurp(fd, SP_RECORD_MAX - sizeof small, &text, e) < 0) {
			sp_wrap(e, "record '%s'", name);
			return NULL;
		}
	}
	rec = sp_record_parse(text.len ? text.p : small, text.len ? text.len : (size_t)n, e);
	if (!rec)
		sp_wrap(e, "record '%s'", name);
	return rec;
}

int sp_record_print(struct sp_json *rec, struct sp_str *out, struct sp_err *e)
{
	if (!sp_json_is_object(rec))
		return sp_fail(e, SP_FAIL, 0, "record is not an object");
	sp_json_put_int(rec, "format", SP_FORMAT);
	sp_json_print(rec, out);
	sp_str_addc(out, '\n');
	if (out->len > SP_RECORD_MAX)
		return sp_fail(e, SP_FAIL, 0, "record would be larger than %d bytes",
			       SP_RECORD_MAX);
	return 0;
}

int sp_record_save(int dirfd, const char *name, struct sp_json *rec, struct sp_err *e)
{
	sp_auto_str text = SP_STR_INIT;

	if (sp_record_print(rec, &text, e) < 0)
		return sp_wrap(e, "record '%s'", name);
	return sp_fs_replace(dirfd, name, text.p, text.len, 0600, e);
}
