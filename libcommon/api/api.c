/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"

#include <stdlib.h>

#include "api/table.h"
#include "vol/store.h"

int sp_api_open(struct sp_api **out, bool create, struct sp_err *e)
{
	struct sp_api *a = sp_xcalloc(1, sizeof *a);

	a->roots.store = a->roots.run = -1;
	a->owner = SP_OWNER_LOCAL;
	if (sp_store_open(&a->roots, create, e) < 0) {
		free(a);
		return -1;
	}
	*out = a;
	return 0;
}

void sp_api_close(struct sp_api **a)
{
	if (!*a)
		return;
	sp_roots_close(&(*a)->roots);
	free(*a);
	*a = NULL;
}

int sp_api_call(struct sp_api *a, const char *name, const struct sp_json *request,
		struct sp_json **answer, struct sp_err *e)
{
	const struct sp_api_op *op = sp_api_find(name);

	*answer = NULL;
	if (!op)
		return sp_fail(e, SP_USAGE, 0, "no operation '%s'", name);
	if (sp_api_check(op, request, e) < 0)
		return -1;
	if (!op->run)
		return sp_fail(e, SP_FAIL, 0, "'%s' is not provided by this program", name);
	return op->run(a, request, answer, e);
}
