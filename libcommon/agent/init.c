/* SPDX-License-Identifier: Apache-2.0 */
/* From the first instruction in the initramfs to an agent in the root file system. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/str.h"

#define HOOKS "/etc/space/resume.d"

bool sp_cmdline(const char *key, char *out, size_t cap)
{
	char text[4096];
	int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	bool found = false;
	char *save = NULL;

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	for (char *w = strtok_r(text, " \n", &save); w; w = strtok_r(NULL, " \n", &save)) {
		if (!sp_str_has_prefix(w, key))
			continue;
		snprintf(out, cap, "%s", w + strlen(key));
		found = true;
	}
	return found;
}

/* Descriptors 0 to 2 and the agent's own way to the console. The kernel opens the first three only
 * where the initramfs has a node for it. */
static void open_console(struct sp_agent *a)
{
	int fd;

	do
		fd = open("/dev/console", O_RDWR | O_NOCTTY);
	while (fd >= 0 && fd < 2);
	if (fd > 2)
		close(fd);
	while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd < 2)
		;
	if (fd > 2)
		close(fd);
	a->console = open("/dev/console", O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

/* busybox is an init of its own only where an inittab begins the machine with a program that is
 * there; images made for containers carry the link, and at times an inittab, without it. */
static bool busybox_has_work(void)
{
	FILE *f = fopen("/etc/inittab", "re");
	char line[512];
	bool found = false;

	while (f && !found && fgets(line, sizeof line, f)) {
		char *at = line[0] == '#' ? NULL : strstr(line, ":sysinit:");

		if (!at)
			continue;
		at += strlen(":sysinit:");
		at[strcspn(at, " \t\r\n")] = '\0';
		found = at[0] == '/' && access(at, X_OK) == 0;
	}
	if (f)
		fclose(f);
	return found;
}

static bool names_program(const char *path, const char *program)
{
	char real[4096];
	const char *base;

	if (!realpath(path, real))
		return false;
	base = strrchr(real, '/');
	return base && strcmp(base + 1, program) == 0;
}

static bool is_init(const char *path)
{
	struct stat st;

	if (stat(path, &st) || !S_ISREG(st.st_mode) || access(path, X_OK))
		return false;
	return !names_program(path, "busybox") || busybox_has_work();
}

/* The image's own init, or false. */
static bool find_init(const struct sp_agent *a, char *path, size_t cap)
{
	static const char *const usual[] = { "/sbin/init", "/lib/systemd/systemd",
					     "/usr/lib/systemd/systemd", "/etc/init" };

	if (sp_cmdline("space.init=", path, cap)) {
		if (strcmp(path, "none") == 0)
			return false;
		if (access(path, X_OK) == 0)
			return true;
		sp_say(a, "space.init=%s: %s", path, strerror(errno));
		return false;
	}
	for (size_t i = 0; i < SP_NELEM(usual); i++) {
		if (is_init(usual[i])) {
			snprintf(path, cap, "%s", usual[i]);
			return true;
		}
	}
	return false;
}

/* An init that cannot be run leaves a first process that only reaps; the agent lives beside it. */
static _Noreturn void only_reap(void)
{
	for (;;)
		if (waitpid(-1, NULL, 0) < 0)
			pause();
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	sp_write_all(fd, text, strlen(text));
	close(fd);
}

static _Noreturn void run_init(const struct sp_agent *a, const char *path, char **argv)
{
	char *const environment[] = { (char *)"HOME=/", (char *)"TERM=linux",
				      (char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:"
					      "/usr/bin:/sbin:/bin",
				      (char *)"NOTIFY_SOCKET=" SP_SETTLE_SOCKET, NULL };

	sp_child_signals();
	argv[0] = (char *)(uintptr_t)path;
	execve(path, argv, environment);
	sp_say(a, "cannot run %s: %s", path, strerror(errno));
	only_reap();
}

/* systemd spares processes whose name begins with '@' when it ends all others at shutdown (the rule
 * for those that a root file system depends on). */
static void rename_agent(char **argv)
{
	static const char name[] = "@space-guest";
	size_t room = strlen(argv[0]);

	prctl(PR_SET_NAME, "space-guest");
	if (room)
		snprintf(argv[0], room + 1, "%s", name);
}

static void loopback_up(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0) {
		ioctl(fd, SIOCSIFFLAGS, &r);
		close(fd);
	}
}

static void be_first_process(struct sp_agent *a)
{
	a->pid1 = true;
	reboot(RB_DISABLE_CAD); /* ctrl-alt-del comes as SIGINT */
	loopback_up();
	if (mount("cgroup2", "/sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  "nsdelegate"))
		sp_say(a, "mount /sys/fs/cgroup: %s", strerror(errno));
}

void sp_init_boot(struct sp_agent *a, char **argv)
{
	char init[256];
	int uevents, notify;
	pid_t pid;

	umask(022);
	sp_mount_early(a);
	open_console(a);
	uevents = sp_uevent_open();
	sp_modules_load(a);
	if (sp_mount_root(a, uevents)) {
		sync();
		reboot(RB_POWER_OFF);
	}
	sp_mount_switch(a);
	a->ch.uevents.fd = uevents;
	a->hooks = HOOKS;
	if (!find_init(a, init, sizeof init)) {
		be_first_process(a);
		write_text("/proc/self/oom_score_adj", "-1000");
		return;
	}
	notify = sp_settle_prepare();
	pid = fork();
	if (pid > 0)
		run_init(a, init, argv);
	if (pid < 0) {
		sp_say(a, "no process for the agent: %s", strerror(errno));
		be_first_process(a);
		return;
	}
	setsid();
	rename_agent(argv);
	write_text("/proc/self/oom_score_adj", "-1000");
	a->settle.notify.fd = notify;
	a->settles = true;
	a->init_is_systemd = names_program(init, "systemd");
}
