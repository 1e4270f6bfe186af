/* SPDX-License-Identifier: Apache-2.0 */
/* The names as a whole: every name, and the way back from an id to its names. */
#include <string.h>
#include <unistd.h>

#include "state/name.h"
#include "sys/fd.h"
#include "sys/fs.h"

struct each {
	const char *owner; /* the one whose folder is read */
	int (*fn)(const char *owner, const char *name, const char *id, void *arg);
	void *arg;
	struct sp_err *e;
};

static int each_name(int dirfd, const char *name, void *arg)
{
	struct each *x = arg;
	char id[SP_ID_SIZE];
	ssize_t n;

	if (!sp_name_is_valid(name))
		return 0;
	n = readlinkat(dirfd, name, id, sizeof id);
	if (n != SP_ID_LEN)
		return 0;
	id[n] = '\0';
	return sp_id_looks_like(id) ? x->fn(x->owner, name, id, x->arg) : 0;
}

static int each_owner(int dirfd, const char *name, void *arg)
{
	struct each *x = arg;
	sp_auto_fd dir = -1;

	if (name[0] == '.')
		return 0;
	dir = sp_fs_open_dir(dirfd, name, x->e);
	if (dir < 0)
		return 0;
	x->owner = name;
	return sp_fs_each(dir, each_name, x, x->e);
}

int sp_name_each(const struct sp_roots *r, const char *owner,
		 int (*fn)(const char *owner, const char *name, const char *id, void *arg),
		 void *arg, struct sp_err *e)
{
	struct each x = { .fn = fn, .arg = arg, .e = e };
	sp_auto_fd dir = sp_fs_open_dir(r->store, SP_DIR_NAMES, e);

	if (dir < 0)
		return -1;
	return owner ? each_owner(dir, owner, &x) : sp_fs_each(dir, each_owner, &x, e);
}

struct drop {
	const struct sp_roots *roots;
	const char *id;
	struct sp_err *e;
};

static int drop_one(const char *owner, const char *name, const char *id, void *arg)
{
	struct drop *d = arg;

	if (strcmp(id, d->id) != 0)
		return 0;
	return sp_name_drop(d->roots, owner, name, id, d->e);
}

int sp_name_drop_all(const struct sp_roots *r, const char *id, struct sp_err *e)
{
	struct drop d = { .roots = r, .id = id, .e = e };

	return sp_name_each(r, NULL, drop_one, &d, e);
}
