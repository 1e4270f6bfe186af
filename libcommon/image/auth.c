/* SPDX-License-Identifier: Apache-2.0 */
#include "image/auth.h"

#include <string.h>
#include <strings.h>

#include "text/json.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void sp_str_wipe(struct sp_str *s)
{
	if (s->cap)
		explicit_bzero(s->p, s->cap);
	sp_str_free(s);
}

void sp_auth_free(struct sp_auth *a)
{
	sp_str_wipe(&a->user);
	sp_str_wipe(&a->password);
	sp_str_wipe(&a->identity);
}

void sp_base64_put(struct sp_str *out, const void *data, size_t n)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < n; i += 3) {
		unsigned int v = (unsigned int)p[i] << 16;

		if (i + 1 < n)
			v |= (unsigned int)p[i + 1] << 8;
		if (i + 2 < n)
			v |= p[i + 2];
		sp_str_addc(out, alphabet[v >> 18]);
		sp_str_addc(out, alphabet[v >> 12 & 63]);
		sp_str_addc(out, i + 1 < n ? alphabet[v >> 6 & 63] : '=');
		sp_str_addc(out, i + 2 < n ? alphabet[v & 63] : '=');
	}
}

bool sp_base64_get(struct sp_str *out, const char *text)
{
	unsigned int v = 0;
	int bits = 0;
	const char *at;

	for (; *text && *text != '='; text++) {
		at = strchr(alphabet, *text);
		if (!at)
			return false;
		v = v << 6 | (unsigned int)(at - alphabet);
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			sp_str_addc(out, (char)(v >> bits));
			v &= (1u << bits) - 1;
		}
	}
	return strspn(text, "=") == strlen(text) && strlen(text) <= 2;
}

/* How well a key of "auths" fits: 0 not, else the longer the closer. docker's keys may be URLs
 * whose path says nothing; containers' keys are host[/path] without a scheme. */
static size_t key_fit(const char *key, const struct sp_ref *ref)
{
	const char *p = strstr(key, "://"), *slash;
	size_t host = strlen(ref->auth_key), path;
	bool hub = !strcmp(ref->auth_key, "index.docker.io");

	key = p ? p + 3 : key;
	slash = strchrnul(key, '/');
	if ((size_t)(slash - key) != host || strncasecmp(key, ref->auth_key, host) != 0) {
		if (!hub || slash - key != 9 || strncasecmp(key, "docker.io", 9) != 0)
			return 0;
	}
	if (p || !*slash || !slash[1])
		return 1;
	path = strlen(slash + 1);
	if (strncmp(slash + 1, ref->name, path) != 0 || (ref->name[path] && ref->name[path] != '/'))
		return 0;
	return 1 + path;
}

static int take_entry(const struct sp_json *entry, struct sp_auth *out, struct sp_err *e)
{
	const char *user = sp_json_str(entry, "username"), *pass = sp_json_str(entry, "password");
	const char *auth = sp_json_str(entry, "auth"), *id = sp_json_str(entry, "identitytoken");
	sp_auto_str plain = SP_STR_INIT;
	const char *colon;

	if (id && *id)
		sp_str_add(&out->identity, id);
	if (user && *user && pass) {
		sp_str_add(&out->user, user);
		sp_str_add(&out->password, pass);
	} else if (auth && *auth) {
		if (!sp_base64_get(&plain, auth) || strlen(plain.p) != plain.len ||
		    !(colon = strchr(plain.p, ':'))) {
			sp_str_wipe(&plain);
			return sp_fail(e, SP_FAIL, 0,
				       "the credentials file: 'auth' is no base64 of "
				       "user:password");
		}
		sp_str_addn(&out->user, plain.p, (size_t)(colon - plain.p));
		sp_str_add(&out->password, colon + 1);
		sp_str_wipe(&plain);
	}
	return out->user.len || out->identity.len;
}

int sp_auth_read(const char *text, size_t n, const struct sp_ref *ref, struct sp_auth *out,
		 struct sp_err *e)
{
	sp_auto_json *doc = sp_json_parse(text, n, e);
	const struct sp_json *auths, *best = NULL;
	size_t fit = 0, f;

	if (!doc)
		return sp_wrap(e, "the credentials file");
	auths = sp_json_get(doc, "auths");
	if (!auths || !sp_json_is_object(auths))
		return 0;
	for (const struct sp_json *v = sp_json_first(auths); v; v = sp_json_next(v)) {
		f = key_fit(sp_json_key(v), ref);
		if (f > fit) {
			fit = f;
			best = v;
		}
	}
	return best ? take_entry(best, out, e) : 0;
}
