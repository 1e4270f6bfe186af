/* SPDX-License-Identifier: Apache-2.0 */
/* Starting processes: programs whose output is wanted, and workers that outlive us. */
#include "sys/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "sys/fd.h"

#define OUTPUT_MAX 65536

extern void __gcov_dump(void) __attribute__((weak)); /* there in a coverage build only */

void sp_proc_exit(int status)
{
	if (__gcov_dump)
		__gcov_dump();
	_exit(status);
}

static void reset_signals(void)
{
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int reap(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return status;
}

/* Closes every descriptor but keep[]: each gap between one kept and the next. */
static void close_others(const int *keep, int nkeep)
{
	int at = 0;

	for (;;) {
		int next = -1;

		for (int i = 0; i < nkeep; i++) {
			if (keep[i] >= at && (next < 0 || keep[i] < next))
				next = keep[i];
		}
		if (next < 0)
			break;
		if (next > at)
			close_range((unsigned)at, (unsigned)next - 1, 0);
		at = next + 1;
	}
	close_range((unsigned)at, ~0u, 0);
}

static void fill_standard(void)
{
	for (int fd = 0; fd < 3; fd++) {
		/* The lowest free number is taken, so 0, 1 and 2 fill up in order. */
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", O_RDWR);
	}
}

struct detach {
	int (*fn)(void *arg);
	void *arg;
	const int *keep;
	int nkeep;
};

/* What the process in the middle tells: the worker's identity, or why there is none. */
struct told {
	struct sp_proc_id id;
	struct sp_err e;
	int rc;
};

static _Noreturn void run_detached(const struct detach *d)
{
	close_others(d->keep, d->nkeep);
	fill_standard();
	reset_signals();
	umask(022);
	if (chdir("/") < 0)
		sp_proc_exit(1);
	sp_proc_exit(d->fn(d->arg));
}

static _Noreturn void between(const struct detach *d, int tell)
{
	struct told t = { .rc = 0 };
	pid_t pid;

	setsid();
	pid = fork();
	if (!pid)
		run_detached(d);
	/* We are its parent still, so even if it has ended its entry in /proc is there. */
	if (pid < 0)
		t.rc = sp_fail(&t.e, SP_FAIL, errno, "fork");
	else
		t.rc = sp_proc_identify(pid, &t.id, &t.e);
	if (sp_fd_write(tell, &t, sizeof t) < 0)
		_exit(1);
	_exit(0);
}

int sp_proc_detach(int (*fn)(void *arg), void *arg, const int *keep, int nkeep,
		   struct sp_proc_id *id, struct sp_err *e)
{
	struct detach d = { fn, arg, keep, nkeep };
	struct told t;
	sp_auto_fd from = -1, to = -1;
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return sp_fail(e, SP_FAIL, errno, "pipe");
	from = p[0];
	to = p[1];
	pid = fork();
	if (pid < 0)
		return sp_fail(e, SP_FAIL, errno, "fork");
	if (!pid)
		between(&d, to);
	sp_fd_close(&to);
	if (sp_fd_read(from, &t, sizeof t) != sizeof t)
		t.rc = sp_fail(&t.e, SP_FAIL, 0, "a new process ended before it began");
	reap(pid);
	if (t.rc < 0) {
		*e = t.e;
		return -1;
	}
	if (id)
		*id = t.id;
	return 0;
}

struct run {
	const char *const *argv;
	int in, out, bad; /* bad: takes the errno of a failed exec */
};

static _Noreturn void exec_child(const struct run *r, pid_t parent)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), sys;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	reset_signals();
	setenv("LC_ALL", "C", 1); /* its last line ends up in our messages */
	if (dup2(r->in >= 0 ? r->in : null, 0) >= 0 && dup2(r->out, 1) >= 0 && dup2(r->out, 2) >= 0)
		execvp(r->argv[0], (char *const *)(uintptr_t)r->argv);
	sys = errno;
	sp_fd_write(r->bad, &sys, sizeof sys);
	_exit(127);
}

/* Reads until the process has ended and what it wrote is read. Not until end of file: a grandchild
 * that stays behind may hold the pipe. What is beyond the limit is read and dropped. */
static void collect(int pidfd, int from, struct sp_str *out)
{
	struct pollfd p[2] = { { .fd = from, .events = POLLIN },
			       { .fd = pidfd, .events = POLLIN } };
	size_t start = out->len;
	char mem[4096];

	sp_fd_nonblock(from, 1);
	for (;;) {
		ssize_t n;
		bool ended;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return;
		ended = p[1].revents != 0;
		while ((n = read(from, mem, sizeof mem)) > 0) {
			size_t room = OUTPUT_MAX - (out->len - start);

			sp_str_addn(out, mem, (size_t)n < room ? (size_t)n : room);
		}
		if (ended)
			return;
		if (n == 0)
			p[0].fd = -1;
	}
}

static int fail_run(const char *name, int status, const struct sp_str *out, struct sp_err *e)
{
	const char *slash = strrchr(name, '/'), *start;
	size_t n = out->len;

	name = slash ? slash + 1 : name;
	while (n && (out->p[n - 1] == '\n' || out->p[n - 1] == '\r' || out->p[n - 1] == ' '))
		n--;
	start = memrchr(out->p, '\n', n);
	start = start ? start + 1 : out->p;
	n -= (size_t)(start - out->p);
	if (n > 300)
		n = 300;
	if (WIFSIGNALED(status))
		return sp_fail(e, SP_FAIL, 0, "%s was killed by signal %d", name, WTERMSIG(status));
	if (n)
		return sp_fail(e, SP_FAIL, 0, "%s: %.*s", name, (int)n, start);
	return sp_fail(e, SP_FAIL, 0, "%s ended with status %d", name, WEXITSTATUS(status));
}

int sp_proc_run(const char *const argv[], int in_fd, struct sp_str *out, struct sp_err *e)
{
	sp_auto_str own = SP_STR_INIT;
	sp_auto_fd from = -1, to = -1, bad_from = -1, bad_to = -1, pidfd = -1;
	struct run r = { .argv = argv, .in = in_fd };
	int p[2], status, sys = 0;
	pid_t pid, me = getpid();

	if (pipe2(p, O_CLOEXEC) < 0)
		return sp_fail(e, SP_FAIL, errno, "pipe");
	from = p[0];
	r.out = to = p[1];
	if (pipe2(p, O_CLOEXEC) < 0)
		return sp_fail(e, SP_FAIL, errno, "pipe");
	bad_from = p[0];
	r.bad = bad_to = p[1];
	pid = fork();
	if (pid < 0)
		return sp_fail(e, SP_FAIL, errno, "fork");
	if (!pid)
		exec_child(&r, me);
	sp_fd_close(&to);
	sp_fd_close(&bad_to);
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (sp_fd_read(bad_from, &sys, sizeof sys) != sizeof sys)
		sys = 0;
	out = out ? out : &own;
	if (!sys && pidfd >= 0)
		collect(pidfd, from, out);
	status = reap(pid);
	if (sys)
		return sp_fail(e, SP_HOST, sys, "run '%s'", argv[0]);
	if (status)
		return fail_run(argv[0], status, out, e);
	return 0;
}
