/* SPDX-License-Identifier: Apache-2.0 */
/* A writer killed between any two of its system calls.
 *
 * kill_at(n, fn, arg) runs fn in a child and kills it when it is about to make its nth system call
 * (from 1), which then does not happen. kill_at_change counts only calls that change a file or take
 * a lock: between two of those a death is the same wherever it comes, and far fewer runs see all.
 * 1: killed there, 0: fn made fewer and ended, -1: it cannot be traced here. The child's own
 * children are not counted and must not be there with kill_at_change.
 */
#ifndef SP_TESTS_KILL_AT_H
#define SP_TESTS_KILL_AT_H

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/ptrace.h> /* after sys/ptrace.h, for struct ptrace_syscall_info */
#include <linux/seccomp.h>

#define KILL_TRACE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE)
#define KILL_IF(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), KILL_TRACE

/* Stops at calls that change something; an open does where it may create. */
static inline int kill_at_filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		KILL_IF(SYS_write),
		KILL_IF(SYS_pwrite64),
		KILL_IF(SYS_fsync),
		KILL_IF(SYS_fdatasync),
		KILL_IF(SYS_ftruncate),
		KILL_IF(SYS_flock),
		KILL_IF(SYS_mkdirat),
		KILL_IF(SYS_unlinkat),
		KILL_IF(SYS_symlinkat),
		KILL_IF(SYS_linkat),
		KILL_IF(SYS_renameat),
		KILL_IF(SYS_renameat2),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT, 0, 1),
		KILL_TRACE,
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = sizeof code / sizeof *code, .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static inline pid_t kill_at_start(void (*fn)(void *arg), void *arg, int changes)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(99);
		raise(SIGSTOP);
		if (changes && kill_at_filter() < 0)
			_exit(99);
		fn(arg);
		_exit(0);
	}
	return pid;
}

/* Runs it until its nth stop; both kinds of tracing end here. */
static inline int kill_at_run(int n, void (*fn)(void *arg), void *arg, int changes)
{
	long options = changes ? PTRACE_O_TRACESECCOMP : PTRACE_O_TRACESYSGOOD;
	int stop = changes ? SIGTRAP | PTRACE_EVENT_SECCOMP << 8 : SIGTRAP | 0x80;
	pid_t pid = kill_at_start(fn, arg, changes);
	int status, calls = 0, sig = 0, inside = 0;

	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status))
		return -1;
	ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)(uintptr_t)(options | PTRACE_O_EXITKILL));
	for (;;) {
		if (ptrace(changes ? PTRACE_CONT : PTRACE_SYSCALL, pid, NULL,
			   (void *)(uintptr_t)sig) < 0 ||
		    waitpid(pid, &status, 0) < 0)
			return -1;
		sig = 0;
		if (WIFEXITED(status) || WIFSIGNALED(status))
			return WIFEXITED(status) && WEXITSTATUS(status) == 99 ? -1 : 0;
		if (status >> 8 != stop) {
			sig = WSTOPSIG(status);
			continue;
		}
		inside = changes || !inside; /* a call stops twice, but once for the filter */
		if (inside && ++calls == n)
			break;
	}
	kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) == pid && !WIFSIGNALED(status) && !WIFEXITED(status))
		;
	return 1;
}

__attribute__((unused)) static int kill_at(int n, void (*fn)(void *arg), void *arg)
{
	return kill_at_run(n, fn, arg, 0);
}

__attribute__((unused)) static int kill_at_change(int n, void (*fn)(void *arg), void *arg)
{
	return kill_at_run(n, fn, arg, 1);
}

/* How often fn makes the system call nr; -1: it cannot be traced here. */
__attribute__((unused)) static int count_calls(long nr, void (*fn)(void *arg), void *arg)
{
	pid_t pid = kill_at_start(fn, arg, 0);
	struct ptrace_syscall_info info;
	int status, n = 0;

	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status))
		return -1;
	ptrace(PTRACE_SETOPTIONS, pid, NULL,
	       (void *)(uintptr_t)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
	for (;;) {
		if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) < 0 || waitpid(pid, &status, 0) < 0)
			return -1;
		if (WIFEXITED(status) || WIFSIGNALED(status))
			return n;
		if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof info, &info) > 0 &&
		    info.op == PTRACE_SYSCALL_INFO_ENTRY && (long)info.entry.nr == nr)
			n++;
	}
}

#endif
