/* SPDX-License-Identifier: Apache-2.0 */
#include "api/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/str.h"
#include "image/kernel.h"
#include "jail/jail.h"
#include "sys/fd.h"
#include "sys/proc.h"
#include "vmm/engine.h"
#include "vol/store.h"

#define GIB (1LL << 30)
#define STATE_DEFAULT "/var/lib/space"

enum level { OK, WARN, FAIL };

struct doctor {
	struct sp_json *checks;
	bool root;
	char state[4096]; /* the nearest folder above SPACE_STATE that is there */
	bool on_btrfs;
};

__attribute__((format(printf, 5, 6))) static void tell(struct doctor *d, const char *name,
							enum level level, const char *help,
							const char *fmt, ...)
{
	static const char *const words[] = { "ok", "warn", "fail" };
	struct sp_json *c = sp_json_new_object();
	sp_auto_str text = SP_STR_INIT;
	va_list ap;

	va_start(ap, fmt);
	sp_str_vaddf(&text, fmt, ap);
	va_end(ap);
	sp_json_put_str(c, "name", name);
	sp_json_put_bool(c, "ok", level != FAIL);
	sp_json_put_str(c, "level", words[level]);
	sp_json_put_str(c, "text", text.p);
	sp_json_put_str(c, "help", help);
	sp_json_push(d->checks, c);
}

static void find_state(struct doctor *d)
{
	const char *path = getenv("SPACE_STATE");
	struct statfs fs;
	char *slash;

	snprintf(d->state, sizeof d->state, "%s", path && *path ? path : STATE_DEFAULT);
	while (statfs(d->state, &fs) < 0 && (slash = strrchr(d->state, '/')) && slash != d->state)
		*slash = '\0';
	if (statfs(d->state, &fs) < 0)
		snprintf(d->state, sizeof d->state, "/");
	d->on_btrfs = statfs(d->state, &fs) == 0 && fs.f_type == BTRFS_SUPER_MAGIC;
}

static bool find_program(const char *name)
{
	static const char *const folders[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
					       "/usr/bin",	  "/sbin",	    "/bin" };
	char path[256];

	for (size_t i = 0; i < SP_NELEM(folders); i++) {
		snprintf(path, sizeof path, "%s/%s", folders[i], name);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

static void check_program(struct doctor *d, const char *name, enum level without, const char *help)
{
	if (find_program(name))
		tell(d, name, OK, NULL, "is here");
	else
		tell(d, name, without, help, "is not here");
}

/* The newest call that everything rests on is mount_setattr(2). */
static void check_linux(struct doctor *d)
{
	struct utsname u;
	int major = 0, minor = 0;

	uname(&u);
	sscanf(u.release, "%d.%d", &major, &minor);
	if (major < 5 || (major == 5 && minor < 12))
		tell(d, "linux", FAIL, NULL, "%s is older than 5.12", u.release);
	else
		tell(d, "linux", OK, NULL, "%s", u.release);
}

static int just_leave(void *arg)
{
	(void)arg;
	return 7;
}

static void check_jail(struct doctor *d)
{
	struct sp_jail j = { .calls = SP_JAIL_CALLS_PARSER, .netns_fd = -1 };
	struct sp_jail_slot slot = { .fd = -1 };
	sp_auto_fd held = -1, pidfd = -1;
	struct sp_err e;
	int status = 0;
	pid_t pid;

	if (!d->root) {
		tell(d, "jail", WARN, "sudo space-doctor", "cannot be tried without root");
		return;
	}
	if (sp_jail_slot_take(&slot, &e) < 0) {
		tell(d, "jail", FAIL, NULL, "%s", e.msg);
		return;
	}
	held = slot.fd;
	j.uid = slot.uid[0];
	pid = sp_jail_run(&j, just_leave, NULL, &pidfd, &e);
	if (pid < 0 || sp_jail_wait(pid, pidfd, 10000, &status, &e) < 0)
		tell(d, "jail", FAIL, NULL, "a process cannot be confined here: %s", e.msg);
	else if (status != 7 << 8)
		tell(d, "jail", FAIL, NULL, "a confined process ended with status %#x", status);
	else
		tell(d, "jail", OK, NULL, "a process can be confined");
}

/* What lets the VMM be started once and never exec again (jail/inside.h). */
static void check_page_zero(struct doctor *d)
{
	sp_auto_fd fd = open("/proc/sys/vm/mmap_min_addr", O_RDONLY | O_CLOEXEC);
	char text[32] = "";
	long least;

	if (fd >= 0)
		(void)sp_fd_read(fd, text, sizeof text - 1);
	least = strtol(text, NULL, 10);
	if (least < 4096)
		tell(d, "page-zero", FAIL, "sysctl -w vm.mmap_min_addr=65536",
		     "programs may map address 0, which confinement counts on being closed");
	else
		tell(d, "page-zero", OK, NULL, "programs cannot map it");
}

static void check_kvm(struct doctor *d)
{
	bool there = access("/dev/kvm", F_OK) == 0;
	char why[256];

	if (there && access("/dev/kvm", R_OK | W_OK) < 0)
		tell(d, "kvm", WARN, "sudo space-doctor", "/dev/kvm cannot be tried: %s",
		     strerror(errno));
	else if (sp_kvm_probe(why, sizeof why))
		tell(d, "kvm", OK, NULL, "works: %s", why);
	else
		tell(d, "kvm", WARN, there ? NULL : "modprobe -a kvm_intel kvm_amd",
		     "guests are emulated, which is slow and outside QEMU's security promise: "
		     "%s",
		     why);
}

static void check_node(struct doctor *d, const char *name, const char *path, enum level without,
		       const char *help)
{
	sp_auto_fd fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		tell(d, name, OK, NULL, "%s opens", path);
	else if (errno == EACCES && !d->root)
		tell(d, name, WARN, "sudo space-doctor", "%s cannot be tried without root", path);
	else
		tell(d, name, without, help, "%s: %s", path, strerror(errno));
}

static bool has_filesystem(const char *name)
{
	const char *const modprobe[] = { "modprobe", "-n", "-q", name, NULL };
	sp_auto_fd fd = open("/proc/filesystems", O_RDONLY | O_CLOEXEC);
	sp_auto_str text = SP_STR_INIT, out = SP_STR_INIT;
	sp_auto_free char *line = sp_xasprintf("\t%s\n", name);
	struct sp_err e;

	if (fd >= 0 && sp_fd_slurp(fd, 65536, &text, &e) == 0 && strstr(text.p, line))
		return true;
	return sp_proc_run(modprobe, -1, &out, &e) == 0;
}

static void check_btrfs(struct doctor *d)
{
	if (has_filesystem("btrfs"))
		tell(d, "btrfs", OK, NULL, "the kernel has it");
	else
		tell(d, "btrfs", FAIL, "apt-get install linux-image-amd64", "the kernel lacks it");
	if (d->on_btrfs) {
		tell(d, "loop", OK, NULL, "not needed: %s is on btrfs", d->state);
		return;
	}
	check_node(d, "loop", "/dev/loop-control", FAIL, "modprobe loop");
	check_program(d, "mkfs.btrfs", FAIL, "apt-get install btrfs-progs");
}

static void check_engines(struct doctor *d)
{
	const struct sp_engine *qemu = sp_engine_find("qemu");
	struct sp_machine m;
	struct sp_err e;

	if (!qemu || qemu->probe(false, &m, &e) < 0)
		tell(d, "qemu", FAIL, "apt-get install qemu-system-x86 seabios", "%s",
		     qemu ? e.msg : "no such engine");
	else if (strtod(m.version, NULL) < 7.2)
		tell(d, "qemu", FAIL, "apt-get install qemu-system-x86 seabios",
		     "version %s is older than 7.2", m.version);
	else
		tell(d, "qemu", OK, NULL, "version %s, machine %s", m.version, m.machine);
	tell(d, "firecracker", OK, NULL, "%s", find_program("firecracker") ? "is here" :
									"is not here, nor needed");
}

static void check_helpers(struct doctor *d)
{
	static const char *const names[] = { "space-monitor", "space-guest" };
	char path[4096];
	struct sp_err e;

	for (size_t i = 0; i < SP_NELEM(names); i++) {
		if (sp_proc_helper(names[i], path, sizeof path, &e) < 0)
			tell(d, names[i], FAIL, "make", "%s", e.msg);
		else
			tell(d, names[i], OK, NULL, "%s", path);
	}
}

static void check_disk(struct doctor *d, bool has_store)
{
	int64_t need = has_store ? GIB : SP_STORE_FIRST + SP_STORE_RESERVE;
	struct statvfs v;
	int64_t left;

	if (statvfs(d->state, &v) < 0) {
		tell(d, "disk", FAIL, NULL, "%s: %s", d->state, strerror(errno));
		return;
	}
	left = (int64_t)v.f_bavail * (int64_t)v.f_frsize;
	if (left < need)
		tell(d, "disk", has_store ? WARN : FAIL, NULL,
		     "%s has %.1f GiB left, %.1f are needed%s",
		     d->state, (double)left / GIB, (double)need / GIB,
		     has_store ? " to grow" : ": set SPACE_STATE to another place");
	else
		tell(d, "disk", OK, NULL, "%s has %.1f GiB left", d->state, (double)left / GIB);
}

static void check_store(struct doctor *d)
{
	struct sp_roots r;
	struct sp_err e;
	struct statvfs v;
	char version[64];

	if (!d->root) {
		tell(d, "store", WARN, "sudo space-doctor", "cannot be seen without root");
		check_disk(d, true);
		return;
	}
	if (sp_store_open(&r, false, &e) < 0) {
		bool absent = e.code == SP_ABSENT;

		if (absent)
			tell(d, "store", OK, NULL, "is made by the first program that needs it");
		else
			tell(d, "store", FAIL, NULL, "%s", e.msg);
		check_disk(d, !absent);
		if (absent)
			tell(d, "kernel", FAIL, "space-kernel add", "no guest kernel is installed");
		return;
	}
	if (fstatvfs(r.store, &v) < 0)
		tell(d, "store", FAIL, NULL, "%s/store: %s", r.state_path, strerror(errno));
	else
		tell(d, "store", OK, NULL, "%s/store has %.1f GiB left", r.state_path,
		     (double)v.f_bavail * (double)v.f_frsize / (double)GIB);
	check_disk(d, true);
	if (sp_kernel_default(&r, version, &e) < 0)
		tell(d, "kernel", FAIL, "space-kernel add", "no guest kernel is installed");
	else
		tell(d, "kernel", OK, NULL, "%s", version);
	sp_roots_close(&r);
}

static void check_cgroup(struct doctor *d)
{
	static const char *const tops[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	sp_auto_str text = SP_STR_INIT;
	char path[64];
	struct statfs fs;
	struct sp_err e;

	for (size_t i = 0; i < SP_NELEM(tops); i++) {
		if (statfs(tops[i], &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
			continue;
		snprintf(path, sizeof path, "%s/cgroup.controllers", tops[i]);
		sp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || sp_fd_slurp(fd, 4096, &text, &e) < 0 || !strstr(text.p, "memory"))
			tell(d, "cgroup", WARN, NULL,
			     "%s does not have the memory controller: machines are not held to "
			     "their size",
			     tops[i]);
		else if (access(tops[i], W_OK) < 0)
			tell(d, "cgroup", WARN, d->root ? NULL : "sudo space-doctor",
			     "%s cannot be written: machines are not held to their size", tops[i]);
		else
			tell(d, "cgroup", OK, NULL, "%s", tops[i]);
		return;
	}
	tell(d, "cgroup", WARN, NULL, "there is no cgroup2: machines are not held to their size");
}

/* Asked with an argument of no size: EINVAL where the call is there, ENOTTY where it is not. */
static void check_pagemap(struct doctor *d)
{
	sp_auto_fd fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t none[12] = { 0 };

	if (fd >= 0 && ioctl(fd, _IOWR('f', 16, none), none) < 0 && errno == ENOTTY)
		tell(d, "pagemap-scan", WARN, NULL,
		     "not in this kernel (6.7 has it): checkpoints look for changed pages the "
		     "slower way");
	else
		tell(d, "pagemap-scan", OK, NULL, "the kernel has it");
}

int sp_api_doctor(struct sp_json **answer, struct sp_err *e)
{
	struct doctor d = { .root = geteuid() == 0 };

	(void)e;
	*answer = sp_json_new_object();
	d.checks = sp_json_put_array(*answer, "checks");
	find_state(&d);
	check_linux(&d);
	check_kvm(&d);
	check_engines(&d);
	check_helpers(&d);
	check_jail(&d);
	check_page_zero(&d);
	check_cgroup(&d);
	check_pagemap(&d);
	check_node(&d, "tun", "/dev/net/tun", FAIL, "modprobe tun");
	check_program(&d, "nft", WARN, "apt-get install nftables");
	check_btrfs(&d);
	check_program(&d, "mke2fs", FAIL, "apt-get install e2fsprogs");
	check_program(&d, "e2fsck", FAIL, "apt-get install e2fsprogs");
	check_store(&d);
	return 0;
}
