/* SPDX-License-Identifier: Apache-2.0 */
/* The parent: makes the empty disk, starts the crew, listens, checks what comes, and has the disk
 * cut to its size and verified. It parses nothing but the crew's small messages. */
#include "image/import.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "image/config.h"
#include "image/crew.h"
#include "image/mkfs.h"
#include "image/msg.h"
#include "sys/fd.h"
#include "sys/fs.h"

#define MIB (1LL << 20)
#define MAX_BYTES (64LL << 30)
#define MAX_ENTRIES 4000000
#define ROOM_STEP (64 * MIB) /* how far ahead room is asked for */
#define ROOM_LEFT (64 * MIB) /* kept free of a file system that nobody looks after */

struct run {
	const struct sp_import *im;
	struct sp_source source;
	struct sp_jail_slot slot;
	struct sp_crew crew;
	int64_t size, max_bytes;
	int64_t roomy;   /* bytes of content that room was found for */
	bool cut;        /* the size is found when the content is known */
	struct stat was; /* of disk_fd */
	struct sp_json *config;
	struct sp_unpacked got;
	bool done, walked;
};

static void show(const struct run *r, int64_t bytes, const char *what)
{
	if (r->im->progress)
		r->im->progress(bytes, what, r->im->progress_arg);
}

/* --- room on the host --- */

static int check_spool(const struct run *r, struct sp_err *e)
{
	int64_t left = r->crew.spool >= 0 ? sp_fs_free_bytes(r->crew.spool) : INT64_MAX;

	if (left >= 0 && left < ROOM_LEFT)
		return sp_fail(e, SP_BUSY, 0,
			       "temporary files have only %lld MiB left (TMPDIR says where "
			       "they go)",
			       (long long)(left / MIB));
	return 0;
}

static int check_room(struct run *r, int64_t content, struct sp_err *e)
{
	int64_t left;

	if (check_spool(r, e) < 0)
		return -1;
	if (!r->im->room) {
		left = sp_fs_free_bytes(r->im->disk_fd);
		if (left >= 0 && left < ROOM_LEFT)
			return sp_fail(e, SP_BUSY, 0, "the host's disk has only %lld MiB left",
				       (long long)(left / MIB));
		return 0;
	}
	while (content + ROOM_STEP > r->roomy) {
		/* what was asked for and is not yet written counts as well */
		if (r->im->room(r->roomy + 2 * ROOM_STEP - content, r->im->room_arg, e) < 0)
			return -1;
		r->roomy += ROOM_STEP;
	}
	return 0;
}

/* --- the crew's messages --- */

static int take_done(struct run *r, const struct sp_msg *m, struct sp_err *e)
{
	r->got = (struct sp_unpacked){ m->n[0], m->n[1], m->n[2], m->n[3], m->n[4] };
	if (!r->config || r->got.bytes < 0 || r->got.used < 0 || r->got.used > r->size ||
	    r->got.inodes < 0 || r->got.inodes > r->size / 1024 || r->got.big_folder < 0)
		return sp_fail(e, SP_FAIL, 0,
			       "the unpacking process ends with figures that cannot be");
	r->done = true;
	return 0;
}

static int take_progress(struct run *r, const struct sp_msg *m, struct sp_err *e)
{
	sp_auto_str what = SP_STR_INIT;

	if (m->n[0] < 0 || m->n[1] < 0 || m->n[1] > r->max_bytes)
		return sp_fail(e, SP_FAIL, 0, "the unpacking process counts what cannot be");
	if (check_room(r, m->n[1], e) < 0)
		return -1;
	/* it ends up on a terminal */
	for (const char *p = m->text; *p && what.len < 60; p++)
		sp_str_addc(&what, *p >= 0x20 && *p < 0x7f ? *p : '?');
	show(r, m->n[0], what.p);
	return 0;
}

static int from_unpacker(struct run *r, struct sp_err *e)
{
	sp_auto_str tail = SP_STR_INIT;
	struct sp_msg m;
	int got = sp_msg_recv(r->crew.unpacker.sock, &m, NULL, &tail, e);

	if (got < 0)
		return -1;
	if (got == 0) { /* it says DONE or FAIL before it ends by itself */
		if (sp_crew_join(&r->crew.unpacker, "the unpacking process", e) < 0)
			return -1;
		return sp_fail(e, SP_FAIL, 0, "the unpacking process ended without a word");
	}
	switch (m.kind) {
	case SP_MSG_PROGRESS:
		return take_progress(r, &m, e);
	case SP_MSG_CONFIG:
		sp_json_free(&r->config);
		r->config = sp_config_parse(tail.p, tail.len, e);
		return r->config ? 0 : -1;
	case SP_MSG_DONE:
		return take_done(r, &m, e);
	case SP_MSG_FAIL:
		return sp_msg_fail(&m, e);
	default:
		return sp_fail(e, SP_FAIL, 0, "the unpacking process sent an unexpected message");
	}
}

static int from_walker(struct run *r, struct sp_err *e)
{
	struct sp_msg m;
	int got = sp_msg_recv(r->crew.walker.sock, &m, NULL, NULL, e);

	if (got < 0)
		return -1;
	if (got == 0 || (m.kind != SP_MSG_DONE && m.kind != SP_MSG_FAIL))
		return sp_fail(e, SP_FAIL, 0, "the process that reads the folder died");
	if (m.kind == SP_MSG_FAIL)
		return sp_msg_fail(&m, e);
	r->walked = true;
	sp_fd_close(&r->crew.walker.sock);
	return 0;
}

/* When the unpacker says that a folder's tar broke off, the walker knows why. */
static int walker_first(struct run *r, struct sp_err *e)
{
	struct pollfd p = { .fd = r->crew.walker.sock, .events = POLLIN };
	struct sp_err why;

	if (p.fd >= 0 && poll(&p, 1, 0) == 1 && from_walker(r, &why) < 0 &&
	    strcmp(why.msg, "nobody reads on") != 0)
		*e = why;
	return -1;
}

static int listen_all(struct run *r, struct sp_err *e)
{
	struct sp_crew *c = &r->crew;

	while (!r->done || (c->walker.pid && !r->walked)) {
		struct pollfd p[3] = { { .fd = c->unpacker.sock, .events = POLLIN },
				       { .fd = c->ask, .events = POLLIN },
				       { .fd = c->walker.sock, .events = POLLIN } };
		int got;

		if (r->done)
			p[0].fd = p[1].fd = -1;
		if (poll(p, 3, -1) < 0) {
			if (errno == EINTR)
				continue;
			return sp_fail(e, SP_FAIL, errno, "wait for the import's processes");
		}
		if (p[2].revents && from_walker(r, e) < 0)
			return -1;
		if (p[1].revents) {
			got = sp_crew_supply(c, r->source.fd, e);
			if (got < 0)
				return -1;
			if (got == 0)
				sp_fd_close(&c->ask);
		}
		if (p[0].revents && from_unpacker(r, e) < 0)
			return walker_first(r, e);
	}
	if (sp_crew_join(&c->unpacker, "the unpacking process", e) < 0)
		return -1;
	return c->walker.pid ? sp_crew_join(&c->walker, "the process that reads the folder", e) : 0;
}

/* --- the disk --- */

static int fill(struct run *r, struct sp_err *e)
{
	const struct sp_import *im = r->im;
	struct sp_crew_plan plan = { .source = &r->source,
				     .slot = &r->slot,
				     .disk_fd = im->disk_fd,
				     .disk_size = r->size,
				     .max_bytes = r->max_bytes,
				     .max_entries = im->max_entries ? im->max_entries : MAX_ENTRIES,
				     .auth_file = im->auth_file };
	int rc;

	if (sp_crew_start(&r->crew, &plan, e) < 0)
		return -1;
	rc = listen_all(r, e);
	sp_crew_end(&r->crew);
	return rc;
}

static int finish(struct run *r, struct sp_err *e)
{
	uid_t uid = r->slot.uid[0];
	int64_t size = sp_mkfs_size_for(r->got.used, r->got.inodes);

	show(r, 0, "checking");
	if (r->cut && size < r->size && sp_mkfs_resize(r->im->disk_fd, uid, size, e) < 0)
		return -1;
	if (sp_mkfs_check(r->im->disk_fd, uid, r->got.big_folder > SP_MKFS_FOLDER_INDEX, e) < 0)
		return -1;
	show(r, 0, "syncing");
	if (fdatasync(r->im->disk_fd) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "write the disk");
	return 0;
}

static int make_disk(struct run *r, struct sp_err *e)
{
	const struct sp_import *im = r->im;
	uid_t uid = r->slot.uid[0];

	if (fstat(im->disk_fd, &r->was) < 0 || ftruncate(im->disk_fd, 0) < 0 ||
	    ftruncate(im->disk_fd, r->size) < 0)
		return sp_fail(e, SP_FAIL, errno, "size the disk");
	if (check_room(r, 0, e) < 0)
		return -1;
	/* mke2fs and e2fsck open it by a name of theirs */
	if (fchown(im->disk_fd, uid, uid) < 0)
		return sp_fail(e, SP_FAIL, errno, "hand the disk over");
	return sp_mkfs_make(im->disk_fd, uid, e);
}

static int run(struct run *r, struct sp_err *e)
{
	int rc = -1;

	show(r, 0, "making a file system");
	if (make_disk(r, e) == 0 && fill(r, e) == 0 && finish(r, e) == 0)
		rc = 0;
	if (fchown(r->im->disk_fd, r->was.st_uid, r->was.st_gid) < 0 && rc == 0)
		rc = sp_fail(e, SP_FAIL, errno, "take the disk back");
	return rc;
}

static int plan_size(struct run *r, struct sp_err *e)
{
	const struct sp_import *im = r->im;

	r->max_bytes = im->max_bytes ? im->max_bytes : MAX_BYTES;
	r->cut = im->size == 0;
	r->size = r->cut ? sp_mkfs_size_for(r->max_bytes, 0) : (im->size + MIB - 1) / MIB * MIB;
	if (im->size && (im->size < SP_MKFS_MIN || im->size > SP_MKFS_MAX))
		return sp_fail(e, SP_USAGE, 0, "a disk has between %lld MiB and %lld GiB",
			       (long long)(SP_MKFS_MIN / MIB), (long long)(SP_MKFS_MAX >> 30));
	return 0;
}

int sp_import_run(const struct sp_import *im, struct sp_json **config, int64_t *content_bytes,
		  struct sp_err *e)
{
	struct run r = { .im = im, .slot.fd = -1, .crew = SP_CREW_INIT, .source.fd = -1 };
	int rc = -1;

	if (plan_size(&r, e) == 0 && sp_source_open(im->source, im->stdin_fd, &r.source, e) == 0 &&
	    sp_jail_slot_take(&r.slot, e) == 0 && run(&r, e) == 0) {
		sp_json_put_str(r.config, "source", im->source);
		*config = sp_take_ptr(&r.config);
		*content_bytes = r.got.bytes;
		rc = 0;
	}
	sp_source_close(&r.source);
	sp_fd_close(&r.slot.fd);
	sp_json_free(&r.config);
	return rc;
}
