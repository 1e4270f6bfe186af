/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/ram.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sys/fd.h"

/* From linux/fs.h of Linux 6.7; Debian 12's headers are older. */
struct scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
struct scan_region {
	uint64_t start, end, categories;
};
#define SCAN_IOCTL _IOWR('f', 16, struct scan_arg)
#define SCAN_FILE (1u << 2)
#define SCAN_PRESENT (1u << 3)
#define SCAN_SWAPPED (1u << 4)

#define PM_PRESENT (1ULL << 63)
#define PM_SWAPPED (1ULL << 62)
#define PM_FILE (1ULL << 61)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define AREAS_MAX (1u << 20) /* runs of changed pages; more than that is no machine of ours */

static int proc_open(pid_t pid, const char *what, struct sp_err *e)
{
	char path[64];
	int fd;

	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return sp_fail(e, SP_FAIL, errno, "cannot open %s", path);
	return fd;
}

/* One line of /proc/PID/maps; the device number there is not st_dev on btrfs, so a mapping is known
 * by inode and by the name it has inside the jail. */
static void take_mapping(struct sp_ram *out, const char *line, uint64_t ino)
{
	unsigned long long lo, hi, off, inode;
	struct sp_ram_area a;
	char perms[8], name[256];
	size_t n;

	if (sscanf(line, "%llx-%llx %7s %llx %*s %llu %255s", &lo, &hi, perms, &off, &inode,
		   name) != 6)
		return;
	n = strlen(name);
	if (inode != ino || n < 4 || strcmp(name + n - 4, "/mem") != 0 || perms[3] != 'p')
		return;
	a = (struct sp_ram_area){ .addr = lo, .len = hi - lo, .off = off };
	if (a.off > out->size || a.len > out->size - a.off || out->nareas == SP_NELEM(out->area))
		return;
	out->area[out->nareas++] = a;
}

int sp_ram_find(pid_t pid, int mem_fd, uint64_t size, struct sp_ram *out, struct sp_err *e)
{
	sp_auto_str text = SP_STR_INIT;
	sp_auto_fd fd = proc_open(pid, "maps", e);
	char *line, *save = NULL;
	struct stat st;

	if (fd < 0 || sp_fd_slurp(fd, 4 << 20, &text, e) < 0)
		return -1;
	if (fstat(mem_fd, &st) < 0)
		return sp_fail(e, SP_FAIL, errno, "cannot stat the memory file");
	memset(out, 0, sizeof *out);
	out->pid = pid;
	out->size = size;
	for (line = strtok_r(text.p, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		take_mapping(out, line, st.st_ino);
	if (!out->nareas)
		return sp_fail(e, SP_FAIL, 0, "the VMM does not map its memory file");
	return 0;
}

static int add_run(struct sp_ram_pages *out, const struct sp_ram_area *in, uint64_t start,
		   uint64_t end, struct sp_err *e)
{
	struct sp_ram_area run;

	if (start < in->addr || end > in->addr + in->len || end <= start)
		return 0;
	if (out->list.len / sizeof run >= AREAS_MAX)
		return sp_fail(e, SP_FAIL, 0, "the machine's changed memory is in too many pieces");
	run = (struct sp_ram_area){ start, end - start, in->off + (start - in->addr) };
	sp_str_addn(&out->list, &run, sizeof run);
	out->bytes += run.len;
	return 0;
}

/* 1: done, 0: this kernel has no PAGEMAP_SCAN. */
static int scan_ioctl(int fd, const struct sp_ram_area *in, struct sp_ram_pages *out,
		      struct sp_err *e)
{
	struct scan_region vec[512];
	struct scan_arg arg = {
		.size = sizeof arg,
		.start = in->addr,
		.end = in->addr + in->len,
		.vec = (uintptr_t)vec,
		.vec_len = SP_NELEM(vec),
		.category_inverted = SCAN_FILE,
		.category_mask = SCAN_FILE,
		.category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
		.return_mask = SCAN_PRESENT,
	};
	long n, i;

	while (arg.start < arg.end) {
		n = ioctl(fd, SCAN_IOCTL, &arg);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == ENOTTY || errno == EINVAL))
			return 0;
		if (n < 0)
			return sp_fail(e, SP_FAIL, errno, "cannot scan the machine's memory");
		for (i = 0; i < n; i++) {
			if (add_run(out, in, vec[i].start, vec[i].end, e) < 0)
				return -1;
		}
		if (arg.walk_end <= arg.start)
			break;
		arg.start = arg.walk_end;
	}
	return 1;
}

static int scan_pagemap(int fd, const struct sp_ram_area *in, struct sp_ram_pages *out,
			struct sp_err *e)
{
	uint64_t entry[1024], page = in->addr / SP_PAGE, end = (in->addr + in->len) / SP_PAGE;
	uint64_t run = 0, at;
	ssize_t n;
	size_t i, want;

	for (; page < end; page += (uint64_t)n / sizeof entry[0]) {
		want = end - page < SP_NELEM(entry) ? end - page : SP_NELEM(entry);
		n = pread(fd, entry, want * sizeof entry[0], (off_t)(page * sizeof entry[0]));
		if (n < (ssize_t)sizeof entry[0])
			return sp_fail(e, SP_FAIL, n < 0 ? errno : 0, "cannot read pagemap");
		for (i = 0; i < (size_t)n / sizeof entry[0]; i++) {
			at = (page + i) * SP_PAGE;
			if ((entry[i] & (PM_PRESENT | PM_SWAPPED)) && !(entry[i] & PM_FILE)) {
				run = run ? run : at;
			} else if (run) {
				if (add_run(out, in, run, at, e) < 0)
					return -1;
				run = 0;
			}
		}
	}
	return run ? add_run(out, in, run, end * SP_PAGE, e) : 0;
}

int sp_ram_scan(const struct sp_ram *ram, struct sp_ram_pages *out, struct sp_err *e)
{
	sp_auto_fd fd = proc_open(ram->pid, "pagemap", e);
	size_t i;
	int rc;

	if (fd < 0)
		return -1;
	sp_str_clear(&out->list);
	out->bytes = 0;
	for (i = 0; i < ram->nareas; i++) {
		rc = ram->no_scan ? 0 : scan_ioctl(fd, &ram->area[i], out, e);
		if (rc == 0)
			rc = scan_pagemap(fd, &ram->area[i], out, e);
		if (rc < 0)
			return -1;
	}
	return 0;
}

static const struct sp_ram_area *runs_of(const struct sp_ram_pages *pages, size_t *n)
{
	*n = pages->list.len / sizeof(struct sp_ram_area);
	return (const struct sp_ram_area *)(const void *)pages->list.p;
}

/* Skips whole runs before byte `from`; *skip gets the bytes to leave out of the first one. */
static size_t first_run(const struct sp_ram_area *run, size_t n, uint64_t from, uint64_t *skip)
{
	size_t i;

	for (i = 0; i < n && from >= run[i].len; i++)
		from -= run[i].len;
	*skip = from;
	return i;
}

int64_t sp_ram_copy(const struct sp_ram *ram, const struct sp_ram_pages *pages, uint64_t from,
		    void *buf, size_t n, struct sp_err *e)
{
	struct iovec remote[256], local;
	const struct sp_ram_area *run;
	uint64_t skip, part;
	size_t i, nruns, nv, done = 0, batch;

	run = runs_of(pages, &nruns);
	i = first_run(run, nruns, from, &skip);
	while (i < nruns && done < n) {
		batch = 0;
		for (nv = 0; nv < SP_NELEM(remote) && i < nruns && done + batch < n; nv++) {
			part = run[i].len - skip;
			if (part > n - done - batch)
				part = n - done - batch;
			remote[nv].iov_base = (void *)(uintptr_t)(run[i].addr + skip);
			remote[nv].iov_len = part;
			batch += part;
			skip += part;
			if (skip == run[i].len) {
				skip = 0;
				i++;
			}
		}
		local = (struct iovec){ (char *)buf + done, batch };
		if (process_vm_readv(ram->pid, &local, 1, remote, nv, 0) != (ssize_t)batch)
			return sp_fail(e, SP_FAIL, errno, "cannot read the machine's memory");
		done += batch;
	}
	return (int64_t)done;
}

void *sp_ram_buffer(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, n, MADV_HUGEPAGE);
	madvise(p, n, MADV_DONTDUMP);
	if (madvise(p, n, MADV_POPULATE_WRITE) < 0)
		memset(p, 0, n); /* before Linux 5.14 */
	return p;
}

/* One stretch of at most 64 pages: writes the parts that differ. */
static int store_stretch(const unsigned char *page, uint64_t off, size_t n, int prev_fd, int mem_fd,
			 uint64_t *written, struct sp_err *e)
{
	unsigned char old[64 * SP_PAGE];
	size_t i, from = 0;
	bool same;

	if (sp_fd_pread(prev_fd, old, n, (off_t)off) != (ssize_t)n)
		return sp_fail(e, SP_FAIL, errno, "cannot read the memory file before");
	for (i = 0; i <= n; i += SP_PAGE) {
		same = i == n || memcmp(page + i, old + i, SP_PAGE) == 0;
		if (!same)
			continue;
		if (i > from &&
		    sp_fd_pwrite(mem_fd, page + from, i - from, (off_t)(off + from)) < 0)
			return sp_fail(e, sp_code_of_errno(errno), errno, "cannot write memory");
		*written += (i - from) / SP_PAGE;
		from = i + SP_PAGE;
	}
	return 0;
}

int sp_ram_store(const struct sp_ram_pages *pages, uint64_t from, const void *buf, size_t n,
		 int prev_fd, int mem_fd, uint64_t *written, struct sp_err *e)
{
	const struct sp_ram_area *run;
	uint64_t skip;
	size_t i, nruns, part, done = 0;

	run = runs_of(pages, &nruns);
	i = first_run(run, nruns, from, &skip);
	while (i < nruns && done < n) {
		part = run[i].len - skip < 64 * SP_PAGE ? run[i].len - skip : 64 * SP_PAGE;
		if (part > n - done)
			part = n - done;
		if (store_stretch((const unsigned char *)buf + done, run[i].off + skip, part,
				  prev_fd, mem_fd, written, e) < 0)
			return -1;
		done += part;
		skip += part;
		if (skip == run[i].len) {
			skip = 0;
			i++;
		}
	}
	return 0;
}
