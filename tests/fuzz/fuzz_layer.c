/* SPDX-License-Identifier: Apache-2.0 */
/* Two layers of foreign bytes onto a small disk in memory. Whatever they hold, the memory stays
 * sound, and what is then on the disk can be opened again. The first two bytes say where the second
 * layer begins; headers get their checksums mended, or few would be looked at.
 * SPACE_FUZZ_FSCK=1 has e2fsck look at each disk that was finished. */
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#include "image/layer.h"
#include "image/mkfs.h"
#include "sys/fd.h"
#include "sys/proc.h"

#define DISK (64 << 20)

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int empty_fd = -1, disk_fd = -1;
static char empty_path[64], disk_path[64];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *args[32];
	struct sp_err e;

	(void)argc;
	(void)argv;
	setenv("PATH", "/usr/sbin:/usr/bin", 1);
	empty_fd = memfd_create("empty", 0);
	disk_fd = memfd_create("disk", 0);
	snprintf(empty_path, sizeof empty_path, "/proc/%d/fd/%d", getpid(), empty_fd);
	snprintf(disk_path, sizeof disk_path, "/proc/%d/fd/%d", getpid(), disk_fd);
	if (ftruncate(empty_fd, DISK) < 0)
		abort();
	sp_mkfs_argv(empty_path, DISK, args);
	if (sp_proc_run(args, -1, NULL, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		abort();
	}
	return 0;
}

/* Only what is there: the rest of the disk is holes. */
static void fresh_disk(void)
{
	off_t at = 0, end;

	if (ftruncate(disk_fd, 0) < 0 || ftruncate(disk_fd, DISK) < 0)
		abort();
	while ((at = lseek(empty_fd, at, SEEK_DATA)) >= 0) {
		end = lseek(empty_fd, at, SEEK_HOLE);
		lseek(empty_fd, at, SEEK_SET);
		lseek(disk_fd, at, SEEK_SET);
		if (sp_fd_copy(empty_fd, disk_fd, end - at) < 0)
			abort();
		at = end;
	}
}

static void mend(uint8_t *p, size_t n)
{
	char text[8];

	for (; n >= 512; p += 512, n -= 512) {
		unsigned int sum = 0;

		if (memcmp(p + 257, "ustar", 5) != 0)
			continue;
		memset(p + 148, ' ', 8);
		for (size_t i = 0; i < 512; i++)
			sum += p[i];
		snprintf(text, sizeof text, "%06o", sum);
		memcpy(p + 148, text, 7);
	}
}

static int apply(struct sp_layers *l, const uint8_t *data, size_t size, struct sp_err *e)
{
	struct sp_tarball_want want = { .size = -1, .max_tar = 16 << 20 };
	sp_auto_str copy = SP_STR_INIT;
	sp_auto_tarball *t = NULL;
	struct sp_mem_stream mem;

	sp_str_addn(&copy, data, size);
	mend((uint8_t *)copy.p, copy.len);
	sp_mem_stream_init(&mem, copy.p, copy.len);
	if (sp_tarball_open(&mem.base, &want, NULL, &t, e) < 0 || sp_layer_apply(l, t, true, e) < 0)
		return -1;
	return sp_tarball_end(t, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *check[] = { "e2fsck", "-f", "-n", disk_path, NULL };
	struct sp_layers l = { .max_bytes = 4 << 20, .max_entries = 200 };
	sp_auto_str out = SP_STR_INIT;
	struct sp_ext4_counts counts;
	sp_auto_ext4 *x = NULL;
	struct sp_err e;
	size_t cut;

	if (size < 2)
		return 0;
	cut = ((size_t)data[0] << 8 | data[1]) * 512 % (size - 1);
	fresh_disk();
	if (sp_ext4_open(disk_fd, 1 << 20, &x, &e) < 0)
		abort();
	l.x = x;
	if (apply(&l, data + 2, cut < size - 2 ? cut : size - 2, &e) < 0 ||
	    (cut < size - 2 && apply(&l, data + 2 + cut, size - 2 - cut, &e) < 0))
		return 0;
	if (sp_ext4_close(&x, &counts, &e) < 0)
		return 0;
	if (sp_ext4_open(disk_fd, 1 << 20, &x, &e) < 0)
		abort();
	if (getenv("SPACE_FUZZ_FSCK") && sp_proc_run(check, -1, &out, &e) < 0) {
		fprintf(stderr, "%s\n%s\n", e.msg, out.p);
		abort();
	}
	return 0;
}
