/* SPDX-License-Identifier: Apache-2.0 */
/* Ids and names: what is one, what is not, and that none is both. */
#include "tap.h"
#include "text/id.h"

static void ids(void)
{
	char a[SP_ID_SIZE], b[SP_ID_SIZE];

	sp_id_make(SP_SANDBOX, a);
	sp_id_make(SP_SANDBOX, b);
	ok(a[0] == 's' && strlen(a) == SP_ID_LEN && strcmp(a, b) != 0, "made, and made anew");
	ok(sp_id_is_valid(a, SP_SANDBOX) && !sp_id_is_valid(a, SP_CHECKPOINT), "valid of its kind");
	ok(sp_id_looks_like(a) && !sp_name_is_valid(a), "an id is no name");
	ok(!sp_id_looks_like(""), "empty");
	ok(!sp_id_looks_like("saaaaaaaaaaaaaaaaaaa"), "20 characters");
	ok(!sp_id_looks_like("saaaaaaaaaaaaaaaaaaaaa"), "22 characters");
	ok(!sp_id_looks_like("1aaaaaaaaaaaaaaaaaaaa"), "a digit first");
	ok(!sp_id_looks_like("sAaaaaaaaaaaaaaaaaaaa"), "a capital");
	ok(!sp_id_looks_like("s/aaaaaaaaaaaaaaaaaaa"), "a slash");
	ok(!sp_id_looks_like("s\xc3\xa4"
			     "aaaaaaaaaaaaaaaaaa"),
	   "not ASCII");
}

static void names(void)
{
	static const char *const good[] = {
		"a",
		"0",
		"debian",
		"debian-12",
		"a-",
		"1aaaaaaaaaaaaaaaaaaaa",
		"saaaaaaaaaa-aaaaaaaaa",
		"012345678901234567890123456789012345678901234567890123456789012",
	};
	static const char *const bad[] = {
		"",
		"-a",
		"A",
		"a b",
		"a.b",
		"a/b",
		"..",
		".",
		"a_b",
		"a\n",
		"\xc3\xa4",
		"saaaaaaaaaaaaaaaaaaaa",
		"zaaaaaaaaaaaaaaaaaaaa",
		"0123456789012345678901234567890123456789012345678901234567890123",
	};

	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		ok(sp_name_is_valid(good[i]), "name '%s'", good[i]);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ok(!sp_name_is_valid(bad[i]), "no name: number %zu", i);
}

int main(void)
{
	ids();
	names();
	return tap_done();
}
