/* SPDX-License-Identifier: Apache-2.0 */
#include "text/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/utf8.h"

#define EXACT 9007199254740992.0 /* 2^53: up to here a double holds every integer */

/* A struct sp_json is a cJSON under a name that other modules cannot look into. */
static cJSON *raw(const struct sp_json *j)
{
	return (cJSON *)(uintptr_t)j;
}

static struct sp_json *wrap(cJSON *c)
{
	return (struct sp_json *)c;
}

/* cJSON drops what it cannot allocate without a word: with these it always can. */
static void use_hooks(void)
{
	static bool done;
	cJSON_Hooks h = { .malloc_fn = sp_xmalloc, .free_fn = free };

	if (!done)
		cJSON_InitHooks(&h);
	done = true;
}

void sp_json_free(struct sp_json **j)
{
	cJSON_Delete(raw(*j));
	*j = NULL;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *twin_key(const cJSON *o)
{
	sp_auto_free const char **keys = NULL;
	size_t n = 0, i = 0;
	const cJSON *c;

	cJSON_ArrayForEach(c, o) n++;
	if (n < 2)
		return NULL;
	keys = sp_xcalloc(n, sizeof *keys);
	cJSON_ArrayForEach(c, o) keys[i++] = c->string;
	qsort(keys, n, sizeof *keys, by_text);
	for (i = 1; i < n; i++) {
		if (strcmp(keys[i - 1], keys[i]) == 0)
			return keys[i];
	}
	return NULL;
}

/* Recursion is bounded: the scan has refused what is deeper than SP_JSON_DEPTH. */
static const char *find_twin(const cJSON *v)
{
	const char *twin = cJSON_IsObject(v) ? twin_key(v) : NULL;
	const cJSON *c;

	cJSON_ArrayForEach(c, v)
	{
		if (twin)
			break;
		if (cJSON_IsObject(c) || cJSON_IsArray(c))
			twin = find_twin(c);
	}
	return twin;
}

struct sp_json *sp_json_parse(const char *text, size_t n, struct sp_err *e)
{
	sp_auto_json *j = NULL;
	const char *twin;
	size_t at;
	const char *why = sp_json_scan(text, n, &at);

	if (why) {
		sp_fail(e, SP_FAIL, 0, "bad JSON at byte %zu: %s", at, why);
		return NULL;
	}
	use_hooks();
	j = wrap(cJSON_ParseWithLengthOpts(text, n, NULL, 0));
	if (!j) {
		sp_fail(e, SP_FAIL, 0, "bad JSON");
		return NULL;
	}
	twin = find_twin(raw(j));
	if (twin) {
		sp_fail(e, SP_FAIL, 0, "bad JSON: key '%.64s' comes twice", twin);
		return NULL;
	}
	return sp_take_ptr(&j);
}

struct sp_json *sp_json_copy(const struct sp_json *j)
{
	use_hooks();
	return wrap(cJSON_Duplicate(raw(j), 1));
}

/* cJSON writes everything but C0 as it is; what a terminal would obey is written as \uXXXX. */
void sp_json_print(const struct sp_json *j, struct sp_str *out)
{
	char *text;
	size_t n;

	use_hooks();
	text = cJSON_PrintUnformatted(raw(j));
	n = text ? strlen(text) : 0;
	for (size_t i = 0, len; i < n; i += len) {
		uint32_t cp = 0;

		len = sp_utf8_next(text + i, n - i, &cp);
		if (len && sp_utf8_is_unsafe(cp))
			sp_str_addf(out, "\\u%04x", (unsigned)cp);
		else
			sp_str_addn(out, text + i, len ? len : (len = 1));
	}
	free(text);
}

struct sp_json *sp_json_new_object(void)
{
	use_hooks();
	return wrap(cJSON_CreateObject());
}

struct sp_json *sp_json_new_array(void)
{
	use_hooks();
	return wrap(cJSON_CreateArray());
}

/* JSON is UTF-8 only: what is not becomes U+FFFD. */
struct sp_json *sp_json_new_string(const char *s)
{
	sp_auto_str good = SP_STR_INIT;
	size_t n = strlen(s);

	use_hooks();
	for (size_t i = 0, len; i < n; i += len) {
		uint32_t cp;

		len = sp_utf8_next(s + i, n - i, &cp);
		if (len)
			sp_str_addn(&good, s + i, len);
		else
			sp_str_add(&good, "\xef\xbf\xbd");
		len = len ? len : 1;
	}
	return wrap(cJSON_CreateString(good.p));
}

void sp_json_put(struct sp_json *o, const char *key, struct sp_json *take)
{
	sp_json_del(o, key);
	cJSON_AddItemToObject(raw(o), key, raw(take));
}

void sp_json_put_str(struct sp_json *o, const char *key, const char *s)
{
	if (s)
		sp_json_put(o, key, sp_json_new_string(s));
}

void sp_json_put_i64(struct sp_json *o, const char *key, int64_t v)
{
	sp_auto_free char *text = sp_xasprintf("%lld", (long long)v);

	sp_json_put_str(o, key, text);
}

void sp_json_put_int(struct sp_json *o, const char *key, int v)
{
	use_hooks();
	sp_json_put(o, key, wrap(cJSON_CreateNumber(v)));
}

void sp_json_put_bool(struct sp_json *o, const char *key, bool v)
{
	use_hooks();
	sp_json_put(o, key, wrap(cJSON_CreateBool(v)));
}

struct sp_json *sp_json_put_object(struct sp_json *o, const char *key)
{
	struct sp_json *child = sp_json_new_object();

	sp_json_put(o, key, child);
	return child;
}

struct sp_json *sp_json_put_array(struct sp_json *o, const char *key)
{
	struct sp_json *child = sp_json_new_array();

	sp_json_put(o, key, child);
	return child;
}

void sp_json_del(struct sp_json *o, const char *key)
{
	cJSON_DeleteItemFromObjectCaseSensitive(raw(o), key);
}

struct sp_json *sp_json_get_mut(struct sp_json *o, const char *key)
{
	if (!cJSON_IsObject(raw(o)))
		return NULL;
	return wrap(cJSON_GetObjectItemCaseSensitive(raw(o), key));
}

const struct sp_json *sp_json_get(const struct sp_json *o, const char *key)
{
	return sp_json_get_mut((struct sp_json *)(uintptr_t)o, key);
}

const char *sp_json_str(const struct sp_json *o, const char *key)
{
	return sp_json_value_str(sp_json_get(o, key));
}

int64_t sp_json_i64(const struct sp_json *o, const char *key, int64_t dflt)
{
	const cJSON *c = raw(sp_json_get(o, key));
	char *end;
	long long v;

	if (cJSON_IsNumber(c)) {
		double d = cJSON_GetNumberValue(c);

		return d >= -EXACT && d <= EXACT && (double)(int64_t)d == d ? (int64_t)d : dflt;
	}
	if (!c || !cJSON_IsString(c) || !c->valuestring[0] ||
	    strspn(c->valuestring, "-0123456789") != strlen(c->valuestring))
		return dflt;
	errno = 0;
	v = strtoll(c->valuestring, &end, 10);
	return errno || *end ? dflt : v;
}

bool sp_json_bool(const struct sp_json *o, const char *key, bool dflt)
{
	const cJSON *c = raw(sp_json_get(o, key));

	return cJSON_IsBool(c) ? cJSON_IsTrue(c) : dflt;
}

size_t sp_json_len(const struct sp_json *a)
{
	return a ? (size_t)cJSON_GetArraySize(raw(a)) : 0;
}

const struct sp_json *sp_json_at(const struct sp_json *a, size_t i)
{
	if (!a || i > INT32_MAX)
		return NULL;
	return wrap(cJSON_GetArrayItem(raw(a), (int)i));
}

struct sp_json *sp_json_at_mut(struct sp_json *a, size_t i)
{
	return wrap(raw(sp_json_at(a, i)));
}

struct sp_json *sp_json_take_first(struct sp_json *a)
{
	cJSON *first = raw(a) ? raw(a)->child : NULL;

	return first ? wrap(cJSON_DetachItemViaPointer(raw(a), first)) : NULL;
}

const char *sp_json_key_at(const struct sp_json *o, size_t i)
{
	return sp_json_key(sp_json_at(o, i));
}

const struct sp_json *sp_json_first(const struct sp_json *a)
{
	return sp_json_is_array(a) || sp_json_is_object(a) ? wrap(raw(a)->child) : NULL;
}

const struct sp_json *sp_json_next(const struct sp_json *v)
{
	return v ? wrap(raw(v)->next) : NULL;
}

const char *sp_json_key(const struct sp_json *v)
{
	return v ? raw(v)->string : NULL;
}

void sp_json_push(struct sp_json *a, struct sp_json *take)
{
	cJSON_AddItemToArray(raw(a), raw(take));
}

void sp_json_push_str(struct sp_json *a, const char *s)
{
	sp_json_push(a, sp_json_new_string(s));
}

const char *sp_json_value_str(const struct sp_json *v)
{
	return v && cJSON_IsString(raw(v)) ? raw(v)->valuestring : NULL;
}

bool sp_json_is_object(const struct sp_json *v)
{
	return cJSON_IsObject(raw(v));
}

bool sp_json_is_array(const struct sp_json *v)
{
	return cJSON_IsArray(raw(v));
}

bool sp_json_is_null(const struct sp_json *v)
{
	return cJSON_IsNull(raw(v));
}
