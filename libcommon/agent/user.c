/* SPDX-License-Identifier: Apache-2.0 */
/* Users of the guest, from its own /etc/passwd and /etc/group. Read here and not by the C library,
 * which would ask a name service daemon where a socket of one lies. Used in children only. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/str.h"

#define LINE_MOST 65536

/* Splits a line at its colons, in place; missing fields are empty. */
static void split(char *line, char *field[], size_t n)
{
	line[strcspn(line, "\r\n")] = '\0';
	for (size_t i = 0; i < n; i++) {
		char *colon = line + strcspn(line, ":");

		field[i] = line;
		line = colon;
		if (*colon)
			*line++ = '\0';
	}
}

static bool number(const char *s, unsigned *out)
{
	unsigned long v;
	char *end;

	if (!*s || s[strspn(s, "0123456789")])
		return false;
	errno = 0;
	v = strtoul(s, &end, 10);
	if (errno || v >= 0xffffffffu)
		return false;
	*out = (unsigned)v;
	return true;
}

static FILE *open_table(const char *path)
{
	return fopen(path, "re");
}

static void copy(char *to, size_t cap, const char *from)
{
	size_t n = strnlen(from, cap - 1);

	memcpy(to, from, n);
	to[n] = '\0';
}

/* The first line whose name is spec; failing that, the first with that number. */
static bool find_user(const char *spec, struct sp_user *u)
{
	FILE *f = open_table("/etc/passwd");
	sp_auto_free char *line = NULL;
	unsigned want = 0, uid, gid;
	bool numeric = number(spec, &want), found = false;
	size_t cap = 0;
	char *c[7];

	while (f && getline(&line, &cap, f) > 0) {
		bool named;

		split(line, c, 7);
		named = strcmp(c[0], spec) == 0;
		if ((!named && (!numeric || found)) || !number(c[2], &uid) || !number(c[3], &gid) ||
		    (!named && uid != want))
			continue;
		found = true;
		u->uid = uid;
		u->gid = gid;
		copy(u->name, sizeof u->name, c[0]);
		copy(u->home, sizeof u->home, c[5]);
		copy(u->shell, sizeof u->shell, c[6]);
		if (named)
			break;
	}
	if (f)
		fclose(f);
	if (!found && numeric) {
		u->uid = want;
		copy(u->name, sizeof u->name, spec);
	}
	return found || numeric;
}

static bool find_group(const char *spec, gid_t *out)
{
	FILE *f = open_table("/etc/group");
	sp_auto_free char *line = NULL;
	size_t cap = 0;
	unsigned gid;
	bool found = false;
	char *c[4];

	while (f && !found && getline(&line, &cap, f) > 0) {
		split(line, c, 4);
		found = strcmp(c[0], spec) == 0 && number(c[2], &gid);
	}
	if (f)
		fclose(f);
	if (!found)
		found = number(spec, &gid);
	if (found)
		*out = gid;
	return found;
}

static bool is_member(char *members, const char *name)
{
	char *save = NULL;

	for (char *m = strtok_r(members, ",", &save); m; m = strtok_r(NULL, ",", &save))
		if (strcmp(m, name) == 0)
			return true;
	return false;
}

static void find_memberships(struct sp_user *u)
{
	FILE *f = open_table("/etc/group");
	sp_auto_free char *line = NULL;
	size_t cap = 0;
	unsigned gid;
	char *c[4];

	while (f && u->ngroups < SP_NELEM(u->groups) && getline(&line, &cap, f) > 0) {
		split(line, c, 4);
		if (number(c[2], &gid) && gid != u->gid && is_member(c[3], u->name))
			u->groups[u->ngroups++] = gid;
	}
	if (f)
		fclose(f);
}

int sp_user_find(const char *spec, struct sp_user *u, char *why, size_t n)
{
	size_t len = strcspn(spec, ":");
	char name[256];

	*u = (struct sp_user){ .uid = geteuid() };
	if (len >= sizeof name) {
		snprintf(why, n, "no user '%.64s'", spec);
		return -1;
	}
	memcpy(name, spec, len);
	name[len] = '\0';
	if (!len)
		snprintf(name, sizeof name, "%u", (unsigned)geteuid());
	if (!find_user(name, u)) {
		snprintf(why, n, "no user '%s'", name);
		return -1;
	}
	if (spec[len] == ':' && spec[len + 1]) {
		if (!find_group(spec + len + 1, &u->gid)) {
			snprintf(why, n, "no group '%.64s'", spec + len + 1);
			return -1;
		}
		u->groups[u->ngroups++] = u->gid; /* a named group is the only one */
	} else {
		u->groups[u->ngroups++] = u->gid;
		find_memberships(u);
	}
	if (!u->home[0])
		copy(u->home, sizeof u->home, "/");
	if (!u->shell[0])
		copy(u->shell, sizeof u->shell, "/bin/sh");
	return 0;
}

/* Where it is us already nothing is changed: tests run the agent as an ordinary user. */
int sp_user_become(const struct sp_user *u)
{
	if (geteuid() == u->uid && geteuid() != 0)
		return 0;
	if (setgroups(u->ngroups, u->groups) || setresgid(u->gid, u->gid, u->gid) ||
	    setresuid(u->uid, u->uid, u->uid))
		return -1;
	return 0;
}
