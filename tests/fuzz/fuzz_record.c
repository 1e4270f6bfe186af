/* SPDX-License-Identifier: Apache-2.0 */
/* Records from a damaged disk: what is taken is an object of a format that we know, and what is
 * kept again is taken again. */
#include <assert.h>
#include <stdint.h>

#include "state/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_err e = { .code = SP_OK };
	sp_auto_json *rec = sp_record_parse((const char *)data, size, &e), *again = NULL;
	sp_auto_str text = SP_STR_INIT, second = SP_STR_INIT;

	if (!rec) {
		assert(e.code == SP_FAIL || e.code == SP_HOST);
		return 0;
	}
	assert(sp_json_is_object(rec));
	if (sp_record_print(rec, &text, &e) < 0)
		return 0; /* escaped, it may be longer than what came */
	again = sp_record_parse(text.p, text.len, &e);
	assert(again);
	assert(sp_record_print(again, &second, &e) == 0);
	assert(text.len == second.len);
	return 0;
}
