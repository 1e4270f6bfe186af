/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: strict in what is read, exact in what is kept. */
#include <stdint.h>
#include <stdlib.h>

#include "tap.h"
#include "text/json.h"

static void parses(const char *text, size_t n, bool good, const char *what)
{
	struct sp_err e = { 0 };
	sp_auto_json *j = sp_json_parse(text, n, &e);

	ok((j != NULL) == good && (good || e.code == SP_FAIL), "%s %s",
	   good ? "taken:" : "refused:", what);
	if (!j && good)
		printf("# %s\n", e.msg);
}

#define GOOD(t) parses(t, sizeof(t) - 1, true, #t)
#define BAD(t) parses(t, sizeof(t) - 1, false, #t)

static void grammar(void)
{
	GOOD("{}");
	GOOD(" [ ] \n");
	GOOD("null");
	GOOD("-0.5e+10");
	GOOD("\"\\u00e4 \\ud83d\\ude00 \\\"\\\\\\/\\b\\f\\n\\r\\t\"");
	GOOD("{\"a\":1,\"A\":2,\"b\":{\"a\":[true,false,null,{}]}}");
	GOOD("\"\xc3\xa4\"");
	BAD("");
	BAD(" ");
	BAD("{} x");
	BAD("{}{}");
	BAD("{}\0");
	BAD("\xef\xbb\xbf{}");
	BAD("[1,]");
	BAD("[,1]");
	BAD("[1 2]");
	BAD("{\"a\":1,}");
	BAD("{\"a\"}");
	BAD("{\"a\":}");
	BAD("{a:1}");
	BAD("{\"a\":1 \"b\":2}");
	BAD("[1}");
	BAD("[[]");
	BAD("01");
	BAD("1.");
	BAD(".5");
	BAD("+1");
	BAD("-");
	BAD("1e");
	BAD("0x10");
	BAD("NaN");
	BAD("nul");
	BAD("True");
	BAD("'a'");
	BAD("\"a");
	BAD("\"a\\");
	BAD("\"\\x41\"");
	BAD("\"\\u00\"");
	BAD("\"\\ud83d\"");
	BAD("\"\\ude00\"");
	BAD("\"\\u0000\"");
	BAD("\"a\nb\"");
	BAD("\"a\0b\"");
	BAD("\"\xff\"");
	BAD("\"\xc3\"");
	BAD("{\"a\":1,\"a\":2}");
	BAD("{\"x\":[{\"b\":1,\"c\":2,\"b\":3}]}");
	BAD("{\"\\u0061\":1,\"a\":2}");
	BAD("/* c */ 1");
	BAD("1111111111111111111111111111111111111111111111111111111111111111111111");
}

static void depth(void)
{
	char text[2 * (SP_JSON_DEPTH + 1)];

	memset(text, '[', SP_JSON_DEPTH + 1);
	memset(text + SP_JSON_DEPTH + 1, ']', SP_JSON_DEPTH + 1);
	parses(text + 1, 2 * (size_t)SP_JSON_DEPTH, true, "64 deep");
	parses(text, sizeof text, false, "65 deep");
}

static void wide(void)
{
	sp_auto_str s = SP_STR_INIT;
	struct sp_err e;
	struct sp_json *j;

	sp_str_addc(&s, '{');
	for (int i = 0; i < 50000; i++)
		sp_str_addf(&s, "%s\"k%d\":0", i ? "," : "", i);
	sp_str_add(&s, "}");
	j = sp_json_parse(s.p, s.len, &e);
	ok(j && sp_json_len(j) == 50000, "50,000 keys, and no time for it");
	sp_json_free(&j);
}

static void numbers(void)
{
	static const char text[] =
		"{\"max\":\"9223372036854775807\",\"min\":\"-9223372036854775808\",\"over\":"
		"\"9223372036854775808\",\"n\":9007199254740991,\"frac\":1.5,\"huge\":1e300,"
		"\"beyond\":9007199254740994,"
		"\"text\":\"12x\",\"none\":\"\",\"plus\":\"+1\",\"space\":\" 1\",\"t\":true}";
	struct sp_err e;
	sp_auto_json *j = sp_json_parse(text, sizeof text - 1, &e);

	ok(sp_json_i64(j, "max", 7) == INT64_MAX && sp_json_i64(j, "min", 7) == INT64_MIN,
	   "64 bits");
	ok(sp_json_i64(j, "over", 7) == 7, "one more is not a number");
	ok(sp_json_i64(j, "n", 7) == 9007199254740991, "a number");
	ok(sp_json_i64(j, "frac", 7) == 7 && sp_json_i64(j, "huge", 7) == 7 &&
		   sp_json_i64(j, "beyond", 7) == 7,
	   "no whole number that a double holds for sure");
	ok(sp_json_i64(j, "text", 7) == 7 && sp_json_i64(j, "none", 7) == 7 &&
		   sp_json_i64(j, "plus", 7) == 7 && sp_json_i64(j, "space", 7) == 7 &&
		   sp_json_i64(j, "t", 7) == 7 && sp_json_i64(j, "absent", 7) == 7,
	   "other things are not numbers");
	ok(sp_json_bool(j, "t", false) && sp_json_bool(j, "n", true), "truth");
}

static void building(void)
{
	struct sp_json *o = sp_json_new_object(), *a, *copy;
	sp_auto_str s = SP_STR_INIT;

	sp_json_put_str(o, "name", "x");
	sp_json_put_str(o, "name", "y\x1b\xff\xe2\x80\xae");
	sp_json_put_str(o, "nothing", NULL);
	sp_json_put_i64(o, "big", INT64_MAX);
	sp_json_put_int(o, "code", 5);
	sp_json_put_bool(o, "on", true);
	a = sp_json_put_array(o, "list");
	sp_json_push_str(a, "1");
	sp_json_push(a, sp_json_new_object());
	sp_json_put_str(sp_json_put_object(o, "in"), "k", "v");
	sp_json_print(o, &s);
	is_str(s.p,
	       "{\"name\":\"y\\u001b\xef\xbf\xbd\\u202e\",\"big\":\"9223372036854775807\",\"code\":"
	       "5,"
	       "\"on\":true,\"list\":[\"1\",{}],\"in\":{\"k\":\"v\"}}",
	       "built, replaced, made safe");
	copy = sp_json_copy(o);
	sp_json_del(o, "name");
	ok(!sp_json_get(o, "name") && sp_json_get(copy, "name"), "a copy stands alone");
	sp_json_free(&o);
	is_str(sp_json_str(sp_json_get(copy, "in"), "k"), "v", "whole");
	sp_json_put_str(sp_json_get_mut(copy, "in"), "k", "w");
	is_str(sp_json_str(sp_json_get(copy, "in"), "k"), "w", "changed in place");
	sp_json_free(&copy);
	sp_json_free(&copy);
	ok(!copy, "freed twice: harmless");
}

static void reading(void)
{
	static const char text[] = "{\"Key\":\"v\",\"a\":[1,\"two\"],\"n\":null}";
	struct sp_err e;
	sp_auto_json *j = sp_json_parse(text, sizeof text - 1, &e);
	const struct sp_json *a = sp_json_get(j, "a"), *v;
	int n = 0;

	ok(!sp_json_get(j, "key") && sp_json_get(j, "Key"), "keys have a case");
	ok(!sp_json_str(j, "a") && !sp_json_str(j, "none"), "no string");
	ok(sp_json_is_array(a) && !sp_json_is_object(a) && sp_json_is_object(j), "what it is");
	ok(sp_json_len(a) == 2 && sp_json_len(j) == 3 && sp_json_len(NULL) == 0, "how long");
	is_str(sp_json_value_str(sp_json_at(a, 1)), "two", "an element");
	ok(!sp_json_at(a, 2) && !sp_json_at(NULL, 0) && !sp_json_at(a, SIZE_MAX), "beyond the end");
	is_str(sp_json_key_at(j, 1), "a", "a key in order");
	ok(!sp_json_key_at(a, 0), "an element has none");
	for (v = sp_json_first(j); v; v = sp_json_next(v))
		n += sp_json_key(v)[0] != '\0';
	ok(n == 3 && !sp_json_first(NULL) && !sp_json_get(a, "x") && !sp_json_get(NULL, "x"),
	   "each");
}

int main(void)
{
	grammar();
	depth();
	wide();
	numbers();
	building();
	reading();
	return tap_done();
}
