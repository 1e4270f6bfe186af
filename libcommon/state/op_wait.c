/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting: for one's turn, and for an operation's end. Nothing here looks again on a clock.
 *
 * What is waited for is always the end of a file (inotify: a record replaced, a ticket or an owner
 * removed) or of a process (pidfd). The watch is set first and the state read after it, so a change
 * between the two is either seen by the read or told by the watch. Watches are on the files
 * themselves, not on their folder: with a thousand waiters each wakes for its own operation
 * only. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "state/op_int.h"
#include "state/record.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"

/* A user has 128 inotify instances by default (fs.inotify.max_user_instances). Who finds them all
 * taken still wakes at once when the process it waits for ends, and else this often. */
#define NO_INOTIFY_MS 100

struct watch {
	int fd; /* inotify, or -1 where there are none left */
};

static int watch_open(struct watch *w, struct sp_err *e)
{
	w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->fd < 0 && errno != EMFILE && errno != ENFILE)
		return sp_fail(e, SP_FAIL, errno, "inotify");
	return 0;
}

static void watch_close(struct watch *w)
{
	sp_fd_close(&w->fd);
}

/* 1 watched, 0 there is no such file, -1 *e. A removal shows as a change of the link count
 * (IN_ATTRIB) at once; IN_DELETE_SELF waits for the last reference, and covers a file that was
 * found in the moment of its removal. */
static int watch_add(const struct watch *w, int dirfd, const char *name, struct sp_err *e)
{
	char path[64 + SP_OP_TICKET_SIZE];

	if (w->fd < 0)
		return sp_fs_exists(dirfd, name);
	snprintf(path, sizeof path, "/proc/self/fd/%d/%s", dirfd, name);
	if (inotify_add_watch(w->fd, path,
			      IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_DONT_FOLLOW) >= 0)
		return 1;
	if (errno == ENOENT)
		return 0;
	return sp_fail(e, errno == ENOSPC ? SP_HOST : SP_FAIL, errno, "watch '%s'", name);
}

/* Waits for a watch or the end of a process (pidfd -1: none). until: CLOCK_MONOTONIC, or -1.
 * 1 something happened, 0 the time is up. */
static int watch_wait(const struct watch *w, int pidfd, int64_t until, struct sp_err *e)
{
	struct pollfd p[2] = { { .fd = w->fd, .events = POLLIN },
			       { .fd = pidfd, .events = POLLIN } };
	int64_t left = -1;
	int ms, rc;

	if (until >= 0) {
		left = (until - sp_clock_mono() + 999999) / 1000000;
		if (left <= 0)
			return 0;
	}
	ms = left < 0 || left > 1000000 ? 1000000 : (int)left;
	if (w->fd < 0 && ms > NO_INOTIFY_MS)
		ms = NO_INOTIFY_MS;
	rc = poll(p, 2, ms);
	if (rc < 0 && errno != EINTR)
		return sp_fail(e, SP_FAIL, errno, "poll");
	return 1;
}

/* --- one's turn ------------------------------------------------------------------------------ */

struct ahead {
	const struct sp_op *op;
	const struct sp_json *subjects;
	struct sp_ticket first; /* seq 0: none */
};

static int look_ahead(int queue, const char *name, void *arg)
{
	struct ahead *a = arg;
	struct sp_ticket t;
	size_t i;

	(void)queue;
	if (!sp_ticket_parse(name, &t) || t.seq >= a->op->seq || strcmp(t.op, a->op->id) == 0)
		return 0;
	if (a->first.seq && a->first.seq <= t.seq)
		return 0;
	for (i = 0; i < sp_json_len(a->subjects); i++) {
		const char *s = sp_json_value_str(sp_json_at(a->subjects, i));

		if (s && strcmp(s, t.subject) == 0)
			a->first = t;
	}
	return 0;
}

/* The state of the operation ahead. */
enum look {
	LOOK_ERROR = -1,
	LOOK_LEFT,  /* nothing but its ticket is left */
	LOOK_DEAD,  /* unfinished, its worker dead */
	LOOK_ALIVE, /* *pidfd is its worker */
};

static enum look look_at(const struct sp_roots *r, const char *id, int *pidfd,
			 struct sp_proc_id *who, struct sp_err *e)
{
	sp_auto_fd queue = sp_op_dir(r, SP_DIR_QUEUE, e);
	sp_auto_json *rec = NULL;
	struct sp_op_owner own;
	bool open;

	if (queue < 0)
		return LOOK_ERROR;
	rec = sp_op_load(r, id, e);
	if (!rec)
		return e->code == SP_ABSENT ? LOOK_LEFT : LOOK_ERROR;
	open = sp_op_is_open(rec);
	*who = (struct sp_proc_id){ 0 };
	if (open)
		sp_op_get_worker(rec, who);
	else if (sp_owner_get(queue, id, &own) == 1)
		*who = own.who;
	*pidfd = sp_owner_open(who);
	if (*pidfd >= 0)
		return LOOK_ALIVE;
	if (errno != ESRCH)
		return (enum look)sp_fail(e, SP_FAIL, errno, "process %d", (int)who->pid);
	return open ? LOOK_DEAD : LOOK_LEFT;
}

/* Takes away what an operation left in the queue that has ended or never was. */
static int take_away(const struct sp_roots *r, const char *id, struct sp_err *e)
{
	sp_auto_fd lock = sp_root_lock(r, e);
	sp_auto_json *rec = NULL;

	if (lock < 0)
		return -1;
	rec = sp_op_load(r, id, e);
	if (rec ? sp_op_is_open(rec) : e->code != SP_ABSENT)
		return rec ? 0 : -1;
	return sp_op_finish_end(r, id, rec, e);
}

struct turn {
	struct sp_op *op;
	int (*repair)(const struct sp_roots *r, const char *op_id, struct sp_err *e);
	char repaired[SP_ID_SIZE]; /* the last one that was handed to repair, */
	struct sp_proc_id was;     /* whose dead worker this was */
};

static int hand_to_repair(struct turn *t, const char *id, const struct sp_proc_id *who,
			  struct sp_err *e)
{
	if (strcmp(t->repaired, id) == 0 && t->was.pid == who->pid && t->was.start == who->start)
		return sp_fail(e, SP_FAIL, 0, "operation %s stays as its dead worker left it", id);
	memcpy(t->repaired, id, SP_ID_SIZE);
	t->was = *who;
	if (!t->repair)
		return sp_fail(e, SP_BUSY, 0, "operation %s is left over and needs repair", id);
	if (t->repair(t->op->roots, id, e) < 0)
		return sp_wrap(e, "operation %s, which came first", id);
	return 0;
}

/* One look: 1 it is our turn, 0 look again, -1 *e. */
static int turn_step(struct turn *t, int queue, const struct watch *w, struct sp_err *e)
{
	struct ahead a = { .op = t->op, .subjects = sp_json_get(t->op->rec, "subjects") };
	char name[SP_OP_TICKET_SIZE];
	struct sp_proc_id who;
	sp_auto_fd pidfd = -1;
	int rc;

	if (sp_fs_each(queue, look_ahead, &a, e) < 0)
		return -1;
	if (!a.first.seq)
		return 1;
	sp_ticket_name(&a.first, name);
	rc = watch_add(w, queue, name, e);
	if (rc <= 0)
		return rc;
	switch (look_at(t->op->roots, a.first.op, &pidfd, &who, e)) {
	case LOOK_LEFT:
		return take_away(t->op->roots, a.first.op, e);
	case LOOK_DEAD:
		return hand_to_repair(t, a.first.op, &who, e);
	case LOOK_ALIVE:
		return watch_wait(w, pidfd, -1, e) < 0 ? -1 : 0;
	case LOOK_ERROR:
		break;
	}
	return -1;
}

int sp_op_await_turn(struct sp_op *op,
		     int (*repair)(const struct sp_roots *r, const char *op_id, struct sp_err *e),
		     struct sp_err *e)
{
	sp_auto_fd queue = sp_op_dir(op->roots, SP_DIR_QUEUE, e);
	struct turn t = { .op = op, .repair = repair };
	struct watch w = { .fd = -1 };
	int rc = 0;

	if (queue < 0)
		return -1;
	while (rc == 0) {
		rc = watch_open(&w, e); /* a fresh one each time: nothing to drain, nothing stale */
		if (rc == 0)
			rc = turn_step(&t, queue, &w, e);
		watch_close(&w);
	}
	return rc < 0 ? -1 : 0;
}

/* --- the end of an operation ----------------------------------------------------------------- */

struct waiting {
	const struct sp_roots *roots;
	const char *id;
	int ops, queue;
	int64_t until;
	struct sp_proc_id dead; /* found dead by the look before this one */
};

static int wait_more(const struct waiting *x, const struct watch *w, int pidfd, struct sp_err *e)
{
	int rc = watch_wait(w, pidfd, x->until, e);

	if (rc == 0)
		return sp_fail(e, SP_BUSY, 0, "operation %s has not ended in time", x->id);
	return rc < 0 ? -1 : 0;
}

/* The record says ended. That is durable when its owner has let go of the queue: until then wait
 * for the owner, or do what a dead one did not come to. 1 ended, 0 look again, -1 *e. */
static int see_end(const struct waiting *x, const struct watch *w, int linked,
		   const struct sp_json *rec, struct sp_err *e)
{
	struct sp_op_owner own;
	sp_auto_fd pidfd = -1;

	if (!linked || sp_owner_get(x->queue, x->id, &own) == 0)
		return 1;
	pidfd = sp_owner_open(&own.who);
	if (pidfd >= 0)
		return wait_more(x, w, pidfd, e);
	return sp_op_finish_end(x->roots, x->id, rec, e) < 0 ? -1 : 1;
}

enum { SEEN_ERROR = -1, SEEN_AGAIN, SEEN_END, SEEN_DEAD };

static int wait_step(struct waiting *x, const struct watch *w, struct sp_json **rec,
		     struct sp_err *e)
{
	char link[SP_ID_SIZE + 1];
	struct sp_proc_id who;
	sp_auto_fd pidfd = -1;
	int linked;

	snprintf(link, sizeof link, ".%s", x->id);
	if (watch_add(w, x->ops, x->id, e) < 0)
		return SEEN_ERROR;
	linked = watch_add(w, x->queue, link, e);
	if (linked < 0)
		return SEEN_ERROR;
	*rec = sp_op_load(x->roots, x->id, e);
	if (!*rec)
		return SEEN_ERROR;
	if (!sp_op_is_open(*rec))
		return see_end(x, w, linked, *rec, e);
	sp_op_get_worker(*rec, &who);
	pidfd = sp_owner_open(&who);
	if (pidfd >= 0)
		return wait_more(x, w, pidfd, e);
	if (errno != ESRCH)
		return sp_fail(e, SP_FAIL, errno, "process %d", (int)who.pid);
	/* It may have ended its work, or handed it on, between our look at the record and at the
	 * process: only a second look that finds the same is a verdict. */
	if (x->dead.pid == who.pid && x->dead.start == who.start)
		return SEEN_DEAD;
	x->dead = who;
	return SEEN_AGAIN;
}

int sp_op_wait(const struct sp_roots *r, const char *id, int timeout_ms, struct sp_json **rec,
	       struct sp_err *e)
{
	sp_auto_fd ops = -1, queue = -1;
	struct waiting x = { .roots = r, .id = id, .until = -1 };
	struct watch w = { .fd = -1 };
	int rc = SEEN_AGAIN;

	*rec = NULL;
	if (!sp_id_is_valid(id, SP_OPERATION))
		return sp_fail(e, SP_ABSENT, 0, "no such operation");
	if (timeout_ms >= 0)
		x.until = sp_clock_mono() + (int64_t)timeout_ms * 1000000;
	ops = sp_op_dir(r, SP_DIR_OPS, e);
	if (ops < 0)
		return -1;
	queue = sp_op_dir(r, SP_DIR_QUEUE, e);
	if (queue < 0)
		return -1;
	x.ops = ops;
	x.queue = queue;
	while (rc == SEEN_AGAIN) {
		sp_json_free(rec);
		rc = watch_open(&w, e);
		if (rc == 0)
			rc = wait_step(&x, &w, rec, e);
		watch_close(&w);
	}
	if (rc == SEEN_END)
		return 1;
	sp_json_free(rec);
	return rc == SEEN_DEAD ? 0 : -1;
}
