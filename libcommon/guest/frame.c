/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/frame.h"

#include <string.h>

#define FIELD_HEADER 5u /* tag u8, length u32 */

static void put_le(unsigned char *to, uint64_t v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (unsigned char)(v >> (8 * i));
}

static uint64_t get_le(const unsigned char *from, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v |= (uint64_t)from[i] << (8 * i);
	return v;
}

int sp_frame_peek(const struct sp_buf *b, struct sp_g_header *h, const unsigned char **payload)
{
	const unsigned char *p;

	if (sp_buf_len(b) < SP_G_HEADER)
		return 0;
	p = sp_buf_head(b);
	*h = (struct sp_g_header){
		.len = (uint32_t)get_le(p, 4),
		.type = p[4],
		.stream = p[5],
		.zero = (uint16_t)get_le(p + 6, 2),
		.chan = (uint32_t)get_le(p + 8, 4),
	};
	if (h->len > SP_G_PAYLOAD || h->zero)
		return -1;
	if (sp_buf_len(b) - SP_G_HEADER < h->len)
		return 0;
	*payload = p + SP_G_HEADER;
	return 1;
}

/* Room for a frame whose payload the caller writes, its header already in place; or NULL. */
static unsigned char *frame_room(struct sp_buf *b, uint32_t chan, enum sp_g_type type,
				 uint8_t stream, uint32_t len)
{
	unsigned char *p;

	if (len > SP_G_PAYLOAD)
		return NULL;
	p = sp_buf_room(b, SP_G_HEADER + (size_t)len);
	if (!p)
		return NULL;
	put_le(p, len, 4);
	p[4] = (unsigned char)type;
	p[5] = stream;
	put_le(p + 6, 0, 2);
	put_le(p + 8, chan, 4);
	return p + SP_G_HEADER;
}

bool sp_frame_put(struct sp_buf *b, uint32_t chan, enum sp_g_type type, uint8_t stream,
		  const void *payload, uint32_t len)
{
	unsigned char *p = frame_room(b, chan, type, stream, len);

	if (!p)
		return false;
	if (len)
		memcpy(p, payload, len);
	sp_buf_added(b, SP_G_HEADER + (size_t)len);
	return true;
}

bool sp_frame_put_data(struct sp_buf *b, uint32_t chan, uint8_t stream, uint64_t offset,
		       const void *data, uint32_t len)
{
	unsigned char *p;

	if (len > SP_G_PAYLOAD - 8)
		return false;
	p = frame_room(b, chan, SP_G_DATA, stream, len + 8);
	if (!p)
		return false;
	put_le(p, offset, 8);
	if (len)
		memcpy(p + 8, data, len);
	sp_buf_added(b, SP_G_HEADER + 8 + (size_t)len);
	return true;
}

bool sp_frame_put_u64(struct sp_buf *b, uint32_t chan, enum sp_g_type type, uint8_t stream,
		      uint64_t v)
{
	unsigned char p[8];

	put_le(p, v, sizeof p);
	return sp_frame_put(b, chan, type, stream, p, sizeof p);
}

int sp_frame_get_u64(const unsigned char *payload, uint32_t len, uint64_t *v)
{
	if (len < 8)
		return -1;
	*v = get_le(payload, 8);
	return 0;
}

void sp_fields_begin(struct sp_fields *f, void *mem, size_t cap)
{
	*f = (struct sp_fields){ .mem = mem, .cap = cap };
}

void sp_fields_add(struct sp_fields *f, enum sp_g_tag tag, const void *data, size_t n)
{
	size_t room = f->cap - f->len;

	if (f->overflow || room < FIELD_HEADER || n > room - FIELD_HEADER || n > SP_G_PAYLOAD) {
		f->overflow = true;
		return;
	}
	f->mem[f->len] = (unsigned char)tag;
	put_le(f->mem + f->len + 1, n, 4);
	if (n)
		memcpy(f->mem + f->len + FIELD_HEADER, data, n);
	f->len += FIELD_HEADER + n;
}

void sp_fields_add_str(struct sp_fields *f, enum sp_g_tag tag, const char *s)
{
	if (s)
		sp_fields_add(f, tag, s, strlen(s));
}

void sp_fields_add_u8(struct sp_fields *f, enum sp_g_tag tag, uint8_t v)
{
	sp_fields_add(f, tag, &v, 1);
}

void sp_fields_add_u32(struct sp_fields *f, enum sp_g_tag tag, uint32_t v)
{
	unsigned char p[4];

	put_le(p, v, sizeof p);
	sp_fields_add(f, tag, p, sizeof p);
}

void sp_fields_add_u64(struct sp_fields *f, enum sp_g_tag tag, uint64_t v)
{
	unsigned char p[8];

	put_le(p, v, sizeof p);
	sp_fields_add(f, tag, p, sizeof p);
}

int sp_fields_end(const struct sp_fields *f)
{
	return f->overflow || f->len > SP_G_PAYLOAD ? -1 : 0;
}

int sp_fields_check(const unsigned char *p, uint32_t len)
{
	uint32_t pos = 0, n;
	const unsigned char *data;
	uint8_t tag;

	while (sp_fields_next(p, len, &pos, &tag, &data, &n) == 1)
		;
	return pos == len ? 0 : -1;
}

int sp_fields_next(const unsigned char *p, uint32_t len, uint32_t *pos, uint8_t *tag,
		   const unsigned char **data, uint32_t *n)
{
	uint32_t size;

	if (*pos > len || len - *pos < FIELD_HEADER)
		return 0;
	size = (uint32_t)get_le(p + *pos + 1, 4);
	if (size > len - *pos - FIELD_HEADER)
		return 0;
	*tag = p[*pos];
	*data = p + *pos + FIELD_HEADER;
	*n = size;
	*pos += FIELD_HEADER + size;
	return 1;
}

bool sp_fields_find(const unsigned char *p, uint32_t len, enum sp_g_tag tag,
		    const unsigned char **data, uint32_t *n)
{
	uint32_t pos = 0;
	uint8_t at;

	while (sp_fields_next(p, len, &pos, &at, data, n) == 1)
		if (at == (uint8_t)tag)
			return true;
	*data = NULL;
	*n = 0;
	return false;
}

uint64_t sp_fields_num(const unsigned char *p, uint32_t len, enum sp_g_tag tag, uint64_t dflt)
{
	const unsigned char *data;
	uint32_t n;

	if (!sp_fields_find(p, len, tag, &data, &n) || n == 0 || n > 8)
		return dflt;
	return get_le(data, n);
}

int sp_fields_text(const unsigned char *p, uint32_t len, enum sp_g_tag tag, char *out, size_t cap)
{
	const unsigned char *data;
	uint32_t n;

	if (!cap)
		return -1;
	out[0] = '\0';
	if (!sp_fields_find(p, len, tag, &data, &n) || n >= cap)
		return -1;
	if (n && memchr(data, '\0', n))
		return -1;
	if (n)
		memcpy(out, data, n);
	out[n] = '\0';
	return 0;
}
