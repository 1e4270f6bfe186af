/* SPDX-License-Identifier: Apache-2.0 */
/* The jail's root: a tmpfs of folders and empty files with the binds on them.
 *
 * Binds are taken as detached mounts (open_tree(2)) while the child is still in its caller's mount
 * namespace: a descriptor that the caller opened belongs there and could not be bound from a copy
 * of
 * it. Only then comes the namespace of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/str.h"
#include "jail/inside.h"
#include "sys/fd.h"

#define BINDS_MAX 64

struct tree {
	const struct sp_jail_bind *bind;
	int fd;
	bool folder;
};

struct root {
	struct tree trees[BINDS_MAX];
	size_t n;
	int fd; /* of the tmpfs */
};

/* What a program of the host needs to start: never /etc as a whole. */
static const struct sp_jail_bind programs[] = {
	{ -1, "/usr/lib", "/usr/lib", false, true },
	{ -1, "/usr/lib64", "/usr/lib64", false, true },
	{ -1, "/usr/bin", "/usr/bin", false, true },
	{ -1, "/usr/sbin", "/usr/sbin", false, true },
	{ -1, "/usr/share/qemu", "/usr/share/qemu", false, false },
	{ -1, "/usr/share/seabios", "/usr/share/seabios", false, false },
	{ -1, "/etc/ld.so.cache", "/etc/ld.so.cache", false, false },
};

/* Where /lib and the like are links into /usr they are links inside too, else they are bound. */
static const struct sp_jail_bind tops[] = {
	{ -1, "/lib", "/lib", false, true },
	{ -1, "/lib64", "/lib64", false, true },
	{ -1, "/bin", "/bin", false, true },
	{ -1, "/sbin", "/sbin", false, true },
};

/* 1 taken, 0 absent (errno tells), -1 error. */
static int take_tree(struct root *r, const struct sp_jail_bind *b, struct sp_err *e)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
	struct stat st;
	int fd;

	if (r->n == BINDS_MAX)
		return sp_fail(e, SP_FAIL, 0, "too many files for one jail");
	if (b->from_fd >= 0)
		fd = open_tree(b->from_fd, "",
			       AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	else
		fd = open_tree(AT_FDCWD, b->from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (fd < 0)
		return 0;
	r->trees[r->n].fd = fd;
	r->trees[r->n].bind = b;
	r->n++;
	if (!b->writable)
		attr.attr_set |= MOUNT_ATTR_RDONLY;
	if (!b->exec)
		attr.attr_set |= MOUNT_ATTR_NOEXEC;
	if (mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0 || fstat(fd, &st) < 0)
		return sp_fail(e, SP_HOST, errno, "bind '%s'", b->at);
	r->trees[r->n - 1].folder = S_ISDIR(st.st_mode);
	return 1;
}

/* The store may be open in the mount namespace of process 1 when ours is another (vol/store.h):
 * what cannot be taken from here is taken from there. */
static int take_from_init(struct root *r, const struct sp_jail_bind *const *late, size_t n,
			  struct sp_err *e)
{
	sp_auto_fd ns = -1;
	int got;

	if (!n)
		return 0;
	ns = open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNS) < 0)
		return sp_fail(e, SP_HOST, errno, "enter the mount namespace of process 1");
	for (size_t i = 0; i < n; i++) {
		got = take_tree(r, late[i], e);
		if (got == 0)
			return sp_fail(e, sp_code_of_errno(errno), errno, "bind '%s'", late[i]->at);
		if (got < 0)
			return -1;
	}
	return 0;
}

static int take_programs(struct root *r, struct sp_err *e)
{
	struct stat st;

	for (size_t i = 0; i < SP_NELEM(programs); i++)
		if (take_tree(r, &programs[i], e) < 0)
			return -1;
	for (size_t i = 0; i < SP_NELEM(tops); i++)
		if (lstat(tops[i].from, &st) == 0 && S_ISDIR(st.st_mode) &&
		    take_tree(r, &tops[i], e) < 0)
			return -1;
	return 0;
}

static int take_all(struct root *r, const struct sp_jail *j, struct sp_err *e)
{
	const struct sp_jail_bind *late[BINDS_MAX];
	size_t nlate = 0;
	int got;

	if (j->nbinds > BINDS_MAX)
		return sp_fail(e, SP_FAIL, 0, "too many files for one jail");
	if (j->host_programs && take_programs(r, e) < 0)
		return -1;
	for (size_t i = 0; i < j->nbinds; i++) {
		const struct sp_jail_bind *b = &j->binds[i];

		got = take_tree(r, b, e);
		if (got < 0)
			return -1;
		if (got == 0 && b->from_fd >= 0 && errno == EINVAL)
			late[nlate++] = b;
		else if (got == 0)
			return sp_fail(e, sp_code_of_errno(errno), errno, "bind '%s'",
				       b->from_fd >= 0 ? b->at : b->from);
	}
	return take_from_init(r, late, nlate, e);
}

/* The empty root, mounted over "/" so that it can be filled (a detached tree takes no mounts before
 * Linux 6.15). */
static int make_root(struct root *r, const struct sp_jail *j, struct sp_err *e)
{
	sp_auto_fd fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	unsigned int attr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;

	if (!j->dev && !j->kvm)
		attr |= MOUNT_ATTR_NODEV;
	if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "size", "256k", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", "512", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return sp_fail(e, SP_HOST, errno, "make a tmpfs");
	r->fd = fsmount(fs, FSMOUNT_CLOEXEC, attr);
	if (r->fd < 0)
		return sp_fail(e, SP_HOST, errno, "make a tmpfs");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return sp_fail(e, SP_HOST, errno, "make mounts private");
	if (move_mount(r->fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return sp_fail(e, SP_HOST, errno, "mount the jail's root");
	return 0;
}

/* mkdir -p of path's folders below the root, and of path itself or an empty file there. What a bind
 * made before already holds is taken as it is. */
static int make_place(int root, const char *at, bool folder, char rel[static 4096])
{
	size_t n;

	while (*at == '/')
		at++;
	n = strlen(at);
	if (!n || n >= 4096) {
		errno = EINVAL;
		return -1;
	}
	memcpy(rel, at, n + 1);
	for (char *p = strchr(rel, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdirat(root, rel, 0755) < 0 && errno != EEXIST && errno != EROFS)
			return -1;
		*p = '/';
	}
	if (folder ? mkdirat(root, rel, 0755) < 0 : mknodat(root, rel, S_IFREG | 0444, 0) < 0)
		return errno == EEXIST || errno == EROFS ? 0 : -1;
	return 0;
}

static int place_trees(const struct root *r, struct sp_err *e)
{
	char rel[4096];

	for (size_t i = 0; i < r->n; i++) {
		const struct tree *t = &r->trees[i];

		if (make_place(r->fd, t->bind->at, t->folder, rel) < 0 ||
		    move_mount(t->fd, "", r->fd, rel, MOVE_MOUNT_F_EMPTY_PATH) < 0)
			return sp_fail(e, SP_FAIL, errno, "bind at '%s'", t->bind->at);
	}
	return 0;
}

static int place_links(const struct root *r, struct sp_err *e)
{
	char to[256];
	ssize_t n;

	for (size_t i = 0; i < SP_NELEM(tops); i++) {
		n = readlink(tops[i].from, to, sizeof to - 1);
		if (n <= 0)
			continue;
		to[n] = '\0';
		if (symlinkat(to, r->fd, tops[i].at + 1) < 0)
			return sp_fail(e, SP_FAIL, errno, "link '%s'", tops[i].at);
	}
	return 0;
}

/* Nodes of our own rather than the host's bound: KVM's is readable for a group there, here for the
 * jail's uid alone. */
static int place_dev(const struct root *r, const struct sp_jail *j, struct sp_err *e)
{
	static const struct {
		const char *name;
		unsigned int major, minor;
	} nodes[] = {
		{ "dev/null", 1, 3 },   { "dev/zero", 1, 5 },    { "dev/random", 1, 8 },
		{ "dev/urandom", 1, 9 }, { "dev/kvm", 10, 232 },
	};
	size_t n = SP_NELEM(nodes) - (j->kvm ? 0 : 1);

	if (mkdirat(r->fd, "dev", 0755) < 0 && errno != EEXIST)
		return sp_fail(e, SP_FAIL, errno, "make /dev");
	for (size_t i = 0; i < n; i++)
		if (mknodat(r->fd, nodes[i].name, S_IFCHR | 0600,
			    makedev(nodes[i].major, nodes[i].minor)) < 0 ||
		    fchownat(r->fd, nodes[i].name, j->uid, j->uid, AT_SYMLINK_NOFOLLOW) < 0)
			return sp_fail(e, SP_HOST, errno, "make /%s", nodes[i].name);
	return 0;
}

/* "." as both arguments stacks the old root on the new one's "/", from where it is taken off
 * (pivot_root(2), NOTES). */
static int pivot(const struct root *r, struct sp_err *e)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };

	if (mount_setattr(r->fd, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
		return sp_fail(e, SP_HOST, errno, "make the jail's root read-only");
	if (fchdir(r->fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return sp_fail(e, SP_HOST, errno, "change to the jail's root");
	return 0;
}

int sp_jail_root_enter(const struct sp_jail *j, struct sp_err *e)
{
	struct root r = { .fd = -1 };
	int rc = -1;

	umask(0);
	if (take_all(&r, j, e) < 0)
		goto out;
	if (unshare(CLONE_NEWNS) < 0) {
		sp_fail(e, SP_HOST, errno, "make a mount namespace");
		goto out;
	}
	if (make_root(&r, j, e) < 0 || (j->host_programs && place_links(&r, e) < 0) ||
	    ((j->dev || j->kvm) && place_dev(&r, j, e) < 0) || place_trees(&r, e) < 0 ||
	    pivot(&r, e) < 0)
		goto out;
	umask(077);
	rc = 0;
out:
	for (size_t i = 0; i < r.n; i++)
		sp_fd_close(&r.trees[i].fd);
	sp_fd_close(&r.fd);
	return rc;
}
