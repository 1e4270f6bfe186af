/* SPDX-License-Identifier: Apache-2.0 */
/* Coming back is not waking up: WELCOME, and what is done before READY.
 *
 * The clock, the entropy, names and their files are set at once in the agent itself: a fork just
 * after a load is what takes longest there, since nothing is warm, and before READY nobody else is
 * kept waiting. Hooks take their time, and are run by a child; its exit status is the number that
 * failed. The files too are left to it while file systems are frozen, for the agent is what thaws
 * them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/str.h"

#define HOOK_MS 10000
#define FAILED_MOST 200 /* as an exit status */

#ifndef RNDRESEEDCRNG
#define RNDRESEEDCRNG _IO('R', 0x07)
#endif

/* In the child: identity */

/* In place: it is a fraction of the work of a new file and a rename (which a file that is mounted
 * there would refuse too), and the bytes of so short a text are never seen half. */
static bool write_over(const char *path, const char *text, mode_t mode)
{
	size_t n = strlen(text);
	int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);
	bool good;

	if (fd < 0)
		return false;
	good = sp_write_all(fd, text, n) == 0 && ftruncate(fd, (off_t)n) == 0;
	close(fd);
	return good;
}

static bool is_plain(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static void write_machine_id(void)
{
	unsigned char r[16];
	char text[34];
	struct stat st;

	if (getrandom(r, sizeof r, 0) != sizeof r)
		return;
	r[6] = (unsigned char)((r[6] & 0x0f) | 0x40); /* a version 4 UUID, as systemd makes them */
	r[8] = (unsigned char)((r[8] & 0x3f) | 0x80);
	for (size_t i = 0; i < sizeof r; i++)
		snprintf(text + 2 * i, 3, "%02x", r[i]);
	text[32] = '\n';
	text[33] = '\0';
	if (is_plain("/etc/machine-id") ||
	    (lstat("/etc/machine-id", &st) && stat("/lib/systemd/systemd", &st) == 0))
		write_over("/etc/machine-id", text, 0444);
	if (is_plain("/var/lib/dbus/machine-id"))
		write_over("/var/lib/dbus/machine-id", text, 0444);
}

/* Files of a folder, not folders in it. */
static void empty_folder(const char *path)
{
	struct dirent *d;
	DIR *dir = opendir(path);

	while (dir && (d = readdir(dir)))
		unlinkat(dirfd(dir), d->d_name, 0);
	if (dir)
		closedir(dir);
}

void sp_identity_write(const char *hostname)
{
	/* Addresses that were leased to another machine, and what was known of its link. */
	static const char *const leases[] = {
		"/var/lib/dhcp",           "/var/lib/dhcpcd",           "/var/lib/dhclient",
		"/var/lib/NetworkManager", "/run/systemd/netif/leases", "/run/systemd/netif/links",
	};
	char line[80];

	if (hostname[0]) {
		snprintf(line, sizeof line, "%s\n", hostname);
		write_over("/etc/hostname", line, 0644);
	}
	write_machine_id();
	for (size_t i = 0; i < SP_NELEM(leases); i++)
		empty_folder(leases[i]);
}

/* In the child: hooks */

static volatile sig_atomic_t hook_pid;

static void on_term(int signal)
{
	(void)signal;
	if (hook_pid > 0)
		kill(-hook_pid, SIGKILL);
	_exit(0);
}

static void begin_hook(const char *dir, const char *name)
{
	char path[512];

	setpgid(0, 0);
	sp_child_signals();
	snprintf(path, sizeof path, "%s/%s", dir, name);
	execl(path, path, (char *)NULL);
	dprintf(2, "space-guest: cannot run hook '%s': %s\n", path, strerror(errno));
	_exit(126);
}

/* One hook, with its time; true: it did well. What it left running in its group goes with it. */
static bool run_hook(const char *dir, const char *name)
{
	struct pollfd ended = { .events = POLLIN };
	int status = -1, n;
	pid_t pid = fork();

	if (pid < 0)
		return false;
	if (pid == 0)
		begin_hook(dir, name);
	setpgid(pid, pid);
	hook_pid = pid;
	ended.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	do
		n = ended.fd < 0 ? 1 : poll(&ended, 1, HOOK_MS);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		dprintf(2, "space-guest: hook '%s' took too long\n", name);
	if (n != 1)
		kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	hook_pid = 0;
	if (ended.fd >= 0)
		close(ended.fd);
	return status == 0;
}

int sp_hooks_run(const char *dir)
{
	struct dirent **list = NULL;
	int n = scandir(dir, &list, NULL, alphasort), failed = 0;
	struct stat st;
	char path[512];

	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;
		size_t len = strlen(name);

		snprintf(path, sizeof path, "%s/%s", dir, name);
		if (name[0] == '.' || name[len - 1] == '~' || stat(path, &st) ||
		    !S_ISREG(st.st_mode) || !(st.st_mode & 0111))
			continue;
		if (!run_hook(dir, name) && failed < FAILED_MOST)
			failed++;
	}
	return failed;
}

static bool is_frozen(const struct sp_agent *a)
{
	return a->freeze.frozen || a->freeze.child;
}

static _Noreturn void work(const struct sp_agent *a, bool same, const unsigned char *p,
			   uint32_t len)
{
	char hostname[65] = "", id[64] = "", number[24];
	int console = a->boot ? open("/dev/console", O_WRONLY | O_NOCTTY | O_CLOEXEC) : dup(2);

	signal(SIGTERM, on_term);
	setsid();
	sp_child_descriptors(-1, console, console);
	sp_fields_text(p, len, SP_T_HOSTNAME, hostname, sizeof hostname);
	sp_fields_text(p, len, SP_T_ID, id, sizeof id);
	if (a->boot && !same && is_frozen(a))
		sp_identity_write(hostname);
	snprintf(number, sizeof number, "%llu",
		 (unsigned long long)sp_fields_num(p, len, SP_T_GENERATION, 0));
	clearenv();
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	setenv("HOME", "/", 1);
	setenv("SPACE_SAME", same ? "1" : "0", 1);
	setenv("SPACE_GENERATION", number, 1);
	setenv("SPACE_ID", id, 1);
	setenv("SPACE_HOSTNAME", hostname, 1);
	if (chdir("/"))
		_exit(0);
	_exit(a->hooks ? sp_hooks_run(a->hooks) : 0);
}

/* In the agent */

static void set_clock(const unsigned char *p, uint32_t len)
{
	int64_t ns = (int64_t)sp_fields_num(p, len, SP_T_TIME, 0);
	struct timespec now = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	if (ns > 0)
		clock_settime(CLOCK_REALTIME, &now);
}

static void add_entropy(const unsigned char *p, uint32_t len)
{
	struct {
		int bits, size;
		unsigned char bytes[256];
	} pool;
	const unsigned char *data;
	uint32_t n;
	int fd;

	if (!sp_fields_find(p, len, SP_T_ENTROPY, &data, &n) || !n || n > sizeof pool.bytes)
		return;
	pool.bits = (int)n * 8;
	pool.size = (int)n;
	memcpy(pool.bytes, data, n);
	fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	ioctl(fd, RNDADDENTROPY, &pool);
	ioctl(fd, RNDRESEEDCRNG);
	close(fd);
	explicit_bzero(&pool, sizeof pool);
}

static void send_ready(struct sp_agent *a)
{
	unsigned char mem[64];
	struct sp_fields f;

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u64(&f, SP_T_GENERATION, a->resume.acked);
	sp_fields_add_u64(&f, SP_T_VALUE, a->resume.failed);
	sp_channel_send(a, 0, SP_G_READY, &f);
	a->ready = true;
}

static void ready(struct sp_agent *a, uint64_t failed)
{
	a->resume.acked = a->resume.current;
	a->resume.failed = failed;
	send_ready(a);
}

static void on_done(struct sp_agent *a, void *owner, int status)
{
	struct sp_resume *r = &a->resume;

	(void)owner;
	r->child = NULL;
	ready(a, WIFEXITED(status) ? (uint64_t)WEXITSTATUS(status) : 1);
}

void sp_resume_cancel(struct sp_agent *a)
{
	struct sp_resume *r = &a->resume;

	if (!r->child)
		return;
	kill(r->child->pid, SIGTERM);
	r->child->ended = NULL;
	r->child = NULL;
}

static void set_identity(const struct sp_agent *a, const unsigned char *p, uint32_t len)
{
	char name[65];

	if (sp_fields_text(p, len, SP_T_HOSTNAME, name, sizeof name) == 0 && name[0] &&
	    sethostname(name, strlen(name)))
		sp_say(a, "set the hostname: %s", strerror(errno));
	if (!is_frozen(a))
		sp_identity_write(name);
}

static bool has_hooks(const char *dir)
{
	DIR *list = dir ? opendir(dir) : NULL;
	struct dirent *d;
	bool any = false;

	while (list && !any && (d = readdir(list)))
		any = d->d_name[0] != '.';
	if (list)
		closedir(list);
	return any;
}

void sp_resume_welcome(struct sp_agent *a, const unsigned char *p, uint32_t len)
{
	struct sp_resume *r = &a->resume;
	bool same = sp_fields_num(p, len, SP_T_SAME, 0) != 0;
	const unsigned char *marker;
	uint32_t n;
	pid_t pid;

	if (!sp_fields_find(p, len, SP_T_MARKER, &marker, &n) || n != SP_G_MARKER_LEN) {
		sp_say(a, "a WELCOME without a marker is passed over");
		return;
	}
	memcpy(a->ch.marker, marker, n);
	a->ch.cold = false;
	sp_resume_cancel(a);
	if (a->boot) {
		set_clock(p, len);
		add_entropy(p, len);
	}
	r->current = sp_fields_num(p, len, SP_T_GENERATION, 0);
	if (!same)
		sp_proc_is_branch(a);
	if (r->current == r->acked && r->acked) { /* told again */
		send_ready(a);
		return;
	}
	if (a->boot && !same)
		set_identity(a, p, len);
	if (!is_frozen(a) && !has_hooks(a->hooks)) {
		ready(a, 0);
		return;
	}
	pid = sp_child_fork(a, on_done, NULL, &r->child);
	if (pid == 0)
		work(a, same, p, len);
	if (pid < 0) {
		sp_say(a, "no process for the resume hooks: %s", strerror(errno));
		ready(a, 1);
	}
}
