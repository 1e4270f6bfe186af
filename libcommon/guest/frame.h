/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and fields of the guest channel (guest/proto.h): building and taking apart. Also compiled
 * into the static agent, so it uses nothing but libc and base/buf. Never allocates for a foreign
 * length before it is checked. */
#ifndef SP_GUEST_FRAME_H
#define SP_GUEST_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "guest/proto.h"

/* Takes one frame off the front of b: 1 with *h and *payload (lent: valid until b changes; the
 * caller drops SP_G_HEADER + h->len when done), 0 not whole yet, -1 not a frame (len, zero). */
int sp_frame_peek(const struct sp_buf *b, struct sp_g_header *h, const unsigned char **payload);
/* Appends a frame; false when it does not fit (nothing is put). */
bool sp_frame_put(struct sp_buf *b, uint32_t chan, enum sp_g_type type, uint8_t stream,
		  const void *payload, uint32_t len);
bool sp_frame_put_data(struct sp_buf *b, uint32_t chan, uint8_t stream, uint64_t offset,
		       const void *data, uint32_t len);
bool sp_frame_put_u64(struct sp_buf *b, uint32_t chan, enum sp_g_type type, uint8_t stream,
		      uint64_t v); /* ACK, EOF */
/* The first 8 bytes; -1 where there are fewer. */
int sp_frame_get_u64(const unsigned char *payload, uint32_t len, uint64_t *v);

/* Building fields in the caller's buffer; overflow is remembered and told by sp_fields_end. */
struct sp_fields {
	unsigned char *mem;
	size_t len, cap;
	bool overflow;
};
void sp_fields_begin(struct sp_fields *f, void *mem, size_t cap);
void sp_fields_add(struct sp_fields *f, enum sp_g_tag tag, const void *data, size_t n);
void sp_fields_add_str(struct sp_fields *f, enum sp_g_tag tag, const char *s); /* NULL: not added */
void sp_fields_add_u8(struct sp_fields *f, enum sp_g_tag tag, uint8_t v);
void sp_fields_add_u32(struct sp_fields *f, enum sp_g_tag tag, uint32_t v);
void sp_fields_add_u64(struct sp_fields *f, enum sp_g_tag tag, uint64_t v);
int sp_fields_end(const struct sp_fields *f); /* -1: did not fit */

/* Reading: check once that the whole is well formed, then look up. */
int sp_fields_check(const unsigned char *p, uint32_t len); /* -1: a length runs over the end */
/* Iterates: 1 item, 0 end. *pos starts at 0. */
int sp_fields_next(const unsigned char *p, uint32_t len, uint32_t *pos, uint8_t *tag,
		   const unsigned char **data, uint32_t *n);
bool sp_fields_find(const unsigned char *p, uint32_t len, enum sp_g_tag tag,
		    const unsigned char **data, uint32_t *n);
uint64_t sp_fields_num(const unsigned char *p, uint32_t len, enum sp_g_tag tag, uint64_t dflt);
/* Copies text into out, NUL-terminated; -1 when absent, too long, or holding a NUL. */
int sp_fields_text(const unsigned char *p, uint32_t len, enum sp_g_tag tag, char *out, size_t cap);

#endif
