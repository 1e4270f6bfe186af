/* SPDX-License-Identifier: Apache-2.0 */
/* Putting a process into the jail, stage by stage:
 *
 *   clone   pid, ipc, uts and (unless it keeps or joins one) network namespaces, cgroup leaf
 *   root    binds taken, mount namespace, empty root filled, old root gone
 *   fds     everything closed but what is kept
 *   limits  resource limits
 *   rights  ids changed, capabilities and their bounding set emptied, no_new_privs
 *   bond    death signal set (a change of ids clears it), then the parent looked for once more
 *   calls   the system call filter, and off it goes
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "jail/inside.h"
#include "sys/clock.h"
#include "sys/fd.h"

#define KEEP_MAX 64

/* clone3's argument as of Linux 5.7; the C library has no wrapper, and <linux/sched.h> of older
 * systems may lack the last field. */
struct clone3 {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
	uint64_t set_tid, set_tid_size, cgroup;
};

struct start {
	const struct sp_jail *j;
	int (*fn)(void *arg);
	void *arg;
	const char *path; /* exec instead of fn */
	char *const *argv, *const *envp;
	const struct sock_fprog *filter;
	int errors; /* write end of the pipe that tells what went wrong */
	int parent; /* pidfd of the calling process */
};

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static int stage_stdio(const struct sp_jail *j, struct sp_err *e)
{
	int high[3];

	if (!j->stdio)
		return 0;
	/* first out of the way of each other */
	for (int i = 0; i < 3; i++)
		if ((high[i] = fcntl(j->stdio[i], F_DUPFD_CLOEXEC, 3)) < 0)
			return sp_fail(e, SP_FAIL, errno, "hand over descriptor %d", j->stdio[i]);
	for (int i = 0; i < 3; i++)
		if (dup2(high[i], i) < 0)
			return sp_fail(e, SP_FAIL, errno, "hand over descriptor %d", j->stdio[i]);
	return 0;
}

static int stage_fds(const struct start *s, struct sp_err *e)
{
	int keep[KEEP_MAX + 5] = { 0, 1, 2, s->errors, s->parent };
	size_t n = 5;
	unsigned int from = 0;

	if (s->j->nkeep > KEEP_MAX)
		return sp_fail(e, SP_FAIL, 0, "too many descriptors for one jail");
	if (stage_stdio(s->j, e) < 0)
		return -1;
	for (size_t i = 0; i < s->j->nkeep; i++) {
		if (sp_fd_cloexec(s->j->keep[i], 0) < 0)
			return sp_fail(e, SP_FAIL, errno, "keep descriptor %d", s->j->keep[i]);
		keep[n++] = s->j->keep[i];
	}
	qsort(keep, n, sizeof keep[0], by_number);
	for (size_t i = 0; i < n; i++) {
		if ((unsigned int)keep[i] > from &&
		    close_range(from, (unsigned int)keep[i] - 1, 0) < 0)
			return sp_fail(e, SP_FAIL, errno, "close descriptors");
		from = (unsigned int)keep[i] + 1;
	}
	if (close_range(from, ~0u, 0) < 0)
		return sp_fail(e, SP_FAIL, errno, "close descriptors");
	return 0;
}

static int limit(int what, rlim_t most, struct sp_err *e)
{
	struct rlimit old, new = { most, most };

	/* a lower limit of the caller's holds on: raising it may not be ours to do */
	if (getrlimit((__rlimit_resource_t)what, &old) == 0 && old.rlim_max < most)
		new.rlim_cur = new.rlim_max = old.rlim_max;
	if (setrlimit((__rlimit_resource_t)what, &new) < 0)
		return sp_fail(e, SP_HOST, errno, "set resource limit %d", what);
	return 0;
}

static int stage_limits(const struct sp_jail *j, struct sp_err *e)
{
	if (limit(RLIMIT_CORE, 0, e) < 0 || limit(RLIMIT_FSIZE, j->max_file, e) < 0 ||
	    limit(RLIMIT_NPROC, j->max_procs ? j->max_procs : 1, e) < 0 ||
	    limit(RLIMIT_MSGQUEUE, 0, e) < 0)
		return -1;
	if (j->max_files && limit(RLIMIT_NOFILE, j->max_files, e) < 0)
		return -1;
	if (j->max_cpu_s && limit(RLIMIT_CPU, j->max_cpu_s, e) < 0)
		return -1;
#ifndef __SANITIZE_ADDRESS__ /* whose shadow alone is 16 TiB of addresses */
	if (j->max_memory && limit(RLIMIT_AS, j->max_memory, e) < 0)
		return -1;
#endif
	return 0;
}

/* The path goes to page 0 while that is still allowed. */
static int stage_path(const struct start *s, struct sp_err *e)
{
	volatile uintptr_t page = 0;
	size_t n;
	void *mem;

	if (!s->path)
		return 0;
	n = strlen(s->path) + 1;
	if (n > SP_JAIL_PATH_MAX)
		return sp_fail(e, SP_USAGE, 0, "path of a program is too long");
	/* NOLINTNEXTLINE: the null page is what is wanted here */
	mem = mmap((void *)page, 4096, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (mem == MAP_FAILED)
		return sp_fail(e, SP_HOST, errno, "map page 0 (needs CAP_SYS_RAWIO)");
	page = SP_JAIL_PATH_AT;
	memcpy((void *)page, s->path, n);
	return 0;
}

static int stage_rights(const struct sp_jail *j, struct sp_err *e)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { { 0, 0, 0 }, { 0, 0, 0 } };

	for (int cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
			if (errno == EINVAL)
				break; /* the kernel's last one was the one before */
			return sp_fail(e, SP_HOST, errno, "drop capability %d", cap);
		}
	if (setgroups(0, NULL) < 0 || syscall(SYS_setresgid, j->uid, j->uid, j->uid) < 0 ||
	    syscall(SYS_setresuid, j->uid, j->uid, j->uid) < 0)
		return sp_fail(e, SP_HOST, errno, "become user %u", j->uid);
	if (syscall(SYS_capset, &head, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return sp_fail(e, SP_HOST, errno, "give up capabilities");
	return 0;
}

static int stage_bond(const struct start *s, struct sp_err *e)
{
	struct pollfd p = { .fd = s->parent, .events = POLLIN };

	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return sp_fail(e, SP_FAIL, errno, "tie the process to its parent");
	if (poll(&p, 1, 0) != 0)
		_exit(127); /* nobody left to tell */
	return 0;
}

static int confine(const struct start *s, struct sp_err *e)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	if (s->j->netns_fd >= 0 && !s->j->net && setns(s->j->netns_fd, CLONE_NEWNET) < 0)
		return sp_fail(e, SP_HOST, errno, "join the network namespace");
	if (sp_jail_root_enter(s->j, e) < 0 || stage_fds(s, e) < 0 || stage_path(s, e) < 0 ||
	    stage_limits(s->j, e) < 0 || stage_rights(s->j, e) < 0 || stage_bond(s, e) < 0)
		return -1;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, s->filter) < 0)
		return sp_fail(e, SP_HOST, errno, "set the system call filter");
	return 0;
}

static _Noreturn void child(const struct start *s)
{
	struct sp_err e = { SP_FAIL, 0, "" };
	volatile uintptr_t at = SP_JAIL_PATH_AT;

	if (confine(s, &e) == 0) {
		close(s->parent);
		if (s->fn) {
			close(s->errors);
			_exit(s->fn(s->arg));
		}
		/* straight: libc's wrappers may take the path elsewhere */
		syscall(SYS_execve, (const char *)at, s->argv, s->envp);
		sp_fail(&e, sp_code_of_errno(errno), errno, "run '%.200s'", s->path);
	}
	sp_fd_write(s->errors, &e, sizeof e);
	_exit(127);
}

/* Waits for the end of set-up: the pipe closes when the program or fn starts. */
static int await_start(int errors, pid_t pid, struct sp_err *e)
{
	struct sp_err got;
	ssize_t n = sp_fd_read(errors, &got, sizeof got);

	if (n == 0)
		return 0;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (n != sizeof got)
		return sp_fail(e, SP_FAIL, 0, "jail: set-up broke off");
	got.msg[sizeof got.msg - 1] = '\0';
	*e = got;
	return sp_wrap(e, "jail");
}

static pid_t start(struct start *s, int *pidfd, struct sp_err *e)
{
	struct clone3 c = { .exit_signal = SIGCHLD };
	sp_auto_fd cgroup = -1, parent = -1, in = -1, out = -1, child_fd = -1;
	int p[2];
	long pid;

	s->filter = sp_jail_filter(s->j->calls, e);
	if (!s->filter)
		return -1;
	if (pipe2(p, O_CLOEXEC) < 0)
		return sp_fail(e, SP_FAIL, errno, "jail: make a pipe");
	in = p[0];
	s->errors = out = p[1];
	s->parent = parent = pidfd_open(getpid(), 0);
	if (parent < 0)
		return sp_fail(e, SP_HOST, errno, "jail: open own process");
	c.flags = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD | CLONE_CLEAR_SIGHAND;
	if (!s->j->net && s->j->netns_fd < 0)
		c.flags |= CLONE_NEWNET;
	c.pidfd = (uintptr_t)&child_fd;
	if (s->j->cgroup)
		cgroup = sp_jail_cgroup_open(s->j->cgroup, s->j->cgroup_memory, s->j->max_procs);
	if (cgroup >= 0) {
		c.flags |= CLONE_INTO_CGROUP;
		c.cgroup = (uint64_t)cgroup;
	}
	pid = syscall(SYS_clone3, &c, sizeof c);
	if (pid < 0 && cgroup >= 0) { /* a leaf that takes no processes: without it, then */
		c.flags &= ~CLONE_INTO_CGROUP;
		c.cgroup = 0;
		pid = syscall(SYS_clone3, &c, sizeof c);
	}
	if (pid < 0)
		return sp_fail(e, SP_HOST, errno, "jail: make namespaces");
	if (pid == 0)
		child(s);
	sp_fd_close(&out);
	if (await_start(in, (pid_t)pid, e) < 0)
		return -1;
	*pidfd = sp_take_fd(&child_fd);
	return (pid_t)pid;
}

pid_t sp_jail_run(const struct sp_jail *j, int (*fn)(void *arg), void *arg, int *pidfd,
		  struct sp_err *e)
{
	struct start s = { .j = j, .fn = fn, .arg = arg };

	return start(&s, pidfd, e);
}

pid_t sp_jail_exec(const struct sp_jail *j, const char *path, char *const argv[],
		   char *const envp[], int *pidfd, struct sp_err *e)
{
	struct start s = { .j = j, .path = path, .argv = argv, .envp = envp };

	return start(&s, pidfd, e);
}

int sp_jail_wait(pid_t pid, int pidfd, int ms, int *status, struct sp_err *e)
{
	int64_t end = sp_clock_mono() + (int64_t)ms * 1000000;
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	bool late = false;
	int64_t left = ms;
	int rc;

	while (ms >= 0 && (rc = poll(&p, 1, (int)left)) <= 0) {
		left = (end - sp_clock_mono() + 999999) / 1000000;
		if (rc < 0 && errno != EINTR)
			return sp_fail(e, SP_FAIL, errno, "wait for a confined process");
		if (rc < 0 && left > 0)
			continue;
		late = true;
		pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
		break;
	}
	while (waitpid(pid, status, 0) < 0)
		if (errno != EINTR)
			return sp_fail(e, SP_FAIL, errno, "wait for a confined process");
	if (late)
		return sp_fail(e, SP_BUSY, 0, "a confined process took more than %d ms", ms);
	return 0;
}
