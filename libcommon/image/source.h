/* SPDX-License-Identifier: Apache-2.0 */
/* What a user names to be imported, opened.
 *
 * dir:PATH, tar:PATH, oci:PATH[:REF], docker-archive:PATH[:REF], docker://…, or a bare path whose
 * kind is found out: a folder with an oci-layout, one with a manifest.json, any other folder; a tar
 * likewise, by the unpacking side. REF is taken where the whole text is no path. "-" is standard
 * input.
 */
#ifndef SP_IMAGE_SOURCE_H
#define SP_IMAGE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "image/ref.h"
#include "image/unpack.h"

struct sp_source {
	enum sp_source_kind kind;
	bool folder; /* fd is a folder */
	bool file;   /* fd is a regular file, of which [at, size) counts */
	int64_t at, size;
	int fd;                   /* -1: a registry */
	char ref[SP_DIGEST_SIZE]; /* which image in it, of a registry tag or digest; "" none */
	struct sp_ref registry;
};

int sp_source_open(const char *text, int stdin_fd, struct sp_source *out, struct sp_err *e);
void sp_source_close(struct sp_source *s);

#endif
