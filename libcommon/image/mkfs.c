/* SPDX-License-Identifier: Apache-2.0 */
#include "image/mkfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/jail.h"
#include "sys/fd.h"

#define MIB (1LL << 20)
#define OUTPUT_MAX 65536
#define MEMORY (2ULL << 30)
#define CPU_S 600
#define WAIT_MS (900 * 1000)

static const char features[] = "none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,"
			       "64bit,flex_bg,sparse_super,"
			       "large_file,huge_file,dir_nlink,extra_isize,metadata_csum";

static const char extended[] = "lazy_itable_init=0,lazy_journal_init=1,discard,"
			       "hash_seed=53504143-4500-4000-8000-000000000000";

void sp_mkfs_argv(const char *disk, int64_t bytes, const char *argv[static 32])
{
	const char *journal = bytes < 128 * MIB ? "size=8,location=0" : "size=32,location=0";
	const char *const all[] = {
		"mke2fs", "-q", "-F", "-t",     "ext4", "-b",    "4096", "-I",     "256", "-i",
		"8192", /* SP_MKFS_INODE_RATIO */
		"-m",     "0",  "-O", features, "-J",   journal, "-E",   extended, disk,  NULL,
	};

	memcpy(argv, all, sizeof all);
}

static const char *const env[] = {
	/* no mtab inside: nothing there is mounted */
	"EXT2FS_NO_MTAB_OK=1",     "MKE2FS_CONFIG=/dev/null",
	"E2FSCK_CONFIG=/dev/null", "LC_ALL=C",
	"PATH=/usr/sbin:/usr/bin", NULL,
};

/* The last line that says something, for a message. */
static const char *last_line(struct sp_str *out)
{
	char *nl;

	while (out->len && strchr("\n\r ", out->p[out->len - 1]))
		out->p[--out->len] = '\0';
	nl = strrchr(out->p, '\n');
	return nl ? nl + 1 : out->p;
}

static int run_program(const struct sp_jail *j, const char *path, const char *const argv[],
		       int out_r, int *out_w, int *status, struct sp_str *out, struct sp_err *e)
{
	sp_auto_fd pidfd = -1;
	pid_t pid = sp_jail_exec(j, path, (char *const *)(uintptr_t)argv,
				 (char *const *)(uintptr_t)env, &pidfd, e);
	struct sp_err ignored;

	if (pid < 0)
		return -1;
	sp_fd_close(out_w); /* so that its output ends with it */
	if (sp_fd_slurp(out_r, OUTPUT_MAX, out, e) < 0) {
		sp_jail_wait(pid, pidfd, 0, status, &ignored);
		return -1;
	}
	return sp_jail_wait(pid, pidfd, WAIT_MS, status, e);
}

/* Runs one and gives its exit status in *code. */
static int run(int disk_fd, uid_t uid, bool writable, const char *const argv[], int *code,
	       struct sp_str *out, struct sp_err *e)
{
	const struct sp_jail_bind disk = { .from_fd = disk_fd,
					   .at = "/disk",
					   .writable = writable };
	sp_auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC), out_r = -1, out_w = -1;
	char path[64];
	struct stat st;
	int p[2], status = 0, stdio[3];
	struct sp_jail j = { .uid = uid,
			     .calls = SP_JAIL_CALLS_TOOL,
			     .netns_fd = -1,
			     .binds = &disk,
			     .nbinds = 1,
			     .host_programs = true,
			     .dev = true,
			     .max_memory = MEMORY,
			     .max_files = 64,
			     .max_procs = 4,
			     .max_cpu_s = CPU_S,
			     .stdio = stdio };

	snprintf(path, sizeof path, "/usr/sbin/%s", argv[0]);
	if (access(path, X_OK) < 0)
		return sp_fail(e, SP_HOST, errno, "%s (Debian package e2fsprogs)", path);
	if (null < 0 || fstat(disk_fd, &st) < 0 || pipe2(p, O_CLOEXEC) < 0)
		return sp_fail(e, SP_FAIL, errno, "run %s", argv[0]);
	j.max_file = (uint64_t)st.st_size;
	out_r = p[0];
	out_w = p[1];
	stdio[0] = null;
	stdio[1] = stdio[2] = out_w;
	if (run_program(&j, path, argv, out_r, &out_w, &status, out, e) < 0)
		return sp_wrap(e, "%s", argv[0]);
	if (!WIFEXITED(status))
		return sp_fail(e, SP_FAIL, 0, "%s ended with signal %d", argv[0], WTERMSIG(status));
	*code = WEXITSTATUS(status);
	return 0;
}

static int must_succeed(int disk_fd, uid_t uid, const char *const argv[], struct sp_err *e)
{
	sp_auto_str out = SP_STR_INIT;
	int code = -1;

	if (run(disk_fd, uid, true, argv, &code, &out, e) < 0)
		return -1;
	if (code == 0)
		return 0;
	if (strstr(out.p, "No space left"))
		return sp_fail(e, SP_BUSY, 0, "no room left on the host's disk");
	return sp_fail(e, SP_FAIL, 0, "%s ended with %d: %.200s", argv[0], code, last_line(&out));
}

int sp_mkfs_make(int disk_fd, uid_t uid, struct sp_err *e)
{
	const char *argv[32];
	struct stat st;

	if (fstat(disk_fd, &st) < 0)
		return sp_fail(e, SP_FAIL, errno, "look at the disk");
	sp_mkfs_argv("/disk", st.st_size, argv);
	return must_succeed(disk_fd, uid, argv, e);
}

int sp_mkfs_resize(int disk_fd, uid_t uid, int64_t bytes, struct sp_err *e)
{
	char blocks[24];
	const char *argv[] = { "resize2fs", "-f", "/disk", blocks, NULL };

	snprintf(blocks, sizeof blocks, "%lld", (long long)bytes / 4096);
	if (must_succeed(disk_fd, uid, argv, e) < 0)
		return -1;
	if (ftruncate(disk_fd, bytes) < 0)
		return sp_fail(e, SP_FAIL, errno, "cut the disk to its size");
	return 0;
}

int sp_mkfs_check(int disk_fd, uid_t uid, bool index, struct sp_err *e)
{
	static const char *const reindex[] = { "e2fsck", "-f", "-y", "-D", "/disk", NULL };
	static const char *const look[] = { "e2fsck", "-f", "-n", "/disk", NULL };
	sp_auto_str out = SP_STR_INIT;
	int code = -1;

	if (index) {
		if (run(disk_fd, uid, true, reindex, &code, &out, e) < 0)
			return -1;
		if (code > 1) /* 1: changed it, which is what -D is for */
			return sp_fail(e, SP_FAIL, 0, "e2fsck -D ended with %d: %.200s", code,
				       last_line(&out));
		sp_str_clear(&out);
	}
	if (run(disk_fd, uid, false, look, &code, &out, e) < 0)
		return -1;
	if (code != 0)
		return sp_fail(e, SP_FAIL, 0,
			       "the new file system is not clean (e2fsck %d): %.200s", code,
			       last_line(&out));
	return 0;
}

int64_t sp_mkfs_size_for(int64_t used, int64_t inodes)
{
	int64_t size = used + used / 4 + 1024 * MIB, least = inodes + inodes / 4;

	least *= SP_MKFS_INODE_RATIO;
	if (size < least)
		size = least;
	return (size + MIB - 1) / MIB * MIB;
}
