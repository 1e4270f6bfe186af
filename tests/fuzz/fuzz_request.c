/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: the first byte chooses the operation, the rest is JSON. Whatever is taken must keep the
 * promises of its fields; whatever is refused must say why in one line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/table.h"
#include "text/id.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char *const names[] = { "create",     "pause",     "resume", "rm", "snap",
				     "branch",     "import",    "ls",     "op", "opwait",
				     "kernel-add", "kernel-ls", "doctor" };

static void check_taken(const struct sp_json *q)
{
	const char *name = sp_json_str(q, "name");
	int64_t many = sp_json_i64(q, "n", 1);

	if (name && !sp_name_is_valid(name))
		abort();
	if (many < 1 || many > 256)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct sp_err e = { .code = SP_OK };
	sp_auto_json *q = NULL;
	const struct sp_api_op *op;

	if (n < 1)
		return 0;
	op = sp_api_find(names[data[0] % SP_NELEM(names)]);
	q = sp_json_parse((const char *)data + 1, n - 1, &e);
	if (!op)
		abort();
	if (!q)
		return 0;
	if (sp_api_check(op, q, &e) == 0)
		check_taken(q);
	else if (e.code != SP_USAGE || !e.msg[0])
		abort();
	return 0;
}
