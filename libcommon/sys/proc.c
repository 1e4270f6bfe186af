/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "sys/clock.h"
#include "sys/fd.h"

/* The name in field 2 may hold spaces and brackets: count from its last one. */
static int parse_start(const char *stat, uint64_t *start)
{
	const char *p = strrchr(stat, ')');
	char *end;

	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	if (!p)
		return -1;
	*start = strtoull(p + 1, &end, 10);
	return end == p + 1 ? -1 : 0;
}

int sp_proc_identify(pid_t pid, struct sp_proc_id *out, struct sp_err *e)
{
	sp_auto_fd fd = -1;
	char path[64], text[1024];
	ssize_t n;

	if (!pid)
		pid = getpid();
	*out = (struct sp_proc_id){ .pid = pid };
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : sp_fd_read(fd, text, sizeof text - 1);
	if (n < 0 && (errno == ENOENT || errno == ESRCH))
		return sp_fail(e, SP_ABSENT, ESRCH, "process %d", (int)pid);
	if (n < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "read '%s'", path);
	text[n] = '\0';
	if (parse_start(text, &out->start) < 0)
		return sp_fail(e, SP_FAIL, 0, "'%s' makes no sense", path);
	memcpy(out->boot, sp_clock_boot_id(), strlen(sp_clock_boot_id()) + 1);
	return 0;
}

static int pidfd_open_(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

int sp_proc_open(const struct sp_proc_id *id)
{
	sp_auto_fd fd = -1;
	struct sp_proc_id now;
	struct sp_err e;

	errno = ESRCH;
	if (id->pid <= 0 || strcmp(id->boot, sp_clock_boot_id()) != 0)
		return -1;
	fd = pidfd_open_(id->pid);
	if (fd < 0)
		return -1;
	/* The pidfd is fixed now: if the identity still fits, it is of that process. A zombie
	 * counts as gone. */
	if (sp_proc_identify(id->pid, &now, &e) < 0 || now.start != id->start ||
	    sp_proc_await(fd, 0) != 0) {
		errno = ESRCH;
		return -1;
	}
	return sp_take_fd(&fd);
}

bool sp_proc_is_alive(const struct sp_proc_id *id)
{
	sp_auto_fd fd = sp_proc_open(id);

	return fd >= 0;
}

int sp_proc_kill(const struct sp_proc_id *id, int sig, struct sp_err *e)
{
	sp_auto_fd fd = sp_proc_open(id);

	if (fd < 0 && errno == ESRCH)
		return 0;
	if (fd < 0 || (syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) < 0 && errno != ESRCH))
		return sp_fail(e, sp_code_of_errno(errno), errno, "signal process %d",
			       (int)id->pid);
	return 0;
}

int sp_proc_await(int pidfd, int ms)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	int64_t until = sp_clock_mono() + (int64_t)ms * 1000000;

	for (;;) {
		int64_t left = ms < 0 ? -1 : (until - sp_clock_mono() + 999999) / 1000000;
		int rc = poll(&p, 1, ms < 0 ? -1 : left < 0 ? 0 : (int)left);

		if (rc >= 0)
			return rc > 0;
		if (errno != EINTR)
			return -1;
	}
}

/* Capabilities are asked of the kernel directly: two calls, and no library for them. */
static int caps_get(struct __user_cap_data_struct d[static 2])
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };

	return (int)syscall(SYS_capget, &h, d);
}

static int caps_set(const struct __user_cap_data_struct d[static 2])
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };

	return (int)syscall(SYS_capset, &h, d);
}

int sp_priv_keep(uint64_t caps, struct sp_err *e)
{
	struct __user_cap_data_struct d[2] = { { 0 } };
	uint64_t have;
	bool may_bound;

	if (caps_get(d) < 0)
		return sp_fail(e, SP_FAIL, errno, "ask for capabilities");
	have = d[0].permitted | (uint64_t)d[1].permitted << 32;
	may_bound = d[0].effective & 1u << CAP_SETPCAP;
	for (int cap = 0; cap < 64 && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
		if (caps & UINT64_C(1) << cap)
			continue;
		/* Who cannot narrow the set gains nothing from it either: no_new_privs is below. */
		if (may_bound && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return sp_fail(e, SP_FAIL, errno, "drop capability %d", cap);
	}
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); /* kernels before 4.3 have none */
	have &= caps;
	for (int i = 0; i < 2; i++) {
		d[i].effective = d[i].permitted = (uint32_t)(have >> 32 * i);
		d[i].inheritable = 0;
	}
	if (caps_set(d) < 0)
		return sp_fail(e, SP_FAIL, errno, "drop capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return sp_fail(e, SP_FAIL, errno, "set no_new_privs");
	return 0;
}

int sp_proc_helper(const char *name, char *path, size_t n, struct sp_err *e)
{
	static const char *const where[] = { "%.*s/%s", "%.*s/../libexec/space/%s" };
	char exe[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
	int k;

	if (len < 0)
		return sp_fail(e, SP_HOST, errno, "read '/proc/self/exe'");
	exe[len] = '\0';
	len = strrchr(exe, '/') ? strrchr(exe, '/') - exe : 0;
	for (size_t i = 0; i <= SP_NELEM(where); i++) {
		if (i < SP_NELEM(where))
			k = snprintf(path, n, where[i], (int)len, exe, name);
		else
			k = snprintf(path, n, "%s/%s", SP_LIBEXEC, name);
		if (k > 0 && (size_t)k < n && access(path, R_OK) == 0)
			return 0;
	}
	return sp_fail(e, SP_HOST, 0, "helper '%s' is not installed", name);
}
