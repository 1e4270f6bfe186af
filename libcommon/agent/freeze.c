/* SPDX-License-Identifier: Apache-2.0 */
/* Freezing and thawing the file systems on block devices, and the machine's figures.
 *
 * A child does the work, for it may take as long as the disk does. Freezing belongs to the file
 * system and not to a process, so the child can go; a timer in the agent thaws what nobody did. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/str.h"

#define MOUNTS_MOST 256
#define THAW_DEFAULT_MS 5000

/* In the child */

struct mount {
	char *device; /* major:minor, which tells file systems apart */
	char *path;
};

/* "\040" and the like, which the kernel writes for what would break the line. */
static void unescape(char *s)
{
	char *to = s;

	while (*s) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] && s[3]) {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

static bool has_option(const char *options, const char *want)
{
	size_t n = strlen(want);

	for (const char *p = options; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (strncmp(p, want, n) == 0 && (p[n] == ',' || !p[n]))
			return true;
	}
	return false;
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue" (proc(5)).
 * True: on a block device and writable. */
static bool take_line(char *line, struct mount *m)
{
	char *save = NULL, *field[6], *tail = strstr(line, " - ");
	char *source, *super;

	if (!tail)
		return false;
	*tail = '\0';
	for (int i = 0; i < 6; i++)
		if (!(field[i] = strtok_r(i ? NULL : line, " ", &save)))
			return false;
	strtok_r(tail + 3, " ", &save); /* the type */
	source = strtok_r(NULL, " ", &save);
	super = strtok_r(NULL, " \n", &save);
	if (!source || !super || !sp_str_has_prefix(source, "/dev/") || !has_option(super, "rw") ||
	    sp_str_has_prefix(field[2], "0:"))
		return false;
	unescape(field[4]);
	*m = (struct mount){ sp_xstrdup(field[2]), sp_xstrdup(field[4]) };
	return true;
}

/* In the order of mounting, the root first; each file system once, where it was mounted first. */
static size_t find_mounts(struct mount m[static MOUNTS_MOST])
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t cap = 0, n = 0;

	while (f && n < MOUNTS_MOST && getline(&line, &cap, f) > 0) {
		bool known = false;

		if (!take_line(line, &m[n]))
			continue;
		for (size_t i = 0; i < n; i++)
			known |= strcmp(m[i].device, m[n].device) == 0;
		n += !known;
	}
	if (f)
		fclose(f);
	return n;
}

static int change(const struct mount *m, unsigned long how)
{
	int fd = open(m->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), sys = 0;

	if (fd < 0)
		return errno;
	if (ioctl(fd, (int)how, 0)) /* musl: int */
		sys = errno;
	close(fd);
	return sys == EOPNOTSUPP ? 0 : sys; /* nothing that could be frozen */
}

/* Returns 0 or an errno; then nothing stays frozen. */
static int freeze_all(void)
{
	static struct mount m[MOUNTS_MOST];
	size_t n = find_mounts(m);
	int sys = 0;

	for (size_t i = n; i-- > 0 && !sys;) { /* a loop device lies on an earlier one */
		sys = change(&m[i], FIFREEZE);
		for (size_t k = i + 1; sys && k < n; k++)
			change(&m[k], FITHAW);
	}
	return sys;
}

static int thaw_all(void)
{
	static struct mount m[MOUNTS_MOST];
	size_t n = find_mounts(m);
	int sys = 0;

	for (size_t i = 0; i < n; i++) {
		int one = change(&m[i], FITHAW);

		if (one && one != EINVAL && !sys) /* EINVAL: it was not frozen */
			sys = one;
	}
	return sys;
}

/* In the agent */

static void answer(struct sp_agent *a, enum sp_g_type type, unsigned *due, int sys)
{
	unsigned char mem[256];
	struct sp_fields f;

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u32(&f, SP_T_CODE, (uint32_t)sys);
	if (sys)
		sp_fields_add_str(&f, SP_T_MESSAGE, strerror(sys));
	for (; *due; (*due)--)
		sp_channel_send(a, 0, type, &f);
}

static int outcome(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

static void on_thawed(struct sp_agent *a, void *owner, int status)
{
	(void)owner;
	a->freeze.child = NULL;
	a->freeze.frozen = false;
	answer(a, SP_G_THAWED, &a->freeze.thaws_due, outcome(status));
}

static void thaw(struct sp_agent *a)
{
	struct sp_freeze *z = &a->freeze;
	pid_t pid;

	if (z->child) { /* freezing, or thawing already */
		z->thaw_after = z->freezing;
		return;
	}
	sp_timer_set(a, &z->timer, 0, NULL);
	pid = sp_child_fork(a, on_thawed, NULL, &z->child);
	if (pid == 0)
		_exit(a->boot ? thaw_all() : 0);
	if (pid < 0)
		on_thawed(a, NULL, thaw_all() << 8); /* better late than frozen */
}

static void on_frozen(struct sp_agent *a, void *owner, int status)
{
	struct sp_freeze *z = &a->freeze;
	int sys = outcome(status);

	(void)owner;
	z->child = NULL;
	z->freezing = false;
	z->frozen = !sys;
	if (sys)
		sp_timer_set(a, &z->timer, 0, NULL);
	else if (z->thaw_after)
		sys = ETIMEDOUT;
	answer(a, SP_G_FROZEN, &z->freezes_due, sys);
	if (z->thaw_after) {
		z->thaw_after = false;
		thaw(a);
	}
}

static void on_timer(struct sp_agent *a)
{
	sp_say(a, "file systems stayed frozen too long: thawing");
	thaw(a);
}

void sp_freeze_begin(struct sp_agent *a, const unsigned char *p, uint32_t len)
{
	struct sp_freeze *z = &a->freeze;
	int64_t ms = (int64_t)sp_fields_num(p, len, SP_T_VALUE, THAW_DEFAULT_MS);
	unsigned one = 1;
	pid_t pid;

	if (z->child || z->frozen) {
		answer(a, SP_G_FROZEN, &one, EBUSY);
		return;
	}
	z->freezes_due = 1;
	z->freezing = true;
	sp_timer_set(a, &z->timer, ms > 0 ? ms : THAW_DEFAULT_MS, on_timer);
	pid = sp_child_fork(a, on_frozen, NULL, &z->child);
	if (pid == 0)
		_exit(a->boot ? freeze_all() : 0);
	if (pid < 0)
		on_frozen(a, NULL, EAGAIN << 8);
}

void sp_freeze_thaw(struct sp_agent *a)
{
	a->freeze.thaws_due++;
	thaw(a);
}

void sp_freeze_forget(struct sp_agent *a)
{
	a->freeze.freezes_due = a->freeze.thaws_due = 0;
}

static uint64_t available_memory(void)
{
	char text[512];
	const char *at;
	int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	at = strstr(text, "MemAvailable:");
	return at ? strtoull(at + 13, NULL, 10) * 1024 : 0;
}

void sp_metrics_send(struct sp_agent *a)
{
	unsigned char mem[128];
	struct sysinfo info;
	struct sp_fields f;

	if (sysinfo(&info))
		memset(&info, 0, sizeof info);
	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u64(&f, SP_T_MEM_TOTAL, (uint64_t)info.totalram * info.mem_unit);
	sp_fields_add_u64(&f, SP_T_MEM_FREE, available_memory());
	sp_fields_add_u64(&f, SP_T_LOAD, (uint64_t)info.loads[0] * 100 / 65536);
	sp_fields_add_u64(&f, SP_T_PROCS, info.procs);
	sp_channel_send(a, 0, SP_G_METRICS, &f);
}
