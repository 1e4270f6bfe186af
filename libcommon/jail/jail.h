/* SPDX-License-Identifier: Apache-2.0 */
/* Confinement: a process with a uid of its own, no capabilities, an empty root with only the files
 * it was handed, its own namespaces, a closed system-call filter and bounded resources.
 *
 * Who goes in: the VMM, the monitor's reading half, importers, mke2fs, and whatever else parses
 * bytes that a stranger wrote. The parent keeps descriptors, hands over what is listed in keep, and
 * takes only small checked messages back.
 *
 * Uids come in slots of two (slot n has SP_JAIL_UID_BASE + 2n and + 2n + 1), allotted under a
 * host-wide lock file per slot, /run/space-uids/<n>, because state roots can be many; the slot is
 * ours as long as any process holds its descriptor.
 */
#ifndef SP_JAIL_JAIL_H
#define SP_JAIL_JAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define SP_JAIL_UID_BASE 1900000000u
#define SP_JAIL_SLOTS 30000u

struct sp_jail_slot {
	int fd; /* holds the slot */
	uid_t uid[2];
};
int sp_jail_slot_take(struct sp_jail_slot *out, struct sp_err *e);

/* A file or folder of the host to be seen inside at path `at` (absolute, made as needed). A
 * descriptor (O_PATH will do) is better than a path: from_fd, or -1 and from. */
struct sp_jail_bind {
	int from_fd;
	const char *from;
	const char *at;
	bool writable; /* else read-only; always nosuid, nodev, noexec unless exec */
	bool exec;
};

enum sp_jail_calls {
	SP_JAIL_CALLS_VMM,    /* QEMU: allow-list, no exec, no sockets made, no ptrace, no mounts */
	/* the monitor's half: read, write, epoll, accept, memory, clock, exit */
	SP_JAIL_CALLS_READER,
	SP_JAIL_CALLS_PARSER, /* files it has open, memory, pipes; no network, no exec */
	SP_JAIL_CALLS_TOOL,   /* PARSER plus exec and opening files: mke2fs, e2fsck */
	SP_JAIL_CALLS_FETCH, /* PARSER plus internet sockets and opening files: a registry client */
};

struct sp_jail {
	uid_t uid;
	enum sp_jail_calls calls;
	bool net;                     /* keep the network namespace (a registry client only) */
	int netns_fd;                 /* else: join this one (-1: a new empty one) */
	const struct sp_jail_bind *binds;
	size_t nbinds;
	/* /usr/lib, /lib*, /usr/bin etc. read-only, for exec of host programs */
	bool host_programs;
	bool dev; /* /dev with null, zero, random, urandom; plus kvm if wanted */
	bool kvm;
	uint64_t max_memory;          /* RLIMIT_AS; 0: none */
	uint64_t max_file; /* RLIMIT_FSIZE: no byte of a regular file past it, old or new */
	uint32_t max_files;           /* RLIMIT_NOFILE; 0: as the caller's */
	uint32_t max_procs;           /* threads and processes of the uid; 0: itself only */
	uint32_t max_cpu_s;           /* RLIMIT_CPU; 0: none */
	const int *keep;              /* descriptors that stay, at their numbers; 0-2 stay too */
	size_t nkeep;
	const char *cgroup; /* leaf below the space cgroup, or NULL; skipped where not writable */
	uint64_t cgroup_memory;       /* memory.max; 0: none */
	const int *stdio;             /* three descriptors that become 0-2, or NULL: the caller's */
};

/* Forks, confines the child and runs fn(arg) there; its return is the exit status. The child dies
 * with the calling thread (PR_SET_PDEATHSIG after the uid change, parent checked again), so call it
 * from a thread that lives as long as the process should; and from a process with one thread, since
 * the child is a plain clone that waits for no lock of malloc. Memory is copied: what the caller
 * holds in its heap, fn can read. Set-up errors of the child come back through *e. *pidfd gets a
 * pidfd; returns the pid (in the caller's pid namespace; the child is pid 1 of its own, so signals
 * that it leaves at their default do nothing when they come from inside). */
pid_t sp_jail_run(const struct sp_jail *j, int (*fn)(void *arg), void *arg, int *pidfd,
		  struct sp_err *e);
/* The same, and execve(path, argv, envp) inside at the end; path is as seen inside. */
pid_t sp_jail_exec(const struct sp_jail *j, const char *path, char *const argv[],
		   char *const envp[], int *pidfd, struct sp_err *e);
/* Waits (ms, -1 for ever) for the end, kills when time is up (SP_BUSY); fills *status as
 * waitpid. */
int sp_jail_wait(pid_t pid, int pidfd, int ms, int *status, struct sp_err *e);

/* Removes an empty cgroup leaf that sp_jail_run made; absent is fine. */
void sp_jail_cgroup_remove(const char *leaf);

#endif
