/* SPDX-License-Identifier: Apache-2.0 */
/* JSON values. cJSON sits behind this header and nowhere else.
 *
 * Contract: a struct sp_json is owned by whoever got it from parse, new or copy; get functions
 * lend (valid while the parent lives); add functions take ownership of the child. Parsing is
 * strict: one value, no trailing bytes, no duplicate keys, depth <= 64. Keys are case-sensitive.
 * 64-bit integers travel as strings (a double holds only 2^53).
 */
#ifndef SP_TEXT_JSON_H
#define SP_TEXT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct sp_json;

#define SP_JSON_DEPTH 64

/* NULL where text is one strict JSON value, else what is wrong at byte *at. */
const char *sp_json_scan(const char *text, size_t n, size_t *at);
struct sp_json *sp_json_parse(const char *text, size_t n, struct sp_err *e); /* NULL on error */
void sp_json_free(struct sp_json **j); /* for sp_auto_json; *j may be NULL */
#define sp_auto_json __attribute__((cleanup(sp_json_free))) struct sp_json
struct sp_json *sp_json_copy(const struct sp_json *j);
void sp_json_print(const struct sp_json *j, struct sp_str *out); /* one line, no newline */

struct sp_json *sp_json_new_object(void);
struct sp_json *sp_json_new_array(void);
struct sp_json *sp_json_new_string(const char *s);

/* Objects: put replaces a key of the same name. The object or array made by put_* is lent back. */
void sp_json_put(struct sp_json *o, const char *key, struct sp_json *take);
void sp_json_put_str(struct sp_json *o, const char *key, const char *s); /* NULL: key is not put */
void sp_json_put_i64(struct sp_json *o, const char *key, int64_t v);     /* as a string */
void sp_json_put_int(struct sp_json *o, const char *key, int v);         /* as a number */
void sp_json_put_bool(struct sp_json *o, const char *key, bool v);
struct sp_json *sp_json_put_object(struct sp_json *o, const char *key);
struct sp_json *sp_json_put_array(struct sp_json *o, const char *key);
void sp_json_del(struct sp_json *o, const char *key);

const struct sp_json *sp_json_get(const struct sp_json *o, const char *key); /* NULL: none */
struct sp_json *sp_json_get_mut(struct sp_json *o, const char *key);
const char *sp_json_str(const struct sp_json *o, const char *key); /* NULL: none or no string */
int64_t sp_json_i64(const struct sp_json *o, const char *key, int64_t dflt); /* string or number */
bool sp_json_bool(const struct sp_json *o, const char *key, bool dflt);

/* Arrays (and, for each, objects in order). */
size_t sp_json_len(const struct sp_json *a);
const struct sp_json *sp_json_at(const struct sp_json *a, size_t i);
struct sp_json *sp_json_at_mut(struct sp_json *a, size_t i);
/* Out of the array, and the caller's; NULL: it is empty. */
struct sp_json *sp_json_take_first(struct sp_json *a);
const char *sp_json_key_at(const struct sp_json *o, size_t i); /* NULL in an array */
/* The same without counting from the front each time. */
const struct sp_json *sp_json_first(const struct sp_json *a);
const struct sp_json *sp_json_next(const struct sp_json *v);
const char *sp_json_key(const struct sp_json *v); /* NULL in an array */
void sp_json_push(struct sp_json *a, struct sp_json *take);
void sp_json_push_str(struct sp_json *a, const char *s);
const char *sp_json_value_str(const struct sp_json *v); /* NULL if not a string */
bool sp_json_is_object(const struct sp_json *v);
bool sp_json_is_array(const struct sp_json *v);
bool sp_json_is_null(const struct sp_json *v); /* the value null; not an absent one */

#endif
