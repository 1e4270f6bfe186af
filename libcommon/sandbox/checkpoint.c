/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "state/name.h"
#include "state/op.h"
#include "state/record.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "vol/store.h"

void sp_checkpoint_new_name(const char *id, char out[static 40])
{
	snprintf(out, 40, SP_FS_NEW "%s", id);
}

bool sp_checkpoint_exists(const struct sp_roots *r, const char *id)
{
	struct sp_err e;
	sp_auto_fd dir = sp_checkpoint_dir(r, id, &e);

	return dir >= 0;
}

static void copy_key(struct sp_json *to, const struct sp_json *from, const char *key)
{
	const struct sp_json *v = sp_json_get(from, key);

	if (v)
		sp_json_put(to, key, sp_json_copy(v));
}

static struct sp_json *meta_of(const struct sp_json *rec, const struct sp_take *t)
{
	static const char *const same[] = { "owner", "kernel",  "cpus", "memory", "disk",
					    "image", "machine", "env",  "config" };
	struct sp_json *m = sp_json_new_object();
	const char *parent = sp_json_str(rec, "base");

	if (!parent)
		parent = sp_json_str(rec, "paused");
	if (!parent)
		parent = sp_json_str(rec, "parent");
	sp_json_put_int(m, "format", SP_FORMAT);
	sp_json_put_str(m, "id", t->checkpoint);
	sp_json_put_str(m, "parent", parent);
	sp_json_put_str(m, "kind", t->kind);
	sp_json_put_str(m, "sandbox", t->sandbox);
	sp_json_put_i64(m, "created", sp_clock_real());
	sp_json_put_str(m, "why", t->why);
	sp_json_put_bool(m, "files", t->files);
	for (size_t i = 0; i < SP_NELEM(same); i++)
		copy_key(m, rec, same[i]);
	return m;
}

int sp_checkpoint_room(const struct sp_roots *r, const struct sp_json *rec, bool files,
		       struct sp_err *e)
{
	return sp_store_need(r, files ? 0 : sp_json_i64(rec, "memory", 0), e);
}

int sp_checkpoint_take(const struct sp_roots *r, const struct sp_json *rec, const struct sp_take *t,
		       struct sp_mon_answer *answer, struct sp_err *e)
{
	sp_auto_json *meta = meta_of(rec, t);
	sp_auto_free struct sp_mon_request *q = sp_xcalloc(1, sizeof *q);
	sp_auto_str text = SP_STR_INIT;

	if (sp_checkpoint_room(r, rec, t->files, e) < 0)
		return -1;
	sp_json_print(meta, &text);
	if (text.len >= sizeof q->meta)
		return sp_fail(e, SP_FAIL, 0, "the sandbox's record is too large");
	q->size = sizeof *q;
	q->verb = SP_MON_CHECKPOINT;
	snprintf(q->op, sizeof q->op, "%s", t->op);
	snprintf(q->checkpoint, sizeof q->checkpoint, "%s", t->checkpoint);
	q->files = t->files;
	q->then_quit = t->then_quit;
	q->meta_len = (uint32_t)text.len;
	memcpy(q->meta, text.p, text.len);
	return sp_mon_call(r, t->sandbox, q, answer, e);
}

int sp_checkpoint_strip(int dirfd, bool memory_too, struct sp_err *e)
{
	static const char *const names[] = { "meta.json", "vmstate", "mem" };

	for (size_t i = 0; i < (memory_too ? 3u : 1u); i++)
		if (sp_fs_unlink(dirfd, names[i], e) < 0)
			return -1;
	return 0;
}

static int take_from(const struct sp_roots *r, int from, const char *name, const char *id,
		     bool files, struct sp_json *meta, struct sp_err *e)
{
	sp_auto_fd dir = sp_fs_open_dir(r->store, SP_DIR_CHECKPOINTS, e);
	sp_auto_fd vol = -1;
	char temp[40];

	if (dir < 0)
		return -1;
	sp_checkpoint_new_name(id, temp);
	if (sp_vol_remove_tree(dir, temp, e) < 0 ||
	    sp_vol_snapshot(from, name, dir, temp, false, e) < 0)
		return -1;
	vol = sp_fs_open_dir(dir, temp, e);
	if (vol < 0 || sp_checkpoint_strip(vol, files, e) < 0)
		return -1;
	return sp_checkpoint_publish(r, id, meta, e);
}

int sp_checkpoint_take_still(const struct sp_roots *r, const struct sp_json *rec,
			     const struct sp_take *t, struct sp_err *e)
{
	static const char *const kept[] = { "marker", "mem_bytes", "vmstate_bytes" };
	const char *paused = sp_json_str(rec, "paused");
	sp_auto_json *meta = meta_of(rec, t);
	sp_auto_json *from = NULL;
	sp_auto_fd dir = -1;

	if (sp_store_need(r, 0, e) < 0)
		return -1;
	if (!paused) {
		dir = sp_sandbox_dir(r, t->sandbox, e);
		return dir < 0 ? -1 : take_from(r, dir, "vol", t->checkpoint, true, meta, e);
	}
	from = sp_checkpoint_load(r, paused, e);
	dir = from ? sp_fs_open_dir(r->store, SP_DIR_CHECKPOINTS, e) : -1;
	if (dir < 0)
		return -1;
	for (size_t i = 0; !t->files && i < SP_NELEM(kept); i++)
		copy_key(meta, from, kept[i]);
	return take_from(r, dir, paused, t->checkpoint, t->files, meta, e);
}

int sp_checkpoint_settle(const struct sp_roots *r, const char *sandbox, const char *checkpoint,
			 struct sp_err *e)
{
	struct sp_mon_request q = { .size = sizeof q, .verb = SP_MON_STATUS };
	struct sp_mon_answer a;
	sp_auto_fd dir = -1;
	char temp[40];

	/* Requests are served in order: an answer means that the one before is done. */
	if (sp_mon_call(r, sandbox, &q, &a, e) < 0 && e->code == SP_BUSY)
		return -1;
	if (sp_checkpoint_exists(r, checkpoint))
		return 1;
	dir = sp_fs_open_dir(r->store, SP_DIR_CHECKPOINTS, e);
	sp_checkpoint_new_name(checkpoint, temp);
	return dir < 0 ? -1 : sp_vol_remove_tree(dir, temp, e);
}

int sp_checkpoint_publish(const struct sp_roots *r, const char *id, struct sp_json *meta,
			  struct sp_err *e)
{
	sp_auto_fd dir = sp_fs_open_dir(r->store, SP_DIR_CHECKPOINTS, e);
	sp_auto_fd vol = -1;
	char temp[40];

	sp_checkpoint_new_name(id, temp);
	vol = dir < 0 ? -1 : sp_fs_open_dir(dir, temp, e);
	if (vol < 0 || sp_record_save(vol, "meta.json", meta, e) < 0)
		return -1;
	sp_fd_close(&vol);
	if (sp_vol_set_read_only(dir, temp, true, e) < 0)
		return -1;
	if (sp_fs_rename_new(dir, temp, dir, id, e) < 0)
		return -1;
	return sp_fs_sync_dir(dir, e);
}

struct need {
	const struct sp_roots *roots;
	const char *id;
	struct sp_json *ids;
	struct sp_err *e;
};

static int need_one(int dirfd, const char *name, void *arg)
{
	struct need *n = arg;
	sp_auto_json *rec = NULL;
	const char *base, *paused;

	(void)dirfd;
	if (!sp_id_is_valid(name, SP_SANDBOX))
		return 0;
	rec = sp_sandbox_load(n->roots, name, n->e);
	if (!rec) /* gone, or damaged: then it can only be removed, and needs nothing */
		return 0;
	base = sp_json_str(rec, "base");
	paused = sp_json_str(rec, "paused");
	if ((base && strcmp(base, n->id) == 0) || (paused && strcmp(paused, n->id) == 0))
		sp_json_push_str(n->ids, name);
	return 0;
}

struct sp_json *sp_checkpoint_needed_by(const struct sp_roots *r, const char *id, struct sp_err *e)
{
	sp_auto_json *ids = sp_json_new_array();
	struct need n = { .roots = r, .id = id, .ids = ids, .e = e };
	sp_auto_fd dir = sp_fs_open_dir(r->store, SP_DIR_SANDBOXES, e);

	if (dir < 0 || sp_fs_each(dir, need_one, &n, e) != 0)
		return NULL;
	return sp_take_ptr(&ids);
}

struct link_search {
	const char *id;
	bool remove;
};

static int link_of_shape(int dirfd, const char *name, void *arg)
{
	struct link_search *s = arg;
	char text[SP_ID_SIZE] = "";

	if (readlinkat(dirfd, name, text, sizeof text) != SP_ID_LEN ||
	    strncmp(text, s->id, SP_ID_LEN) != 0)
		return 0;
	if (!s->remove)
		return 1;
	return unlinkat(dirfd, name, 0) < 0 ? -1 : 0;
}

static int links_of_image(int dirfd, const char *name, void *arg)
{
	struct sp_err e;
	sp_auto_fd dir = sp_id_is_valid(name, SP_CHECKPOINT) ? sp_fs_open_dir(dirfd, name, &e) : -1;

	return dir < 0 ? 0 : sp_fs_each(dir, link_of_shape, arg, &e);
}

/* 1 a warm link names it, 0 none, -1 error. */
static int warm_link(const struct sp_roots *r, const char *id, bool remove, struct sp_err *e)
{
	struct link_search s = { .id = id, .remove = remove };
	sp_auto_fd dir = sp_fs_open_dir(r->store, SP_DIR_WARM, e);

	return dir < 0 ? -1 : sp_fs_each(dir, links_of_image, &s, e);
}

static bool goes_by_itself(const struct sp_roots *r, const char *id)
{
	struct sp_err e;
	sp_auto_json *meta = sp_checkpoint_load(r, id, &e);
	const char *kind = sp_json_str(meta, "kind");

	if (!meta || !kind)
		return false;
	if (strcmp(kind, "warm") == 0)
		return warm_link(r, id, false, &e) == 0;
	return strcmp(kind, "pause") == 0 || strcmp(kind, "branch") == 0;
}

int sp_checkpoint_collect(const struct sp_roots *r, const char *id, const char *but,
			  struct sp_err *e)
{
	sp_auto_json *ids = NULL;
	sp_auto_fd lock = -1;
	char trash[40];

	if (!goes_by_itself(r, id) || sp_subject_is_busy(r, id, but))
		return 0;
	lock = sp_root_lock(r, e);
	ids = lock < 0 ? NULL : sp_checkpoint_needed_by(r, id, e);
	if (!ids)
		return -1;
	if (sp_json_len(ids))
		return 0;
	if (sp_checkpoint_unlink(r, id, trash, e) < 0)
		return -1;
	sp_fd_close(&lock);
	return sp_checkpoint_empty(r, trash, e);
}

int sp_checkpoint_unlink(const struct sp_roots *r, const char *id, char trash[static 40],
			 struct sp_err *e)
{
	sp_auto_fd dir = sp_fs_open_dir(r->store, SP_DIR_CHECKPOINTS, e);

	trash[0] = '\0';
	if (dir < 0 || warm_link(r, id, true, e) < 0 || sp_name_drop_all(r, id, e) < 0)
		return -1;
	sp_fs_random_name(SP_FS_TRASH, trash);
	if (renameat(dir, id, dir, trash) < 0) {
		trash[0] = '\0';
		if (errno != ENOENT)
			return sp_fail(e, SP_FAIL, errno, "checkpoints/%s", id);
		return 0;
	}
	return sp_fs_sync_dir(dir, e);
}

int sp_checkpoint_empty(const struct sp_roots *r, const char *trash, struct sp_err *e)
{
	sp_auto_fd dir = -1;

	if (!trash[0])
		return 0;
	dir = sp_fs_open_dir(r->store, SP_DIR_CHECKPOINTS, e);
	return dir < 0 ? -1 : sp_vol_delete(dir, trash, e);
}
