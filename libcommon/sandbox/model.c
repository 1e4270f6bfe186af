/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "state/name.h"
#include "state/record.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "sys/lock.h"

static int open_folder(const struct sp_roots *r, const char *top, const char *id, enum sp_kind kind,
		       const char *what, struct sp_err *e)
{
	char path[64];
	int fd;

	if (!sp_id_is_valid(id, kind))
		return sp_fail(e, SP_ABSENT, 0, "no such %s", what);
	snprintf(path, sizeof path, "%s/%s", top, id);
	fd = sp_fs_open_beneath(r->store, path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0 && errno == ENOENT)
		return sp_fail(e, SP_ABSENT, 0, "no such %s", what);
	if (fd < 0)
		return sp_fail(e, SP_FAIL, errno, "%s", path);
	return fd;
}

int sp_sandbox_dir(const struct sp_roots *r, const char *id, struct sp_err *e)
{
	return open_folder(r, SP_DIR_SANDBOXES, id, SP_SANDBOX, "sandbox", e);
}

int sp_checkpoint_dir(const struct sp_roots *r, const char *id, struct sp_err *e)
{
	return open_folder(r, SP_DIR_CHECKPOINTS, id, SP_CHECKPOINT, "snapshot or image", e);
}

static struct sp_json *load(const struct sp_roots *r, const char *top, const char *id,
			    const char *file, const char *what, struct sp_err *e)
{
	struct sp_json *rec;
	char path[80];

	snprintf(path, sizeof path, "%s/%.*s/%s", top, SP_ID_LEN, id, file);
	rec = sp_record_load(r->store, path, e);
	if (!rec && e->code == SP_ABSENT)
		sp_fail(e, SP_ABSENT, 0, "no such %s", what);
	return rec;
}

struct sp_json *sp_sandbox_load(const struct sp_roots *r, const char *id, struct sp_err *e)
{
	if (sp_id_is_valid(id, SP_SANDBOX))
		return load(r, SP_DIR_SANDBOXES, id, "record.json", "sandbox", e);
	sp_fail(e, SP_ABSENT, 0, "no such sandbox");
	return NULL;
}

struct sp_json *sp_checkpoint_load(const struct sp_roots *r, const char *id, struct sp_err *e)
{
	if (sp_id_is_valid(id, SP_CHECKPOINT))
		return load(r, SP_DIR_CHECKPOINTS, id, "meta.json", "snapshot or image", e);
	sp_fail(e, SP_ABSENT, 0, "no such snapshot or image");
	return NULL;
}

int sp_sandbox_save(const struct sp_roots *r, const char *id, struct sp_json *rec, const char *op,
		    struct sp_err *e)
{
	sp_auto_fd dir = sp_sandbox_dir(r, id, e);

	if (dir < 0)
		return -1;
	sp_json_put_i64(rec, "changed", sp_clock_real());
	sp_json_put_str(rec, "op", op);
	return sp_record_save(dir, "record.json", rec, e);
}

bool sp_owner_may(const struct sp_json *rec, const char *owner)
{
	const char *has = sp_json_str(rec, "owner");

	return strcmp(owner, SP_OWNER_LOCAL) == 0 || (has && strcmp(has, owner) == 0);
}

int sp_sandbox_find(const struct sp_roots *r, const char *owner, const char *operand,
		    char id[static SP_ID_SIZE], struct sp_err *e)
{
	if (sp_any_find(r, owner, operand, id, e) < 0)
		return -1;
	if (!sp_id_is_valid(id, SP_SANDBOX))
		return sp_fail(e, SP_ABSENT, 0, "no such sandbox");
	return 0;
}

int sp_any_find(const struct sp_roots *r, const char *owner, const char *operand,
		char id[static SP_ID_SIZE], struct sp_err *e)
{
	sp_auto_json *rec = NULL;

	if (sp_name_resolve(r, owner, operand, id, e) < 0)
		return -1;
	if (sp_id_is_valid(id, SP_SANDBOX))
		rec = sp_sandbox_load(r, id, e);
	else if (sp_id_is_valid(id, SP_CHECKPOINT))
		rec = sp_checkpoint_load(r, id, e);
	else
		return sp_fail(e, SP_ABSENT, 0, "no such sandbox, snapshot or image");
	if (rec && !sp_owner_may(rec, owner))
		return sp_fail(e, SP_ABSENT, 0, "no such sandbox, snapshot or image");
	if (!rec && (e->code != SP_ABSENT || !sp_subject_is_busy(r, id, NULL)))
		return -1;
	return 0;
}

struct busy {
	const char *id, *but;
};

static int busy_ticket(int dirfd, const char *name, void *arg)
{
	const struct busy *b = arg;
	size_t n = strlen(b->id), all = strlen(name);

	(void)dirfd;
	if (strncmp(name, b->id, n) != 0 || name[n] != '.' || all < SP_ID_LEN)
		return 0;
	return !b->but || strcmp(name + all - SP_ID_LEN, b->but) != 0;
}

bool sp_subject_is_busy(const struct sp_roots *r, const char *id, const char *but)
{
	struct busy b = { .id = id, .but = but };
	struct sp_err e;
	sp_auto_fd dir = sp_fs_open_dir(r->store, SP_DIR_QUEUE, &e);

	return dir >= 0 && sp_fs_each(dir, busy_ticket, &b, &e) > 0;
}

static int note_subject(int dirfd, const char *name, void *arg)
{
	(void)dirfd;
	if (sp_id_looks_like(name) || strlen(name) < SP_ID_LEN || name[SP_ID_LEN] != '.')
		return 0;
	sp_str_addn(arg, name, SP_ID_LEN + 1);
	return 0;
}

void sp_busy_load(const struct sp_roots *r, struct sp_str *out)
{
	struct sp_err e;
	sp_auto_fd dir = sp_fs_open_dir(r->store, SP_DIR_QUEUE, &e);

	if (dir >= 0)
		sp_fs_each(dir, note_subject, out, &e);
}

static bool powered_off(const struct sp_roots *r, const char *id, const struct sp_json *rec)
{
	struct sp_err e;
	sp_auto_json *ended = load(r, SP_DIR_SANDBOXES, id, "ended", "end", &e);
	const char *state = sp_json_str(ended, "state");

	return state && strcmp(state, "stopped") == 0 &&
	       sp_json_i64(ended, "generation", 0) == sp_json_i64(rec, "generation", -1);
}

/* By its monitor's lock alone: a machine whose monitor was killed is about to die with it. */
static bool monitor_lives(const struct sp_roots *r, const char *id)
{
	char path[32];
	sp_auto_fd fd = -1;

	snprintf(path, sizeof path, "%.*s/life", SP_ID_LEN, id);
	fd = sp_fs_open_beneath(r->run, path, O_RDONLY, 0);
	return fd >= 0 && sp_life_fd_is_held(fd) == 1;
}

const char *sp_sandbox_state(const struct sp_roots *r, const char *id, const struct sp_json *rec,
			     const struct sp_str *busy)
{
	const char *state = sp_json_str(rec, "state");

	if (state && strcmp(state, "paused") == 0)
		return "paused";
	if (state && strcmp(state, "stopped") == 0)
		return "stopped";
	if (monitor_lives(r, id))
		return "running";
	if (powered_off(r, id, rec))
		return "stopped";
	if (busy ? strstr(busy->p, id) != NULL : sp_subject_is_busy(r, id, NULL))
		return "starting";
	return "dead";
}

void sp_machine_put(struct sp_json *rec, const struct sp_machine *m)
{
	struct sp_json *o = sp_json_put_object(rec, "machine");

	sp_json_put_str(o, "engine", m->engine);
	sp_json_put_str(o, "version", m->version);
	sp_json_put_str(o, "accel", m->accel);
	sp_json_put_str(o, "cpu_model", m->cpu_model);
	sp_json_put_str(o, "machine", m->machine);
	sp_json_put_str(o, "devices", m->devices);
	sp_json_put_int(rec, "cpus", (int)m->cpus);
	sp_json_put_i64(rec, "memory", (int64_t)m->memory);
}

static int take_text(const struct sp_json *o, const char *key, char *out, size_t n)
{
	const char *s = sp_json_str(o, key);

	if (!s || strlen(s) >= n)
		return -1;
	memcpy(out, s, strlen(s) + 1);
	return 0;
}

int sp_machine_get(const struct sp_json *rec, struct sp_machine *out)
{
	const struct sp_json *o = sp_json_get(rec, "machine");
	int64_t cpus = sp_json_i64(rec, "cpus", 0), memory = sp_json_i64(rec, "memory", 0);

	*out = (struct sp_machine){ 0 };
	if (!o || take_text(o, "engine", out->engine, sizeof out->engine) < 0 ||
	    take_text(o, "version", out->version, sizeof out->version) < 0 ||
	    take_text(o, "accel", out->accel, sizeof out->accel) < 0 ||
	    take_text(o, "cpu_model", out->cpu_model, sizeof out->cpu_model) < 0 ||
	    take_text(o, "machine", out->machine, sizeof out->machine) < 0 ||
	    take_text(o, "devices", out->devices, sizeof out->devices) < 0)
		return -1;
	if (cpus < 1 || cpus > SP_MAX_CPUS || memory < SP_MIN_MEMORY || memory > SP_MAX_MEMORY)
		return -1;
	out->cpus = (uint32_t)cpus;
	out->memory = (uint64_t)memory;
	return 0;
}

int sp_shape_check(const struct sp_shape *s, struct sp_err *e)
{
	int64_t host = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);

	if (s->cpus < 1 || s->cpus > SP_MAX_CPUS)
		return sp_fail(e, SP_USAGE, 0, "cpus: from 1 to %d", SP_MAX_CPUS);
	if (s->memory < SP_MIN_MEMORY || s->memory > SP_MAX_MEMORY ||
	    s->memory % SP_MEMORY_STEP != 0)
		return sp_fail(e, SP_USAGE, 0, "memory: from 64M to 1T, in steps of 2M");
	if (s->disk < 0 || s->disk > SP_MAX_DISK || s->disk % SP_DISK_STEP != 0)
		return sp_fail(e, SP_USAGE, 0, "disk: at most 16T, in steps of 1M");
	if (host > 0 && s->memory > host)
		return sp_fail(e, SP_HOST, 0, "memory: %lldM asked for, the host has %lldM",
			       (long long)(s->memory >> 20), (long long)(host >> 20));
	return 0;
}

static void shape_name(const struct sp_shape *s, char out[static 64])
{
	snprintf(out, 64, "%d-%lld-%lld", s->cpus, (long long)s->memory, (long long)s->disk);
}

int sp_warm_get(const struct sp_roots *r, const char *image, const struct sp_shape *s,
		char id[static SP_ID_SIZE], struct sp_err *e)
{
	char path[64], name[64];
	sp_auto_fd dir = -1;
	ssize_t n;

	snprintf(path, sizeof path, SP_DIR_WARM "/%s", image);
	shape_name(s, name);
	dir = sp_fs_open_beneath(r->store, path, O_RDONLY | O_DIRECTORY, 0);
	if (dir < 0 && errno != ENOENT)
		return sp_fail(e, SP_FAIL, errno, "%s", path);
	n = dir < 0 ? -1 : readlinkat(dir, name, id, SP_ID_SIZE);
	if (n != SP_ID_LEN)
		return sp_fail(e, SP_ABSENT, 0, "the image is not warm for this shape");
	id[n] = '\0';
	if (!sp_id_is_valid(id, SP_CHECKPOINT))
		return sp_fail(e, SP_ABSENT, 0, "the image is not warm for this shape");
	return 0;
}

int sp_warm_set(const struct sp_roots *r, const char *image, const struct sp_shape *s,
		const char *id, struct sp_err *e)
{
	char name[64], temp[40];
	sp_auto_fd top = sp_fs_open_dir(r->store, SP_DIR_WARM, e);
	sp_auto_fd dir = -1;

	if (top < 0 || sp_fs_mkdir(top, image, 0700, e) < 0)
		return -1;
	dir = sp_fs_open_dir(top, image, e);
	if (dir < 0)
		return -1;
	shape_name(s, name);
	sp_fs_random_name(SP_FS_TMP, temp);
	if (symlinkat(id, dir, temp) < 0 || renameat(dir, temp, dir, name) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "warm/%s/%s", image, name);
	if (sp_fs_sync_dir(dir, e) < 0)
		return -1;
	return sp_fs_sync_dir(top, e);
}
