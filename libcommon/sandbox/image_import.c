/* SPDX-License-Identifier: Apache-2.0 */
/* The importing itself; apart from image.c, whose repair every program has, since this needs the
 * libraries that take archives apart. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/import.h"
#include "sandbox/checkpoint.h"
#include "sandbox/image.h"
#include "sandbox/warm.h"
#include "state/op.h"
#include "state/record.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "vol/store.h"

struct filling {
	const struct sp_roots *roots;
	void (*progress)(int64_t bytes, const char *what, void *arg);
	void *arg;
};

/* The store grows ahead of what is written to the disk. */
static int make_room(int64_t bytes, void *arg, struct sp_err *e)
{
	const struct filling *f = arg;

	return sp_store_need(f->roots, bytes, e);
}

static int fill(struct sp_task *t, struct filling *f, struct sp_json **config, int64_t *content,
		int64_t *disk, struct sp_err *e)
{
	sp_auto_fd all = sp_fs_open_dir(t->roots->store, SP_DIR_CHECKPOINTS, e);
	sp_auto_fd dir = -1, img = -1;
	struct sp_import im = { .source = sp_json_str(t->request, "source"),
				.stdin_fd = 0,
				.size = sp_json_i64(t->request, "size", 0),
				.auth_file = sp_json_str(t->request, "auth_file"),
				.progress = f->progress,
				.progress_arg = f->arg,
				.room = make_room,
				.room_arg = f };
	struct stat st;
	char temp[40];

	sp_checkpoint_new_name(sp_task_subject(t, 0), temp);
	if (all < 0 || sp_vol_create(all, temp, e) < 0)
		return -1;
	dir = sp_fs_open_dir(all, temp, e);
	img = dir < 0 ? -1 : sp_fs_open(dir, "rootfs.img", O_RDWR | O_CREAT | O_EXCL, 0600, e);
	if (img < 0)
		return -1;
	im.disk_fd = img;
	if (sp_import_run(&im, config, content, e) < 0)
		return -1;
	if (fsync(img) < 0 || fstat(img, &st) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "rootfs.img");
	*disk = st.st_size;
	return 0;
}

static struct sp_json *image_meta(const struct sp_task *t, const struct sp_shape *shape,
				  struct sp_json **config, int64_t disk)
{
	struct sp_json *m = sp_json_new_object();

	sp_json_put_int(m, "format", SP_FORMAT);
	sp_json_put_str(m, "id", sp_task_subject(t, 0));
	sp_json_put_str(m, "owner", t->owner);
	sp_json_put_str(m, "kind", "image");
	sp_json_put_i64(m, "created", sp_clock_real());
	sp_json_put_str(m, "why", "imported");
	sp_json_put_bool(m, "files", true);
	sp_json_put_int(m, "cpus", shape->cpus);
	sp_json_put_i64(m, "memory", shape->memory);
	sp_json_put_i64(m, "disk", disk);
	if (*config)
		sp_json_put(m, "config", sp_take_ptr(config));
	return m;
}

static int check_config(const struct sp_json *config, struct sp_err *e)
{
	sp_auto_str text = SP_STR_INIT;

	if (config)
		sp_json_print(config, &text);
	if (text.len > SP_MAX_CONFIG)
		return sp_fail(e, SP_FAIL, 0, "the image's settings (env, cmd …) are too large");
	return 0;
}

static int import(struct sp_task *t, struct filling *f, struct sp_json *answer, struct sp_err *e)
{
	sp_auto_json *config = NULL, *meta = NULL;
	int64_t content = 0, disk = 0;
	struct sp_shape shape;

	if (sp_image_settings(t->request, &shape, e) < 0 || sp_task_phase(t, "fill", e) < 0 ||
	    fill(t, f, &config, &content, &disk, e) < 0 || check_config(config, e) < 0)
		return -1;
	sp_json_put_str(answer, "digest", sp_json_str(config, "digest"));
	sp_json_put_i64(answer, "content_bytes", content);
	sp_json_put_i64(answer, "disk", disk);
	meta = image_meta(t, &shape, &config, disk);
	if (sp_task_phase(t, "publish", e) < 0 ||
	    sp_checkpoint_publish(t->roots, sp_task_subject(t, 0), meta, e) < 0)
		return -1;
	return sp_image_name(t, e);
}

static int warm(const struct sp_roots *r, const char *owner, struct sp_json *answer,
		struct sp_err *e)
{
	const char *id = sp_json_str(answer, "id");
	sp_auto_json *meta = sp_checkpoint_load(r, id, e);
	struct sp_shape shape;
	char op[SP_ID_SIZE];

	if (!meta || sp_image_shape(meta, NULL, &shape, e) < 0 ||
	    sp_warm_begin(r, owner, id, &shape, op, e) < 0)
		return sp_wrap(e, "the image is there, but not warm");
	sp_json_put_str(answer, "warm_op", op);
	return 0;
}

int sp_image_import(const struct sp_roots *r, const char *owner, const struct sp_json *request,
		    void (*progress)(int64_t bytes, const char *what, void *arg), void *arg,
		    struct sp_json **answer, struct sp_err *e)
{
	struct filling f = { .roots = r, .progress = progress, .arg = arg };
	struct sp_op *op = NULL;
	struct sp_task t;
	struct sp_err e2;
	char id[SP_ID_SIZE];
	int rc;

	if (sp_task_begin_here(r, owner, &sp_verb_import, request, NULL, &op, id, e) < 0)
		return -1;
	*answer = sp_json_new_object();
	sp_task_fill(&t, r, op);
	sp_json_put_str(*answer, "op", id);
	sp_json_put_str(*answer, "id", sp_task_subject(&t, 0));
	sp_json_put_str(*answer, "name", sp_json_str(request, "name"));
	rc = import(&t, &f, *answer, e);
	if (rc < 0)
		sp_image_undo(&t, &e2);
	if (sp_op_end(op, rc < 0 ? e : NULL, &e2) < 0 && rc == 0) {
		*e = e2;
		rc = -1;
	}
	sp_op_free(&op);
	if (rc == 0 && sp_json_bool(request, "warm", true))
		rc = warm(r, owner, *answer, e);
	if (rc < 0)
		sp_json_free(answer);
	return rc;
}
