/* SPDX-License-Identifier: Apache-2.0 */
/* A look at the beginning of a tar: is it an image archive, and is it compressed?
 *
 * Image archives hold nothing at their top but a handful of names, so the first name decides that
 * it could be one; whether it is one is known when all names are (image/unpack.c).
 */
#ifndef SP_IMAGE_PEEK_H
#define SP_IMAGE_PEEK_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "image/stream.h"

#define SP_PEEK_MAX (1 << 20) /* a block of bzip2 and a name are in that much */

struct sp_peek {
	bool image;      /* the caller's: it says that it is an image */
	bool image_name; /* the first name is one of an image archive */
	bool plain;      /* not compressed */
};

/* Reads the beginning into *ahead and looks at it. SP_FAIL: no tar at all. */
int sp_peek(struct sp_stream *s, struct sp_str *ahead, struct sp_peek *out, struct sp_err *e);
bool sp_peek_is_image_name(const char *name);

#endif
