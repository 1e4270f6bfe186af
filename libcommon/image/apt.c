/* SPDX-License-Identifier: Apache-2.0 */
#include "image/apt.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "sys/proc.h"

#define META "linux-image-cloud-amd64"
#define OTHERWISE "or name a package with --deb"

/* "  Depends: linux-image-6.1.0-37-cloud-amd64": what apt-cache depends prints. */
static int parse_depends(const char *text, char *name, size_t cap)
{
	const char *p = strstr(text, "Depends: linux-image-");
	size_t n;

	if (!p)
		return -1;
	p += strlen("Depends: ");
	n = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789.+-");
	if (n >= cap || (p[n] && p[n] != '\n'))
		return -1;
	memcpy(name, p, n);
	name[n] = '\0';
	return 0;
}

static int resolve(char *name, size_t cap, struct sp_err *e)
{
	const char *const argv[] = { "env",	    "LC_ALL=C", "apt-cache", "depends",
				     "--important", META,	NULL };
	sp_auto_str out = SP_STR_INIT;

	if (access("/usr/bin/apt-get", X_OK) < 0)
		return sp_fail(e, SP_HOST, 0, "apt-get is not here: name a package with --deb");
	if (sp_proc_run(argv, -1, &out, e) < 0 || parse_depends(out.p, name, cap) < 0)
		return sp_fail(e, SP_HOST, 0,
			       "apt knows no package " META ": run apt-get update, " OTHERWISE);
	return 0;
}

static int open_deb(int dirfd, const char *name, void *arg)
{
	size_t n = strlen(name);
	int *fd = arg;

	if (n < 4 || strcmp(name + n - 4, ".deb") != 0)
		return 0;
	*fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return 1;
}

static int download(const char *dir, int dirfd, const char *package, struct sp_err *e)
{
	sp_auto_free char *chdir_to = sp_xasprintf("--chdir=%s", dir);
	const char *const argv[] = { "env", chdir_to, "LC_ALL=C", "apt-get", "-q", "download",
				     package, NULL };
	const struct passwd *apt = getpwnam("_apt");
	sp_auto_str out = SP_STR_INIT;
	int fd = -1;

	/* apt fetches as that user, who must be able to write here; without it, as root */
	if (apt && fchown(dirfd, apt->pw_uid, (gid_t)-1) < 0)
		return sp_fail(e, SP_FAIL, errno, "hand '%s' to user _apt", dir);
	if (sp_proc_run(argv, -1, &out, e) < 0) {
		e->code = SP_HOST;
		return sp_wrap(e, "download %s with apt-get (" OTHERWISE ")", package);
	}
	if (sp_fs_each(dirfd, open_deb, &fd, e) < 0)
		return -1;
	return fd >= 0 ? fd : sp_fail(e, SP_FAIL, 0, "apt-get left no package behind");
}

int sp_apt_kernel(struct sp_err *e)
{
	char dir[] = "/var/tmp/space-kernel-XXXXXX", name[128];
	sp_auto_fd top = -1, dirfd = -1;
	struct sp_err ignored;
	int fd;

	if (resolve(name, sizeof name, e) < 0)
		return -1;
	top = open("/var/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0 || !mkdtemp(dir))
		return sp_fail(e, sp_code_of_errno(errno), errno, "make a folder in /var/tmp");
	dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	fd = dirfd < 0 ? sp_fail(e, SP_FAIL, errno, "open '%s'", dir)
		       : download(dir, dirfd, name, e);
	(void)sp_fs_remove_tree(top, strrchr(dir, '/') + 1, &ignored);
	return fd;
}
