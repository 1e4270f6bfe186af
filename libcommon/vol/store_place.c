/* SPDX-License-Identifier: Apache-2.0 */
/* Where STATE is: in the mount namespace of process 1, whatever ours is. A tool that runs in a unit
 * with PrivateTmp= or in a container's namespace must find the same store as all others, and a
 * mount made in its own namespace would go with it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/fs.h"
#include "sys/proc.h"
#include "vol/store_int.h"

#define ROOT_OF_1 "/proc/1/root"

/* Where process 1 may not be looked at, there is nothing to compare with and nowhere else to go. */
static bool is_elsewhere(void)
{
	struct stat one, own;

	return stat("/proc/1/ns/mnt", &one) == 0 && stat("/proc/self/ns/mnt", &own) == 0 &&
	       (one.st_ino != own.st_ino || one.st_dev != own.st_dev);
}

int sp_place_set(struct sp_place *p, const char *path, struct sp_err *e)
{
	const char *before;
	int n;

	*p = (struct sp_place){ .dir = -1, .elsewhere = is_elsewhere() };
	if (path[0] != '/')
		return sp_fail(e, SP_USAGE, 0, "'%s' is not an absolute path", path);
	before = p->elsewhere ? ROOT_OF_1 : "";
	n = snprintf(p->seen, sizeof p->seen - 64, "%s%s", before, path);
	if (n < 0 || (size_t)n >= sizeof p->seen - 64)
		return sp_fail(e, SP_USAGE, 0, "path is too long");
	p->path = p->seen + strlen(before);
	return 0;
}

/* A link on the way that begins at / means the root of process 1 too. */
static int open_there(const struct sp_place *p)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT };
	sp_auto_fd root = -1;

	if (!p->elsewhere)
		return open(p->seen, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	root = open(ROOT_OF_1, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root < 0 ? -1 : (int)syscall(SYS_openat2, root, p->path, &how, sizeof how);
}

int sp_place_open(struct sp_place *p, bool create, struct sp_err *e)
{
	p->dir = open_there(p);
	if (p->dir < 0 && errno == ENOENT && create) {
		if (sp_fs_mkdir_path(p->seen, 0700, e) < 0)
			return -1;
		p->dir = open_there(p);
	}
	if (p->dir < 0 && errno == ENOENT)
		return sp_fail(e, SP_ABSENT, 0, "nothing here yet: '%s' does not exist", p->path);
	if (p->dir < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "open '%s'", p->path);
	return sp_fs_check_private(p->dir, p->path, e);
}

/* --- acting in that namespace ----------------------------------------------------------------- */

struct act {
	const struct sp_place *place;
	const char *dev; /* NULL: unmount */
	int namespace;
};

/* Returns 0 or an errno. */
static int act_here(const struct act *a)
{
	sp_auto_free char *at = sp_xasprintf("%s/" SP_STORE_DIR, a->place->path);

	if (!a->dev)
		return umount2(at, UMOUNT_NOFOLLOW) < 0 ? errno : 0;
	/* nodiscard: a discard would punch holes into store.img, and a write into a hole can find
	 * the host's disk full. */
	return mount(a->dev, at, "btrfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME,
		     "nodiscard") < 0
		       ? errno
		       : 0;
}

static int act_there(const struct act *a, struct sp_err *e)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return sp_fail(e, SP_FAIL, errno, "fork");
	if (pid == 0)
		sp_proc_exit(setns(a->namespace, CLONE_NEWNS) < 0 ? errno : act_here(a));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return sp_fail(e, SP_FAIL, errno, "wait");
	if (!WIFEXITED(status))
		return sp_fail(e, SP_FAIL, 0, "the process that mounts was killed");
	return WEXITSTATUS(status); /* an errno: they end at 133 */
}

static int act(const struct sp_place *p, const char *dev, struct sp_err *e)
{
	struct act a = { .place = p, .dev = dev };
	sp_auto_fd ns = -1;

	if (!p->elsewhere)
		return act_here(&a);
	ns = open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (ns < 0)
		return sp_fail(e, SP_HOST, errno, "open '/proc/1/ns/mnt'");
	a.namespace = ns;
	return act_there(&a, e);
}

int sp_place_mount(const struct sp_place *p, const char *dev, struct sp_err *e)
{
	int sys = act(p, dev, e);

	if (sys == ENODEV)
		return sp_fail(e, SP_HOST, 0, "this kernel has no btrfs (modprobe btrfs)");
	if (sys == EEXIST) /* btrfs knows a file system by its id, and mounts each once */
		return sp_fail(e, SP_CONFLICT, 0, "a copy of the store in '%s' is mounted already",
			       p->path);
	if (sys > 0)
		return sp_fail(e, sys == EPERM ? SP_DENIED : SP_FAIL, sys, "mount '%s/%s'", p->path,
			       SP_STORE_DIR);
	return sys;
}

int sp_place_unmount(const struct sp_place *p, struct sp_err *e)
{
	int sys = act(p, NULL, e);

	if (sys == EBUSY)
		return sp_fail(e, SP_BUSY, 0, "'%s/%s' is in use", p->path, SP_STORE_DIR);
	if (sys > 0)
		return sp_fail(e, sp_code_of_errno(sys), sys, "unmount '%s/%s'", p->path,
			       SP_STORE_DIR);
	return sys;
}
