/* SPDX-License-Identifier: Apache-2.0 */
/* What the lifecycle tools do the same way: one operation an operand, its id printed at once, or
 * (wait) the ids of what came out of it. */
#ifndef SP_API_LIFECYCLE_H
#define SP_API_LIFECYCLE_H

#include <stdbool.h>

#include "api/api.h"
#include "base/err.h"
#include "text/json.h"
#include "text/opt.h"

struct sp_lifecycle {
	const struct sp_tool *tool;
	const char *op;              /* name in the table of operations */
	const char *operand;         /* the field that the operand goes into ("ids": as a list) */
	struct sp_json *request;     /* the other fields; the caller's */
	bool wait, json;
};

/* Takes one of the shared options (json, wait, request-id) into l: true when it was one. */
bool sp_lifecycle_option(struct sp_lifecycle *l, int key, const struct sp_opt_state *st);

/* Runs it for every operand ("-": ids from standard input), with up to 32 operations at a time when
 * waiting; complains about each failure and returns the worst code. */
int sp_lifecycle_run(struct sp_lifecycle *l, int argc, char **argv, struct sp_err *e);

/* Prints what came out of an ended operation: the ids of its good results, its children's errors on
 * standard error (several children only). */
void sp_lifecycle_print(const struct sp_tool *tool, const struct sp_json *answer, bool json);

#endif
