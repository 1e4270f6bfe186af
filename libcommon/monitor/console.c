/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/console.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/fs.h"

#define HEAD 16 /* magic and total: what of the header is used */

static const unsigned char magic[8] = { 'S', 'P', 'C', 'O', 'N', 'S', '1', '\n' };

static void put_head(unsigned char head[static HEAD], uint64_t total)
{
	memcpy(head, magic, sizeof magic);
	for (int i = 0; i < 8; i++)
		head[8 + i] = (unsigned char)(total >> (8 * i));
}

/* Bytes ever written; -1 where the header is not one. */
static int64_t get_total(int fd)
{
	unsigned char head[HEAD];
	uint64_t total = 0;

	if (sp_fd_pread(fd, head, sizeof head, 0) != HEAD || memcmp(head, magic, sizeof magic) != 0)
		return -1;
	for (int i = 0; i < 8; i++)
		total |= (uint64_t)head[8 + i] << (8 * i);
	return total > INT64_MAX / 2 ? -1 : (int64_t)total;
}

/* Made whole in size at once: the writer runs where no file may grow. */
int sp_console_create(int dirfd, const char *name, struct sp_err *e)
{
	unsigned char head[HEAD];
	sp_auto_fd fd = sp_fs_open(dirfd, name, O_RDWR | O_CREAT, 0600, e);

	if (fd < 0)
		return -1;
	if (get_total(fd) >= 0)
		return sp_take_fd(&fd);
	put_head(head, 0);
	if (ftruncate(fd, SP_CONSOLE_HEADER + SP_CONSOLE_RING) < 0 ||
	    sp_fd_pwrite(fd, head, sizeof head, 0) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "make the console '%s'", name);
	return sp_take_fd(&fd);
}

static int put_ring(int fd, uint64_t at, const unsigned char *p, size_t n)
{
	while (n) {
		size_t off = (size_t)(at % SP_CONSOLE_RING);
		size_t part = SP_CONSOLE_RING - off < n ? SP_CONSOLE_RING - off : n;

		if (sp_fd_pwrite(fd, p, part, (off_t)(SP_CONSOLE_HEADER + off)) < 0)
			return -1;
		at += part;
		p += part;
		n -= part;
	}
	return 0;
}

/* Bytes first, then the total that makes them known. */
int sp_console_append(int fd, const void *data, size_t n)
{
	const unsigned char *p = data;
	int64_t total = get_total(fd);
	unsigned char head[HEAD];
	uint64_t at;

	if (total < 0) {
		errno = EBADMSG;
		return -1;
	}
	at = (uint64_t)total + n;
	if (n > SP_CONSOLE_RING) {
		p += n - SP_CONSOLE_RING;
		n = SP_CONSOLE_RING;
	}
	if (put_ring(fd, at - n, p, n) < 0)
		return -1;
	put_head(head, at);
	return sp_fd_pwrite(fd, head, sizeof head, 0);
}

static uint64_t oldest(uint64_t total)
{
	return total > SP_CONSOLE_RING ? total - SP_CONSOLE_RING : 0;
}

/* The writer does not wait for readers: after reading, the total is read again, and bytes that may
 * have been written over meanwhile are read once more from where they now begin. */
long sp_console_read(int fd, uint64_t *at, void *buf, size_t n, struct sp_err *e)
{
	for (;;) {
		int64_t total = get_total(fd), after;
		size_t off, part;
		ssize_t got;

		if (total < 0)
			return sp_fail(e, SP_FAIL, 0, "not a console file");
		if (*at < oldest((uint64_t)total) || *at > (uint64_t)total)
			*at = oldest((uint64_t)total);
		off = (size_t)(*at % SP_CONSOLE_RING);
		part = (size_t)((uint64_t)total - *at);
		part = part > n ? n : part;
		part = part > SP_CONSOLE_RING - off ? SP_CONSOLE_RING - off : part;
		if (!part)
			return 0;
		got = sp_fd_pread(fd, buf, part, (off_t)(SP_CONSOLE_HEADER + off));
		after = get_total(fd);
		if (got != (ssize_t)part || after < 0)
			return sp_fail(e, SP_FAIL, got < 0 ? errno : 0, "read the console");
		if (*at >= oldest((uint64_t)after)) {
			*at += part;
			return (long)part;
		}
	}
}
