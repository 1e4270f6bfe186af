/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile program to put in a confined one's place: it tries what a broken-out VMM or reader would
 * try and tells what worked, one line each:
 *
 *   sees PATH                 an entry of the root or down to two levels below, but not below /usr/x
 *   fd N KIND ino=I yes|no    a descriptor that it holds; yes: it could be written
 *   yes|no NAME [errno text]  an attempt
 *   end
 *
 * The lines go to standard output, into every pipe that it can write, and to a QEMU console. Arguments are passed over,
 * so that it can stand in for any program; run under its own name it touches no descriptor but
 * standard output (as the control of a test it has those of others). BREAKOUT_PATHS in the environment adds paths to open for
 * reading and for writing, BREAKOUT_SOCKETS unix sockets to connect to ('@' first: abstract), both
 * separated by ':'.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define FD_MAX 1024

static int outs[FD_MAX];
static int nouts;

__attribute__((format(printf, 1, 2))) static void tell(const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	for (int i = 0; i < nouts; i++)
		if (write(outs[i], line, (size_t)n) < 0)
			outs[i] = outs[--nouts];
}

/* rc as the call gave it: below 0 is a failure with errno. */
static void attempt(const char *name, long rc)
{
	if (rc < 0)
		tell("no %s %s\n", name, strerror(errno));
	else
		tell("yes %s\n", name);
}

static void find_outs(int all)
{
	struct stat st;

	outs[nouts++] = 1;
	for (int fd = 2; all && fd < FD_MAX; fd++)
		if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) &&
		    (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY)
			outs[nouts++] = fd;
}

/* In QEMU's place, the machine's console is written too: it can be read afterwards. */
static void find_console(char **argv)
{
	int fd;

	for (; *argv && nouts < FD_MAX; argv++)
		if (sscanf(*argv, "socket,id=console,fd=%d", &fd) == 1)
			outs[nouts++] = fd;
}

/* A regular file is written at its beginning, and where that does not do, mapped and written. */
static int can_write_file(int fd)
{
	char *p;

	if (pwrite(fd, "BREAKOUT", 8, 0) == 8)
		return 1;
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED)
		return 1;
	return ftruncate(fd, 1) == 0 || fallocate(fd, 0, 0, 4096) == 0 || fchmod(fd, 0666) == 0;
}

static void try_fds(void)
{
	static const char *const kinds[16] = { [S_IFREG >> 12] = "file",  [S_IFDIR >> 12] = "folder",
					       [S_IFCHR >> 12] = "device", [S_IFIFO >> 12] = "pipe",
					       [S_IFSOCK >> 12] = "socket", [S_IFBLK >> 12] = "block" };
	struct stat st;

	for (int fd = 0; fd < FD_MAX; fd++) {
		const char *kind;
		int out, yes;

		if (fstat(fd, &st) < 0)
			continue;
		kind = kinds[st.st_mode >> 12 & 15] ? kinds[st.st_mode >> 12 & 15] : "other";
		yes = S_ISREG(st.st_mode) ? can_write_file(fd) :
					    (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
		tell("fd %d %s ino=%llu %s\n", fd, kind, (unsigned long long)st.st_ino,
		     yes ? "yes" : "no");
		if (!S_ISDIR(st.st_mode))
			continue;
		out = openat(fd, "../../../../../../etc/passwd", O_RDONLY);
		attempt("leave-folder", out);
	}
}

static void walk(const char *path, int depth)
{
	/* a link to a folder shows nothing that its target does not */
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	char sub[512];

	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(sub, sizeof sub, "%s/%s", strcmp(path, "/") ? path : "", e->d_name);
		tell("sees %s\n", sub);
		if (depth && !strstr(sub, "/usr/"))
			walk(sub, depth - 1);
	}
	if (d)
		closedir(d);
}

static void try_path(const char *path)
{
	char name[600];

	snprintf(name, sizeof name, "read:%s", path);
	attempt(name, open(path, O_RDONLY | O_NONBLOCK));
	snprintf(name, sizeof name, "write:%s", path);
	attempt(name, open(path, O_WRONLY | O_NONBLOCK));
}

static void try_socket(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char name[600];
	size_t n = strnlen(path, sizeof sun.sun_path - 1);

	memcpy(sun.sun_path, path, n);
	if (path[0] == '@')
		sun.sun_path[0] = '\0';
	snprintf(name, sizeof name, "connect:%s", path);
	attempt(name, fd < 0 ? -1 : connect(fd, (struct sockaddr *)&sun,
					    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)));
}

static void each_of(const char *list, void (*fn)(const char *))
{
	char *copy = strdup(list ? list : ""), *at = copy, *item;

	while ((item = strsep(&at, ":")))
		if (*item)
			fn(item);
	free(copy);
}

static void try_files(void)
{
	static const char *const paths[] = { "/etc/passwd",  "/etc/shadow",	"/root",
					     "/proc",	     "/proc/1/environ", "/sys/kernel",
					     "/var/lib/space", "/run",		"/run/space",
					     "/tmp",	     "/home",		"/dev/kvm",
					     "/dev/mem",     "/dev/vda",	"/dev/sda",
					     "/dev/net/tun", "/dev/loop0",	"/dev/fuse" };

	for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
		try_path(paths[i]);
	attempt("make-file", open("/breakout", O_CREAT | O_WRONLY, 0600));
	attempt("make-folder", mkdir("/breakout.d", 0700));
	attempt("make-device", mknod("/breakout.dev", S_IFCHR | 0600, 0x0801));
	attempt("by-handle", syscall(SYS_open_by_handle_at, AT_FDCWD, (void *)outs, O_RDONLY));
	attempt("chroot", chroot("/usr"));
	attempt("leave-root", chdir("../../../../root"));
}

static void try_network(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(22) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	attempt("socket:inet", fd);
	attempt("connect:loopback", fd < 0 ? -1 : connect(fd, (struct sockaddr *)&in, sizeof in));
	attempt("socket:inet6", socket(AF_INET6, SOCK_DGRAM, 0));
	attempt("socket:unix", socket(AF_UNIX, SOCK_STREAM, 0));
	attempt("socket:netlink", socket(AF_NETLINK, SOCK_RAW, 0));
	attempt("socket:packet", socket(AF_PACKET, SOCK_RAW, 0));
	attempt("socket:vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
	attempt("socket:alg", socket(AF_ALG, SOCK_SEQPACKET, 0));
}

static int run_child(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn());
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -1;
	errno = EACCES;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int exec_true(void)
{
	execl("/usr/bin/true", "true", (char *)NULL);
	execl("/bin/busybox", "true", (char *)NULL);
	return 1;
}

static void try_processes(void)
{
	char *const argv[] = { (char[]){ "true" }, NULL };
	char buf[8];
	struct iovec iov = { buf, sizeof buf };
	int seen = 0;

	attempt("fork", run_child(getppid));
	attempt("fork-exec", run_child(exec_true));
	for (pid_t pid = 2; pid < 40000; pid++)
		seen += kill(pid, 0) == 0 || errno == EPERM;
	/* a filter answers EPERM for every number: that shows none */
	attempt("other-processes", seen && seen < 39000 ? 0 : -1);
	attempt("kill-all", kill(-1, 0));
	attempt("ptrace", ptrace(PTRACE_SEIZE, getppid() ? getppid() : 2, 0, 0));
	attempt("read-parent", process_vm_readv(getppid() ? getppid() : 2, &iov, 1, &iov, 1, 0));
	attempt("exec-path-trick", syscall(SYS_execve, (void *)64, argv, NULL));
}

static void try_rights(void)
{
	struct rlimit most = { RLIM_INFINITY, RLIM_INFINITY };

	attempt("setuid-0", setuid(0));
	attempt("setgid-0", setgid(0));
	attempt("mount", mount("none", "/usr", "tmpfs", 0, NULL));
	attempt("unmount", umount2("/usr/lib", MNT_DETACH));
	attempt("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
	attempt("pivot", syscall(SYS_pivot_root, ".", "."));
	attempt("unshare-user", unshare(CLONE_NEWUSER));
	attempt("unshare-mount", unshare(CLONE_NEWNS));
	attempt("setns", setns(0, 0));
	attempt("raise-limit", setrlimit(RLIMIT_FSIZE, &most));
	attempt("raise-core", setrlimit(RLIMIT_CORE, &most));
	attempt("hostname", sethostname("broken", 6));
	attempt("clock", syscall(SYS_clock_settime, 0, &(struct timespec){ 1, 0 }));
}

static void try_kernel(void)
{
	union bpf_attr bpf = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4,
			       .max_entries = 1 };
	volatile uintptr_t zero = 0;
	void *page = mmap((void *)zero, 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	attempt("map-page-0", page == MAP_FAILED ? -1 : 0);
	attempt("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &bpf, sizeof bpf));
	attempt("io_uring", syscall(SYS_io_uring_setup, 1, (char[256]){ 0 }));
	attempt("userfaultfd", syscall(SYS_userfaultfd, 1));
	attempt("perf", syscall(SYS_perf_event_open, (uint32_t[32]){ 1, 128 }, 0, -1, -1, 0));
	attempt("keyctl", syscall(SYS_keyctl, 0, -3, 1));
	attempt("module", syscall(SYS_init_module, "x", 1, ""));
	attempt("kexec", syscall(SYS_kexec_load, 0, 0, 0, 0));
	attempt("reboot", syscall(SYS_reboot, 0xfee1dead, 672274793, 0, 0)); /* CAD off: harmless */
	attempt("shm", shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600));
	attempt("iopl", syscall(SYS_iopl, 3));
	attempt("type-into-terminal", ioctl(0, 0x5412 /* TIOCSTI */, "x"));
}

int main(int argc, char **argv)
{
	const char *slash = argc ? strrchr(argv[0], '/') : NULL;
	int stands_in = argc && strcmp(slash ? slash + 1 : argv[0], "breakout") != 0;

	signal(SIGPIPE, SIG_IGN);
	find_outs(stands_in);
	find_console(argv);
	if (stands_in) {
		walk("/", 2);
		try_fds();
	}
	try_files();
	each_of(getenv("BREAKOUT_PATHS"), try_path);
	try_network();
	each_of(getenv("BREAKOUT_SOCKETS"), try_socket);
	try_kernel();
	try_rights();
	try_processes();
	tell("end\n");
	return 0;
}
