/* SPDX-License-Identifier: Apache-2.0 */
/* Running one act outside and inside the jail. */
#ifndef SP_TESTS_JAIL_RIG_H
#define SP_TESTS_JAIL_RIG_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "jail/jail.h"
#include "sys/fd.h"
#include "tap.h"

#define KILLED 1000 /* an outcome: ended by the system call filter */

/* The act returns 0, or an errno; the outcome is that, KILLED, or -1 when it could not be run. */
typedef int act_fn(void *arg);

__attribute__((unused)) static int outcome_of(int status)
{
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGSYS ? KILLED : 2000 + WTERMSIG(status);
	return WEXITSTATUS(status);
}

__attribute__((unused)) static int outside(act_fn *act, void *arg)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(act(arg));
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -1;
	return outcome_of(status);
}

/* One slot for the whole program: uids are ours while it is held. */
__attribute__((unused)) static struct sp_jail jail_of(enum sp_jail_calls calls)
{
	static struct sp_jail_slot slot = { .fd = -1 };
	struct sp_err e;

	if (slot.fd < 0 && sp_jail_slot_take(&slot, &e) < 0) {
		printf("Bail out! %s\n", e.msg);
		exit(1);
	}
	return (struct sp_jail){ .uid = slot.uid[0],
				 .calls = calls,
				 .netns_fd = -1,
				 .max_files = 64,
				 .max_file = 1 << 20 };
}

__attribute__((unused)) static int inside(const struct sp_jail *j, act_fn *act, void *arg)
{
	sp_auto_fd pidfd = -1;
	struct sp_err e;
	int status = 0;
	pid_t pid = sp_jail_run(j, act, arg, &pidfd, &e);

	if (pid < 0 || sp_jail_wait(pid, pidfd, 20000, &status, &e) < 0) {
		printf("# %s\n", e.msg);
		return -1;
	}
	return outcome_of(status);
}

__attribute__((unused)) static const char *outcome_name(int outcome)
{
	return outcome == KILLED ? "killed" : outcome < 0 ? "?" : strerror(outcome);
}

/* The act succeeds outside and, inside, is refused (an error or the end of the process). */
#define refused(j, act, arg, what)                                                                 \
	do {                                                                                       \
		int out_ = outside((act), (arg)), in_ = inside((j), (act), (arg));                 \
		ok(out_ == 0, "%s: works outside", (what));                                        \
		if (out_)                                                                          \
			printf("# outcome %d\n", out_);                                            \
		ok(in_ > 0 && in_ < 2000, "%s: refused inside", (what));                           \
		printf("# inside: %s\n", outcome_name(in_));                                       \
	} while (0)

__attribute__((unused)) static bool skip_unless_root(void)
{
	if (geteuid() == 0)
		return false;
	puts("1..0 # SKIP needs root");
	return true;
}

#endif
