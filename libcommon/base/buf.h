/* SPDX-License-Identifier: Apache-2.0 */
/* A byte queue with a hard bound, for streams between descriptors.
 *
 * Contract: start with sp_buf_init(max); bytes go in at the back and out at the front; memory is
 * allocated on demand, never beyond max, and returned by sp_buf_free. A put that does not fit
 * puts nothing.
 */
#ifndef SP_BASE_BUF_H
#define SP_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct sp_buf {
	unsigned char *mem;
	size_t off, len, cap, max;
};

void sp_buf_init(struct sp_buf *b, size_t max);
void sp_buf_free(struct sp_buf *b);

static inline size_t sp_buf_len(const struct sp_buf *b)
{
	return b->len;
}
static inline size_t sp_buf_space(const struct sp_buf *b)
{
	return b->max - b->len;
}
extern unsigned char sp_buf_none[1]; /* the head of a queue that never held anything */
static inline unsigned char *sp_buf_head(const struct sp_buf *b)
{
	return b->mem ? b->mem + b->off : sp_buf_none;
}

bool sp_buf_put(struct sp_buf *b, const void *data, size_t n); /* false: no room, nothing put */
/* n contiguous bytes at the back, or NULL. */
unsigned char *sp_buf_room(struct sp_buf *b, size_t n);
void sp_buf_added(struct sp_buf *b, size_t n);          /* n bytes of that room were filled */
void sp_buf_drop(struct sp_buf *b, size_t n);           /* n bytes off the front */

#endif
