/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/making.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "monitor/console.h"
#include "sandbox/checkpoint.h"
#include "state/event.h"
#include "state/name.h"
#include "state/op.h"
#include "state/record.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "vol/store.h"

#define WAVE 32           /* machines of one operation that start at the same time */
#define NEED (16LL << 20) /* bytes that a sandbox writes soon after its start, about */

static void put_copy(struct sp_json *rec, const char *key, const struct sp_json *value)
{
	if (value)
		sp_json_put(rec, key, sp_json_copy(value));
}

static struct sp_json *merged_env(const struct sp_json *a, const struct sp_json *b)
{
	struct sp_json *out = a ? sp_json_copy(a) : sp_json_new_array();

	for (size_t i = 0; b && i < sp_json_len(b); i++)
		sp_json_push_str(out, sp_json_value_str(sp_json_at(b, i)));
	return out;
}

/* The disk's size in bytes, after the growing that was asked for. */
static int size_disk(int vol, int64_t want, int64_t *bytes, struct sp_err *e)
{
	sp_auto_fd disk = sp_fs_open(vol, "rootfs.img", O_RDWR, 0, e);
	struct stat st;

	if (disk < 0)
		return -1;
	if (fstat(disk, &st) < 0)
		return sp_fail(e, SP_FAIL, errno, "rootfs.img");
	*bytes = st.st_size;
	if (want <= st.st_size)
		return 0;
	if (ftruncate(disk, want) < 0)
		return sp_fail(e, SP_FAIL, errno, "rootfs.img: grow");
	*bytes = want;
	return 0;
}

static struct sp_json *new_record(const struct sp_making *m, const struct sp_child *c, int64_t disk)
{
	const struct sp_origin *o = m->origin;
	const char *kind = sp_json_str(o->meta, "kind"), *image = sp_json_str(o->meta, "image");
	struct sp_json *rec = sp_json_new_object();

	sp_json_put_int(rec, "format", SP_FORMAT);
	sp_json_put_str(rec, "id", c->id);
	if (c->name[0])
		sp_json_put_str(rec, "name", c->name);
	sp_json_put_str(rec, "owner", m->task->owner);
	sp_json_put_str(rec, "state", "running");
	sp_json_put_str(rec, "image", kind && strcmp(kind, "image") == 0 ? o->id : image);
	if (o->load)
		sp_json_put_str(rec, "base", o->id);
	sp_json_put_str(rec, "parent", o->id);
	sp_json_put_str(rec, "kernel", o->kernel);
	sp_machine_put(rec, &o->machine);
	sp_json_put_i64(rec, "disk", disk);
	sp_json_put_i64(rec, "generation", (int64_t)c->generation);
	sp_json_put(rec, "env", merged_env(sp_json_get(o->meta, "env"), m->env));
	put_copy(rec, "meta", m->meta);
	put_copy(rec, "config", sp_json_get(o->meta, "config"));
	sp_json_put_i64(rec, "created", sp_clock_real());
	sp_json_put_i64(rec, "changed", sp_clock_real());
	sp_json_put_str(rec, "op", m->task->id);
	if (m->hidden)
		sp_json_put_bool(rec, "hidden", true);
	return rec;
}

/* Written here and made durable later, beside the machine's start (sp_child_settle). */
static int write_record(int dir, const struct sp_making *m, struct sp_child *c, int64_t disk,
			struct sp_err *e)
{
	sp_auto_json *rec = new_record(m, c, disk);
	sp_auto_str text = SP_STR_INIT;

	sp_json_print(rec, &text);
	sp_str_addc(&text, '\n');
	c->record = sp_fs_open(dir, "record.json", O_WRONLY | O_CREAT | O_EXCL, 0600, e);
	if (c->record < 0)
		return -1;
	if (sp_fd_write(c->record, text.p, text.len) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "record.json");
	return 0;
}

static int fill(struct sp_making *m, struct sp_child *c, int dir, struct sp_err *e)
{
	const struct sp_roots *r = m->task->roots;
	const struct sp_origin *o = m->origin;
	sp_auto_fd from = sp_fs_open_dir(r->store, SP_DIR_CHECKPOINTS, e);
	sp_auto_fd vol = -1, console = -1;
	int64_t disk = 0;

	if (from < 0 || sp_vol_snapshot(from, o->id, dir, "vol", false, e) < 0)
		return -1;
	vol = sp_fs_open_dir(dir, "vol", e);
	if (vol < 0 || sp_checkpoint_strip(vol, true, e) < 0 ||
	    size_disk(vol, o->disk, &disk, e) < 0)
		return -1;
	console = sp_console_create(dir, "console", e);
	return console < 0 ? -1 : write_record(dir, m, c, disk, e);
}

static int commit(struct sp_making *m, struct sp_child *c, int top, const char *temp,
		  struct sp_err *e)
{
	const struct sp_roots *r = m->task->roots;
	sp_auto_fd lock = sp_root_lock(r, e);

	if (lock < 0)
		return -1;
	if (!sp_checkpoint_exists(r, m->origin->id))
		return sp_fail(e, SP_ABSENT, 0, "its snapshot or image was removed");
	return sp_fs_rename_new(top, temp, top, c->id, e);
}

int sp_child_build(struct sp_making *m, struct sp_child *c, struct sp_err *e)
{
	struct sp_task *t = m->task;
	sp_auto_fd top = sp_fs_open_dir(t->roots->store, SP_DIR_SANDBOXES, e);
	sp_auto_fd dir = -1;
	char temp[40];

	if (top < 0)
		return -1;
	c->generation = sp_generation_next(NULL);
	sp_checkpoint_new_name(c->id, temp);
	if (c->name[0] && sp_name_take(t->roots, t->owner, c->name, c->id, e) < 0)
		return -1;
	if (sp_fs_mkdir(top, temp, 0700, e) < 0)
		return -1;
	dir = sp_fs_open_dir(top, temp, e);
	if (dir < 0 || fill(m, c, dir, e) < 0)
		return -1;
	if (c == m->child && !m->hidden && sp_task_phase(t, "commit", e) < 0)
		return -1;
	return commit(m, c, top, temp, e);
}

int sp_child_start(struct sp_making *m, struct sp_child *c, struct sp_err *e)
{
	sp_auto_json *rec = sp_json_new_object();

	if (c->name[0])
		sp_json_put_str(rec, "name", c->name);
	sp_json_put_str(rec, "kernel", m->origin->kernel);
	sp_machine_put(rec, &m->origin->machine);
	return sp_machine_start(m->task->roots, c->id, rec, m->origin->load ? m->origin : NULL,
				false, c->generation, &c->report, e);
}

int sp_child_settle(struct sp_making *m, struct sp_child *c, struct sp_err *e)
{
	sp_auto_fd dir = sp_sandbox_dir(m->task->roots, c->id, e);

	if (dir < 0)
		return -1;
	if (fsync(c->record) < 0)
		return sp_fail(e, SP_FAIL, errno, "record.json");
	sp_fd_close(&c->record);
	return sp_fs_sync_dir(dir, e);
}

int sp_child_await(struct sp_making *m, struct sp_child *c, struct sp_err *e)
{
	int rc = sp_mon_await(c->report, &c->told, e);

	(void)m;
	sp_fd_close(&c->report);
	return rc;
}

int sp_sandbox_discard(const struct sp_roots *r, const char *id, struct sp_err *e)
{
	sp_auto_fd top = sp_fs_open_dir(r->store, SP_DIR_SANDBOXES, e);
	char temp[40];

	sp_checkpoint_new_name(id, temp);
	if (top < 0 || sp_mon_end(r, id, e) < 0 || sp_vol_remove_tree(top, id, e) < 0 ||
	    sp_vol_remove_tree(top, temp, e) < 0)
		return -1;
	return sp_name_drop_all(r, id, e);
}

int sp_children_discard(const struct sp_task *t, size_t first, struct sp_err *e)
{
	for (size_t i = first; i < sp_json_len(t->subjects); i++)
		if (sp_sandbox_discard(t->roots, sp_task_subject(t, i), e) < 0)
			return -1;
	return 0;
}

/* NAME for one, NAME-1, NAME-2, … for several; NULL without a name. */
static char *child_name(const char *name, size_t n, size_t i)
{
	if (!name)
		return NULL;
	return n == 1 ? sp_xstrdup(name) : sp_xasprintf("%s-%zu", name, i + 1);
}

struct sp_child *sp_children_new(const struct sp_task *t, size_t first, const char *name,
				 size_t *n)
{
	struct sp_child *c;

	*n = sp_json_len(t->subjects) - first;
	c = sp_xcalloc(*n, sizeof *c);
	for (size_t i = 0; i < *n; i++) {
		sp_auto_free char *own = child_name(name, *n, i);

		c[i].record = c[i].report = -1;
		snprintf(c[i].id, sizeof c[i].id, "%s", sp_task_subject(t, first + i));
		snprintf(c[i].name, sizeof c[i].name, "%s", own ? own : "");
	}
	return c;
}

static int check_name(const struct sp_roots *r, const char *owner, const char *name,
		      struct sp_err *e)
{
	char taken[SP_ID_SIZE];

	if (!sp_name_is_valid(name))
		return sp_fail(e, SP_USAGE, 0, "name '%s': not a name ([a-z0-9][a-z0-9-]*)", name);
	if (sp_name_find(r, owner, name, taken, e) == 0)
		return sp_fail(e, SP_CONFLICT, 0, "name '%s' is taken", name);
	return e->code == SP_ABSENT ? 0 : -1;
}

int sp_children_plan(const struct sp_roots *r, const char *owner, const char *name, int64_t n,
		     struct sp_json *subjects, struct sp_err *e)
{
	if (n < 1 || n > SP_MAX_CHILDREN)
		return sp_fail(e, SP_USAGE, 0, "n: from 1 to %d", SP_MAX_CHILDREN);
	for (int64_t i = 0; i < n; i++) {
		sp_auto_free char *each = child_name(name, (size_t)n, (size_t)i);
		char id[SP_ID_SIZE];

		if (each && check_name(r, owner, each, e) < 0)
			return -1;
		sp_id_make(SP_SANDBOX, id);
		sp_json_push_str(subjects, id);
	}
	return sp_store_need(r, n * NEED, e);
}

static void child_failed(struct sp_making *m, struct sp_child *c, const struct sp_err *why)
{
	struct sp_err e;

	c->failed = true;
	c->err = *why;
	sp_fd_close(&c->record);
	sp_fd_close(&c->report);
	if (sp_sandbox_discard(m->task->roots, c->id, &e) < 0)
		sp_wrap(&c->err, "(and it could not be removed: %s)", e.msg);
}

static void settle_and_await(struct sp_making *m, struct sp_child *c)
{
	struct sp_err e;

	if (c->failed || c->report < 0)
		return;
	if ((c->record >= 0 && sp_child_settle(m, c, &e) < 0) || sp_child_await(m, c, &e) < 0)
		child_failed(m, c, &e);
}

static int build_and_start(struct sp_making *m, struct sp_child *c, struct sp_err *e)
{
	if (sp_child_build(m, c, e) < 0)
		return -1;
	if (c == m->child && sp_task_phase(m->task, "start", e) < 0)
		return -1;
	return sp_child_start(m, c, e);
}

/* With how long its machine took, from the monitor's start. */
static void created(const struct sp_making *m, const struct sp_child *c)
{
	sp_auto_json *more = sp_json_new_object();
	struct sp_err none;

	if (c->name[0])
		sp_json_put_str(more, "name", c->name);
	sp_json_put_str(more, "from", m->origin->id);
	sp_json_put_i64(more, "loaded_ns", c->told.loaded_ns);
	sp_json_put_i64(more, "running_ns", c->told.running_ns);
	sp_json_put_i64(more, "ready_ns", c->told.ready_ns);
	sp_event_add(m->task->roots, "sandbox.created", c->id, m->task->id, more, &none);
}

static int tell(struct sp_making *m, struct sp_err *e)
{
	const struct sp_child *worst = NULL;
	size_t failed = 0;

	for (size_t i = 0; i < m->n; i++) {
		struct sp_child *c = &m->child[i];

		if (c->failed) {
			failed++;
			worst = !worst || c->err.code > worst->err.code ? c : worst;
			sp_op_result(m->task->op, NULL, &c->err);
			continue;
		}
		sp_op_result(m->task->op, c->id, NULL);
		created(m, c);
	}
	if (!failed)
		return 0;
	*e = worst->err;
	return m->n == 1 ? -1 : sp_wrap(e, "%zu of %zu failed", failed, m->n);
}

static int run(struct sp_making *m, int top, struct sp_err *e)
{
	if (sp_task_phase(m->task, "build", e) < 0)
		return -1;
	for (size_t i = 0; i < m->n; i++) {
		struct sp_err why;

		if (i >= WAVE)
			settle_and_await(m, &m->child[i - WAVE]);
		if (build_and_start(m, &m->child[i], &why) < 0)
			child_failed(m, &m->child[i], &why);
	}
	if (sp_task_phase(m->task, "ready", e) < 0)
		return -1;
	for (size_t i = 0; i < m->n; i++) {
		struct sp_err why;

		if (!m->child[i].failed && m->child[i].record >= 0 &&
		    sp_child_settle(m, &m->child[i], &why) < 0)
			child_failed(m, &m->child[i], &why);
	}
	if (sp_fs_sync_dir(top, e) < 0)
		return -1;
	for (size_t i = 0; i < m->n; i++)
		settle_and_await(m, &m->child[i]);
	return sp_task_phase(m->task, "end", e);
}

int sp_making_run(struct sp_making *m, struct sp_err *e)
{
	const struct sp_roots *r = m->task->roots;
	sp_auto_fd top = sp_fs_open_dir(r->store, SP_DIR_SANDBOXES, e);

	if (top < 0 || sp_store_need(r, (int64_t)m->n * NEED, e) < 0)
		return -1;
	if (run(m, top, e) < 0) {
		for (size_t i = 0; i < m->n; i++)
			if (!m->child[i].failed)
				child_failed(m, &m->child[i], e);
		return -1;
	}
	return tell(m, e);
}
