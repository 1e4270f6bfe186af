/* SPDX-License-Identifier: Apache-2.0 */
/* How a confined process begins and ends, what the kernel says of it, and what is told of
 * failures. */
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "jail_rig.h"
#include "sys/lock.h"
#include "sys/proc.h"

static char secret[32] = "what the keeper reads";

static int sit(void *arg)
{
	char c;

	return read(*(int *)arg, &c, 1) < 0 ? errno : 0;
}

/* A field of /proc/PID/status as text. */
static const char *status_of(pid_t pid, const char *key)
{
	static char text[8192], value[256];
	sp_auto_free char *path = sp_xasprintf("/proc/%d/status", (int)pid);
	sp_auto_free char *want = sp_xasprintf("\n%s:\t", key);
	sp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : sp_fd_read(fd, text, sizeof text - 1);
	const char *p;

	text[n < 0 ? 0 : n] = '\0';
	p = strstr(text, want);
	snprintf(value, sizeof value, "%.*s", p ? (int)strcspn(p + strlen(want), "\n") : 0,
		 p ? p + strlen(want) : "");
	return value;
}

/* /proc/PID/mountinfo, whole. */
static const char *mounts_of(pid_t pid)
{
	static char text[8192];
	sp_auto_free char *path = sp_xasprintf("/proc/%d/mountinfo", (int)pid);
	sp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : sp_fd_read(fd, text, sizeof text - 1);

	text[n < 0 ? 0 : n] = '\0';
	return text;
}

static void test_status(void)
{
	struct sp_jail j = jail_of(SP_JAIL_CALLS_PARSER);
	struct iovec here = { (char[32]){ 0 }, sizeof secret }, there = { secret, sizeof secret };
	sp_auto_fd pidfd = -1;
	int p[2], status;
	struct sp_err e;
	char ids[64], root[64];
	struct stat st;
	pid_t pid;

	ok(pipe2(p, O_CLOEXEC) == 0, "a pipe");
	j.keep = &p[0];
	j.nkeep = 1;
	pid = sp_jail_run(&j, sit, &p[0], &pidfd, &e);
	ok(pid > 0, "a confined process sits");
	is_str(status_of(pid, "CapPrm"), "0000000000000000", "no permitted capabilities");
	is_str(status_of(pid, "CapEff"), "0000000000000000", "no effective ones");
	is_str(status_of(pid, "CapInh"), "0000000000000000", "none to inherit");
	is_str(status_of(pid, "CapAmb"), "0000000000000000", "no ambient ones");
	is_str(status_of(pid, "CapBnd"), "0000000000000000", "an empty bounding set");
	is_str(status_of(pid, "NoNewPrivs"), "1", "no new privileges");
	is_str(status_of(pid, "Seccomp"), "2", "a filter");
	snprintf(ids, sizeof ids, "%u\t%u\t%u\t%u", j.uid, j.uid, j.uid, j.uid);
	is_str(status_of(pid, "Uid"), ids, "its user id, four times");
	is_str(status_of(pid, "Gid"), ids, "its group id, four times");
	is_str(status_of(pid, "Groups"), " ", "no other groups");
	snprintf(root, sizeof root, "/proc/%d/root/etc", (int)pid);
	ok(stat(root, &st) < 0 && errno == ENOENT, "its root has no /etc");
	ok(strchr(mounts_of(pid), '\n') == strrchr(mounts_of(pid), '\n'),
	   "one mount, no other below it");
	ok(strstr(mounts_of(pid), " / / ro,nosuid,nodev,noexec,") != NULL, "which is read-only");
	ok(process_vm_readv(pid, &here, 1, &there, 1, 0) == sizeof secret &&
		   strcmp(here.iov_base, secret) == 0,
	   "the keeper can read its memory");
	close(p[1]);
	ok(sp_jail_wait(pid, pidfd, 10000, &status, &e) == 0 && status == 0, "it ends when told");
	close(p[0]);
}

static void test_wait(void)
{
	struct sp_jail j = jail_of(SP_JAIL_CALLS_PARSER);
	sp_auto_fd pidfd = -1;
	int p[2], status = 0;
	struct sp_err e;
	pid_t pid;

	ok(pipe2(p, O_CLOEXEC) == 0, "a pipe");
	j.keep = p;
	j.nkeep = 2;
	pid = sp_jail_run(&j, sit, &p[0], &pidfd, &e);
	ok(sp_jail_wait(pid, pidfd, 50, &status, &e) < 0 && e.code == SP_BUSY, "time is up: %s",
	   e.msg);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "and it was killed");
	ok(kill(pid, 0) < 0 && errno == ESRCH, "and is gone");
	close(p[0]);
	close(p[1]);
}

/* Makes a confined process and sends its pidfd to the test; then sits until it is killed. */
static void be_parent(int sock)
{
	struct sp_jail j = jail_of(SP_JAIL_CALLS_PARSER);
	int p[2], pidfd = -1;
	struct sp_err e;

	if (pipe2(p, O_CLOEXEC) < 0)
		_exit(1);
	j.keep = p;
	j.nkeep = 2;
	if (sp_jail_run(&j, sit, &p[0], &pidfd, &e) < 0 ||
	    sp_sock_send(sock, "x", 1, &pidfd, 1) < 0)
		_exit(1);
	for (;;)
		pause();
}

static void test_parent(void)
{
	int pair[2], pidfd = -1, n = 1;
	struct pollfd p;
	char c;
	pid_t pid;

	ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0, "a pair of sockets");
	pid = fork();
	if (pid == 0)
		be_parent(pair[1]);
	ok(sp_sock_recv(pair[0], &c, 1, &pidfd, &n) == 1 && n == 1,
	   "a confined process of another");
	p = (struct pollfd){ .fd = pidfd, .events = POLLIN };
	ok(poll(&p, 1, 100) == 0, "it lives");
	kill(pid, SIGKILL);
	ok(poll(&p, 1, 5000) == 1, "it ends with its parent");
	pidfd_send_signal(pidfd, SIGKILL, NULL, 0); /* should it not */
	waitpid(pid, NULL, 0);
	close(pidfd);
	close(pair[0]);
	close(pair[1]);
}

/* Runs a program inside with its output into text; the wait status, or -1. */
static int exec_inside(struct sp_jail *j, const char *path, const char *const argv[],
		       char *text, size_t n)
{
	static const char *const env[] = { "PATH=/usr/bin", NULL };
	sp_auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC), pidfd = -1, in = -1, out = -1;
	int p[2], status = -1;
	ssize_t got;
	struct sp_err e;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	in = p[0];
	out = p[1];
	j->stdio = (int[]){ null, out, out };
	pid = sp_jail_exec(j, path, (char *const *)argv, (char *const *)env, &pidfd, &e);
	j->stdio = NULL;
	if (pid < 0) {
		snprintf(text, n, "%s", e.msg);
		return -1;
	}
	sp_fd_close(&out);
	got = sp_fd_read(in, text, n - 1);
	text[got < 0 ? 0 : got] = '\0';
	return sp_jail_wait(pid, pidfd, 10000, &status, &e) < 0 ? -1 : status;
}

static void test_exec(void)
{
	struct sp_jail j = jail_of(SP_JAIL_CALLS_TOOL);
	char text[65536];

	j.host_programs = true;
	j.dev = true;
	j.max_procs = 8;
	ok(exec_inside(&j, "/bin/sh", (const char *[]){ "sh", "-c", "echo $0 $$; exit 3", NULL },
		       text, sizeof text) == 3 << 8,
	   "a program of the host runs");
	is_str(text, "sh 1\n", "with its output in a pipe of ours");
	ok(exec_inside(&j, "/usr/bin/nothing", (const char *[]){ "x", NULL }, text, sizeof text) <
			   0 &&
		   strstr(text, "/usr/bin/nothing"),
	   "a program that is not there is told: %s", text);
	ok(exec_inside(&j, "/bin/sh",
		       (const char *[]){ "sh", "-c", "ls /; ls /usr; ls /etc; ls /dev", NULL },
		       text, sizeof text) == 0,
	   "the root");
	is_str(text,
	       "bin\ndev\netc\nlib\nlib64\nsbin\nusr\nbin\nlib\nlib64\nsbin\nshare\nld.so.cache\n"
	       "null\nrandom\nurandom\nzero\n",
	       "holds this and no more");
	ok(exec_inside(&j, "/usr/sbin/mke2fs", (const char *[]){ "mke2fs", "-V", NULL }, text,
		       sizeof text) == 0,
	   "mke2fs begins: %s", text);
	j.calls = SP_JAIL_CALLS_VMM;
	ok(exec_inside(&j, "/usr/bin/env", (const char *[]){ "env", "true", NULL }, text,
		       sizeof text) != 0 &&
		   strstr(text, "Operation not permitted"),
	   "a VMM that execs again cannot: %s", text);
	ok(exec_inside(&j, "/usr/bin/qemu-system-x86_64",
		       (const char *[]){ "qemu", "--version", NULL }, text, sizeof text) == 0 &&
		   strstr(text, "QEMU emulator"),
	   "QEMU runs");
}

static void test_slots(void)
{
	struct sp_jail_slot a = { .fd = -1 }, b = { .fd = -1 };
	char name[64];
	struct sp_err e;
	int fd;

	ok(sp_jail_slot_take(&a, &e) == 0 && sp_jail_slot_take(&b, &e) == 0, "two slots");
	ok(a.uid[0] != b.uid[0] && a.uid[1] == a.uid[0] + 1 && a.uid[0] >= SP_JAIL_UID_BASE &&
		   a.uid[1] < SP_JAIL_UID_BASE + 2 * SP_JAIL_SLOTS && a.uid[0] % 2 == 0,
	   "with user ids of their own");
	snprintf(name, sizeof name, "/run/space-uids/%u", (a.uid[0] - SP_JAIL_UID_BASE) / 2);
	ok(sp_lock_take(AT_FDCWD, name, 0, &e) < 0 && e.code == SP_BUSY, "a slot is held");
	close(a.fd);
	fd = sp_lock_take(AT_FDCWD, name, 0, &e);
	ok(fd >= 0, "and free when its descriptor is closed");
	close(fd);
	close(b.fd);
}

static void test_cgroup(void)
{
	struct sp_jail j = jail_of(SP_JAIL_CALLS_PARSER);
	static const char *const tops[] = { "/sys/fs/cgroup/space",
					    "/sys/fs/cgroup/unified/space" };
	char leaf[64], path[128], text[64] = "", line[80];
	sp_auto_fd pidfd = -1;
	int p[2], status, fd = -1;
	struct sp_err e;
	struct stat st;
	pid_t pid;

	snprintf(leaf, sizeof leaf, "test-%d", (int)getpid());
	ok(pipe2(p, O_CLOEXEC) == 0, "a pipe");
	j.cgroup = leaf;
	j.cgroup_memory = 64 << 20;
	j.keep = &p[0];
	j.nkeep = 1;
	pid = sp_jail_run(&j, sit, &p[0], &pidfd, &e);
	ok(pid > 0, "a confined process with a cgroup leaf");
	for (size_t i = 0; i < 2 && fd < 0; i++) {
		snprintf(path, sizeof path, "%s/%s/cgroup.procs", tops[i], leaf);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (fd >= 0) {
		(void)sp_fd_read(fd, text, sizeof text - 1);
		close(fd);
		snprintf(line, sizeof line, "%d\n", (int)pid);
		is_str(text, line, "it is alone in its leaf");
	}
	close(p[1]);
	sp_jail_wait(pid, pidfd, 10000, &status, &e);
	sp_jail_cgroup_remove(leaf);
	path[strlen(path) - strlen("/cgroup.procs")] = '\0';
	ok(stat(path, &st) < 0, "the leaf is gone");
	sp_jail_cgroup_remove(leaf);
	close(p[0]);
}

int main(void)
{
	if (skip_unless_root())
		return 0;
	test_status();
	test_wait();
	test_parent();
	test_exec();
	test_slots();
	test_cgroup();
	return tap_done();
}
