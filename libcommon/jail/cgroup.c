/* SPDX-License-Identifier: Apache-2.0 */
/* Cgroup leaves: <cgroup2>/space/<leaf>. A folder of our own at the top of the hierarchy, as
 * container engines without systemd keep one: a leaf below the caller's cgroup would end with the
 * unit that the caller happens to run in. Everything here is a bonus: nothing relies on it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <linux/magic.h>
#include <unistd.h>

#include "base/str.h"
#include "jail/inside.h"
#include "sys/fd.h"

/* The space folder below the cgroup2 mount, or -1. */
static int space_folder(int make)
{
	static const char *const tops[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	struct statfs fs;
	int top, fd;

	for (size_t i = 0; i < SP_NELEM(tops); i++) {
		if (statfs(tops[i], &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
			continue;
		top = open(tops[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (top < 0)
			continue;
		if (make)
			mkdirat(top, "space", 0755);
		fd = openat(top, "space", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		sp_fd_close(&top);
		return fd;
	}
	return -1;
}

static void put(int dir, const char *name, const char *text)
{
	sp_auto_fd fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		dprintf(fd, "%s", text);
}

int sp_jail_cgroup_open(const char *leaf, uint64_t memory, uint32_t procs)
{
	sp_auto_fd space = space_folder(1);
	char text[32];
	int fd;

	if (space < 0 || (mkdirat(space, leaf, 0755) < 0 && errno != EEXIST))
		return -1;
	fd = openat(space, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (memory || procs) {
		put(space, "../cgroup.subtree_control", "+memory");
		put(space, "../cgroup.subtree_control", "+pids");
		put(space, "cgroup.subtree_control", "+memory");
		put(space, "cgroup.subtree_control", "+pids");
	}
	if (memory) {
		snprintf(text, sizeof text, "%llu", (unsigned long long)memory);
		put(fd, "memory.max", text);
	}
	if (procs) {
		snprintf(text, sizeof text, "%u", procs);
		put(fd, "pids.max", text);
	}
	return fd;
}

void sp_jail_cgroup_remove(const char *leaf)
{
	sp_auto_fd space = space_folder(0);

	if (space >= 0)
		unlinkat(space, leaf, AT_REMOVEDIR);
}
