/* SPDX-License-Identifier: Apache-2.0 */
/* Records: JSON objects in files, each replaced whole and durably (space-state(5)). Every record
 * has "format": 1; a higher number is refused with SP_HOST ("made by a newer release"). At most
 * 256 KiB. */
#ifndef SP_STATE_RECORD_H
#define SP_STATE_RECORD_H

#include "base/err.h"
#include "base/str.h"
#include "text/json.h"

#define SP_FORMAT 1
#define SP_RECORD_MAX (256 * 1024)

/* NULL with SP_ABSENT where there is none. name may be a path below dirfd ("<id>/record.json"):
 * one open less than opening the folder first, for whoever reads a thousand. */
struct sp_json *sp_record_load(int dirfd, const char *name, struct sp_err *e);
int sp_record_save(int dirfd, const char *name, struct sp_json *rec, struct sp_err *e);

/* The two halves without a file: text to a checked record, and a record to the text that is
 * kept. */
struct sp_json *sp_record_parse(const char *text, size_t n, struct sp_err *e);
int sp_record_print(struct sp_json *rec, struct sp_str *out, struct sp_err *e);

#endif
