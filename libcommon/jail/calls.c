/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls that each kind of jailed process may make, and why.
 *
 * A list is a set of groups. What no rule names is EPERM for the VMM and for tools (they and their
 * libraries probe for calls that they can do without) and the end of the process for the others,
 * whose code is ours. Some calls answer with an error where libc goes on without them. Calls of a
 * foreign architecture (i386, x32) always end the process.
 *
 * The VMM's list comes from QEMU 7.2 traced under emulation with the machine that vmm/qemu.c
 * makes: cold boot, disk and network traffic, device state saved, loaded, stopped, continued, quit.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/if_tun.h>
#include <linux/kvm.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"
#include "jail/inside.h"
#include "sys/fd.h"

#define VMM (1u << SP_JAIL_CALLS_VMM)
#define READER (1u << SP_JAIL_CALLS_READER)
#define PARSER (1u << SP_JAIL_CALLS_PARSER)
#define TOOL (1u << SP_JAIL_CALLS_TOOL)
#define FETCH (1u << SP_JAIL_CALLS_FETCH)
#define ALL (VMM | READER | PARSER | TOOL | FETCH)

#define S(name) SCMP_SYS(name)
#define GROUP(...) (const int[]){ __VA_ARGS__, -1 }

struct group {
	unsigned int who;
	int error; /* 0: allowed */
	const int *calls;
};

static const struct group groups[] = {
	/* What libc does by itself: memory, locks, signals, threads' own state, ending. */
	{ ALL, 0,
	  GROUP(S(brk), S(mmap), S(munmap), S(mremap), S(madvise), S(mprotect), S(futex),
		S(rt_sigaction), S(rt_sigprocmask), S(rt_sigreturn), S(sigaltstack),
		S(rt_sigtimedwait), S(restart_syscall), S(set_robust_list), S(get_robust_list),
		S(set_tid_address), S(rseq), S(arch_prctl), S(membarrier), S(sched_yield),
		S(sched_getaffinity), S(getcpu), S(exit), S(exit_group), S(tgkill)) },
	/* Who am I, what is this host: harmless. */
	{ ALL, 0,
	  GROUP(S(getpid), S(gettid), S(getppid), S(getpgrp), S(getuid), S(geteuid), S(getgid),
		S(getegid), S(getgroups), S(uname), S(sysinfo), S(getrusage), S(times),
		S(getrlimit), S(umask), S(capget)) },
	/* Time, sleep, randomness. */
	{ ALL, 0,
	  GROUP(S(clock_gettime), S(clock_getres), S(clock_nanosleep), S(nanosleep),
		S(gettimeofday), S(time), S(getrandom)) },
	/* Descriptors that are open already. */
	{ ALL, 0,
	  GROUP(S(read), S(write), S(readv), S(writev), S(pread64), S(pwrite64), S(preadv),
		S(pwritev), S(preadv2), S(pwritev2), S(lseek), S(close), S(close_range), S(dup),
		S(dup2), S(dup3), S(fcntl), S(fstat), S(newfstatat), S(statx), S(fsync),
		S(fdatasync), S(sync_file_range), S(ftruncate), S(fallocate), S(fadvise64),
		S(copy_file_range), S(sendfile), S(splice), S(fstatfs), S(flock)) },
	/* Waiting, and pipes within the process. */
	{ ALL, 0,
	  GROUP(S(poll), S(ppoll), S(select), S(pselect6), S(epoll_create1), S(epoll_ctl),
		S(epoll_wait), S(epoll_pwait), S(pipe), S(pipe2), S(eventfd2)) },

	/* The channel, control and client sockets that the reader was handed, and those of clients
	 * that it accepts. It can make none itself. */
	{ READER | VMM, 0,
	  GROUP(S(accept4), S(accept), S(recvmsg), S(sendmsg), S(recvfrom), S(sendto), S(shutdown),
		S(getsockopt), S(setsockopt), S(getsockname), S(getpeername)) },
	{ READER | VMM, 0,
	  GROUP(S(timerfd_create), S(timerfd_settime), S(timerfd_gettime), S(signalfd4)) },

	/* libc looks for locales, time zones and users by opening files and going on without. */
	{ READER | PARSER, EPERM,
	  GROUP(S(open), S(openat), S(access), S(faccessat), S(faccessat2), S(readlink),
		S(readlinkat), S(stat), S(lstat), S(getcwd), S(socket)) },
	/* No threads: libc and compression libraries do with one. */
	{ READER | PARSER, EAGAIN, GROUP(S(clone), S(clone3)) },

	/* Opening files of the root that they see. */
	{ VMM | TOOL | FETCH, 0,
	  GROUP(S(open), S(openat), S(access), S(faccessat), S(faccessat2), S(readlink),
		S(readlinkat), S(stat), S(lstat), S(getcwd), S(getdents64), S(statfs)) },
	/* Programs of e2fsprogs and the shell's kind: files changed in the folders bound writable,
	 * children made and waited for. */
	{ TOOL, 0,
	  GROUP(S(execve), S(execveat), S(clone), S(fork), S(vfork), S(wait4), S(waitid), S(creat),
		S(mkdir), S(mkdirat), S(rmdir), S(unlink), S(unlinkat), S(rename), S(renameat),
		S(renameat2), S(link), S(linkat), S(symlink), S(symlinkat), S(truncate), S(chmod),
		S(fchmod), S(fchmodat), S(chown), S(fchown), S(fchownat), S(lchown), S(utimensat),
		S(chdir), S(fchdir), S(getxattr), S(lgetxattr), S(fgetxattr), S(listxattr),
		S(llistxattr), S(flistxattr), S(sync), S(syncfs), S(getpgid), S(setpgid), S(getsid),
		S(kill), S(alarm), S(setitimer), S(getitimer), S(pause)) },
	/* QEMU: the channel's socket is handed over unlistened; the bus error and timer signals
	 * come by
	 * descriptor; memory policy is asked for every memory backend; its own filter goes on
	 * top. */
	{ VMM, 0, GROUP(S(listen), S(get_mempolicy), S(set_mempolicy)) },
	/* libc's posix_spawn and threads fall back to clone, whose flags a filter can see. */
	{ VMM | TOOL | FETCH, ENOSYS, GROUP(S(clone3)) },

	/* A client of the internet: sockets are made by a rule below. */
	{ FETCH, 0,
	  GROUP(S(connect), S(bind), S(sendto), S(recvfrom), S(sendmsg), S(recvmsg), S(sendmmsg),
		S(recvmmsg), S(shutdown), S(getsockopt), S(setsockopt), S(getsockname),
		S(getpeername), S(socketpair)) },
};

struct rule {
	unsigned int who;
	int error;
	int call;
	struct scmp_arg_cmp when;
};

#define IS(n, value) { n, SCMP_CMP_EQ, value, 0 }
#define HAS(n, flags) { n, SCMP_CMP_MASKED_EQ, flags, flags }
#define LACKS(n, flags) { n, SCMP_CMP_MASKED_EQ, flags, 0 }
/* What pthread_create asks for; never a namespace, never a process. */
#define THREAD_FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)

static const struct rule rules[] = {
	/* The one start of sp_jail_exec's program (jail/inside.h). */
	{ ALL & ~TOOL, 0, S(execve), IS(0, SP_JAIL_PATH_AT) },
	/* Reading limits, never setting them. */
	{ ALL, 0, S(prlimit64), IS(2, 0) },
	/* Names of threads, for people who debug. */
	{ ALL, 0, S(prctl), IS(0, PR_SET_NAME) },
	/* QEMU: precise timers, machine checks of guest memory, and the second filter. */
	{ VMM, 0, S(prctl), IS(0, PR_SET_TIMERSLACK) },
	{ VMM, 0, S(prctl), IS(0, PR_MCE_KILL) },
	{ VMM, 0, S(prctl), IS(0, PR_SET_NO_NEW_PRIVS) },
	{ VMM, 0, S(prctl), IS(0, PR_GET_NO_NEW_PRIVS) },
	{ VMM, 0, S(seccomp), LACKS(1, SECCOMP_FILTER_FLAG_NEW_LISTENER) },
	/* KVM's own ioctls, and a tap's but those that make one or give it to somebody. */
	{ VMM, 0, S(ioctl), { 1, SCMP_CMP_MASKED_EQ, 0xff00, KVMIO << 8 } },
	{ VMM, 0, S(ioctl), IS(1, TUNGETIFF) },
	{ VMM, 0, S(ioctl), IS(1, TUNGETFEATURES) },
	{ VMM, 0, S(ioctl), IS(1, TUNSETOFFLOAD) },
	{ VMM, 0, S(ioctl), IS(1, TUNSETSNDBUF) },
	{ VMM, 0, S(ioctl), IS(1, TUNGETVNETHDRSZ) },
	{ VMM, 0, S(ioctl), IS(1, TUNSETVNETHDRSZ) },
	{ VMM, 0, S(ioctl), IS(1, TUNSETVNETLE) },
	{ VMM, 0, S(ioctl), IS(1, TUNSETVNETBE) },
	/* Threads. */
	{ VMM | FETCH, 0, S(clone), HAS(0, THREAD_FLAGS) },
	/* Is it a terminal; how much is there to read. */
	{ ALL, 0, S(ioctl), IS(1, TCGETS) },
	{ ALL, 0, S(ioctl), IS(1, FIONREAD) },
	{ ALL, 0, S(ioctl), IS(1, FIONBIO) },
	/* e2fsprogs asks how big its device is. */
	{ TOOL, 0, S(ioctl), IS(1, BLKGETSIZE64) },
	{ TOOL, 0, S(ioctl), IS(1, BLKROGET) },
	{ TOOL, 0, S(ioctl), IS(1, BLKDISCARD) },
	{ TOOL, 0, S(ioctl), IS(1, TIOCGWINSZ) },
	/* Internet sockets; libc asks nscd (unix) and the kernel (netlink) too and does without. */
	{ FETCH, 0, S(socket), IS(0, AF_INET) },
	{ FETCH, 0, S(socket), IS(0, AF_INET6) },
	{ FETCH, EAFNOSUPPORT, S(socket), IS(0, AF_UNIX) },
	{ FETCH, EAFNOSUPPORT, S(socket), IS(0, AF_NETLINK) },
};

static int fill(scmp_filter_ctx c, unsigned int who)
{
	int rc = 0;

	for (size_t i = 0; i < SP_NELEM(groups) && !rc; i++)
		for (const int *n = groups[i].calls; (groups[i].who & who) && *n != -1 && !rc; n++)
			rc = seccomp_rule_add(c, groups[i].error ?
					      SCMP_ACT_ERRNO((uint32_t)groups[i].error) :
					      SCMP_ACT_ALLOW, *n, 0);
	for (size_t i = 0; i < SP_NELEM(rules) && !rc; i++)
		if (rules[i].who & who)
			rc = seccomp_rule_add_array(c, rules[i].error ?
						    SCMP_ACT_ERRNO((uint32_t)rules[i].error) :
						    SCMP_ACT_ALLOW, rules[i].call, 1,
						    &rules[i].when);
	return rc;
}

/* libseccomp 2.5 exports to a descriptor only. */
static int take_program(scmp_filter_ctx c, struct sock_fprog *out)
{
	sp_auto_fd fd = memfd_create("filter", MFD_CLOEXEC);
	off_t n;

	if (fd < 0)
		return -errno;
	if (seccomp_export_bpf(c, fd) < 0 || (n = lseek(fd, 0, SEEK_END)) <= 0)
		return -EINVAL;
	out->filter = sp_xmalloc((size_t)n);
	out->len = (unsigned short)((size_t)n / sizeof(struct sock_filter));
	if (sp_fd_pread(fd, out->filter, (size_t)n, 0) != n)
		return -EIO;
	return 0;
}

const struct sock_fprog *sp_jail_filter(enum sp_jail_calls calls, struct sp_err *e)
{
	static struct sock_fprog built[SP_JAIL_CALLS_FETCH + 1];
	scmp_filter_ctx c;
	int rc;

	if (built[calls].filter)
		return &built[calls];
	c = seccomp_init((1u << calls) & (VMM | TOOL) ? SCMP_ACT_ERRNO(EPERM) :
							SCMP_ACT_KILL_PROCESS);
	if (!c) {
		sp_fail(e, SP_FAIL, 0, "make a system call filter");
		return NULL;
	}
	rc = seccomp_attr_set(c, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	/* a tree instead of a chain: the kernel tries every call number once when it is loaded */
	if (!rc)
		rc = seccomp_attr_set(c, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (!rc)
		rc = fill(c, 1u << calls);
	if (!rc)
		rc = take_program(c, &built[calls]);
	seccomp_release(c);
	if (rc) {
		sp_fail(e, SP_FAIL, -rc, "make a system call filter");
		return NULL;
	}
	return &built[calls];
}
