/* SPDX-License-Identifier: Apache-2.0 */
/* The guest agent, inside: its parts and what they ask of each other. Not for other layers.
 *
 * One process, one epoll, single-threaded; nothing in the loop blocks. What may block (every path
 * of the guest's file systems, hooks, freezing) is done by forked children that talk over pipes.
 * Memory is bounded: a ring per output, a window per input, a table of processes, one buffer each
 * way on the channel.
 *
 *   boot   init.c modules.c mounts.c power.c settle.c
 *   loop   loop.c (watches, timers, children)
 *   talk   port.c channel.c session.c
 *   work   task.c ring.c (streams) proc.c spawn.c user.c dial.c worker.c files.c tree_get.c
 *          tree_put.c resume.c freeze.c
 */
#ifndef SP_AGENT_AGENT_H
#define SP_AGENT_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "guest/frame.h"

#define SP_AGENT_SESSIONS (2 * SP_G_SESSIONS) /* ended ones may still wait for their CLOSE */
#define SP_AGENT_ID 32                        /* room for a process id and its NUL */

struct sp_agent;
struct sp_task;

/* Loop */

struct sp_watch {
	int fd;          /* -1: none */
	uint32_t events; /* registered now; 0: not registered */
	void (*fn)(struct sp_agent *a, struct sp_watch *w, uint32_t events);
};

struct sp_timer { /* one shot; begins with its watch */
	struct sp_watch w;
	void (*fired)(struct sp_agent *a);
};

struct sp_child {
	pid_t pid;
	void (*ended)(struct sp_agent *a, void *owner, int status);
	void *owner;
	struct sp_child *next;
};

int sp_loop_init(struct sp_agent *a);
void sp_loop_run(struct sp_agent *a);
int sp_watch_set(struct sp_agent *a, struct sp_watch *w, uint32_t events);
void sp_watch_close(struct sp_agent *a, struct sp_watch *w);
int sp_timer_set(struct sp_agent *a, struct sp_timer *t, int64_t ms,
		 void (*fired)(struct sp_agent *a)); /* ms 0: off */
/* fork with the signals of a fresh program in the child (0 is returned there). In the parent the
 * pid; *out is valid until ended was called; set its ended to NULL when nobody waits any more. */
pid_t sp_child_fork(struct sp_agent *a, void (*ended)(struct sp_agent *, void *, int), void *owner,
		    struct sp_child **out);
/* In a child that does not exec: its three descriptors (-1: /dev/null), no others. */
void sp_child_descriptors(int in, int out, int err);
void sp_child_signals(void);
int sp_write_all(int fd, const void *data, size_t n);
/* One line on the console (tests: standard error); dropped where it would block. */
void sp_say(const struct sp_agent *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Channel */

struct sp_channel {
	struct sp_watch w;       /* the port, edge-triggered */
	struct sp_watch uevents; /* kernel events, until the port is there */
	struct sp_buf in, out;
	unsigned char marker[SP_G_MARKER_LEN]; /* looked for in all that comes */
	unsigned char tail[SP_G_MARKER_LEN - 1];
	size_t tail_len;
	bool cold;    /* no WELCOME came yet */
	bool greeted; /* ours was sent: the port may be read */
	bool synced;  /* their marker came: bytes are frames */
	bool readable, writable;
};

int sp_uevent_open(void);              /* a netlink socket that tells of devices; -1 */
bool sp_uevent_take(int fd);           /* reads what is there; true: something came */
void sp_port_open(struct sp_agent *a); /* finds the port, now or when it comes */
void sp_channel_init(struct sp_agent *a);
void sp_channel_greet(struct sp_agent *a); /* marker and HELLO; from here on the port is read */
bool sp_channel_drive(struct sp_agent *a); /* does what can be done; true: there is more */
void sp_channel_event(struct sp_agent *a, struct sp_watch *w, uint32_t events);
/* Fields of a frame on chan; small ones always fit (see channel.c). */
void sp_channel_send(struct sp_agent *a, uint32_t chan, enum sp_g_type type,
		     const struct sp_fields *f);
void sp_channel_error(struct sp_agent *a, uint32_t chan, enum sp_code code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
bool sp_channel_has_room(const struct sp_agent *a);

/* Streams */

/* The last SP_G_WINDOW bytes of an output: bytes [base, end) of its stream. */
struct sp_ring {
	unsigned char *mem;
	uint64_t base, end;
};
int sp_ring_init(struct sp_ring *r);
void sp_ring_free(struct sp_ring *r); /* bytes are gone, offsets stay */
/* Reads from fd at most max bytes, and never over bytes from keep on: as read(2); -2 no room. */
ssize_t sp_ring_read(struct sp_ring *r, int fd, size_t max, uint64_t keep);
const unsigned char *sp_ring_at(const struct sp_ring *r, uint64_t off, size_t *n);

struct sp_input { /* towards the task */
	struct sp_watch w;
	struct sp_buf buf;
	uint64_t end;   /* taken from the host */
	uint64_t acked; /* told to be consumed */
	bool eof;       /* nothing comes after end */
	bool gone;      /* nobody reads: thrown away */
};

struct sp_output { /* from the task */
	struct sp_watch w;
	struct sp_ring ring;
	uint64_t sent, acked; /* of the session attached now, or the last one */
	uint64_t left;        /* after the end: bytes still taken from the pipe */
	bool used;            /* the stream exists for the host */
	bool ended, eof_sent;
};

enum sp_task_kind { SP_TASK_PROC, SP_TASK_WORKER, SP_TASK_DIAL };

struct sp_task {
	enum sp_task_kind kind;
	struct sp_session *session; /* attached now, or NULL */
	struct sp_child *child;
	pid_t pid;
	struct sp_input in;
	struct sp_output out[2];
	bool held;  /* waits when its ring is full; else drops the oldest */
	bool ended; /* the child was reaped: status */
	int status;
	/* processes */
	char id[SP_AGENT_ID];
	int64_t began; /* wall clock, ns */
	int tty;       /* the slave's end, kept open so that the master never sees a hang-up */
	bool is_tty;
	struct sp_buf args; /* SP_T_ARG fields, for PS */
	/* workers */
	struct sp_watch ctl;
	struct sp_buf ctl_buf;
	/* dials */
	bool connected;
};

struct sp_task *sp_task_new(enum sp_task_kind kind);
void sp_task_free(struct sp_agent *a, struct sp_task *t);
void sp_task_input_data(struct sp_agent *a, struct sp_task *t, const unsigned char *data, size_t n);
void sp_task_input_eof(struct sp_agent *a, struct sp_task *t);
void sp_task_input_gone(struct sp_agent *a, struct sp_task *t);
void sp_task_output_watch(struct sp_agent *a, struct sp_task *t); /* after room was made */
void sp_task_drain(struct sp_agent *a, struct sp_task *t);        /* its process has ended */
int sp_task_pipes(struct sp_task *t, bool with_in, int fds[3]);
void sp_task_watch_fds(struct sp_agent *a, struct sp_task *t);

/* Sessions */

struct sp_session {
	uint32_t chan;
	struct sp_task *task;
	bool opened;
	bool exit_sent;
};

void sp_session_frame(struct sp_agent *a, const struct sp_g_header *h, const unsigned char *p);
struct sp_session *sp_session_new(struct sp_agent *a, uint32_t chan, struct sp_task *t);
void sp_session_end(struct sp_agent *a, struct sp_session *s); /* the session alone, not its task */
void sp_session_drop_all(struct sp_agent *a);                  /* the channel was cut */
void sp_session_pump(struct sp_agent *a);
void sp_session_opened(struct sp_agent *a, struct sp_session *s);

/* Work; each answers on chan, or makes a session of it */

void sp_proc_exec(struct sp_agent *a, uint32_t chan, const unsigned char *p, uint32_t len);
void sp_proc_attach(struct sp_agent *a, uint32_t chan, const unsigned char *p, uint32_t len);
void sp_proc_kill(struct sp_agent *a, uint32_t chan, const unsigned char *p, uint32_t len);
void sp_proc_signal(struct sp_agent *a, struct sp_task *t, int signal);
void sp_proc_resize(struct sp_task *t, const unsigned char *p, uint32_t len);
void sp_proc_let_go(struct sp_agent *a, struct sp_task *t, bool exit_sent);
void sp_proc_is_branch(struct sp_agent *a); /* those cut off start anew, detached */
void sp_proc_kill_all(struct sp_agent *a);
unsigned sp_proc_entry(const struct sp_agent *a, unsigned at, struct sp_fields *f);
_Noreturn void sp_spawn_exec(const unsigned char *p, uint32_t len, const int fds[3], bool tty);

void sp_dial_open(struct sp_agent *a, uint32_t chan, const unsigned char *p, uint32_t len);

void sp_worker_start(struct sp_agent *a, uint32_t chan, const struct sp_g_header *h,
		     const unsigned char *p);
/* In the worker. */
#define SP_WORKER_CTL 2
void sp_worker_answer(enum sp_g_type type, const struct sp_fields *f);
_Noreturn void sp_worker_done(void);
_Noreturn void sp_worker_fail(enum sp_code code, int sys, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* While set, a worker that is given up removes this name in dir first. */
void sp_worker_temp(int dir, const char *name);
void sp_worker_random_name(char out[static 32]);
void sp_file_read(const char *path);
void sp_file_write(const char *path, int64_t mode, bool as_user);
void sp_file_stat(const char *path);
void sp_file_list(const char *path);
void sp_file_mkdir(const char *path, uint32_t mode);
void sp_file_move(const char *from, const char *to);
void sp_file_remove(const char *path);
void sp_tree_get(const char *path);
void sp_tree_put(const char *path);

struct sp_user {
	uid_t uid;
	gid_t gid;
	char name[64], home[256], shell[256];
	gid_t groups[64];
	size_t ngroups;
};
/* Looks up name, uid, name:group or uid:gid in /etc/passwd and /etc/group; -1 with why. */
int sp_user_find(const char *spec, struct sp_user *u, char *why, size_t n);
int sp_user_become(const struct sp_user *u);

/* Coming back */

struct sp_resume {
	uint64_t acked;   /* generation of the last READY */
	uint64_t failed;  /* its hooks that failed */
	uint64_t current; /* of the WELCOME being worked on */
	struct sp_child *child;
	bool ready;
};
void sp_resume_welcome(struct sp_agent *a, const unsigned char *p, uint32_t len);
void sp_resume_cancel(struct sp_agent *a); /* the channel was cut */
/* In the child: files of another identity, then the hooks; returns how many failed. */
int sp_hooks_run(const char *dir);
void sp_identity_write(const char *hostname);

struct sp_freeze {
	struct sp_child *child;
	struct sp_timer timer;
	bool frozen, freezing, thaw_after;
	unsigned freezes_due, thaws_due; /* answers that are waited for */
};
void sp_freeze_begin(struct sp_agent *a, const unsigned char *p, uint32_t len);
void sp_freeze_thaw(struct sp_agent *a);
void sp_freeze_forget(struct sp_agent *a); /* answers are no longer due */
void sp_metrics_send(struct sp_agent *a);

/* Boot */

struct sp_settle {
	struct sp_watch notify; /* READY=1 of the image's init */
	struct sp_watch events; /* processes that begin and end */
	struct sp_timer quiet, limit;
};
#define SP_SETTLE_SOCKET "@org.space.agent.init"

struct sp_power {
	struct sp_timer timer;
	int how; /* what reboot(2) is given; 0: nothing asked */
	bool killed;
};

/* The machine from the initramfs to the root file system; returns in the process that is the agent
 * (the first one, or a child of it where the image has an init of its own). */
void sp_init_boot(struct sp_agent *a, char **argv);
void sp_modules_load(const struct sp_agent *a);
bool sp_cmdline(const char *key, char *out, size_t cap); /* of the kernel's command line */
int sp_mount_early(const struct sp_agent *a);
int sp_mount_root(const struct sp_agent *a, int uevents);
void sp_mount_switch(const struct sp_agent *a);
int sp_settle_prepare(void); /* before init runs: the socket that it tells READY on; -1 */
void sp_settle_wait(struct sp_agent *a, int notify, bool systemd); /* then greets */
void sp_power_signal(struct sp_agent *a, int signal);
void sp_power_children(struct sp_agent *a); /* none are left */

struct sp_agent {
	int epoll;
	int console;
	bool boot; /* started as /init: this machine's clock, names and file systems are ours */
	bool pid1;
	bool settles; /* an init of the image's own begins: HELLO waits for it */
	bool init_is_systemd;
	bool stop;
	bool ready;        /* READY was sent: sessions may be opened */
	const char *hooks; /* folder; NULL: none */
	struct sp_watch signals;
	struct sp_child *children;
	struct sp_channel ch;
	struct sp_session *sessions[SP_AGENT_SESSIONS];
	unsigned turn;
	struct sp_task *procs[SP_G_PROCS]; /* oldest first; NULLs at the end */
	unsigned nprocs;
	struct sp_resume resume;
	struct sp_freeze freeze;
	struct sp_settle settle;
	struct sp_power power;
};

/* Runs the agent: as /init of a machine, or (channel >= 0) on an inherited socket, for tests. */
int sp_agent_main(char **argv, int channel, const char *root, const char *hooks);

#endif
