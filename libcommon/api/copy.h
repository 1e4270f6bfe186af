/* SPDX-License-Identifier: Apache-2.0 */
/* Copying files and trees into and out of a guest, as cp -r does it: into a folder that exists,
 * else to that name. A copy does not outlive a pause: it fails, and can be made again. */
#ifndef SP_API_COPY_H
#define SP_API_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "api/session.h"

struct sp_copy {
	const char *from, *to; /* paths; "-": our standard input or output, one file */
	const char *user;      /* in: who shall own it in the guest, NULL: root */
	uint64_t max_bytes, max_entries; /* out: a guest's tree has no other end */
	uint64_t entries, skipped;       /* set: taken out; special files that were passed over */
};

int sp_copy_out(struct sp_guest *g, struct sp_copy *c, struct sp_err *e);
int sp_copy_in(struct sp_guest *g, struct sp_copy *c, struct sp_err *e);
/* Takes "SANDBOX:PATH" apart: 1 and both parts (path "" becomes "/"); 0 it is a path here: no
 * colon, or a '/' before it, or what is before it is neither a valid id nor a valid name. */
int sp_copy_operand(const char *text, char sandbox[static SP_NAME_SIZE], const char **path);

#endif
