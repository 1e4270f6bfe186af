/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/fs.h"
#include "sys/lock.h"
#include "sys/proc.h"

#define SPEC_FD 3 /* as sd_listen_fds(3) has it, so a socket unit can start us too */

struct launch {
	char path[4096];
	char state[4200], run[4200];
	int sock;
};

static int exec_monitor(void *arg)
{
	struct launch *l = arg;
	char *argv[] = { l->path, NULL };
	char *envp[] = { l->state, l->run, NULL };

	if (l->sock != SPEC_FD && dup2(l->sock, SPEC_FD) < 0)
		return 1;
	if (fcntl(SPEC_FD, F_SETFD, 0) < 0)
		return 1;
	execve(l->path, argv, envp);
	return 127;
}

static int start_here(const struct sp_roots *r, int *report, struct sp_err *e)
{
	sp_auto_free struct launch *l = sp_xcalloc(1, sizeof *l);
	int p[2], rc;

	if (sp_proc_helper("space-monitor", l->path, sizeof l->path, e) < 0)
		return -1;
	snprintf(l->state, sizeof l->state, "SPACE_STATE=%s", r->state_path);
	snprintf(l->run, sizeof l->run, "SPACE_RUN=%s", r->run_path);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p) < 0)
		return sp_fail(e, SP_FAIL, errno, "socketpair");
	l->sock = p[1];
	rc = sp_proc_detach(exec_monitor, l, &l->sock, 1, NULL, e);
	close(p[1]);
	if (rc < 0) {
		close(p[0]);
		return -1;
	}
	*report = p[0];
	return 0;
}

int sp_mon_start(const struct sp_roots *r, const struct sp_mon_spec *spec, int *report,
		 struct sp_err *e)
{
	struct sp_mon_spec copy = *spec;
	sp_auto_fd sock = -1;
	struct sp_err no_launcher;

	copy.size = sizeof copy;
	if (sp_fs_exists(r->run, "launch.sock"))
		sock = sp_sock_connect(r->run, "launch.sock", SOCK_SEQPACKET, &no_launcher);
	if (sock < 0 && start_here(r, &sock, e) < 0)
		return -1;
	if (sp_sock_send(sock, &copy, sizeof copy, NULL, 0) < 0)
		return sp_fail(e, SP_FAIL, errno, "cannot speak to the new monitor");
	*report = sp_take_fd(&sock);
	return 0;
}

int sp_mon_await(int report, struct sp_mon_report *out, struct sp_err *e)
{
	int nfds = 0;

	if (sp_sock_recv(report, out, sizeof *out, NULL, &nfds) != (ssize_t)sizeof *out ||
	    out->size != sizeof *out)
		return sp_fail(e, SP_FAIL, 0, "the monitor died before the machine ran");
	out->message[sizeof out->message - 1] = '\0';
	if (out->code == SP_OK)
		return 0;
	return sp_fail(e, (enum sp_code)out->code, 0, "%s", out->message);
}

static int open_run(const struct sp_roots *r, const char *sandbox, struct sp_err *e)
{
	if (!sp_id_is_valid(sandbox, SP_SANDBOX))
		return sp_fail(e, SP_ABSENT, 0, "no such sandbox");
	return sp_fs_open_dir(r->run, sandbox, e);
}

static int dial(const struct sp_roots *r, const char *sandbox, const char *name, int type,
		struct sp_err *e)
{
	sp_auto_fd dir = open_run(r, sandbox, e);
	int fd;

	if (dir < 0)
		return sp_fail(e, SP_CONFLICT, 0, "it is not running");
	fd = sp_sock_connect(dir, name, type, e);
	return fd < 0 ? sp_fail(e, SP_CONFLICT, 0, "it is not running") : fd;
}

int sp_mon_guest(const struct sp_roots *r, const char *sandbox, struct sp_err *e)
{
	return dial(r, sandbox, "guest", SOCK_STREAM, e);
}

int sp_mon_call(const struct sp_roots *r, const char *sandbox, const struct sp_mon_request *q,
		struct sp_mon_answer *a, struct sp_err *e)
{
	sp_auto_fd sock = dial(r, sandbox, "ctl", SOCK_SEQPACKET, e);
	sp_auto_free struct sp_mon_request *copy = sp_xmalloc(sizeof *copy);
	int nfds = 0;

	if (sock < 0)
		return -1;
	*copy = *q;
	copy->size = sizeof *copy;
	if (sp_sock_send(sock, copy, sizeof *copy, NULL, 0) < 0 ||
	    sp_sock_recv(sock, a, sizeof *a, NULL, &nfds) != (ssize_t)sizeof *a ||
	    a->size != sizeof *a)
		return sp_fail(e, SP_FAIL, 0, "its monitor died before it answered");
	a->message[sizeof a->message - 1] = '\0';
	if (a->code == SP_OK)
		return 0;
	return sp_fail(e, (enum sp_code)a->code, 0, "%s", a->message);
}

/* The second life: the lock on the disk's descriptor, which the VMM holds too. */
static int disk_is_held(const struct sp_roots *r, const char *sandbox, struct sp_err *e)
{
	sp_auto_fd boxes = sp_fs_open_dir(r->store, SP_DIR_SANDBOXES, e);
	sp_auto_fd box = boxes < 0 ? -1 : sp_fs_open_dir(boxes, sandbox, e);
	sp_auto_fd vol = box < 0 ? -1 : sp_fs_open_dir(box, "vol", e);

	return vol < 0 ? 0 : sp_life_is_held(vol, "rootfs.img", e);
}

int sp_mon_is_alive(const struct sp_roots *r, const char *sandbox, struct sp_err *e)
{
	sp_auto_fd dir = open_run(r, sandbox, e);
	int rc = 0;

	if (dir >= 0)
		rc = sp_life_is_held(dir, "life", e);
	return rc ? rc : disk_is_held(r, sandbox, e);
}

/* A pidfd of the monitor that the life file names; -1 with e->code SP_OK when there is none. */
static int open_monitor(int dir, struct sp_proc_id *id, struct sp_err *e)
{
	sp_auto_str text = SP_STR_INIT;
	unsigned long long start;
	int pid;

	e->code = SP_OK;
	if (!sp_fs_exists(dir, "life"))
		return -1;
	if (sp_fs_read(dir, "life", 128, &text, e) < 0)
		return -1;
	if (sscanf(text.p, "%d %llu %36s", &pid, &start, id->boot) != 3)
		return -1; /* it did not come that far */
	id->pid = pid;
	id->start = start;
	return sp_proc_open(id);
}

static int end_monitor(const struct sp_roots *r, const char *sandbox, int dir, struct sp_err *e)
{
	sp_auto_free struct sp_mon_request *q = sp_xcalloc(1, sizeof *q);
	struct sp_proc_id id = { .pid = 0 };
	sp_auto_fd pidfd = open_monitor(dir, &id, e);
	struct sp_mon_answer a;
	struct sp_err ignored;

	if (pidfd < 0)
		return e->code == SP_OK ? 0 : -1;
	q->verb = SP_MON_QUIT;
	if (sp_mon_call(r, sandbox, q, &a, &ignored) == 0 && sp_proc_await(pidfd, 5000) == 1)
		return 0;
	if (sp_proc_kill(&id, SIGKILL, e) < 0)
		return -1;
	if (sp_proc_await(pidfd, 20000) != 1)
		return sp_fail(e, SP_BUSY, 0, "its monitor does not die");
	return 0;
}

/* A VMM whose monitor was killed dies by its death signal, a moment later; the lock on its disk
 * tells when. Only a process of its own can wait for a lock and be given up. */
static int await_disk(const struct sp_roots *r, const char *sandbox, struct sp_err *e)
{
	int held = disk_is_held(r, sandbox, e);
	sp_auto_fd pidfd = -1;
	pid_t pid;

	if (held <= 0)
		return held;
	pid = fork();
	if (pid < 0)
		return sp_fail(e, SP_BUSY, errno, "fork");
	if (pid == 0) {
		sp_auto_fd boxes = sp_fs_open_dir(r->store, SP_DIR_SANDBOXES, e);
		sp_auto_fd box = boxes < 0 ? -1 : sp_fs_open_dir(boxes, sandbox, e);
		sp_auto_fd vol = box < 0 ? -1 : sp_fs_open_dir(box, "vol", e);
		sp_auto_fd disk = vol < 0 ? -1 : sp_fs_open(vol, "rootfs.img", O_RDONLY, 0, e);
		struct flock fl = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1 };

		_exit(disk < 0 || fcntl(disk, F_OFD_SETLKW, &fl) == 0 ? 0 : 1);
	}
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	held = sp_proc_await(pidfd, 10000) != 1;
	if (held)
		kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return held ? sp_fail(e, SP_BUSY, 0, "its VMM does not die") : 0;
}

int sp_mon_end(const struct sp_roots *r, const char *sandbox, struct sp_err *e)
{
	sp_auto_fd dir = open_run(r, sandbox, e);

	if (dir >= 0 && end_monitor(r, sandbox, dir, e) < 0)
		return -1;
	if (await_disk(r, sandbox, e) < 0)
		return -1;
	return dir < 0 ? 0 : sp_fs_remove_tree(r->run, sandbox, e);
}
