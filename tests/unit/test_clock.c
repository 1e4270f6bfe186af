/* SPDX-License-Identifier: Apache-2.0 */
/* Times as text and back, the boot id, randomness. */
#include <stdint.h>

#include "sys/clock.h"
#include "tap.h"

#define S INT64_C(1000000000)

static void spans(void)
{
	static const struct {
		const char *text;
		int64_t ns; /* -1: refused */
	} t[] = {
		{ "90s", 90 * S },
		{ "5m", 300 * S },
		{ "2h", 7200 * S },
		{ "1d", 86400 * S },
		{ "7", 7 * S },
		{ "0", 0 },
		{ "9223372036", 9223372036 * S },
		{ "9223372037", -1 },
		{ "", -1 },
		{ "s", -1 },
		{ "-5s", -1 },
		{ "5x", -1 },
		{ "5ss", -1 },
		{ "5 s", -1 },
		{ " 5s", -1 },
		{ "1.5s", -1 },
		{ "99999999999999999999", -1 },
		{ "106752d", -1 },
		{ "106751d", 106751 * (86400 * S) },
	};

	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		int64_t ns = -1;
		int rc = sp_clock_parse_span(t[i].text, &ns);

		ok(rc == (t[i].ns < 0 ? -1 : 0) && ns == t[i].ns, "span '%s'", t[i].text);
	}
}

static void format(void)
{
	char out[32];

	sp_clock_format(0, out);
	is_str(out, "1970-01-01T00:00:00.000Z", "the beginning");
	sp_clock_format(1769860800 * S + 123456789, out);
	is_str(out, "2026-01-31T12:00:00.123Z", "milliseconds");
	sp_clock_format(-1, out);
	is_str(out, "1969-12-31T23:59:59.999Z", "before the beginning");
	sp_clock_format(INT64_MAX, out);
	is_str(out, "2262-04-11T23:47:16.854Z", "the last");
	sp_clock_format(INT64_MIN, out);
	is_str(out, "1677-09-21T00:12:43.145Z", "the first");
}

int main(void)
{
	int64_t a = sp_clock_mono(), b = sp_clock_mono();
	unsigned char r[2][32];
	char text[101];
	int seen[256] = { 0 }, kinds = 0;

	spans();
	format();
	ok(b >= a && sp_clock_real() > 1700000000 * S, "clocks go");
	ok(strlen(sp_clock_boot_id()) == 36 && sp_clock_boot_id()[8] == '-', "boot id");
	sp_random(r[0], sizeof r[0]);
	sp_random(r[1], sizeof r[1]);
	ok(memcmp(r[0], r[1], sizeof r[0]) != 0, "random");
	for (int i = 0; i < 100; i++) {
		sp_random_text(text, 100);
		for (int k = 0; k < 100; k++)
			kinds += !seen[(unsigned char)text[k]]++;
	}
	ok(kinds == 36 && strlen(text) == 100 &&
		   strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789") == 100,
	   "random text has 36 letters");
	return tap_done();
}
