/* SPDX-License-Identifier: Apache-2.0 */
#include "image/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/apt.h"
#include "image/kunpack.h"
#include "jail/jail.h"
#include "state/op.h"
#include "state/record.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "sys/proc.h"

#define UNPACK_MS 300000
#define RECORD "record.json"
#define MOST_BYTES (4ull << 30) /* of all modules, unpacked */

/* Nameless files until they are published: a program killed on the way leaves nothing. */
struct build {
	int vmlinuz, initrd;
	struct sp_kunpacked got;
};

static int open_kernels(const struct sp_roots *r, struct sp_err *e)
{
	return sp_fs_open_dir(r->store, SP_DIR_KERNELS, e);
}

static int open_nameless(int dirfd, struct sp_err *e)
{
	int fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	/* readable to the VMM's uid, which sees it as /vmlinuz or /initrd in its jail */
	if (fd < 0 || fchmod(fd, 0444) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "make a file in the store");
	return fd;
}

static int open_input(const char *path, struct sp_err *e)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "open '%s'", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return sp_fail(e, SP_USAGE, 0, "'%s' is not a file", path);
	}
	return fd;
}

static int open_agent(struct sp_err *e)
{
	char path[4096];
	int fd;

	if (sp_proc_helper("space-guest", path, sizeof path, e) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? fd : sp_fail(e, SP_HOST, errno, "open '%s'", path);
}

/* Runs the confined process; k has everything but the report. */
static int run_unpack(struct sp_kunpack *k, int modules, struct sp_kunpacked *got, struct sp_err *e)
{
	const struct sp_jail_bind bind = { modules, NULL, "/modules", false, false };
	struct sp_jail_slot slot = { .fd = -1 };
	sp_auto_fd in = -1, out = -1, pidfd = -1, held = -1;
	int p[2], status = 0;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return sp_fail(e, SP_FAIL, errno, "make a pipe");
	in = p[0];
	k->report = out = p[1];
	if (sp_jail_slot_take(&slot, e) < 0)
		return -1;
	held = slot.fd;
	int keep[] = { k->agent, k->vmlinuz, k->initrd, k->scratch, k->report,
		       k->deb >= 0 ? k->deb : k->vmlinuz_in };
	struct sp_jail j = { .uid = slot.uid[0],
			     .calls = k->deb >= 0 ? SP_JAIL_CALLS_PARSER : SP_JAIL_CALLS_TOOL,
			     .netns_fd = -1,
			     .binds = &bind,
			     .nbinds = k->deb >= 0 ? 0 : 1,
			     .max_memory = 2ull << 30,
			     .max_file = MOST_BYTES,
			     .max_files = 64,
			     .max_cpu_s = UNPACK_MS / 1000,
			     .keep = keep,
			     .nkeep = sizeof keep / sizeof keep[0] };
	pid = sp_jail_run(&j, sp_kunpack_main, k, &pidfd, e);
	if (pid < 0)
		return -1;
	sp_fd_close(&out);
	/* the answer fits into the pipe, so the process can end before it is read */
	if (sp_jail_wait(pid, pidfd, UNPACK_MS, &status, e) < 0)
		return -1;
	if (sp_fd_read(in, got, sizeof *got) != (ssize_t)sizeof *got)
		return sp_fail(e, SP_FAIL, 0, "the confined process ended without an answer");
	return sp_kunpacked_check(got, e);
}

static int unpack(int kernels, const char *deb, const char *vmlinuz, const char *modules,
		  struct build *b, struct sp_err *e)
{
	sp_auto_fd source = -1, folder = -1, agent = -1, scratch = -1;
	struct sp_kunpack k = { .deb = -1, .vmlinuz_in = -1, .modules = "/modules" };

	agent = open_agent(e);
	if (agent < 0)
		return -1;
	source = deb ? open_input(deb, e) : vmlinuz ? open_input(vmlinuz, e) : sp_apt_kernel(e);
	if (source < 0)
		return -1;
	if (vmlinuz) {
		folder = open(modules, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (folder < 0)
			return sp_fail(e, sp_code_of_errno(errno), errno, "open '%s'", modules);
	}
	scratch = open_nameless(kernels, e);
	b->vmlinuz = scratch < 0 ? -1 : open_nameless(kernels, e);
	b->initrd = b->vmlinuz < 0 ? -1 : open_nameless(kernels, e);
	if (b->initrd < 0)
		return -1;
	*(vmlinuz ? &k.vmlinuz_in : &k.deb) = source;
	k.agent = agent;
	k.scratch = scratch;
	k.vmlinuz = b->vmlinuz;
	k.initrd = b->initrd;
	if (run_unpack(&k, folder, &b->got, e) < 0)
		return sp_wrap(e, "take the kernel from '%s'",
			       deb ? deb : vmlinuz ? vmlinuz : "the downloaded package");
	return 0;
}

static int has_same_bytes(int fd, int dirfd, const char *name)
{
	sp_auto_fd old = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char a[65536], b[65536];
	ssize_t n, m;
	off_t at = 0;

	if (old < 0)
		return 0;
	do {
		n = sp_fd_pread(fd, a, sizeof a, at);
		m = sp_fd_pread(old, b, sizeof b, at);
		if (n < 0 || n != m || memcmp(a, b, (size_t)n) != 0)
			return 0;
		at += n;
	} while (n);
	return 1;
}

static int write_record(const struct build *b, int dirfd, struct sp_err *e)
{
	sp_auto_json *rec = sp_json_new_object();
	struct sp_json *list;
	struct stat kernel, initrd;

	if (fstat(b->vmlinuz, &kernel) < 0 || fstat(b->initrd, &initrd) < 0)
		return sp_fail(e, SP_FAIL, errno, "look at the unpacked kernel");
	sp_json_put_int(rec, "format", SP_FORMAT);
	sp_json_put_str(rec, "version", b->got.release);
	sp_json_put_i64(rec, "added", sp_clock_real());
	sp_json_put_i64(rec, "vmlinuz_bytes", kernel.st_size);
	sp_json_put_i64(rec, "initrd_bytes", initrd.st_size);
	list = sp_json_put_array(rec, "modules");
	for (uint32_t i = 0; i < b->got.nmodules; i++)
		sp_json_push_str(list, b->got.modules[i]);
	return sp_record_save(dirfd, RECORD, rec, e);
}

static int give_name(int fd, int dirfd, const char *name, struct sp_err *e)
{
	if (linkat(fd, "", dirfd, name, AT_EMPTY_PATH) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "write '%s'", name);
	return 0;
}

/* Under the root lock, so that no sweep takes the folder before it has its name. A version that is
 * there with other bytes (an older agent) changes places with the new one, then goes. */
static int publish(const struct sp_roots *r, int kernels, const struct build *b, struct sp_err *e)
{
	const char *version = b->got.release;
	sp_auto_fd lock = -1, dir = -1, old = -1;
	struct sp_err ignored;
	char name[40];
	int rc;

	if (fsync(b->vmlinuz) < 0 || fsync(b->initrd) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "write the kernel");
	lock = sp_root_lock(r, e);
	if (lock < 0)
		return -1;
	old = openat(kernels, version, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (old >= 0 && has_same_bytes(b->vmlinuz, old, "vmlinuz") &&
	    has_same_bytes(b->initrd, old, "initrd") && sp_fs_exists(old, RECORD))
		return 0;
	sp_fs_random_name(SP_FS_NEW, name);
	if (sp_fs_mkdir(kernels, name, 0700, e) < 0)
		return -1;
	dir = sp_fs_open_dir(kernels, name, e);
	if (dir < 0 || give_name(b->vmlinuz, dir, "vmlinuz", e) < 0 ||
	    give_name(b->initrd, dir, "initrd", e) < 0 || write_record(b, dir, e) < 0)
		goto undo;
	rc = renameat2(kernels, name, kernels, version,
		       old >= 0 ? RENAME_EXCHANGE : RENAME_NOREPLACE);
	if (rc < 0) {
		sp_fail(e, sp_code_of_errno(errno), errno, "publish kernel '%s'", version);
		goto undo;
	}
	if (sp_fs_sync_dir(kernels, e) < 0)
		return -1;
	if (old >= 0)
		(void)sp_fs_remove_tree(kernels, name, &ignored); /* else the sweep does */
	return 0;
undo:
	(void)sp_fs_remove_tree(kernels, name, &ignored);
	return -1;
}

int sp_kernel_add(const struct sp_roots *r, const char *deb, const char *vmlinuz,
		  const char *modules, char version[static 64], struct sp_err *e)
{
	struct build b = { .vmlinuz = -1, .initrd = -1 };
	sp_auto_fd kernels = -1;
	int rc;

	if (deb ? vmlinuz || modules : !vmlinuz != !modules)
		return sp_fail(e, SP_USAGE, 0,
			       "either a package, or a kernel and the folder of its modules");
	kernels = open_kernels(r, e);
	if (kernels < 0)
		return -1;
	rc = unpack(kernels, deb, vmlinuz, modules, &b, e);
	if (rc == 0)
		rc = publish(r, kernels, &b, e);
	if (rc == 0)
		memcpy(version, b.got.release, 64);
	sp_fd_close(&b.vmlinuz);
	sp_fd_close(&b.initrd);
	return rc;
}
