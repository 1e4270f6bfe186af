/* SPDX-License-Identifier: Apache-2.0 */
/* The documents that describe an image: index (or manifest list), manifest, config, and the
 * manifest.json of a docker archive. Pure functions over text; every digest, size and media type is
 * checked before it is given out.
 */
#ifndef SP_IMAGE_OCI_H
#define SP_IMAGE_OCI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "image/digest.h"
#include "text/json.h"

#define SP_OCI_DOC_MAX (4 << 20) /* bytes of one document, as registries bound manifests */
#define SP_OCI_LAYERS_MAX 512

struct sp_oci_desc {
	char digest[SP_DIGEST_SIZE];
	int64_t size;
};

enum sp_oci_kind { SP_OCI_INDEX, SP_OCI_MANIFEST };

/* What a document is, from its own fields: one that claims to be both is refused. -1: neither. */
int sp_oci_kind_of(const struct sp_json *doc, struct sp_err *e);

/* The entry of an index that fits: by reference name (annotation, or NULL for any), then
 * linux/amd64. One that says nothing of its platform is taken where no other fits. */
int sp_oci_index_pick(const struct sp_json *index, const char *ref, struct sp_oci_desc *out,
		      struct sp_err *e);

struct sp_oci_manifest {
	struct sp_oci_desc config;
	struct sp_oci_desc layers[SP_OCI_LAYERS_MAX];
	size_t nlayers;
};
int sp_oci_manifest_read(const struct sp_json *doc, struct sp_oci_manifest *out, struct sp_err *e);

struct sp_oci_diffs {
	char id[SP_OCI_LAYERS_MAX][SP_DIGEST_SIZE];
	size_t n;
};
/* diff_ids (one per layer) and our own form of its config (image/config.h; to be freed). */
int sp_oci_config_read(const struct sp_json *doc, size_t nlayers, struct sp_oci_diffs *diffs,
		       struct sp_json **config, struct sp_err *e);

/* A docker archive's manifest.json: the names of config and layers are lent by doc. */
struct sp_docker_manifest {
	const char *config;
	const char *layers[SP_OCI_LAYERS_MAX];
	size_t nlayers;
};
int sp_docker_manifest_read(const struct sp_json *doc, const char *ref,
			    struct sp_docker_manifest *out, struct sp_err *e);

/* A name inside a folder or archive: relative, no "..", no empty part, at most 255 bytes. */
bool sp_oci_name_is_valid(const char *name);

#endif
