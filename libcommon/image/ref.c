/* SPDX-License-Identifier: Apache-2.0 */
#include "image/ref.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT "0123456789"

static const char any_scheme[] = "docker://", plain_scheme[] = "docker+http://",
		  tls_scheme[] = "docker+https://";

bool sp_ref_has_scheme(const char *s)
{
	return sp_str_has_prefix(s, any_scheme) || sp_str_has_prefix(s, plain_scheme) ||
	       sp_str_has_prefix(s, tls_scheme);
}

bool sp_ref_tag_is_valid(const char *s)
{
	size_t n = strlen(s);

	return n && n <= 128 && s[0] != '.' && s[0] != '-' &&
	       strspn(s, LOWER UPPER DIGIT "_.-") == n;
}

/* path-component := [a-z0-9]+ ((\.|_|__|-+) [a-z0-9]+)* */
static bool component_is_valid(const char *s, size_t n)
{
	size_t i = 0, run;

	while (i < n) {
		run = strspn(s + i, LOWER DIGIT);
		if (!run)
			return false;
		i += run;
		if (i >= n)
			return i == n;
		if (s[i] == '.')
			i++;
		else if (s[i] == '_')
			i += s[i + 1] == '_' ? 2 : 1;
		else if (s[i] == '-')
			i += strspn(s + i, "-");
		else
			return false;
	}
	return false;
}

static bool name_is_valid(const char *s)
{
	const char *end;

	for (;; s = end + 1) {
		end = strchrnul(s, '/');
		if (!component_is_valid(s, (size_t)(end - s)))
			return false;
		if (!*end)
			return true;
	}
}

static bool host_is_valid(const char *s)
{
	char inside[64];
	struct in6_addr six;
	size_t n = strlen(s);

	if (s[0] == '[') {
		if (n < 4 || n - 2 >= sizeof inside || s[n - 1] != ']')
			return false;
		memcpy(inside, s + 1, n - 2);
		inside[n - 2] = '\0';
		return inet_pton(AF_INET6, inside, &six) == 1;
	}
	return n && n <= 253 && s[0] != '-' && s[0] != '.' && s[n - 1] != '-' && !strstr(s, "..") &&
	       strspn(s, LOWER UPPER DIGIT ".-") == n;
}

bool sp_ref_host_is_loopback(const char *s)
{
	struct in_addr four;

	return !strcasecmp(s, "localhost") || !strcmp(s, "[::1]") ||
	       (inet_pton(AF_INET, s, &four) == 1 && (ntohl(four.s_addr) >> 24) == 127);
}

/* Takes "host[:port]" apart. */
static int parse_host(const char *s, size_t n, struct sp_ref *out)
{
	const char *end = s + n, *colon = NULL;
	size_t from = 0;

	if (n && s[0] == '[') {
		const char *close = memchr(s, ']', n);

		if (!close)
			return -1;
		from = (size_t)(close - s);
	}
	colon = memchr(s + from, ':', n - from);
	if (!colon)
		colon = end;
	if ((size_t)(colon - s) >= sizeof out->host)
		return -1;
	memcpy(out->host, s, (size_t)(colon - s));
	if (colon < end) {
		n = (size_t)(end - colon - 1);
		if (!n || n > 5)
			return -1;
		memcpy(out->port, colon + 1, n);
		if (strspn(out->port, DIGIT) != n || strtoul(out->port, NULL, 10) > 65535)
			return -1;
	}
	return host_is_valid(out->host) ? 0 : -1;
}

/* Docker Hub has three names: the one people write, the one its API answers at, and the one that
 * docker login writes its credentials under. */
static void settle_host(struct sp_ref *out, bool hub)
{
	char name[sizeof out->name];

	if (!hub && strcasecmp(out->host, "docker.io") != 0 &&
	    strcasecmp(out->host, "index.docker.io") != 0) {
		snprintf(out->auth_key, sizeof out->auth_key, "%s%s%s", out->host,
			 out->port[0] ? ":" : "", out->port);
		return;
	}
	snprintf(out->host, sizeof out->host, "registry-1.docker.io");
	snprintf(out->auth_key, sizeof out->auth_key, "index.docker.io");
	if (!strchr(out->name, '/')) {
		snprintf(name, sizeof name, "%s", out->name);
		snprintf(out->name, sizeof out->name, "library/%.240s", name);
	}
}

static int bad(const char *s, const char *why, struct sp_err *e)
{
	return sp_fail(e, SP_USAGE, 0, "'%.200s' is no registry reference: %s", s, why);
}

/* name[:tag][@digest] */
static int parse_rest(const char *s, const char *rest, struct sp_ref *out, struct sp_err *e)
{
	const char *at = strchrnul(rest, '@'), *colon = memchr(rest, ':', (size_t)(at - rest));
	const char *end = colon ? colon : at;
	char tag[sizeof out->tag] = "latest";

	if ((size_t)(end - rest) >= sizeof out->name - sizeof "library/")
		return bad(s, "the name is too long", e);
	memcpy(out->name, rest, (size_t)(end - rest));
	if (!name_is_valid(out->name))
		return bad(s, "a name is lower-case words joined by / . _ -", e);
	if (colon) {
		size_t n = (size_t)(at - colon - 1);

		if (n >= sizeof tag)
			return bad(s, "the tag is too long", e);
		memcpy(tag, colon + 1, n);
		tag[n] = '\0';
		if (!sp_ref_tag_is_valid(tag))
			return bad(s, "bad tag", e);
	}
	if (*at) {
		if (!sp_digest_is_valid(at + 1))
			return bad(s, "a digest is sha256: and 64 hexadecimal digits", e);
		snprintf(out->digest, sizeof out->digest, "%s", at + 1);
		return 0; /* the digest says more than the tag beside it */
	}
	snprintf(out->tag, sizeof out->tag, "%s", tag);
	return 0;
}

int sp_ref_parse(const char *s, struct sp_ref *out, struct sp_err *e)
{
	const char *rest, *slash;
	bool hub, tls = sp_str_has_prefix(s, tls_scheme);

	memset(out, 0, sizeof *out);
	if (!sp_ref_has_scheme(s))
		return bad(s, "it begins with docker://", e);
	out->plain = sp_str_has_prefix(s, plain_scheme);
	rest = strstr(s, "://") + 3;
	slash = strchr(rest, '/');
	hub = !slash ||
	      (!memchr(rest, '.', (size_t)(slash - rest)) &&
	       !memchr(rest, ':', (size_t)(slash - rest)) && strncmp(rest, "localhost/", 10) != 0);
	if (!hub) {
		if (parse_host(rest, (size_t)(slash - rest), out) < 0)
			return bad(s, "bad host or port", e);
		rest = slash + 1;
	} else if (out->plain || tls) {
		return bad(s, "docker+http:// and docker+https:// want a host", e);
	}
	if (parse_rest(s, rest, out, e) < 0)
		return -1;
	out->loopback = sp_ref_host_is_loopback(out->host);
	if (out->loopback && !tls)
		out->plain = true;
	settle_host(out, hub);
	return 0;
}
