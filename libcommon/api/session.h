/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions in a sandbox's guest, for tools: run and attach to processes, list and signal them.
 * Copying is api/copy.h.
 *
 * A process outlives its client and the machine's pauses: when the connection ends with LOST or
 * just ends, a running sp_exec_run waits (inotify; nothing polls, nothing sleeps) until the sandbox
 * runs again and attaches with its offsets, so that no byte is lost or told twice.
 */
#ifndef SP_API_SESSION_H
#define SP_API_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"
#include "base/err.h"
#include "text/id.h"
#include "text/json.h"

struct sp_guest; /* one sandbox, as an operand names it */

/* SP_ABSENT when nothing, or nothing that is a sandbox, has that id or name. Its state does not
 * matter yet. The api object must outlive it. */
struct sp_guest *sp_guest_open(struct sp_api *a, const char *operand, struct sp_err *e);
void sp_guest_free(struct sp_guest **g);
#define sp_auto_guest __attribute__((cleanup(sp_guest_free))) struct sp_guest
const char *sp_guest_id(const struct sp_guest *g);
const struct sp_json *sp_guest_record(const struct sp_guest *g);
/* Its console, to read; of any state. Reading moves *at on, past what is no longer kept; 0: nothing
 * newer. The file grows by being written to, and has no name any more once the sandbox is gone. */
int sp_guest_console(const struct sp_guest *g, struct sp_err *e);
long sp_guest_console_read(int fd, uint64_t *at, void *buf, size_t n, struct sp_err *e);
/* Readable when something about the sandbox may have changed: an inotify descriptor, made at the
 * first call and kept. */
int sp_guest_watch(struct sp_guest *g, struct sp_err *e);

/* What of privilege a session needs for as long as it may have to attach again: the monitor's
 * socket lies in a folder that only root enters, and a state root may belong to another user than
 * the one who runs the tool, so CAP_DAC_OVERRIDE stays; everything else goes. A mask for
 * sp_priv_keep, to be called once the sandbox is open. */
uint64_t sp_guest_caps(void);

struct sp_exec {
	/* A new process: its arguments (none: the image's entrypoint and command), variables K=V on
	 * top of the image's and the sandbox's, user and folder (NULL: the image's). */
	const char *const *argv;
	size_t argc;
	const char *const *env;
	size_t nenv;
	const char *user, *cwd;
	bool detach; /* begin it and come back */
	/* Or an earlier one, when attach is set: from the oldest output kept, or from now on. */
	bool attach, from_now;
	char proc[SP_ID_SIZE]; /* id; made when empty */
	bool input;            /* it gets our standard input; else an end of file at once */
	bool tty;              /* a terminal in the guest; ours goes raw when it is the input */
	void (*lost)(void *arg); /* told when a wait for the sandbox begins; may be NULL */
	void *lost_arg;
};

enum sp_exec_how { SP_EXEC_FAILED, SP_EXEC_EXITED, SP_EXEC_SIGNALLED, SP_EXEC_DETACHED };

struct sp_exec_end {
	enum sp_exec_how how;
	int value;             /* exit code, or signal */
	char proc[SP_ID_SIZE]; /* id of the process */
};

/* Runs it on descriptors 0, 1 and 2. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 go to
 * the process (three of a kind within a second end the tool instead), SIGWINCH resizes. 0 with *end
 * filled, -1 when it failed on this side. */
int sp_exec_run(struct sp_guest *g, const struct sp_exec *x, struct sp_exec_end *end,
		struct sp_err *e);
/* What a shell would see: the code as it is, 128+n for signal n, 125 where we failed. */
int sp_exec_code(int rc, const struct sp_exec_end *end);
/* One line of JSON for --status-fd: {"exited":n} {"signalled":n} {"detached":id} {"error":{…}}. */
int sp_exec_tell(int fd, int rc, const struct sp_exec_end *end, const struct sp_err *failed,
		 struct sp_err *e);

struct sp_guest_proc {
	char id[SP_ID_SIZE];
	uint32_t pid;
	enum sp_exec_how how; /* FAILED: it runs */
	int value;
	int64_t began; /* ns since 1970, by the guest's clock */
	struct sp_json *args;
};

/* Processes that space-exec began and whose end nobody has taken yet, oldest first. */
int sp_guest_ps(struct sp_guest *g, void (*fn)(const struct sp_guest_proc *p, void *arg), void *arg,
		struct sp_err *e);
int sp_guest_kill(struct sp_guest *g, const char *proc, int sig, struct sp_err *e);
int sp_signal_parse(const char *text); /* "15", "TERM", "SIGTERM"; -1: none */

#endif
