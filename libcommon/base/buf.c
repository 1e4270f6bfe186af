/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

unsigned char sp_buf_none[1];

void sp_buf_init(struct sp_buf *b, size_t max)
{
	*b = (struct sp_buf){ .max = max };
}

void sp_buf_free(struct sp_buf *b)
{
	free(b->mem);
	sp_buf_init(b, b->max);
}

unsigned char *sp_buf_room(struct sp_buf *b, size_t n)
{
	unsigned char *mem;
	size_t cap;

	if (n > b->max - b->len)
		return NULL;
	if (b->mem && n <= b->cap - b->off - b->len)
		return b->mem + b->off + b->len;
	if (b->mem && n <= b->cap - b->len) {
		memmove(b->mem, b->mem + b->off, b->len);
		b->off = 0;
		return b->mem + b->len;
	}
	cap = b->cap ? b->cap : 1024;
	while (cap < b->len + n)
		cap *= 2;
	if (cap > b->max)
		cap = b->max;
	mem = sp_xmalloc(cap);
	if (b->mem && b->len)
		memcpy(mem, b->mem + b->off, b->len);
	free(b->mem);
	b->mem = mem;
	b->cap = cap;
	b->off = 0;
	return b->mem + b->len;
}

void sp_buf_added(struct sp_buf *b, size_t n)
{
	b->len += n;
}

bool sp_buf_put(struct sp_buf *b, const void *data, size_t n)
{
	unsigned char *to;

	if (!n)
		return true;
	to = sp_buf_room(b, n);
	if (!to)
		return false;
	memcpy(to, data, n);
	b->len += n;
	return true;
}

void sp_buf_drop(struct sp_buf *b, size_t n)
{
	b->off += n;
	b->len -= n;
	if (!b->len)
		b->off = 0;
}
