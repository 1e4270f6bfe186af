/* SPDX-License-Identifier: Apache-2.0 */
#include "image/config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "image/digest.h"

#define TEXT_MAX 32768
#define LIST_MAX 1024
#define PORTS_MAX 256

static const char *const lists[] = { "env", "entrypoint", "cmd", "ports" };

struct sp_json *sp_config_new(void)
{
	struct sp_json *c = sp_json_new_object();

	for (size_t i = 0; i < SP_NELEM(lists); i++)
		sp_json_put_array(c, lists[i]);
	sp_json_put_str(c, "user", "");
	sp_json_put_str(c, "workdir", "");
	return c;
}

static bool has_control(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return true;
	return false;
}

static bool env_is_valid(const char *s)
{
	const char *eq = strchr(s, '=');

	for (const char *p = s; eq && p < eq; p++)
		if (isspace((unsigned char)*p) || (unsigned char)*p < 0x20)
			return false;
	return eq && eq > s;
}

/* N/tcp; N is a port. */
static bool port_is_valid(const char *s)
{
	char *end;
	long n;

	if (*s < '1' || *s > '9')
		return false;
	n = strtol(s, &end, 10);
	return n >= 1 && n <= 65535 &&
	       (!strcmp(end, "/tcp") || !strcmp(end, "/udp") || !strcmp(end, "/sctp"));
}

/* Copies a list of texts; check (may be NULL) says which are taken, strict makes the others an
 * error. Absent or null: empty. */
static int copy_list(struct sp_json *out, const char *key, const struct sp_json *from,
		     bool (*check)(const char *), bool strict, struct sp_err *e)
{
	struct sp_json *to = sp_json_put_array(out, key);
	size_t n = 0;

	if (!from || sp_json_is_null(from))
		return 0;
	if (!sp_json_is_array(from))
		return sp_fail(e, SP_FAIL, 0, "the image's config: '%s' is no list", key);
	for (const struct sp_json *v = sp_json_first(from); v; v = sp_json_next(v)) {
		const char *s = sp_json_value_str(v);

		if (!s || strlen(s) > TEXT_MAX || ++n > LIST_MAX)
			return sp_fail(e, SP_FAIL, 0,
				       "the image's config: '%s' is no list of at "
				       "most %d texts",
				       key, LIST_MAX);
		if (!check || check(s))
			sp_json_push_str(to, s);
		else if (strict)
			return sp_fail(e, SP_FAIL, 0, "the image's config: bad text in '%s'", key);
	}
	return 0;
}

static int copy_text(struct sp_json *out, const char *key, const struct sp_json *from, size_t max,
		     struct sp_err *e)
{
	const char *s = from && !sp_json_is_null(from) ? sp_json_value_str(from) : "";

	if (!s || strlen(s) > max || has_control(s))
		return sp_fail(e, SP_FAIL, 0, "the image's config: bad '%s'", key);
	sp_json_put_str(out, key, s);
	return 0;
}

/* "80", "80/tcp", "8000-8003/udp" become single ports with their protocol. */
static void add_port(struct sp_json *to, const char *s)
{
	const char *slash = strchrnul(s, '/');
	char one[32], *end;
	long from = strtol(s, &end, 10), last = from;

	if (*end == '-')
		last = strtol(end + 1, &end, 10);
	if (end != slash || from < 1 || last > 65535 || last - from >= PORTS_MAX)
		return;
	for (; from <= last && sp_json_len(to) < PORTS_MAX; from++) {
		snprintf(one, sizeof one, "%ld%.8s", from, *slash ? slash : "/tcp");
		if (port_is_valid(one))
			sp_json_push_str(to, one);
	}
}

static int check_size(struct sp_json *c, struct sp_err *e)
{
	sp_auto_str text = SP_STR_INIT;

	sp_json_print(c, &text);
	if (text.len > SP_CONFIG_MAX)
		return sp_fail(e, SP_FAIL, 0, "the image's config is larger than %d bytes",
			       SP_CONFIG_MAX);
	return 0;
}

struct sp_json *sp_config_from_oci(const struct sp_json *config, struct sp_err *e)
{
	sp_auto_json *c = sp_config_new();
	const struct sp_json *ports;

	if (!config || sp_json_is_null(config))
		return sp_take_ptr(&c);
	if (!sp_json_is_object(config)) {
		sp_fail(e, SP_FAIL, 0, "the image's config is no object");
		return NULL;
	}
	if (copy_list(c, "env", sp_json_get(config, "Env"), env_is_valid, false, e) < 0 ||
	    copy_list(c, "entrypoint", sp_json_get(config, "Entrypoint"), NULL, false, e) < 0 ||
	    copy_list(c, "cmd", sp_json_get(config, "Cmd"), NULL, false, e) < 0 ||
	    copy_text(c, "user", sp_json_get(config, "User"), 256, e) < 0 ||
	    copy_text(c, "workdir", sp_json_get(config, "WorkingDir"), 4096, e) < 0)
		return NULL;
	ports = sp_json_get(config, "ExposedPorts");
	if (ports && sp_json_is_object(ports))
		for (const struct sp_json *p = sp_json_first(ports); p; p = sp_json_next(p))
			add_port(sp_json_get_mut(c, "ports"), sp_json_key(p));
	return check_size(c, e) < 0 ? NULL : sp_take_ptr(&c);
}

struct sp_json *sp_config_parse(const char *text, size_t n, struct sp_err *e)
{
	sp_auto_json *from = sp_json_parse(text, n, e), *c = sp_config_new();
	const char *digest;

	if (!from || copy_list(c, "env", sp_json_get(from, "env"), env_is_valid, true, e) < 0 ||
	    copy_list(c, "entrypoint", sp_json_get(from, "entrypoint"), NULL, true, e) < 0 ||
	    copy_list(c, "cmd", sp_json_get(from, "cmd"), NULL, true, e) < 0 ||
	    copy_list(c, "ports", sp_json_get(from, "ports"), port_is_valid, true, e) < 0 ||
	    copy_text(c, "user", sp_json_get(from, "user"), 256, e) < 0 ||
	    copy_text(c, "workdir", sp_json_get(from, "workdir"), 4096, e) < 0)
		return NULL;
	digest = sp_json_str(from, "digest");
	if (digest && !sp_digest_is_valid(digest)) {
		sp_fail(e, SP_FAIL, 0, "the image's config: bad digest");
		return NULL;
	}
	sp_json_put_str(c, "digest", digest);
	return check_size(c, e) < 0 ? NULL : sp_take_ptr(&c);
}
