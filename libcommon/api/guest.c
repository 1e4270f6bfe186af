/* SPDX-License-Identifier: Apache-2.0 */
#include "api/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "api/table.h"
#include "monitor/console.h"
#include "monitor/ctl.h"
#include "state/name.h"
#include "state/record.h"
#include "sys/fd.h"
#include "sys/fs.h"

uint64_t sp_guest_caps(void)
{
	return 1ull << CAP_DAC_OVERRIDE;
}

static int open_folder(const struct sp_guest *g)
{
	char path[64];

	snprintf(path, sizeof path, SP_DIR_SANDBOXES "/%s", g->id);
	return sp_fs_open_beneath(g->api->roots.store, path, O_RDONLY | O_DIRECTORY, 0);
}

struct sp_guest *sp_guest_open(struct sp_api *a, const char *operand, struct sp_err *e)
{
	struct sp_guest *g = sp_xcalloc(1, sizeof *g);

	g->api = a;
	g->dir = g->watch = -1;
	snprintf(g->operand, sizeof g->operand, "%s", operand);
	if (sp_name_resolve(&a->roots, a->owner, operand, g->id, e) < 0) {
		if (e->code == SP_ABSENT)
			sp_fail(e, SP_ABSENT, 0, "no sandbox '%s'", operand);
		goto undo;
	}
	if (!sp_id_is_valid(g->id, SP_SANDBOX)) {
		sp_fail(e, SP_ABSENT, 0, "'%s' is not a sandbox", operand);
		goto undo;
	}
	g->dir = open_folder(g);
	if (g->dir < 0) {
		sp_fail(e, sp_code_of_errno(errno), errno == ENOENT ? 0 : errno,
			errno == ENOENT ? "no sandbox '%s'" : "open the folder of sandbox '%s'",
			operand);
		goto undo;
	}
	g->record = sp_record_load(g->dir, "record.json", e);
	if (!g->record)
		goto undo;
	return g;
undo:
	sp_guest_free(&g);
	return NULL;
}

void sp_guest_free(struct sp_guest **gp)
{
	struct sp_guest *g = *gp;

	if (!g)
		return;
	sp_json_free(&g->record);
	sp_fd_close(&g->dir);
	sp_fd_close(&g->watch);
	free(g);
	*gp = NULL;
}

const char *sp_guest_id(const struct sp_guest *g)
{
	return g->id;
}

const struct sp_json *sp_guest_record(const struct sp_guest *g)
{
	return g->record;
}

int sp_guest_console(const struct sp_guest *g, struct sp_err *e)
{
	int fd = sp_fs_open_beneath(g->dir, "console", O_RDONLY, 0);

	if (fd < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "open the console");
	return fd;
}

long sp_guest_console_read(int fd, uint64_t *at, void *buf, size_t n, struct sp_err *e)
{
	return sp_console_read(fd, at, buf, n, e);
}

static int add_watch(struct sp_guest *g, int dirfd, const char *name, uint32_t events)
{
	char path[128];

	snprintf(path, sizeof path, "/proc/self/fd/%d/%s", dirfd, name);
	return inotify_add_watch(g->watch, path, events | IN_ONLYDIR);
}

/* A sandbox that comes back has its record replaced, whatever else happens; its removal renames its
 * folder; an operation that ends takes its ticket out of the queue. */
int sp_guest_watch(struct sp_guest *g, struct sp_err *e)
{
	const struct sp_roots *r = &g->api->roots;

	if (g->watch >= 0)
		return g->watch;
	g->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (g->watch < 0 || add_watch(g, r->run, ".", IN_CREATE | IN_MOVED_TO | IN_DELETE) < 0 ||
	    add_watch(g, g->dir, ".", IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVE_SELF) < 0 ||
	    add_watch(g, r->store, SP_DIR_SANDBOXES, IN_MOVED_FROM | IN_DELETE) < 0 ||
	    add_watch(g, r->store, SP_DIR_QUEUE, IN_DELETE | IN_MOVED_FROM) < 0) {
		int sys = errno;

		sp_fd_close(&g->watch);
		return sp_fail(e, sys == EMFILE || sys == ENOSPC ? SP_HOST : SP_FAIL, sys,
			       "watch the sandbox");
	}
	return g->watch;
}

static void drain_watch(const struct sp_guest *g)
{
	char events[4096] __attribute__((aligned(8)));

	while (g->watch >= 0 && read(g->watch, events, sizeof events) > 0)
		;
}

static int is_ticket(int dirfd, const char *name, void *arg)
{
	const struct sp_guest *g = arg;

	(void)dirfd;
	return strncmp(name, g->id, SP_ID_LEN) == 0 && name[SP_ID_LEN] == '.';
}

int sp_guest_is_busy(struct sp_guest *g, struct sp_err *e)
{
	sp_auto_fd queue = sp_fs_open_dir(g->api->roots.store, SP_DIR_QUEUE, e);

	if (queue < 0)
		return -1;
	return sp_fs_each(queue, is_ticket, g, e);
}

/* By the sandbox's id, not by the folder that was open: one that was removed has none. */
static struct sp_json *load_now(const struct sp_guest *g, struct sp_err *e)
{
	sp_auto_fd dir = open_folder(g);

	if (dir < 0 && errno == ENOENT)
		sp_fail(e, SP_ABSENT, 0, "sandbox '%s' was removed", g->operand);
	else if (dir < 0)
		sp_fail(e, SP_FAIL, errno, "open the folder of sandbox '%s'", g->operand);
	return dir < 0 ? NULL : sp_record_load(dir, "record.json", e);
}

static const char *state_of(const struct sp_json *rec)
{
	const char *state = sp_json_str(rec, "state");

	return state ? state : "";
}

int sp_guest_connect(struct sp_guest *g, struct sp_err *e)
{
	sp_auto_json *rec = NULL;
	const char *state;
	struct sp_err why;
	int fd = sp_mon_guest(&g->api->roots, g->id, e);

	if (fd >= 0 || e->code != SP_CONFLICT)
		return fd;
	rec = load_now(g, &why);
	if (!rec) {
		*e = why;
		return -1;
	}
	state = state_of(rec);
	if (strcmp(state, "paused") == 0)
		return sp_fail(e, SP_CONFLICT, 0, "sandbox '%s' is paused: space-resume %s",
			       g->operand, g->operand);
	if (strcmp(state, "running") == 0)
		return sp_fail(e, SP_CONFLICT, 0, "sandbox '%s' is dead: its machine is gone",
			       g->operand);
	return sp_fail(e, SP_CONFLICT, 0, "sandbox '%s' is %s", g->operand, state);
}

/* One look. A monitor that cannot be reached, a record that says "running" and no operation in the
 * queue is a death; but the three are not seen at one instant, so *dead is only a suspicion. */
static int look(struct sp_guest *g, int *fd, bool *dead, struct sp_err *e)
{
	sp_auto_json *rec = NULL;
	struct sp_err why;
	int busy;

	*dead = false;
	*fd = sp_mon_guest(&g->api->roots, g->id, &why);
	if (*fd >= 0)
		return 1;
	busy = sp_guest_is_busy(g, e);
	if (busy < 0)
		return -1;
	rec = load_now(g, e);
	if (!rec)
		return -1;
	if (strcmp(state_of(rec), "stopped") == 0)
		return sp_fail(e, SP_CONFLICT, 0, "sandbox '%s' stopped", g->operand);
	*dead = !busy && strcmp(state_of(rec), "running") == 0;
	return 0;
}

int sp_guest_reconnect(struct sp_guest *g, int *fd, struct sp_err *e)
{
	bool dead;
	int r;

	*fd = -1;
	if (sp_guest_watch(g, e) < 0)
		return -1;
	drain_watch(g); /* first: what changes from here on is told again */
	r = look(g, fd, &dead, e);
	if (r == 0 && dead)
		r = look(g, fd, &dead, e);
	if (r == 0 && dead)
		return sp_fail(e, SP_CONFLICT, 0, "sandbox '%s' died", g->operand);
	return r;
}
