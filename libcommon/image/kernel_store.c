/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that are there: apart from kernel.c, so that programs which only look for one are not
 * linked with everything that takes packages apart. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "image/kernel.h"
#include "state/op.h"
#include "state/record.h"
#include "sys/fd.h"
#include "sys/fs.h"

#define RECORD "record.json"

static bool is_version(const char *name)
{
	return name[0] && name[0] != '.' && name[0] != '-' && !strchr(name, '/') &&
	       strlen(name) < 64;
}

static int open_kernels(const struct sp_roots *r, struct sp_err *e)
{
	return sp_fs_open_dir(r->store, SP_DIR_KERNELS, e);
}

struct names {
	char (*v)[64];
	size_t n, cap;
};

static int take_name(int dirfd, const char *name, void *arg)
{
	struct names *l = arg;

	(void)dirfd;
	if (!is_version(name) || l->n == l->cap)
		return 0;
	snprintf(l->v[l->n++], 64, "%s", name);
	return 0;
}

static int by_version(const void *a, const void *b)
{
	return strverscmp(a, b);
}

/* Versions installed, oldest first. */
static int list_names(int kernels, struct names *l, struct sp_err *e)
{
	l->cap = 1000;
	l->v = sp_xcalloc(l->cap, 64);
	if (sp_fs_each(kernels, take_name, l, e) < 0)
		return -1;
	qsort(l->v, l->n, 64, by_version);
	return 0;
}

int sp_kernel_list(const struct sp_roots *r, struct sp_json **array, struct sp_err *e)
{
	sp_auto_fd kernels = open_kernels(r, e);
	struct names l = { 0 };
	int rc;

	if (kernels < 0)
		return -1;
	rc = list_names(kernels, &l, e);
	*array = rc < 0 ? NULL : sp_json_new_array();
	for (size_t i = 0; rc == 0 && i < l.n; i++) {
		sp_auto_fd dir = sp_fs_open_dir(kernels, l.v[i], e);
		struct sp_json *rec = dir < 0 ? NULL : sp_record_load(dir, RECORD, e);

		if (!rec)
			continue; /* removed meanwhile */
		sp_json_put_bool(rec, "default", i + 1 == l.n);
		sp_json_push(*array, rec);
	}
	free(l.v);
	return rc;
}

struct user {
	const char *version;
	char name[64];
};

static int look_for_user(int dirfd, const char *name, void *arg)
{
	sp_auto_fd dir = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct user *u = arg;
	struct sp_err ignored;
	sp_auto_json *rec = dir < 0 ? NULL : sp_record_load(dir, RECORD, &ignored);
	const char *kernel = rec ? sp_json_str(rec, "kernel") : NULL;

	if (!kernel || strcmp(kernel, u->version) != 0)
		return 0;
	snprintf(u->name, sizeof u->name, "%s", name);
	return 1;
}

int sp_kernel_remove(const struct sp_roots *r, const char *version, struct sp_err *e)
{
	struct user u = { .version = version };
	sp_auto_fd lock = -1, kernels = -1, sandboxes = -1;
	char trash[40];
	int used;

	if (!is_version(version))
		return sp_fail(e, SP_ABSENT, 0, "no such kernel");
	kernels = open_kernels(r, e);
	lock = kernels < 0 ? -1 : sp_root_lock(r, e);
	sandboxes = lock < 0 ? -1 : sp_fs_open_dir(r->store, SP_DIR_SANDBOXES, e);
	if (sandboxes < 0)
		return -1;
	if (!sp_fs_exists(kernels, version))
		return sp_fail(e, SP_ABSENT, 0, "no such kernel");
	used = sp_fs_each(sandboxes, look_for_user, &u, e);
	if (used < 0)
		return -1;
	if (used)
		return sp_fail(e, SP_CONFLICT, 0, "sandbox %s uses it", u.name);
	sp_fs_random_name(SP_FS_TRASH, trash);
	if (sp_fs_rename_new(kernels, version, kernels, trash, e) < 0 ||
	    sp_fs_sync_dir(kernels, e) < 0)
		return -1;
	return sp_fs_remove_tree(kernels, trash, e);
}

int sp_kernel_default(const struct sp_roots *r, char version[static 64], struct sp_err *e)
{
	sp_auto_fd kernels = open_kernels(r, e);
	struct names l = { 0 };
	int rc;

	if (kernels < 0)
		return -1;
	rc = list_names(kernels, &l, e);
	if (rc == 0 && !l.n)
		rc = sp_fail(e, SP_HOST, 0, "no kernel: space-kernel add");
	if (rc == 0)
		memcpy(version, l.v[l.n - 1], 64);
	free(l.v);
	return rc;
}
