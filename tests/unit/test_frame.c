/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and fields: what goes in comes out, and nothing foreign is read past its end. */
#include <stdlib.h>
#include <string.h>

#include "guest/frame.h"
#include "tap.h"

static void frames_round_trip(void)
{
	struct sp_buf b;
	struct sp_g_header h;
	const unsigned char *p = NULL;
	uint64_t v = 0;

	sp_buf_init(&b, 1u << 20);
	ok(sp_frame_peek(&b, &h, &p) == 0, "an empty buffer holds no frame");
	ok(sp_frame_put(&b, 7, SP_G_EXEC, 0, "abc", 3), "put a frame");
	ok(sp_frame_put_data(&b, 8, 2, 0x1122334455667788ull, "xy", 2), "put data");
	ok(sp_frame_put_u64(&b, 9, SP_G_ACK, 1, 42), "put an acknowledgement");
	ok(sp_frame_put(&b, 10, SP_G_THAW, 0, NULL, 0), "put an empty one");

	ok(sp_frame_peek(&b, &h, &p) == 1 && h.type == SP_G_EXEC && h.chan == 7 && h.len == 3 &&
		   memcmp(p, "abc", 3) == 0,
	   "first frame whole");
	sp_buf_drop(&b, SP_G_HEADER + h.len);
	ok(sp_frame_peek(&b, &h, &p) == 1 && h.type == SP_G_DATA && h.stream == 2 && h.len == 10 &&
		   sp_frame_get_u64(p, h.len, &v) == 0 && v == 0x1122334455667788ull &&
		   memcmp(p + 8, "xy", 2) == 0,
	   "data with its offset");
	sp_buf_drop(&b, SP_G_HEADER + h.len);
	ok(sp_frame_peek(&b, &h, &p) == 1 && sp_frame_get_u64(p, h.len, &v) == 0 && v == 42,
	   "u64 payload");
	ok(sp_frame_get_u64(p, 7, &v) == -1, "seven bytes are no u64");
	sp_buf_drop(&b, SP_G_HEADER + h.len);
	ok(sp_frame_peek(&b, &h, &p) == 1 && h.len == 0 && h.type == SP_G_THAW, "empty payload");
	sp_buf_free(&b);
}

static void frames_are_little_endian(void)
{
	static const unsigned char want[] = { 2, 0, 0, 0, 16, 1, 0, 0, 4, 3, 2, 1, 'h', 'i' };
	struct sp_buf b;

	sp_buf_init(&b, 64);
	sp_frame_put(&b, 0x01020304, SP_G_EXEC, 1, "hi", 2);
	ok(sp_buf_len(&b) == sizeof want && memcmp(sp_buf_head(&b), want, sizeof want) == 0,
	   "bytes on the wire are those of the protocol");
	sp_buf_free(&b);
}

static void frames_cut_short(void)
{
	struct sp_buf whole, b;
	struct sp_g_header h;
	const unsigned char *p;
	bool good = true;

	sp_buf_init(&whole, 256);
	sp_frame_put(&whole, 1, SP_G_DATA, 0, "0123456789", 10);
	for (size_t n = 0; n < sp_buf_len(&whole); n++) {
		sp_buf_init(&b, 256);
		sp_buf_put(&b, sp_buf_head(&whole), n);
		good = good && sp_frame_peek(&b, &h, &p) == 0;
		sp_buf_free(&b);
	}
	ok(good, "no prefix of a frame is a frame");
	sp_buf_free(&whole);
}

static void frames_refused(void)
{
	struct sp_buf b;
	struct sp_g_header h;
	const unsigned char *p;
	unsigned char raw[SP_G_HEADER] = { 1, 0, 1, 0, 16 };
	char *big = calloc(1, SP_G_PAYLOAD + 1);

	sp_buf_init(&b, 256);
	sp_buf_put(&b, raw, sizeof raw);
	ok(sp_frame_peek(&b, &h, &p) == -1, "a length beyond the bound is refused at once");
	sp_buf_free(&b);
	memset(raw, 0, sizeof raw);
	raw[6] = 1;
	sp_buf_put(&b, raw, sizeof raw);
	ok(sp_frame_peek(&b, &h, &p) == -1, "reserved bits are refused");
	sp_buf_free(&b);
	ok(!sp_frame_put(&b, 1, SP_G_DATA, 0, big, 300) && sp_buf_len(&b) == 0,
	   "no room: nothing put");
	sp_buf_init(&b, 1u << 20);
	ok(sp_frame_put(&b, 1, SP_G_DATA, 0, big, SP_G_PAYLOAD), "the largest payload fits");
	ok(!sp_frame_put(&b, 1, SP_G_DATA, 0, big, SP_G_PAYLOAD + 1), "one more byte does not");
	ok(!sp_frame_put_data(&b, 1, 0, 0, big, SP_G_PAYLOAD - 7), "nor data with its offset");
	ok(sp_frame_put_data(&b, 1, 0, 0, big, SP_G_PAYLOAD - 8), "data of the largest size");
	sp_buf_free(&b);
	free(big);
}

static void fields_round_trip(void)
{
	unsigned char mem[256];
	struct sp_fields f;
	const unsigned char *d;
	uint32_t n, pos = 0, len, args = 0;
	uint8_t tag;
	char text[8];

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_str(&f, SP_T_ARG, "echo");
	sp_fields_add_str(&f, SP_T_ARG, "");
	sp_fields_add_str(&f, SP_T_USER, NULL);
	sp_fields_add_u8(&f, SP_T_TTY, 1);
	sp_fields_add_u32(&f, SP_T_ROWS, 0xfffffffe);
	sp_fields_add_u64(&f, SP_T_OFF_OUT, 1ull << 40);
	ok(sp_fields_end(&f) == 0, "fields fit");
	len = (uint32_t)f.len;
	ok(sp_fields_check(mem, len) == 0, "and are well formed");
	ok(sp_fields_num(mem, len, SP_T_ROWS, 0) == 0xfffffffe, "u32 is not sign-extended");
	ok(sp_fields_num(mem, len, SP_T_OFF_OUT, 0) == 1ull << 40, "u64");
	ok(sp_fields_num(mem, len, SP_T_TTY, 0) == 1, "u8");
	ok(sp_fields_num(mem, len, SP_T_COLS, 99) == 99, "default for an absent number");
	ok(!sp_fields_find(mem, len, SP_T_USER, &d, &n), "NULL text is not added");
	ok(sp_fields_text(mem, len, SP_T_ARG, text, sizeof text) == 0, "text is found");
	is_str(text, "echo", "the first of several");
	ok(sp_fields_text(mem, len, SP_T_ARG, text, 4) == -1, "text too long for its place");
	while (sp_fields_next(mem, len, &pos, &tag, &d, &n) == 1)
		args += tag == SP_T_ARG;
	ok(args == 2, "repeated fields are iterated");
}

static void fields_refused(void)
{
	unsigned char mem[24];
	struct sp_fields f;
	const unsigned char *d;
	uint32_t n;
	char text[8];
	bool good = true;

	sp_fields_begin(&f, mem, 8);
	sp_fields_add(&f, SP_T_ARG, "abcd", 4);
	ok(sp_fields_end(&f) == -1 && f.len == 0, "overflow is remembered");
	sp_fields_add(&f, SP_T_ARG, "", 0);
	ok(sp_fields_end(&f) == -1, "and not forgotten");

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add(&f, SP_T_PATH, "a\0b", 3);
	ok(sp_fields_text(mem, (uint32_t)f.len, SP_T_PATH, text, sizeof text) == -1,
	   "a NUL in text is refused");
	for (uint32_t i = 1; i < f.len; i++)
		good = good && sp_fields_check(mem, i) == -1;
	ok(good, "no cut of a field is well formed");
	mem[1] = 0xff;
	mem[4] = 0xff;
	ok(sp_fields_check(mem, (uint32_t)f.len) == -1, "a length over the end is refused");
	ok(!sp_fields_find(mem, (uint32_t)f.len, SP_T_PATH, &d, &n), "and finds nothing");
	ok(sp_fields_check(NULL, 0) == 0, "no fields at all are fine");
	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add(&f, SP_T_VALUE, "123456789", 9);
	ok(sp_fields_num(mem, (uint32_t)f.len, SP_T_VALUE, 5) == 5, "nine bytes are no number");
}

int main(void)
{
	frames_round_trip();
	frames_are_little_endian();
	frames_cut_short();
	frames_refused();
	fields_round_trip();
	fields_refused();
	return tap_done();
}
