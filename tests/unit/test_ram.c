/* SPDX-License-Identifier: Apache-2.0 */
/* Changed pages of another process: found both ways, copied, stored as a difference. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "monitor/ram.h"
#include "sys/fd.h"
#include "tap.h"

#define SIZE (4096u * 1024)

static char dir[] = "/tmp/test_ram.XXXXXX";

static int make_file(const char *name, unsigned char fill)
{
	unsigned char page[SP_PAGE];
	char path[64];
	int fd, i;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	memset(page, fill, sizeof page);
	for (i = 0; i < (int)(SIZE / SP_PAGE); i++)
		sp_fd_pwrite(fd, page, sizeof page, (off_t)i * SP_PAGE);
	return fd;
}

/* A process that maps the file as a VMM does and changes pages 3, 4, 5, 100 and the last. */
static pid_t start_vmm(int fd)
{
	static const unsigned int changed[] = { 3, 4, 5, 100, SIZE / SP_PAGE - 1 };
	int ready[2];
	char c;
	pid_t pid;
	size_t i;

	if (pipe(ready) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		unsigned char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (i = 0; i < SIZE; i += SP_PAGE)
			*(volatile unsigned char *)(p + i); /* read: stays the file's */
		for (i = 0; i < SP_NELEM(changed); i++)
			memset(p + (size_t)changed[i] * SP_PAGE, (int)(0x40 + i), SP_PAGE);
		p[4 * SP_PAGE] = 1; /* and page 4 back to what the file has */
		memset(p + (size_t)4 * SP_PAGE, 1, SP_PAGE);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		pid = -1;
	close(ready[0]);
	return pid;
}

static void check_scan(struct sp_ram *ram, bool no_scan, struct sp_ram_pages *pages)
{
	const struct sp_ram_area *a;
	struct sp_err e = { .code = SP_OK };
	const char *how = no_scan ? "pagemap" : "PAGEMAP_SCAN or pagemap";

	ram->no_scan = no_scan;
	ok(sp_ram_scan(ram, pages, &e) == 0, "%s: scans (%s)", how, e.msg);
	ok(pages->bytes == 5 * SP_PAGE, "%s: five pages are the process's own", how);
	a = (const struct sp_ram_area *)(const void *)pages->list.p;
	ok(pages->list.len == 3 * sizeof *a, "%s: in three runs", how);
	ok(a[0].off == 3 * SP_PAGE && a[0].len == 3 * SP_PAGE, "%s: pages 3 to 5", how);
	ok(a[1].off == 100 * SP_PAGE && a[2].off == SIZE - SP_PAGE, "%s: page 100 and the last",
	   how);
}

static void check_store(const struct sp_ram *ram, const struct sp_ram_pages *pages, int base)
{
	int out = make_file("out", 1);
	unsigned char *buf = sp_ram_buffer(1 << 20), page[SP_PAGE];
	struct sp_err e = { .code = SP_OK };
	uint64_t written = 0;

	ok(buf && sp_ram_copy(ram, pages, 0, buf, 1 << 20, &e) == 5 * SP_PAGE, "copies all");
	ok(sp_ram_copy(ram, pages, 2 * SP_PAGE, buf + (2 * SP_PAGE), SP_PAGE, &e) == SP_PAGE,
	   "copies a part from the middle");
	ok(buf[2 * SP_PAGE] == 0x42, "which is page 5");
	ok(sp_ram_store(pages, 0, buf, 5 * SP_PAGE, base, out, &written, &e) == 0, "stores");
	ok(written == 4, "and writes only the four that differ");
	ok(sp_fd_pread(out, page, SP_PAGE, 100 * SP_PAGE) == SP_PAGE && page[17] == 0x43,
	   "page 100 is there");
	ok(sp_fd_pread(out, page, SP_PAGE, SIZE - SP_PAGE) == SP_PAGE && page[17] == 0x44,
	   "the last page is there");
	ok(sp_fd_pread(out, page, SP_PAGE, 6 * SP_PAGE) == SP_PAGE && page[17] == 1,
	   "a page beside is as before");
	munmap(buf, 1 << 20);
	close(out);
}

int main(void)
{
	struct sp_ram_pages pages = { .list = SP_STR_INIT };
	struct sp_err e = { .code = SP_OK };
	struct sp_ram ram;
	char path[64];
	int base;
	pid_t pid;

	if (!mkdtemp(dir))
		return 1;
	base = make_file("mem", 1);
	pid = start_vmm(base);
	ok(sp_ram_find(pid, base, SIZE, &ram, &e) == 0, "finds the mapping (%s)", e.msg);
	check_scan(&ram, true, &pages);
	check_scan(&ram, false, &pages);
	check_store(&ram, &pages, base);
	ok(sp_ram_find(pid, base, SIZE / 2, &ram, &e) < 0,
	   "a mapping that is larger than the machine is not believed");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	sp_str_free(&pages.list);
	snprintf(path, sizeof path, "%s/mem", dir);
	unlink(path);
	snprintf(path, sizeof path, "%s/out", dir);
	unlink(path);
	rmdir(dir);
	return tap_done();
}
