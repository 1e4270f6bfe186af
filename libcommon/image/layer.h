/* SPDX-License-Identifier: Apache-2.0 */
/* One tar onto the image: a whole root, or a layer with whiteouts (OCI image specification,
 * layer.md): ".wh.NAME" hides NAME of lower layers, ".wh..wh..opq" all of its folder's; names that
 * begin with ".wh..wh." otherwise are a union file system's own and are passed over.
 *
 * Numeric owners count, names do not (the host's users are not the image's). Socket entries are
 * passed over, an entry of unknown type is refused.
 */
#ifndef SP_IMAGE_LAYER_H
#define SP_IMAGE_LAYER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "image/ext4.h"
#include "image/stream.h"
#include "image/tarball.h"

struct sp_layers {
	struct sp_ext4 *x;
	struct sp_pulse *pulse;
	int64_t max_bytes, max_entries; /* over all layers */
	int64_t bytes, entries;         /* so far */
	unsigned int count;             /* layers begun */
};

/* Most bytes of tar that content and entries within the bounds can have: for sp_tarball_want. */
int64_t sp_layers_max_tar(const struct sp_layers *l);

/* whiteouts: a layer; else every name means itself. The tarball is not ended here. */
int sp_layer_apply(struct sp_layers *l, struct sp_tarball *t, bool whiteouts, struct sp_err *e);

#endif
