/* SPDX-License-Identifier: Apache-2.0 */
/* Digests as registries and image layouts write them: "sha256:" and 64 lower-case hexadecimal
 * digits, or "sha512:" and 128 (OCI image specification, descriptor.md). libcrypto sits behind this
 * header.
 *
 * Contract: a struct sp_hash is the caller's from sp_hash_new to sp_hash_free.
 */
#ifndef SP_IMAGE_DIGEST_H
#define SP_IMAGE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

#define SP_DIGEST_SIZE 136 /* "sha512:" + 128 + NUL */

bool sp_digest_is_valid(const char *s);

struct sp_hash;
/* like: a digest whose algorithm is used, or NULL for sha256. */
struct sp_hash *sp_hash_new(const char *like);
void sp_hash_free(struct sp_hash **h);
#define sp_auto_hash __attribute__((cleanup(sp_hash_free))) struct sp_hash
void sp_hash_add(struct sp_hash *h, const void *data, size_t n);
void sp_hash_end(struct sp_hash *h, char out[static SP_DIGEST_SIZE]);

/* Of one piece of memory. */
bool sp_digest_is_of(const char *digest, const void *data, size_t n);

#endif
