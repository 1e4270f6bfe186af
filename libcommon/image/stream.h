/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that come in: from a pipe, from a part of a file, or from wherever a read function gets
 * them; and the count of them that a person watches.
 */
#ifndef SP_IMAGE_STREAM_H
#define SP_IMAGE_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

/* Counts, and tells them a few times a second. */
struct sp_pulse {
	int64_t in;      /* bytes from the source */
	int64_t content; /* bytes of files */
	const char *what;
	void (*beat)(const struct sp_pulse *p, void *arg); /* or NULL */
	void *arg;
	int64_t last; /* ns, of the last beat */
};
void sp_pulse_beat(struct sp_pulse *p);

struct sp_stream {
	/* Up to n bytes; 0 at the end, -1 error. */
	ssize_t (*read)(struct sp_stream *s, void *buf, size_t n, struct sp_err *e);
	int64_t (*skip)(struct sp_stream *s, int64_t n); /* bytes passed over; NULL: cannot */
};

/* A descriptor, read from where it stands. What was read ahead can be put back, once. */
struct sp_fd_stream {
	struct sp_stream base;
	int fd;
	struct sp_str ahead; /* bytes that come again first */
	size_t ahead_at;
};
void sp_fd_stream_init(struct sp_fd_stream *s, int fd);
/* Bytes [at, at + n) of a file by pread: the descriptor's offset is not used. */
struct sp_range_stream {
	struct sp_stream base;
	int fd;
	int64_t at, end;
};
void sp_range_stream_init(struct sp_range_stream *s, int fd, int64_t at, int64_t n);

/* Bytes in memory, which must outlive it. */
struct sp_mem_stream {
	struct sp_stream base;
	const char *p;
	size_t left;
};
void sp_mem_stream_init(struct sp_mem_stream *s, const void *p, size_t n);

/* Reads all of it, at most max bytes. */
int sp_stream_slurp(struct sp_stream *s, size_t max, const char *what, struct sp_str *out,
		    struct sp_err *e);

#endif
