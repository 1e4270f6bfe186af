/* SPDX-License-Identifier: Apache-2.0 */
/* Processes: identity that survives pid reuse, signalling by pidfd, detaching, privilege.
 *
 * A process is known by pid + start time (field 22 of /proc/PID/stat) + boot id. To signal: open
 * the pidfd, verify the identity, then pidfd_send_signal, in that order.
 */
#ifndef SP_SYS_PROC_H
#define SP_SYS_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct sp_proc_id {
	pid_t pid;
	uint64_t start; /* clock ticks since boot */
	char boot[37];  /* boot id, text */
};

int sp_proc_identify(pid_t pid, struct sp_proc_id *out, struct sp_err *e); /* 0: ourselves */
/* A pidfd of exactly that process; -1 with errno ESRCH when it is gone (or was of another boot). */
int sp_proc_open(const struct sp_proc_id *id);
bool sp_proc_is_alive(const struct sp_proc_id *id);
/* Signals it; already gone is success. */
int sp_proc_kill(const struct sp_proc_id *id, int sig, struct sp_err *e);
/* Waits for a pidfd to become readable (exit). 1 gone, 0 timed out, -1 errno. ms -1: for ever. */
int sp_proc_await(int pidfd, int ms);

/* Starts fn(arg) in a process of its own that outlives us: double fork, setsid, standard
 * descriptors on /dev/null, chdir /, signals and umask reset, every descriptor but keep[] closed.
 * fn's return is its exit status. Returns 0 in the caller, *id (may be NULL) filled. */
int sp_proc_detach(int (*fn)(void *arg), void *arg, const int *keep, int nkeep,
		   struct sp_proc_id *id, struct sp_err *e);

/* For forked children in place of _exit: a coverage build writes its counts first. */
_Noreturn void sp_proc_exit(int status);

/* Runs argv (execvp, no shell) with stdin from in_fd (or /dev/null if -1) and its stdout and
 * stderr collected up to 64 KiB; a status other than 0 is SP_FAIL with the last line of output. */
struct sp_str;
int sp_proc_run(const char *const argv[], int in_fd, struct sp_str *out, struct sp_err *e);

/* Drops every capability but those in the mask of 1 << CAP_x (effective, permitted, inheritable,
 * bounding, ambient emptied), sets no_new_privs. For tools, after parsing. */
int sp_priv_keep(uint64_t caps, struct sp_err *e);

/* The folder of the running program, for finding helpers beside it: build/bin has helpers in
 * itself; PREFIX/bin has them in PREFIX/libexec/space. Opens helper NAME's absolute path. */
int sp_proc_helper(const char *name, char *path, size_t n, struct sp_err *e);

#endif
