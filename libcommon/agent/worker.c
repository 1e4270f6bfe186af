/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: children of the agent that do for one session what may block or take long.
 *
 * In a worker descriptor 0 is the session's input, 1 its output, 2 (SP_WORKER_CTL) takes frames
 * that the agent hands on: OPENED, ENTRY and, last, END or ERROR. A worker that is given up gets
 * SIGTERM before its pipes are closed; so an end of input always means that all has come. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/str.h"

/* In the worker */

static struct {
	volatile sig_atomic_t set;
	int dir;
	char name[64];
} temp;

static void on_term(int signal)
{
	(void)signal;
	if (temp.set)
		unlinkat(temp.dir, temp.name, 0);
	_exit(1);
}

void sp_worker_temp(int dir, const char *name)
{
	temp.set = 0;
	if (!name)
		return;
	temp.dir = dir;
	snprintf(temp.name, sizeof temp.name, "%s", name);
	temp.set = 1;
}

void sp_worker_random_name(char out[static 32])
{
	unsigned char r[8] = { 0 };

	if (getrandom(r, sizeof r, 0) != sizeof r)
		r[0] = (unsigned char)getpid();
	snprintf(out, 32, ".space-%02x%02x%02x%02x%02x%02x%02x%02x", r[0], r[1], r[2], r[3], r[4],
		 r[5], r[6], r[7]);
}

void sp_worker_answer(enum sp_g_type type, const struct sp_fields *f)
{
	struct sp_buf b;

	sp_buf_init(&b, SP_G_HEADER + SP_G_PAYLOAD);
	if (f && sp_fields_end(f) < 0)
		_exit(1);
	sp_frame_put(&b, 0, type, 0, f ? f->mem : NULL, f ? (uint32_t)f->len : 0);
	if (sp_write_all(SP_WORKER_CTL, sp_buf_head(&b), sp_buf_len(&b)))
		_exit(1); /* nobody listens any more */
	sp_buf_free(&b);
}

void sp_worker_done(void)
{
	sp_worker_answer(SP_G_END, NULL);
	_exit(0);
}

void sp_worker_fail(enum sp_code code, int sys, const char *fmt, ...)
{
	unsigned char mem[1024];
	char message[512];
	struct sp_fields f;
	va_list ap;
	size_t n;

	if (temp.set)
		unlinkat(temp.dir, temp.name, 0);
	va_start(ap, fmt);
	vsnprintf(message, sizeof message - 64, fmt, ap);
	va_end(ap);
	n = strlen(message);
	if (sys)
		snprintf(message + n, sizeof message - n, ": %s", strerror(sys));
	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u32(&f, SP_T_CODE, sys && code == SP_FAIL ? sp_code_of_errno(sys) : code);
	sp_fields_add_str(&f, SP_T_MESSAGE, message);
	sp_worker_answer(SP_G_ERROR, &f);
	_exit(0);
}

static void list_procs(const struct sp_agent *a)
{
	static unsigned char mem[8192];
	unsigned at = 0;

	for (;;) {
		struct sp_fields f;

		sp_fields_begin(&f, mem, sizeof mem);
		at = sp_proc_entry(a, at, &f);
		if (!at)
			return;
		sp_worker_answer(SP_G_ENTRY, &f);
	}
}

static void set_up(const unsigned char *p, uint32_t len)
{
	struct rlimit files;
	struct sp_user u;
	char user[256], why[128];

	signal(SIGTERM, on_term);
	umask(0);
	if (chdir("/"))
		sp_worker_fail(SP_FAIL, errno, "cannot change to '/'");
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max; /* a folder each, in deep trees */
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (sp_fields_text(p, len, SP_T_USER, user, sizeof user) < 0 || !user[0])
		return;
	if (sp_user_find(user, &u, why, sizeof why) < 0)
		sp_worker_fail(SP_ABSENT, 0, "%s", why);
	if (sp_user_become(&u))
		sp_worker_fail(SP_FAIL, errno, "cannot become user '%s'", u.name);
}

static _Noreturn void work(const struct sp_agent *a, uint8_t type, const unsigned char *p,
			   uint32_t len)
{
	static char path[4096], other[4096];
	uint32_t mode = (uint32_t)sp_fields_num(p, len, SP_T_MODE, 0755) & 07777;
	const unsigned char *d;
	uint32_t n;

	set_up(p, len);
	if (type != SP_G_PS &&
	    (sp_fields_text(p, len, SP_T_PATH, path, sizeof path) < 0 || path[0] != '/'))
		sp_worker_fail(SP_USAGE, 0, "not an absolute path: '%s'", path);
	if (type == SP_G_PS)
		list_procs(a);
	else if (type == SP_G_READ)
		sp_file_read(path);
	else if (type == SP_G_WRITE)
		sp_file_write(path, sp_fields_find(p, len, SP_T_MODE, &d, &n) ? (int64_t)mode : -1,
			      sp_fields_find(p, len, SP_T_USER, &d, &n) && n);
	else if (type == SP_G_GET)
		sp_tree_get(path);
	else if (type == SP_G_PUT)
		sp_tree_put(path);
	else if (type == SP_G_STAT)
		sp_file_stat(path);
	else if (type == SP_G_LIST)
		sp_file_list(path);
	else if (type == SP_G_MKDIR)
		sp_file_mkdir(path, mode);
	else if (type == SP_G_REMOVE)
		sp_file_remove(path);
	else if (sp_fields_text(p, len, SP_T_LINK, other, sizeof other) < 0 || other[0] != '/')
		sp_worker_fail(SP_USAGE, 0, "not an absolute path: '%s'", other);
	else
		sp_file_move(path, other);
	sp_worker_done();
}

/* In the agent */

static void on_ctl(struct sp_agent *a, struct sp_watch *w, uint32_t events)
{
	struct sp_task *t = (struct sp_task *)((char *)w - offsetof(struct sp_task, ctl));
	size_t room = sp_buf_space(&t->ctl_buf) < 4096 ? sp_buf_space(&t->ctl_buf) : 4096;
	unsigned char *to = sp_buf_room(&t->ctl_buf, room);
	ssize_t n;

	(void)events;
	if (!room) {
		sp_watch_set(a, w, 0); /* until what it said has gone out */
		return;
	}
	n = read(w->fd, to, room);
	if (n > 0)
		sp_buf_added(&t->ctl_buf, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		sp_watch_close(a, w);
}

static void on_ended(struct sp_agent *a, void *owner, int status)
{
	struct sp_task *t = owner;

	(void)a;
	(void)status;
	t->child = NULL;
}

static int begin(struct sp_agent *a, struct sp_task *t, const struct sp_g_header *h,
		 const unsigned char *p)
{
	bool with_in = h->type == SP_G_WRITE || h->type == SP_G_PUT;
	int fds[3], rc;

	t->out[0].used = h->type == SP_G_READ || h->type == SP_G_GET;
	rc = sp_task_pipes(t, with_in, fds);
	if (rc == 0 && t->out[0].used)
		rc = sp_ring_init(&t->out[0].ring);
	if (rc == 0) {
		t->pid = sp_child_fork(a, on_ended, t, &t->child);
		if (t->pid == 0) {
			sp_child_descriptors(fds[0], fds[1], fds[2]);
			work(a, h->type, p, h->len);
		}
		rc = t->pid < 0 ? -1 : 0;
	}
	for (int i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (rc)
		return -1;
	/* The second output is where it talks. */
	t->ctl.fd = t->out[1].w.fd;
	t->out[1].w.fd = -1;
	t->ctl.fn = on_ctl;
	sp_task_watch_fds(a, t);
	if (!t->out[0].used)
		sp_watch_set(a, &t->out[0].w, 0);
	return sp_watch_set(a, &t->ctl, EPOLLIN);
}

void sp_worker_start(struct sp_agent *a, uint32_t chan, const struct sp_g_header *h,
		     const unsigned char *p)
{
	struct sp_task *t = sp_task_new(SP_TASK_WORKER);

	if (begin(a, t, h, p)) {
		sp_channel_error(a, chan, SP_FAIL, "cannot begin a worker: %s", strerror(errno));
		if (t->child)
			kill(t->pid, SIGTERM);
		sp_task_free(a, t);
		return;
	}
	sp_session_new(a, chan, t);
}
