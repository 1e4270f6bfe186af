/* SPDX-License-Identifier: Apache-2.0 */
/* Strings grow, stay terminated, and hand their memory over. */
#include <stdlib.h>

#include "base/err.h"
#include "base/str.h"
#include "tap.h"

static void strings(void)
{
	struct sp_str s = SP_STR_INIT;
	char *taken;

	ok(s.p[0] == '\0' && s.len == 0, "starts empty and terminated");
	sp_str_add(&s, "abc");
	sp_str_addc(&s, 'd');
	sp_str_addn(&s, "e\0f", 3);
	ok(s.len == 7 && memcmp(s.p, "abcde\0f", 8) == 0, "holds a NUL and counts it");
	sp_str_clear(&s);
	is_str(s.p, "", "clear empties");
	sp_str_addf(&s, "%s-%d", "x", 42);
	is_str(s.p, "x-42", "formats");
	for (int i = 0; i < 10000; i++)
		sp_str_addf(&s, "%d,", i);
	ok(s.len == 4 + 48890 && s.p[s.len] == '\0' && s.cap > s.len, "grows");
	taken = sp_str_take(&s);
	ok(strlen(taken) == 48894 && s.len == 0 && s.cap == 0, "take hands over");
	free(taken);
	taken = sp_str_take(&s);
	is_str(taken, "", "taking an empty one gives an empty text");
	free(taken);
	sp_str_addn(&s, NULL, 0);
	ok(s.len == 0, "adding nothing");
	sp_str_free(&s);
	sp_str_free(&s);
	ok(s.cap == 0, "freeing twice is harmless");
	ok(sp_str_has_prefix("space-ls", "space-") && !sp_str_has_prefix("spac", "space-"),
	   "prefix");
}

static void pointers(void)
{
	sp_auto_free char *a = sp_xasprintf("%05d", 7);
	sp_auto_free char *b = sp_take_ptr(&a);

	ok(!a, "take leaves NULL behind");
	is_str(b, "00007", "and hands the value over");
}

static void errors(void)
{
	struct sp_err e;
	char big[1000];

	ok(sp_fail(&e, SP_BUSY, 0, "lock is held") == -1 && e.code == SP_BUSY, "fail gives -1");
	sp_wrap(&e, "pause '%s'", "box1");
	is_str(e.msg, "pause 'box1': lock is held", "wrap puts itself before");
	sp_fail(&e, SP_FAIL, 2, "open '%s'", "x");
	is_str(e.msg, "open 'x': No such file or directory", "errno is told");
	memset(big, 'y', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	sp_fail(&e, SP_FAIL, 2, "%s", big);
	ok(strlen(e.msg) == sizeof e.msg - 1, "a long message is cut");
	sp_wrap(&e, "%s", big);
	ok(strlen(e.msg) == sizeof e.msg - 1, "a long wrap too");
	is_str(sp_code_name(5), "busy", "code name");
	is_str(sp_code_name(99), "failed", "no such code");
}

int main(void)
{
	strings();
	pointers();
	errors();
	return tap_done();
}
