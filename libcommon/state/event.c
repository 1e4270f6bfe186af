/* SPDX-License-Identifier: Apache-2.0 */
#include "state/event.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "sys/lock.h"

#define EVENTS "events"
#define EVENTS_LOCK ".events.lock" /* a leaf: no other lock is taken under it */
#define EPOCH_MAX 999999999
#define FILE_SIZE 24 /* of a file's name */
#define CHUNK 65536

/* --- epochs ---------------------------------------------------------------------------------- */

static void file_name(int epoch, char out[static FILE_SIZE])
{
	if (epoch)
		snprintf(out, FILE_SIZE, EVENTS ".%d", epoch);
	else
		snprintf(out, FILE_SIZE, EVENTS);
}

/* The epoch whose file this is, or -1. */
static int epoch_of(const char *name)
{
	size_t n = strlen(EVENTS);
	long v;
	char *end;

	if (strncmp(name, EVENTS, n) != 0)
		return -1;
	if (!name[n])
		return 0;
	if (name[n] != '.' || name[n + 1] < '1' || name[n + 1] > '9' || strlen(name) > n + 10)
		return -1;
	v = strtol(name + n + 1, &end, 10);
	return *end || v > EPOCH_MAX ? -1 : (int)v;
}

struct range {
	int from;       /* looked for: the first at or after this */
	int next, last; /* -1: none */
};

static int range_entry(int store, const char *name, void *arg)
{
	struct range *g = arg;
	int n = epoch_of(name);

	(void)store;
	if (n > g->last)
		g->last = n;
	if (n >= g->from && (g->next < 0 || n < g->next))
		g->next = n;
	return 0;
}

/* The first epoch there is from `from` on, and the last. */
static int range_find(int store, int from, struct range *g, struct sp_err *e)
{
	*g = (struct range){ .from = from, .next = -1, .last = -1 };
	return sp_fs_each(store, range_entry, g, e) < 0 ? -1 : 0;
}

/* --- adding ---------------------------------------------------------------------------------- */

static struct sp_json *event_new(int epoch, int64_t offset, const char *what)
{
	struct sp_json *o = sp_json_new_object();
	char seq[48];

	snprintf(seq, sizeof seq, "%d.%" PRId64, epoch, offset);
	sp_json_put_str(o, "seq", seq);
	sp_json_put_i64(o, "at", sp_clock_real());
	sp_json_put_str(o, "what", what);
	return o;
}

/* Does the file go on in this boot: whole to its last line, not full, and begun in this boot? */
static bool may_go_on(int fd, int64_t size)
{
	char head[256], want[64], last;
	ssize_t n;

	if (size >= SP_EVENT_FILE_MAX || sp_fd_pread(fd, &last, 1, size - 1) != 1 || last != '\n')
		return false;
	n = sp_fd_pread(fd, head, sizeof head - 1, 0);
	if (n <= 0)
		return false;
	head[n] = '\0';
	head[strcspn(head, "\n")] = '\0';
	snprintf(want, sizeof want, "\"boot\":\"%s\"", sp_clock_boot_id());
	return strstr(head, want) != NULL;
}

/* Opens the file to append to, under the lock. An empty one (made by who died then, or new) still
 * needs its first line. */
static int open_last(int store, int *epoch, int64_t *size, struct sp_err *e)
{
	struct range g;
	int tries;

	if (range_find(store, 0, &g, e) < 0)
		return -1;
	if (g.last < 0)
		g.last = 0;
	for (tries = 0; tries < 2; tries++) {
		sp_auto_fd fd = -1;
		struct stat st;
		char name[FILE_SIZE];

		*epoch = g.last + tries;
		if (*epoch > EPOCH_MAX)
			break;
		file_name(*epoch, name);
		fd = sp_fs_open(store, name, O_RDWR | O_APPEND | O_CREAT, 0600, e);
		if (fd < 0)
			return -1;
		if (fstat(fd, &st) < 0)
			return sp_fail(e, SP_FAIL, errno, "'%s'", name);
		*size = st.st_size;
		if (st.st_size == 0 || may_go_on(fd, st.st_size))
			return sp_take_fd(&fd);
	}
	return sp_fail(e, SP_FAIL, 0, "events have no place to go");
}

static void add_line(struct sp_str *text, const struct sp_json *o)
{
	sp_json_print(o, text);
	sp_str_addc(text, '\n');
}

static void add_more(struct sp_json *o, const struct sp_json *more)
{
	size_t i;

	for (i = 0; i < sp_json_len(more); i++)
		sp_json_put(o, sp_json_key_at(more, i), sp_json_copy(sp_json_at(more, i)));
}

int sp_event_add(const struct sp_roots *r, const char *what, const char *id, const char *op,
		 const struct sp_json *more, struct sp_err *e)
{
	sp_auto_fd lock = sp_lock_take(r->store, EVENTS_LOCK, -1, e), fd = -1;
	sp_auto_json *first = NULL, *o = NULL;
	sp_auto_str text = SP_STR_INIT;
	int64_t size = 0;
	size_t head;
	int epoch = 0;

	if (lock < 0)
		return -1;
	fd = open_last(r->store, &epoch, &size, e);
	if (fd < 0)
		return -1;
	if (size == 0) {
		first = event_new(epoch, 0, "events.epoch");
		sp_json_put_str(first, "boot", sp_clock_boot_id());
		add_line(&text, first);
	}
	head = text.len;
	o = event_new(epoch, size + (int64_t)head, what);
	sp_json_put_str(o, "id", id);
	sp_json_put_str(o, "op", op);
	if (more)
		add_more(o, more);
	add_line(&text, o);
	if (text.len - head > SP_EVENT_MAX)
		return sp_fail(e, SP_FAIL, 0, "event would be larger than %d bytes", SP_EVENT_MAX);
	if (sp_fd_write(fd, text.p, text.len) < 0) {
		sp_fail(e, sp_code_of_errno(errno), errno, "add event");
		if (ftruncate(fd, size) < 0)
			e->sys = errno; /* then the next one finds a torn tail */
		return -1;
	}
	return 0;
}

/* --- reading --------------------------------------------------------------------------------- */

struct reader {
	const struct sp_roots *roots;
	int (*fn)(const char *line, size_t n, void *arg);
	void *arg;
	int epoch; /* being read, or the first to look for */
	int64_t at;
	int fd;             /* of epoch's file, or -1 */
	struct sp_str part; /* a line whose end has not come yet */
};

/* Gives out the whole lines in what was read. */
static int give(struct reader *d, const char *p, size_t n)
{
	while (n) {
		const char *end = memchr(p, '\n', n);
		size_t len = end ? (size_t)(end - p) : n;
		int rc;

		sp_str_addn(&d->part, p, len);
		if (!end)
			return 0;
		rc = d->fn(d->part.p, d->part.len, d->arg);
		d->at += (int64_t)d->part.len + 1;
		sp_str_clear(&d->part);
		if (rc)
			return rc;
		p += len + 1;
		n -= len + 1;
	}
	return 0;
}

/* Reads to the end of the file; what it holds of a line that is not whole is read again later. */
static int drain(struct reader *d, struct sp_err *e)
{
	sp_auto_free char *chunk = sp_xmalloc(CHUNK);
	int64_t at = d->at;

	sp_str_clear(&d->part);
	for (;;) {
		ssize_t n = sp_fd_pread(d->fd, chunk, CHUNK, at);
		int rc;

		if (n < 0)
			return sp_fail(e, SP_FAIL, errno, "read events");
		if (n == 0)
			return 0;
		at += n;
		rc = give(d, chunk, (size_t)n);
		if (rc)
			return rc;
		if (d->part.len > SP_EVENT_MAX)
			return sp_fail(e, SP_FAIL, 0, "events %d.%" PRId64 " is no line", d->epoch,
				       d->at);
	}
}

/* Reads all there is now, over every epoch. 0 at the end. */
static int read_all(struct reader *d, struct sp_err *e)
{
	struct range g;
	char name[FILE_SIZE];
	int rc;

	for (;;) {
		/* Whether there is a later one is asked before reading this one: it was final
		 * then. */
		if (range_find(d->roots->store, d->fd < 0 ? d->epoch : d->epoch + 1, &g, e) < 0)
			return -1;
		if (d->fd >= 0) {
			rc = drain(d, e);
			if (rc)
				return rc;
		}
		if (g.next < 0)
			return 0;
		sp_fd_close(&d->fd);
		if (d->epoch != g.next)
			d->at = 0;
		d->epoch = g.next;
		file_name(d->epoch, name);
		d->fd = sp_fs_open(d->roots->store, name, O_RDONLY, 0, e);
		if (d->fd < 0)
			return -1;
	}
}

/* "EPOCH.OFFSET", where a line begins or the next one will. */
static int start_at(struct reader *d, const char *since, struct sp_err *e)
{
	char name[FILE_SIZE], *end, before = '\n';
	sp_auto_fd fd = -1;
	struct range g;
	struct stat st;
	long epoch;

	errno = 0;
	epoch = since[0] >= '0' && since[0] <= '9' ? strtol(since, &end, 10) : -1;
	if (epoch >= 0 && epoch <= EPOCH_MAX && *end == '.' && end[1] >= '0' && end[1] <= '9')
		d->at = strtoll(end + 1, &end, 10);
	else
		epoch = -1;
	if (epoch < 0 || epoch > EPOCH_MAX || *end || errno)
		return sp_fail(e, SP_USAGE, 0, "'%s' is no sequence number", since);
	d->epoch = (int)epoch;
	if (range_find(d->roots->store, d->epoch, &g, e) < 0)
		return -1;
	file_name(d->epoch, name);
	fd = openat(d->roots->store, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	st.st_size = 0;
	if (fd >= 0 && fstat(fd, &st) < 0)
		return sp_fail(e, SP_FAIL, errno, "'%s'", name);
	if (d->at > st.st_size && g.last > d->epoch) {
		d->epoch++; /* lost with the power: what came after it */
		d->at = 0;
	} else if (d->at > st.st_size ||
		   (d->at > 0 && (sp_fd_pread(fd, &before, 1, d->at - 1) != 1 || before != '\n'))) {
		return sp_fail(e, SP_USAGE, 0, "no event has the sequence number '%s'", since);
	}
	return 0;
}

/* Waits until something in the store's folder changes that may be an event. The whole folder is
 * watched, for a new epoch is a new file. */
static int await_change(int ino, struct sp_err *e)
{
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	struct pollfd p = { .fd = ino, .events = POLLIN };
	bool ours = false;

	while (!ours) {
		ssize_t n = 0, at = 0;

		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			return sp_fail(e, SP_FAIL, errno, "poll");
		n = read(ino, buf, sizeof buf);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return sp_fail(e, SP_FAIL, errno, "inotify");
		while (at < n) {
			const struct inotify_event *v = (const void *)(buf + at);

			ours |= (v->mask & IN_Q_OVERFLOW) || (v->len && epoch_of(v->name) >= 0);
			at += (ssize_t)(sizeof *v + v->len);
		}
	}
	return 0;
}

static int watch_store(int store, struct sp_err *e)
{
	sp_auto_fd ino = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	char path[32];

	if (ino < 0)
		return sp_fail(e, errno == EMFILE ? SP_HOST : SP_FAIL, errno,
			       "inotify (fs.inotify.max_user_instances)");
	snprintf(path, sizeof path, "/proc/self/fd/%d", store);
	if (inotify_add_watch(ino, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0)
		return sp_fail(e, SP_FAIL, errno, "watch events");
	return sp_take_fd(&ino);
}

int sp_event_read(const struct sp_roots *r, const char *since, int follow,
		  int (*fn)(const char *line, size_t n, void *arg), void *arg, struct sp_err *e)
{
	struct reader d = { .roots = r, .fn = fn, .arg = arg, .fd = -1, .part = SP_STR_INIT };
	sp_auto_fd ino = -1;
	int rc = 0;

	if (follow) { /* watch first, then read: nothing falls between */
		ino = watch_store(r->store, e);
		if (ino < 0)
			return -1;
	}
	if (since && start_at(&d, since, e) < 0)
		return -1;
	do {
		rc = read_all(&d, e);
		if (rc == 0 && follow)
			rc = await_change(ino, e);
	} while (rc == 0 && follow);
	sp_fd_close(&d.fd);
	sp_str_free(&d.part);
	return rc;
}
