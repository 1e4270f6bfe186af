/* SPDX-License-Identifier: Apache-2.0 */
#include "image/challenge.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define TOKEN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"

static void skip_space(const char **p)
{
	*p += strspn(*p, " \t");
}

/* A token or a quoted string into out; false when it is neither or does not fit. */
static bool read_value(const char **p, char *out, size_t max)
{
	size_t n = 0;

	if (**p != '"') {
		n = strspn(*p, TOKEN "/=:");
		if (!n || n >= max)
			return false;
		memcpy(out, *p, n);
		out[n] = '\0';
		*p += n;
		return true;
	}
	for (++*p; **p && **p != '"'; ++*p) {
		if (**p == '\\' && (*p)[1])
			++*p;
		if ((unsigned char)**p < 0x20 || n + 1 >= max)
			return false;
		out[n++] = **p;
	}
	out[n] = '\0';
	if (**p != '"')
		return false;
	++*p;
	return true;
}

/* name=value; *named is false where it is the next challenge's scheme instead. */
static bool read_param(const char **p, struct sp_challenge *c, bool *named)
{
	const char *name = *p, *at;
	size_t n = strspn(name, TOKEN);
	char value[1024];

	*named = false;
	if (!n)
		return false;
	at = name + n;
	skip_space(&at);
	if (*at != '=')
		return true;
	at++;
	skip_space(&at);
	if (!read_value(&at, value, sizeof value))
		return false;
	*named = true;
	*p = at;
	if (n == 5 && !strncasecmp(name, "realm", n))
		memcpy(c->realm, value, strlen(value) + 1);
	else if (n == 7 && !strncasecmp(name, "service", n) && strlen(value) < sizeof c->service)
		memcpy(c->service, value, strlen(value) + 1);
	return true;
}

/* One challenge with its parameters; false where the text makes no sense any more. */
static bool read_one(const char **p, struct sp_challenge *c)
{
	size_t n = strspn(*p, TOKEN);
	bool named;

	memset(c, 0, sizeof *c);
	if (!n)
		return false;
	if (n == 6 && !strncasecmp(*p, "bearer", n))
		c->kind = SP_CHALLENGE_BEARER;
	else if (n == 5 && !strncasecmp(*p, "basic", n))
		c->kind = SP_CHALLENGE_BASIC;
	*p += n;
	if (**p && **p != ' ' && **p != '\t' && **p != ',')
		return false;
	for (;;) {
		*p += strspn(*p, " \t,");
		if (!**p)
			return true;
		if (!read_param(p, c, &named))
			return false;
		if (!named)
			return true;
		skip_space(p);
		if (**p && **p != ',')
			return false;
	}
}

void sp_challenge_read(const char *value, struct sp_challenge *c)
{
	struct sp_challenge one;

	for (value += strspn(value, " \t,"); *value;) {
		if (!read_one(&value, &one))
			return;
		if (one.kind == SP_CHALLENGE_BEARER && !one.realm[0])
			continue;
		if (one.kind > c->kind)
			*c = one;
	}
}
