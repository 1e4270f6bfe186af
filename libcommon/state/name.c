/* SPDX-License-Identifier: Apache-2.0 */
#include "state/name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/fs.h"
#include "sys/lock.h"

#define ABSENT "no such sandbox, snapshot or image"
/* Serialises take, move and drop, so that a name is never dropped between look and act. A leaf: no
 * other lock is taken under it. */
#define NAMES_LOCK ".lock"

/* Reads a name's symbolic link. 1 found, 0 none, -1 with *e. */
static int name_read(int dir, const char *name, char id[static SP_ID_SIZE], struct sp_err *e)
{
	char text[SP_ID_SIZE + 1];
	ssize_t n = readlinkat(dir, name, text, sizeof text);

	if (n < 0 && errno == ENOENT)
		return 0;
	if (n < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "name '%s'", name);
	if (n != SP_ID_LEN)
		return sp_fail(e, SP_FAIL, 0, "name '%s' does not hold an id", name);
	text[SP_ID_LEN] = '\0';
	if (!sp_id_looks_like(text))
		return sp_fail(e, SP_FAIL, 0, "name '%s' does not hold an id", name);
	memcpy(id, text, SP_ID_SIZE);
	return 1;
}

/* Opens names/<owner>; with make, creating it. -1 with SP_ABSENT where there is none. */
static int owner_open(const struct sp_roots *r, const char *owner, bool make, int *lock,
		      struct sp_err *e)
{
	sp_auto_fd names = -1;

	if (!sp_name_is_valid(owner))
		return sp_fail(e, SP_USAGE, 0, "'%s' is no valid owner", owner);
	names = sp_fs_open_dir(r->store, SP_DIR_NAMES, e);
	if (names < 0)
		return -1;
	if (lock) {
		*lock = sp_lock_take(names, NAMES_LOCK, -1, e);
		if (*lock < 0)
			return -1;
	}
	if (make && !sp_fs_exists(names, owner)) {
		if (sp_fs_mkdir(names, owner, 0700, e) < 0 || sp_fs_sync_dir(names, e) < 0)
			return -1;
	}
	return sp_fs_open_dir(names, owner, e);
}

static int name_check(const char *name, const char *id, struct sp_err *e)
{
	if (!sp_name_is_valid(name))
		return sp_fail(e, SP_USAGE, 0, "'%s' is no valid name", name);
	if (!sp_id_looks_like(id))
		return sp_fail(e, SP_FAIL, 0, "'%s' is no id", id);
	return 0;
}

int sp_name_take(const struct sp_roots *r, const char *owner, const char *name, const char *id,
		 struct sp_err *e)
{
	sp_auto_fd lock = -1, dir = -1;
	char now[SP_ID_SIZE];
	int rc;

	if (name_check(name, id, e) < 0)
		return -1;
	dir = owner_open(r, owner, true, &lock, e);
	if (dir < 0)
		return -1;
	rc = name_read(dir, name, now, e);
	if (rc < 0)
		return -1;
	if (rc && strcmp(now, id) != 0)
		return sp_fail(e, SP_CONFLICT, 0, "name '%s' is taken by %s", name, now);
	if (!rc && symlinkat(id, dir, name) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "name '%s'", name);
	return sp_fs_sync_dir(dir, e);
}

int sp_name_move(const struct sp_roots *r, const char *owner, const char *name, const char *id,
		 struct sp_err *e)
{
	sp_auto_fd lock = -1, dir = -1;
	char tmp[40];
	int sys;

	if (name_check(name, id, e) < 0)
		return -1;
	dir = owner_open(r, owner, true, &lock, e);
	if (dir < 0)
		return -1;
	for (;;) {
		sp_fs_random_name(SP_FS_TMP, tmp);
		if (symlinkat(id, dir, tmp) < 0)
			return sp_fail(e, sp_code_of_errno(errno), errno, "name '%s'", name);
		if (renameat(dir, tmp, dir, name) == 0)
			break;
		sys = errno;
		if (sys == ENOENT)
			continue; /* a sweep took it between the two calls */
		unlinkat(dir, tmp, 0);
		return sp_fail(e, sp_code_of_errno(sys), sys, "name '%s'", name);
	}
	return sp_fs_sync_dir(dir, e);
}

int sp_name_drop(const struct sp_roots *r, const char *owner, const char *name, const char *id,
		 struct sp_err *e)
{
	sp_auto_fd lock = -1, dir = -1;
	char now[SP_ID_SIZE];
	int rc;

	if (!sp_name_is_valid(name))
		return 0;
	dir = owner_open(r, owner, false, &lock, e);
	if (dir < 0)
		return e->code == SP_ABSENT ? 0 : -1;
	rc = name_read(dir, name, now, e);
	if (rc < 0)
		return -1;
	if (rc == 0 || strcmp(now, id) != 0)
		return 0;
	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return sp_fail(e, sp_code_of_errno(errno), errno, "name '%s'", name);
	return sp_fs_sync_dir(dir, e);
}

int sp_name_find(const struct sp_roots *r, const char *owner, const char *name,
		 char id[static SP_ID_SIZE], struct sp_err *e)
{
	char path[sizeof SP_DIR_NAMES + 2 * SP_NAME_SIZE + 2];
	int rc;

	if (!sp_name_is_valid(owner) || !sp_name_is_valid(name))
		return sp_fail(e, SP_ABSENT, 0, ABSENT);
	/* Both parts are checked: no slash, no dot. The folders on the way are ours. */
	snprintf(path, sizeof path, SP_DIR_NAMES "/%s/%s", owner, name);
	rc = name_read(r->store, path, id, e);
	if (rc < 0)
		return -1;
	if (rc == 0)
		return sp_fail(e, SP_ABSENT, 0, ABSENT);
	return 0;
}

int sp_name_resolve(const struct sp_roots *r, const char *owner, const char *operand,
		    char id[static SP_ID_SIZE], struct sp_err *e)
{
	if (sp_id_looks_like(operand)) {
		memcpy(id, operand, SP_ID_SIZE);
		return 0;
	}
	return sp_name_find(r, owner, operand, id, e);
}
