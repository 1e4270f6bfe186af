/* SPDX-License-Identifier: Apache-2.0 */
/* The named parts of an image (documents, layers), wherever they are kept.
 *
 * Names are those of an image layout: "index.json", "blobs/sha256/<hex>"; a docker archive's own;
 * or, of a registry, "manifests/<tag or digest>" beside the blobs. What comes is not checked here.
 *
 * Contract: one part is open at a time; its stream is good until close or the next open.
 */
#ifndef SP_IMAGE_BLOBS_H
#define SP_IMAGE_BLOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "image/stream.h"

struct sp_blobs {
	int (*open)(struct sp_blobs *b, const char *name, struct sp_stream **out, struct sp_err *e);
	/* The stream is done with; tells when it broke off before its end. */
	int (*close)(struct sp_blobs *b, struct sp_err *e);
	void (*free)(struct sp_blobs *b);
	/* SP_ABSENT is an answer like any other. */
};
void sp_blobs_free(struct sp_blobs **b);
#define sp_auto_blobs __attribute__((cleanup(sp_blobs_free))) struct sp_blobs

/* Asked of the supplier on the other side of a socket (image/msg.h). */
struct sp_blobs *sp_blobs_ask(int sock);

/* Members of an uncompressed tar: bytes [at, at + n) of a file. Symbolic and hard links among the
 * members are followed, once. */
struct sp_blobs *sp_blobs_tar(int fd, int64_t at, int64_t n, struct sp_err *e);
bool sp_blobs_tar_has(const struct sp_blobs *b, const char *name);

/* Reads one part whole; not more than max bytes. */
int sp_blobs_slurp(struct sp_blobs *b, const char *name, size_t max, struct sp_str *out,
		   struct sp_err *e);

#endif
