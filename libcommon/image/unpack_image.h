/* SPDX-License-Identifier: Apache-2.0 */
/* Images in parts: from documents to layers to the disk. Each part's size and digest is compared
 * with what the document before it said, each layer's digest also unpacked (diff_ids). */
#ifndef SP_IMAGE_UNPACK_IMAGE_H
#define SP_IMAGE_UNPACK_IMAGE_H

#include "base/err.h"
#include "image/blobs.h"
#include "image/layer.h"
#include "text/json.h"

/* *config is replaced. ref NULL: the only image; of a registry never NULL. */
int sp_image_oci(struct sp_layers *l, struct sp_blobs *b, const char *ref, struct sp_json **config,
		 struct sp_err *e);
int sp_image_docker(struct sp_layers *l, struct sp_blobs *b, const char *ref,
		    struct sp_json **config, struct sp_err *e);
int sp_image_registry(struct sp_layers *l, struct sp_blobs *b, const char *ref,
		      struct sp_json **config, struct sp_err *e);

#endif
