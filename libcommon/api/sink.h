/* SPDX-License-Identifier: Apache-2.0 */
/* Where one output of a guest's process goes on this side: a descriptor that may be slow, written
 * without ever blocking, and the count of its stream's bytes. Inside of the api layer.
 *
 * The descriptor is shared with others (the shell's), so O_NONBLOCK is not set on it: a pipe or a
 * terminal is opened a second time, a socket is written with MSG_DONTWAIT, and where neither works
 * only as much is written as a writable pipe is sure to take.
 */
#ifndef SP_API_SINK_H
#define SP_API_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "guest/proto.h"

enum sp_sink_way { SP_SINK_PLAIN, SP_SINK_NONBLOCK, SP_SINK_SOCKET, SP_SINK_CAREFUL };

struct sp_sink {
	int fd, own; /* own: opened here, or -1 */
	enum sp_sink_way way;
	struct sp_buf buf;
	uint64_t next; /* offset of the byte that comes next from the guest */
	uint64_t told; /* acknowledged up to here */
	bool started;  /* next is known */
	bool closed;   /* nobody takes it: bytes are counted and thrown away */
	int sys;       /* errno that closed it */
};

void sp_sink_init(struct sp_sink *s, int fd);
void sp_sink_free(struct sp_sink *s);
/* Bytes at off: what was had before is passed over, a gap jumped. -1: more than a window waits. */
int sp_sink_put(struct sp_sink *s, uint64_t off, const unsigned char *data, size_t n);
void sp_sink_flush(struct sp_sink *s);
/* Forgets what waits, to ask for it once more. */
void sp_sink_rewind(struct sp_sink *s);

static inline uint64_t sp_sink_done(const struct sp_sink *s)
{
	return s->next - sp_buf_len(&s->buf);
}

#endif
