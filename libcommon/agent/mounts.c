/* SPDX-License-Identifier: Apache-2.0 */
/* The initramfs's mounts, the root disk, and the change from one to the other. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/str.h"

#define ROOT "/root"
#define DISK_MS 60000

#ifndef EXT4_IOC_RESIZE_FS
#define EXT4_IOC_RESIZE_FS _IOW('f', 16, uint64_t)
#endif

static int mount_at(const struct sp_agent *a, const char *type, const char *at, unsigned long flags,
		    const char *options)
{
	mkdir(at, 0755);
	if (mount(type, at, type, flags, options) == 0 || errno == EBUSY)
		return 0;
	sp_say(a, "mount %s: %s", at, strerror(errno));
	return -1;
}

int sp_mount_early(const struct sp_agent *a)
{
	int rc = mount_at(a, "devtmpfs", "/dev", MS_NOSUID, "mode=0755");

	rc |= mount_at(a, "proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	rc |= mount_at(a, "sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	return rc;
}

/* Event by event until the node is there: the socket was opened before the modules were loaded, so
 * no event can have been missed. */
static int wait_for(const char *device, int uevents)
{
	struct pollfd p = { .fd = uevents, .events = POLLIN };

	while (access(device, F_OK)) {
		if (poll(&p, 1, DISK_MS) == 0)
			return -1;
		sp_uevent_take(uevents);
	}
	return 0;
}

static uint64_t le(const unsigned char *p, size_t n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | p[n];
	return v;
}

/* The disk may have been made larger than the file system on it. */
static void grow(const struct sp_agent *a, const char *device)
{
	unsigned char super[1024];
	uint64_t bytes = 0, blocks, size;
	int disk = open(device, O_RDONLY | O_CLOEXEC), root;

	if (disk < 0)
		return;
	if (pread(disk, super, sizeof super, 1024) != sizeof super ||
	    le(super + 0x38, 2) != 0xef53 || ioctl(disk, (int)BLKGETSIZE64, &bytes) < 0) {
		close(disk);
		return;
	}
	close(disk);
	size = 1024ull << (super[0x18] & 15); /* s_log_block_size */
	blocks = le(super + 0x4, 4);          /* s_blocks_count_lo */
	if (le(super + 0x60, 4) & 0x80)       /* the 64bit feature */
		blocks |= le(super + 0x150, 4) << 32;
	if (bytes / size <= blocks)
		return;
	blocks = bytes / size;
	root = open(ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || ioctl(root, EXT4_IOC_RESIZE_FS, &blocks))
		sp_say(a, "grow the root file system: %s", strerror(errno));
	if (root >= 0)
		close(root);
}

int sp_mount_root(const struct sp_agent *a, int uevents)
{
	char device[128] = "/dev/vda", options[256] = "errors=remount-ro", given[200];

	sp_cmdline("root=", device, sizeof device);
	if (sp_cmdline("rootflags=", given, sizeof given))
		snprintf(options, sizeof options, "errors=remount-ro,%s", given);
	if (wait_for(device, uevents)) {
		sp_say(a, "no root disk %s", device);
		return -1;
	}
	mkdir(ROOT, 0755);
	if (mount(device, ROOT, "ext4", 0, options)) {
		sp_say(a, "mount %s: %s", device, strerror(errno));
		return -1;
	}
	grow(a, device);
	return 0;
}

/* The initramfs holds memory until its files are gone. Only what is on its own device; the running
 * program's pages stay until it ends. */
static void empty(int dir, dev_t device)
{
	struct dirent *d;
	DIR *list = fdopendir(dir);

	while (list && (d = readdir(list))) {
		struct stat st;
		int sub;

		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
		    fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) || st.st_dev != device)
			continue;
		if (S_ISDIR(st.st_mode)) {
			sub = openat(dir, d->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (sub >= 0)
				empty(sub, device);
			unlinkat(dir, d->d_name, AT_REMOVEDIR);
		} else {
			unlinkat(dir, d->d_name, 0);
		}
	}
	if (list)
		closedir(list);
}

static void link_std(void)
{
	static const char *const links[][2] = { { "/proc/self/fd", "/dev/fd" },
						{ "/proc/self/fd/0", "/dev/stdin" },
						{ "/proc/self/fd/1", "/dev/stdout" },
						{ "/proc/self/fd/2", "/dev/stderr" } };

	for (size_t i = 0; i < SP_NELEM(links); i++)
		if (symlink(links[i][0], links[i][1]))
			continue; /* there already */
}

void sp_mount_switch(const struct sp_agent *a)
{
	static const char *const moved[] = { "/dev", "/proc", "/sys" };
	struct stat st;
	char to[32];
	int old = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < SP_NELEM(moved); i++) {
		snprintf(to, sizeof to, ROOT "%s", moved[i]);
		mkdir(to, 0755);
		if (mount(moved[i], to, NULL, MS_MOVE, NULL))
			sp_say(a, "move %s: %s", moved[i], strerror(errno));
	}
	if (chdir(ROOT))
		sp_say(a, "go to the new root: %s", strerror(errno));
	if (old >= 0 && fstat(old, &st) == 0)
		empty(old, st.st_dev);
	if (mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		sp_say(a, "change root: %s", strerror(errno));
	mount_at(a, "devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "gid=5,mode=620,ptmxmode=000");
	mount_at(a, "tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777");
	mount_at(a, "tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=0755");
	if (mkdir("/tmp", 01777) == 0 && chmod("/tmp", 01777))
		sp_say(a, "make /tmp: %s", strerror(errno));
	link_std();
}
