/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "agent/agent.h"

/* Mapped, not allocated: a process that prints three lines touches one page of it. */
int sp_ring_init(struct sp_ring *r)
{
	void *mem =
		mmap(NULL, SP_G_WINDOW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*r = (struct sp_ring){ .mem = mem == MAP_FAILED ? NULL : mem };
	return r->mem ? 0 : -1;
}

void sp_ring_free(struct sp_ring *r)
{
	if (r->mem)
		munmap(r->mem, SP_G_WINDOW);
	r->mem = NULL;
	r->base = r->end;
}

ssize_t sp_ring_read(struct sp_ring *r, int fd, size_t max, uint64_t keep)
{
	size_t at = r->end % SP_G_WINDOW, room, first;
	struct iovec iov[2];
	ssize_t n;

	if (keep < r->base)
		keep = r->base;
	room = r->mem ? SP_G_WINDOW - (size_t)(r->end - keep) : 0;
	if (room > max)
		room = max;
	if (!room)
		return -2;
	first = SP_G_WINDOW - at < room ? SP_G_WINDOW - at : room;
	iov[0] = (struct iovec){ r->mem + at, first };
	iov[1] = (struct iovec){ r->mem, room - first };
	do
		n = readv(fd, iov, room > first ? 2 : 1);
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		r->end += (uint64_t)n;
		if (r->end - r->base > SP_G_WINDOW)
			r->base = r->end - SP_G_WINDOW;
	}
	return n;
}

const unsigned char *sp_ring_at(const struct sp_ring *r, uint64_t off, size_t *n)
{
	size_t at = off % SP_G_WINDOW, left = (size_t)(r->end - off);

	*n = SP_G_WINDOW - at < left ? SP_G_WINDOW - at : left;
	return r->mem + at;
}
