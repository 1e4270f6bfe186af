/* SPDX-License-Identifier: Apache-2.0 */
/* What a confined process cannot do; each refusal beside the same act outside, where it works. */
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "jail_rig.h"

static int open_path(void *path)
{
	return open(path, O_RDONLY) < 0 ? errno : 0;
}

static int see_process(void *pid)
{
	return kill(*(pid_t *)pid, 0) < 0 ? errno : 0;
}

static int is_alone(void *arg)
{
	(void)arg;
	return getpid() == 1 && getppid() == 0 ? 0 : 1;
}

static int connect_abstract(void *name)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	size_t n = strlen(name);

	memcpy(sun.sun_path + 1, name, n);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sun,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) < 0)
		return errno;
	return 0;
}

static int connect_loopback(void *port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = *(in_port_t *)port };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return fd < 0 || connect(fd, (struct sockaddr *)&in, sizeof in) < 0 ? errno : 0;
}

static int listen_abstract(const char *name)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t n = strlen(name);

	memcpy(sun.sun_path + 1, name, n);
	if (bind(fd, (struct sockaddr *)&sun,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) < 0 ||
	    listen(fd, 8) < 0)
		return -1;
	return fd;
}

static int listen_loopback(in_port_t *port)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t n = sizeof in;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (struct sockaddr *)&in, sizeof in) < 0 || listen(fd, 8) < 0 ||
	    getsockname(fd, (struct sockaddr *)&in, &n) < 0)
		return -1;
	*port = in.sin_port;
	return fd;
}

static int mount_something(void *arg)
{
	(void)arg;
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return errno;
	return mount("none", "/usr", "tmpfs", 0, NULL) < 0 ? errno : 0;
}

static int mount_plain(void *arg)
{
	(void)arg;
	return mount("none", "/usr", "tmpfs", 0, NULL) < 0 ? errno : 0;
}

static int trace(void *pid)
{
	return ptrace(PTRACE_SEIZE, *(pid_t *)pid, 0, 0) < 0 ? errno : 0;
}

static int exec_true(void *arg)
{
	(void)arg;
	execl("/usr/bin/true", "true", (char *)NULL);
	return errno;
}

static int exec_bound(void *path)
{
	execl(path, "true", (char *)NULL);
	return errno;
}

static int make_child(void *arg)
{
	int status;
	pid_t pid = fork();

	(void)arg;
	if (pid == 0)
		_exit(0);
	return pid < 0 || waitpid(pid, &status, 0) < 0 ? errno : 0;
}

static int become_root(void *arg)
{
	(void)arg;
	return setuid(0) < 0 ? errno : 0;
}

static int write_file(void *path)
{
	int fd = open(path, O_WRONLY);

	return fd < 0 || write(fd, "x", 1) != 1 ? errno : 0;
}

static int read_dev(void *path)
{
	int fd = open(path, O_RDONLY);
	char c;

	return fd < 0 || read(fd, &c, 1) < 0 ? errno : 0;
}

static int is_fd_open(void *fd)
{
	return fcntl(*(int *)fd, F_GETFD) < 0 ? errno : 0;
}

static int grow_file(void *fd)
{
	char data[4096] = { 0 };

	for (int i = 0; i < 1024; i++)
		if (pwrite(*(int *)fd, data, sizeof data, 1L * i * 4096) < 0)
			return errno;
	return 0;
}

static int map_much(void *arg)
{
	(void)arg;
	return mmap(NULL, 1L << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		    0) == MAP_FAILED
		       ? errno
		       : 0;
}

static int dup_many(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100; i++)
		if (dup(0) < 0)
			return errno;
	return 0;
}

static int dump_core(void *arg)
{
	struct rlimit r;

	(void)arg;
	if (getrlimit(RLIMIT_CORE, &r) < 0)
		return errno;
	return r.rlim_max ? 0 : EPERM;
}

static int burn(void *arg)
{
	(void)arg;
	for (volatile unsigned long i = 0; i + 1; i++)
		;
	return 0;
}

static void test_files(void)
{
	struct sp_jail j = jail_of(SP_JAIL_CALLS_TOOL);
	char passwd[] = "/etc/passwd", cache[] = "/etc/ld.so.cache", proc[] = "/proc/self/status";
	char urandom[] = "/dev/urandom", null[] = "/dev/null";

	refused(&j, open_path, passwd, "a file of the host");
	refused(&j, open_path, proc, "proc");
	refused(&j, read_dev, urandom, "a device that was not asked for");
	j.host_programs = true;
	refused(&j, open_path, passwd, "a file of the host, with its programs there");
	ok(inside(&j, open_path, cache) == 0, "what its programs need is there");
	j.dev = true;
	ok(inside(&j, read_dev, urandom) == 0, "a device that was asked for");
	ok(inside(&j, write_file, null) == 0, "/dev/null can be written");
}

static void test_binds(void)
{
	char dir[] = "/tmp/space-test.XXXXXX", file[64], at[] = "/in/side/file", prog[] = "/prog";
	struct sp_jail j = jail_of(SP_JAIL_CALLS_TOOL);
	struct sp_jail_bind b[2] = { { -1, file, at, false, false },
				     { -1, "/bin/busybox", prog, false, false } };
	struct sp_err e;
	int fd, pidfd;

	ok(mkdtemp(dir) != NULL, "a folder");
	snprintf(file, sizeof file, "%s/file", dir);
	fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
	fchmod(fd, 0666);
	close(fd);
	j.binds = b;
	j.nbinds = 1;
	ok(outside(write_file, file) == 0, "a file that all may write: works outside");
	ok(inside(&j, write_file, at) == EROFS, "bound read-only it cannot be written");
	ok(inside(&j, open_path, at) == 0, "but read");
	b[0].writable = true;
	ok(inside(&j, write_file, at) == 0, "bound writable it can");
	b[0].from_fd = open(file, O_PATH | O_CLOEXEC);
	b[0].from = NULL;
	ok(inside(&j, write_file, at) == 0, "and by descriptor");
	close(b[0].from_fd);
	b[0] = b[1];
	ok(outside(exec_bound, (char[]){ "/bin/busybox" }) == 0, "a program runs outside");
	ok(inside(&j, exec_bound, prog) == EACCES, "bound without exec it does not run");
	b[0].exec = true;
	ok(inside(&j, exec_bound, prog) == 0, "bound with exec it does");
	b[0].from = "/nowhere/at/all";
	ok(sp_jail_run(&j, is_alone, NULL, &pidfd, &e) < 0 && e.code == SP_ABSENT &&
		   strstr(e.msg, "/nowhere/at/all"),
	   "a bind that is not there is told: %s", e.msg);
	unlink(file);
	rmdir(dir);
}

static void test_others(void)
{
	struct sp_jail j = jail_of(SP_JAIL_CALLS_TOOL);
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	refused(&j, see_process, &pid, "another process");
	ok(inside(&j, is_alone, NULL) == 0, "it is process 1, without a parent");
	refused(&j, trace, &pid, "ptrace");
	refused(&j, mount_something, NULL, "unshare and mount");
	ok(inside(&j, mount_plain, NULL) == EPERM, "mount");
	refused(&j, become_root, NULL, "user id 0");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_network(void)
{
	struct sp_jail fetch = jail_of(SP_JAIL_CALLS_FETCH), parser = jail_of(SP_JAIL_CALLS_PARSER);
	char name[64];
	in_port_t port = 0;
	int in, un;

	snprintf(name, sizeof name, "space-test-%d", (int)getpid());
	un = listen_abstract(name);
	in = listen_loopback(&port);
	ok(un >= 0 && in >= 0, "listeners");
	refused(&fetch, connect_abstract, name, "an abstract unix socket");
	refused(&fetch, connect_loopback, &port, "loopback");
	refused(&parser, connect_loopback, &port, "loopback, for a parser");
	fetch.net = true;
	ok(inside(&fetch, connect_loopback, &port) == 0, "loopback, with the network kept");
	refused(&fetch, connect_abstract, name, "an abstract unix socket, with the network kept");
	close(in);
	close(un);
}

static void test_programs(void)
{
	struct sp_jail parser = jail_of(SP_JAIL_CALLS_PARSER), tool = jail_of(SP_JAIL_CALLS_TOOL);
	struct sp_jail fetch = jail_of(SP_JAIL_CALLS_FETCH), vmm = jail_of(SP_JAIL_CALLS_VMM);
	struct sp_jail reader = jail_of(SP_JAIL_CALLS_READER);

	parser.host_programs = tool.host_programs = fetch.host_programs = vmm.host_programs = true;
	reader.host_programs = true;
	refused(&parser, exec_true, NULL, "exec, for a parser");
	refused(&reader, exec_true, NULL, "exec, for a reader");
	refused(&fetch, exec_true, NULL, "exec, for a client");
	refused(&vmm, exec_true, NULL, "exec, for the VMM");
	ok(inside(&tool, exec_true, NULL) == 0, "exec works for a tool");
	refused(&parser, make_child, NULL, "fork, for a parser");
	refused(&vmm, make_child, NULL, "fork, for the VMM");
	refused(&tool, make_child, NULL, "fork, for a tool that may have one process");
	tool.max_procs = 3;
	ok(inside(&tool, make_child, NULL) == 0, "fork works for a tool that may have three");
}

static void test_limits(void)
{
	struct sp_jail j = jail_of(SP_JAIL_CALLS_PARSER);
	int fd = memfd_create("t", MFD_CLOEXEC), other = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int high = fcntl(other, F_DUPFD_CLOEXEC, 500);

	j.keep = &fd;
	j.nkeep = 1;
	refused(&j, is_fd_open, &other, "a descriptor that is not kept");
	refused(&j, is_fd_open, &high, "one with a high number");
	ok(inside(&j, is_fd_open, &fd) == 0, "one that is kept");
	refused(&j, grow_file, &fd, "a file past its limit");
	j.max_file = 8 << 20;
	ok(inside(&j, grow_file, &fd) == 0, "a file within its limit");
	refused(&j, dup_many, NULL, "descriptors past their limit");
	j.max_files = 256;
	ok(inside(&j, dup_many, NULL) == 0, "descriptors within their limit");
	ok(inside(&j, map_much, NULL) == 0, "memory without a limit");
#ifndef __SANITIZE_ADDRESS__
	j.max_memory = 512 << 20;
	refused(&j, map_much, NULL, "memory past its limit");
#endif
	ok(inside(&j, dump_core, NULL) == EPERM, "no core");
	j.max_cpu_s = 1;
	ok(inside(&j, burn, NULL) == 2000 + SIGKILL, "processor time past its limit");
	close(fd);
	close(other);
	close(high);
}

int main(void)
{
	if (skip_unless_root())
		return 0;
	test_files();
	test_binds();
	test_others();
	test_network();
	test_programs();
	test_limits();
	return tap_done();
}
