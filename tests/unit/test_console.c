/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "monitor/console.h"
#include "tap.h"

static char dir[] = "/tmp/test_console.XXXXXX";

static void fill(char *to, size_t n, uint64_t at)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (char)('a' + (at + i) % 23);
}

/* Reads all from *at, in pieces, checking that each byte is the one of its offset. */
static int64_t read_all(int fd, uint64_t *at)
{
	static char buf[10007], want[10007];
	struct sp_err e;
	int64_t all = 0;
	long n;

	while ((n = sp_console_read(fd, at, buf, sizeof buf, &e)) > 0) {
		fill(want, (size_t)n, *at - (uint64_t)n);
		if (memcmp(want, buf, (size_t)n) != 0)
			return -2;
		all += n;
	}
	return n < 0 ? -1 : all;
}

int main(void)
{
	static char mem[SP_CONSOLE_RING * 2];
	uint64_t at = 0, total = 0;
	struct sp_err e;
	struct stat st;
	char link[64];
	int d, fd, again;
	bool good = true;

	if (!mkdtemp(dir))
		return 1;
	d = open(dir, O_RDONLY | O_DIRECTORY);
	fd = sp_console_create(d, "console", &e);
	ok(fd >= 0 && fstat(fd, &st) == 0 && st.st_size == SP_CONSOLE_HEADER + SP_CONSOLE_RING &&
		   (st.st_mode & 07777) == 0600,
	   "a new console has its whole size, and is private");
	ok(read_all(fd, &at) == 0 && at == 0, "and is empty");
	fill(mem, 10, 0);
	ok(sp_console_append(fd, mem, 10) == 0 && read_all(fd, &at) == 10 && at == 10,
	   "what is appended is read");
	ok(read_all(fd, &at) == 0, "once");
	total = 10;
	for (int i = 0; i < 2000; i++) {
		fill(mem, 997, total);
		good &= sp_console_append(fd, mem, 997) == 0;
		total += 997;
		if (i % 100 == 0)
			good &= read_all(fd, &at) > 0 && at == total;
	}
	ok(good, "a reader that keeps up sees every byte of a ring that goes round");
	at = 5;
	ok(read_all(fd, &at) == SP_CONSOLE_RING && at == total,
	   "one that comes late sees what is kept");
	at = total + 1000;
	ok(read_all(fd, &at) == SP_CONSOLE_RING, "an offset of the future begins with the oldest");
	fill(mem, sizeof mem, total);
	ok(sp_console_append(fd, mem, sizeof mem) == 0 && read_all(fd, &at) == SP_CONSOLE_RING &&
		   at == total + sizeof mem,
	   "more than a ring at once leaves its end");
	total += sizeof mem;
	again = sp_console_create(d, "console", &e);
	at = total - 3;
	ok(again >= 0 && read_all(again, &at) == 3, "an existing console is gone on with");
	close(again);
	ok(pwrite(fd, "X", 1, 0) == 1 && sp_console_append(fd, "x", 1) < 0 &&
		   sp_console_read(fd, &at, mem, 10, &e) < 0,
	   "a file that is no console is neither read nor written");
	snprintf(link, sizeof link, "%s/link", dir);
	ok(symlink("console", link) == 0 && sp_console_create(d, "link", &e) < 0,
	   "a symbolic link is not followed");
	unlink(link);
	unlinkat(d, "console", 0);
	rmdir(dir);
	close(fd);
	close(d);
	return tap_done();
}
