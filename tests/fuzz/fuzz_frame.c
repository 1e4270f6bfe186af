/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and fields from foreign bytes: nothing is read past its end, and what was taken apart and
 * built again is the same. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "guest/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The payload alone in a block of its exact size, so that a sanitizer sees a read past its end. */
static void take_fields(const unsigned char *payload, uint32_t len)
{
	unsigned char *p = malloc(len ? len : 1), *mem = malloc(len + 1);
	const unsigned char *d;
	uint32_t pos = 0, n, items = 0;
	struct sp_fields f;
	char text[64];
	uint64_t v;
	uint8_t tag;

	assert(p && mem);
	if (len)
		memcpy(p, payload, len);
	sp_frame_get_u64(p, len, &v);
	sp_fields_begin(&f, mem, len);
	while (sp_fields_next(p, len, &pos, &tag, &d, &n) == 1) {
		sp_fields_add(&f, (enum sp_g_tag)tag, d, n);
		items++;
		assert(d >= p && d + n <= p + len);
	}
	assert(sp_fields_end(&f) == 0);
	assert(memcmp(mem, p, f.len) == 0);
	assert((sp_fields_check(p, len) == 0) == (f.len == len));
	for (int t = 0; t < 44; t++) {
		sp_fields_num(p, len, (enum sp_g_tag)t, 0);
		if (sp_fields_text(p, len, (enum sp_g_tag)t, text, sizeof text) == 0)
			assert(strlen(text) < sizeof text);
	}
	free(mem);
	free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_buf b, again;
	struct sp_g_header h;
	const unsigned char *payload;

	sp_buf_init(&b, 1u << 20);
	sp_buf_init(&again, 1u << 20);
	if (!sp_buf_put(&b, data, size))
		return 0;
	while (sp_frame_peek(&b, &h, &payload) == 1) {
		assert(sp_frame_put(&again, h.chan, (enum sp_g_type)h.type, h.stream, payload,
				    h.len));
		assert(sp_buf_len(&again) == SP_G_HEADER + h.len);
		assert(memcmp(sp_buf_head(&again), sp_buf_head(&b), sp_buf_len(&again)) == 0);
		sp_buf_drop(&again, sp_buf_len(&again));
		take_fields(payload, h.len);
		sp_buf_drop(&b, SP_G_HEADER + h.len);
	}
	sp_buf_free(&again);
	sp_buf_free(&b);
	return 0;
}
