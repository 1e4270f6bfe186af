/* SPDX-License-Identifier: Apache-2.0 */
/* The operations as data: each one's fields, their types and bounds, and what carries it out. A new
 * operation is a row here and a function in local.c. */
#ifndef SP_API_TABLE_H
#define SP_API_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "state/roots.h"
#include "text/json.h"

struct sp_api {
	struct sp_roots roots;
	const char *owner; /* who asks */
};

enum sp_field_type {
	SP_F_TEXT,     /* a string; an operand is one too: what is not valid names nothing */
	SP_F_NAME,     /* a new name */
	SP_F_NUMBER,   /* min..max; a number, or a string of digits */
	SP_F_BOOL,
	SP_F_OPERANDS, /* an array of min..max strings */
	SP_F_ENV,      /* an array of K=V */
	SP_F_TAGS,     /* an object of strings */
	SP_F_CHOICE,   /* one of `choices` */
	SP_F_REQUEST,  /* a request id */
};

struct sp_field {
	const char *name;
	enum sp_field_type type;
	bool required;
	int64_t min, max;
	const char *choices; /* "a b c" */
};

typedef int sp_api_run(struct sp_api *a, const struct sp_json *request, struct sp_json **answer,
		       struct sp_err *e);

struct sp_api_op {
	const char *name;
	const struct sp_field *fields;
	size_t nfields;
	bool lifecycle;  /* answers an operation id, and waits if asked to */
	sp_api_run *run; /* NULL: provided by api/extra.c, in programs that use it */
};

const struct sp_api_op *sp_api_find(const char *name); /* NULL */
void sp_api_provide(const char *name, sp_api_run *run);
/* SP_USAGE on an unknown key, a missing one, a wrong type or a bad value. */
int sp_api_check(const struct sp_api_op *op, const struct sp_json *request, struct sp_err *e);

/* local.c */
int sp_local_lifecycle(struct sp_api *a, const char *kind, const struct sp_json *request,
		       struct sp_json **answer, struct sp_err *e);
int sp_local_ls(struct sp_api *a, const struct sp_json *request, struct sp_json **answer,
		struct sp_err *e);
int sp_local_op(struct sp_api *a, const struct sp_json *request, struct sp_json **answer,
		struct sp_err *e);
int sp_local_opwait(struct sp_api *a, const struct sp_json *request, struct sp_json **answer,
		    struct sp_err *e);

#endif
