/* SPDX-License-Identifier: Apache-2.0 */
/* A writer killed between any two of its system calls: kill_at(n, fn, arg) runs fn in a child and
 * kills it when it is about to make its nth one (from 1), which then does not happen. 1: killed
 * there, 0: fn made fewer and ended, -1: it cannot be traced here. The child's own children are not
 * counted; they end as the program under test sees to. */
#ifndef SP_TESTS_KILL_AT_H
#define SP_TESTS_KILL_AT_H

#include <signal.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/ptrace.h> /* after sys/ptrace.h, for struct ptrace_syscall_info */

static inline pid_t kill_at_start(void (*fn)(void *arg), void *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(99);
		raise(SIGSTOP);
		fn(arg);
		_exit(0);
	}
	return pid;
}

__attribute__((unused)) static int kill_at(int n, void (*fn)(void *arg), void *arg)
{
	pid_t pid = kill_at_start(fn, arg);
	int status, calls = 0, sig = 0;
	int inside = 0;

	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status))
		return -1;
	ptrace(PTRACE_SETOPTIONS, pid, NULL,
	       (void *)(uintptr_t)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
	for (;;) {
		if (ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(uintptr_t)sig) < 0 ||
		    waitpid(pid, &status, 0) < 0)
			return -1;
		sig = 0;
		if (WIFEXITED(status) || WIFSIGNALED(status))
			return 0;
		if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
			sig = WSTOPSIG(status);
			continue;
		}
		inside = !inside;
		if (inside && ++calls == n)
			break;
	}
	kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) == pid && !WIFSIGNALED(status) && !WIFEXITED(status))
		;
	return 1;
}

/* How often fn makes the system call nr; -1: it cannot be traced here. */
__attribute__((unused)) static int count_calls(long nr, void (*fn)(void *arg), void *arg)
{
	pid_t pid = kill_at_start(fn, arg);
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
