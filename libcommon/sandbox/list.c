/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/list.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/model.h"
#include "state/name.h"
#include "state/op.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "vol/store.h"

/* The names that checkpoints have (a sandbox's record tells its own), sorted by id. */
struct name_of {
	char id[SP_ID_SIZE];
	char name[SP_NAME_SIZE];
};

struct listing {
	const struct sp_roots *roots;
	const char *owner;
	const char *only; /* type, or NULL */
	struct sp_str names;
	struct sp_str busy;
	struct sp_json *items;
	struct sp_err *e;
};

static int by_id(const void *a, const void *b)
{
	return strcmp(a, b); /* the id comes first in it */
}

static int add_name(const char *owner, const char *name, const char *id, void *arg)
{
	struct listing *l = arg;
	struct name_of n = { 0 };

	(void)owner;
	if (!sp_id_is_valid(id, SP_CHECKPOINT))
		return 0;
	snprintf(n.id, sizeof n.id, "%s", id);
	snprintf(n.name, sizeof n.name, "%s", name);
	sp_str_addn(&l->names, &n, sizeof n);
	return 0;
}

static int load_names(struct listing *l)
{
	if (sp_name_each(l->roots, NULL, add_name, l, l->e) < 0)
		return -1;
	if (l->names.len)
		qsort(l->names.p, l->names.len / sizeof(struct name_of), sizeof(struct name_of),
		      by_id);
	return 0;
}

static const char *name_of(const struct listing *l, const char *id)
{
	const struct name_of *n = NULL;

	if (l->names.len)
		n = bsearch(id, l->names.p, l->names.len / sizeof *n, sizeof *n, by_id);
	return n ? n->name : NULL;
}

static void add_sandbox(struct listing *l, const char *id, struct sp_json *take, bool hidden_too)
{
	if (!sp_owner_may(take, l->owner) || (!hidden_too && sp_json_bool(take, "hidden", false))) {
		sp_json_free(&take);
		return;
	}
	sp_json_put_str(take, "state", sp_sandbox_state(l->roots, id, take, &l->busy));
	sp_json_put_str(take, "type", "sandbox");
	sp_json_push(l->items, take);
}

static void add_checkpoint(struct listing *l, const char *id, struct sp_json *take)
{
	const char *kind = sp_json_str(take, "kind");
	const char *type = kind && strcmp(kind, "image") == 0 ? "image" : "snapshot";

	if (!sp_owner_may(take, l->owner) || (l->only && strcmp(l->only, type) != 0)) {
		sp_json_free(&take);
		return;
	}
	sp_json_put_str(take, "name", name_of(l, id));
	sp_json_put_str(take, "type", type);
	sp_json_push(l->items, take);
}

/* What goes while we read it is passed over; a damaged record is shown, so it can be removed. */
static struct sp_json *damaged(const char *id, const struct sp_err *why)
{
	struct sp_json *o = sp_json_new_object();

	sp_json_put_str(o, "id", id);
	sp_json_put_str(o, "owner", SP_OWNER_LOCAL);
	sp_json_put_str(o, "state", "damaged");
	sp_json_put_str(o, "why", why->msg);
	return o;
}

static int each_sandbox(int dirfd, const char *name, void *arg)
{
	struct listing *l = arg;
	struct sp_json *rec;
	struct sp_err e;

	(void)dirfd;
	if (!sp_id_is_valid(name, SP_SANDBOX))
		return 0;
	rec = sp_sandbox_load(l->roots, name, &e);
	if (rec)
		add_sandbox(l, name, rec, false);
	else if (e.code != SP_ABSENT) {
		rec = damaged(name, &e);
		sp_json_put_str(rec, "type", "sandbox");
		sp_json_push(l->items, rec);
	}
	return 0;
}

static int each_checkpoint(int dirfd, const char *name, void *arg)
{
	struct listing *l = arg;
	struct sp_json *meta;
	struct sp_err e;

	(void)dirfd;
	if (!sp_id_is_valid(name, SP_CHECKPOINT))
		return 0;
	meta = sp_checkpoint_load(l->roots, name, &e);
	if (!meta && e.code != SP_ABSENT)
		meta = damaged(name, &e);
	if (meta)
		add_checkpoint(l, name, meta);
	return 0;
}

static int each_op(int dirfd, const char *name, void *arg)
{
	struct listing *l = arg;
	struct sp_json *rec;
	struct sp_err e;

	(void)dirfd;
	if (!sp_id_is_valid(name, SP_OPERATION))
		return 0;
	rec = sp_op_load(l->roots, name, &e);
	if (rec && sp_owner_may(rec, l->owner)) {
		sp_json_put_str(rec, "type", "op");
		sp_json_push(l->items, sp_take_ptr(&rec));
	}
	sp_json_free(&rec);
	return 0;
}

static int walk(struct listing *l, const char *folder,
		int (*fn)(int dirfd, const char *name, void *arg))
{
	sp_auto_fd dir = sp_fs_open_dir(l->roots->store, folder, l->e);

	return dir < 0 || sp_fs_each(dir, fn, l, l->e) < 0 ? -1 : 0;
}

static int add_one(struct listing *l, const char *operand)
{
	struct sp_json *rec;
	char id[SP_ID_SIZE];

	if (sp_id_is_valid(operand, SP_OPERATION)) {
		rec = sp_op_load(l->roots, operand, l->e);
		if (!rec || !sp_owner_may(rec, l->owner)) {
			sp_json_free(&rec);
			return sp_fail(l->e, SP_ABSENT, 0, "%.100s: no such operation", operand);
		}
		sp_json_put_str(rec, "type", "op");
		sp_json_push(l->items, rec);
		return 0;
	}
	if (sp_any_find(l->roots, l->owner, operand, id, l->e) < 0)
		return sp_wrap(l->e, "%.100s", operand);
	rec = sp_id_is_valid(id, SP_SANDBOX) ? sp_sandbox_load(l->roots, id, l->e)
					     : sp_checkpoint_load(l->roots, id, l->e);
	if (!rec)
		return sp_wrap(l->e, "%.100s", operand);
	if (sp_id_is_valid(id, SP_SANDBOX))
		add_sandbox(l, id, rec, true);
	else
		add_checkpoint(l, id, rec);
	return 0;
}

static int fill(struct listing *l, const struct sp_list *how)
{
	size_t n = sp_json_len(how->ids);

	for (size_t i = 0; i < n; i++)
		if (add_one(l, sp_json_value_str(sp_json_at(how->ids, i))) < 0)
			return -1;
	if (n)
		return 0;
	if (how->tree)
		return walk(l, SP_DIR_CHECKPOINTS, each_checkpoint) < 0 ||
				       walk(l, SP_DIR_SANDBOXES, each_sandbox) < 0
			       ? -1
			       : 0;
	if (!how->what || strcmp(how->what, "sandboxes") == 0)
		return walk(l, SP_DIR_SANDBOXES, each_sandbox);
	if (strcmp(how->what, "ops") == 0)
		return walk(l, SP_DIR_OPS, each_op);
	l->only = strcmp(how->what, "images") == 0 ? "image" : "snapshot";
	return walk(l, SP_DIR_CHECKPOINTS, each_checkpoint);
}

struct aged {
	int64_t created;
	const char *id;
	struct sp_json *item;
};

static int by_age(const void *a, const void *b)
{
	const struct aged *x = a, *y = b;

	if (x->created != y->created)
		return x->created < y->created ? -1 : 1;
	return strcmp(x->id, y->id);
}

/* Takes the array apart and puts it together oldest first. */
static struct sp_json *sorted(struct sp_json *items)
{
	size_t n = sp_json_len(items);
	sp_auto_free struct aged *all = sp_xcalloc(n, sizeof *all);
	struct sp_json *out = sp_json_new_array();

	for (size_t i = 0; i < n; i++) {
		all[i].item = sp_json_take_first(items);
		all[i].created = sp_json_i64(all[i].item, "created", 0);
		all[i].id = sp_json_str(all[i].item, "id");
		if (!all[i].id)
			all[i].id = "";
	}
	qsort(all, n, sizeof *all, by_age);
	for (size_t i = 0; i < n; i++)
		sp_json_push(out, all[i].item);
	sp_json_free(&items);
	return out;
}

static int add_usage(int dir, const char *name, int64_t *unique, int64_t *shared, struct sp_err *e)
{
	sp_auto_fd fd = -1;
	int64_t u = 0, s = 0;

	if (!sp_fs_exists(dir, name))
		return 0;
	fd = sp_fs_open(dir, name, O_RDONLY, 0, e);
	if (fd < 0 || sp_vol_usage(fd, &u, &s, e) < 0)
		return -1;
	*unique += u;
	*shared += s;
	return 0;
}

int sp_list_bytes(const struct sp_roots *r, struct sp_json *item, struct sp_err *e)
{
	static const char *const files[] = { "rootfs.img", "mem", "vmstate" };
	const char *id = sp_json_str(item, "id"), *type = sp_json_str(item, "type");
	bool sandbox = type && strcmp(type, "sandbox") == 0;
	int64_t unique = 0, shared = 0;
	sp_auto_fd top = -1, dir = -1;

	if (!id || !type || strcmp(type, "op") == 0)
		return 0;
	top = sandbox ? sp_sandbox_dir(r, id, e) : sp_checkpoint_dir(r, id, e);
	if (top < 0)
		return e->code == SP_ABSENT ? 0 : -1;
	if (sandbox && sp_fs_exists(top, "vol"))
		dir = sp_fs_open_dir(top, "vol", e);
	else if (!sandbox)
		dir = sp_take_fd(&top);
	for (size_t i = 0; dir >= 0 && i < SP_NELEM(files); i++)
		if (add_usage(dir, files[i], &unique, &shared, e) < 0)
			return -1;
	sp_json_put_i64(item, "unique", unique);
	sp_json_put_i64(item, "shared", shared);
	return 0;
}

struct sp_json *sp_list(const struct sp_roots *r, const char *owner, const struct sp_list *how,
			struct sp_err *e)
{
	struct listing l = {
		.roots = r, .owner = owner, .names = SP_STR_INIT, .busy = SP_STR_INIT, .e = e
	};
	struct sp_json *items;
	int rc;

	l.items = sp_json_new_array();
	rc = load_names(&l);
	sp_busy_load(r, &l.busy);
	if (rc == 0)
		rc = fill(&l, how);
	sp_str_free(&l.names);
	sp_str_free(&l.busy);
	items = l.items;
	if (rc == 0 && !sp_json_len(how->ids))
		items = sorted(items);
	for (size_t i = 0; rc == 0 && how->bytes && i < sp_json_len(items); i++)
		rc = sp_list_bytes(r, sp_json_at_mut(items, i), e);
	if (rc < 0) {
		sp_json_free(&items);
		return NULL;
	}
	return how->tree ? sp_list_tree(items) : items;
}
