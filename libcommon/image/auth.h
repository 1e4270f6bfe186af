/* SPDX-License-Identifier: Apache-2.0 */
/* Registry credentials out of a docker config.json (or containers' auth.json): "auths", each with
 * "auth" (base64 of user:password), "username" and "password", or "identitytoken". Credential
 * helpers are programs and are not run.
 *
 * Contract: the secrets are wiped by sp_auth_free.
 */
#ifndef SP_IMAGE_AUTH_H
#define SP_IMAGE_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "image/ref.h"

#define SP_AUTH_MAX (1 << 20) /* bytes of the file */

struct sp_auth {
	struct sp_str user, password;
	struct sp_str identity; /* a refresh token, instead */
};
#define SP_AUTH_INIT                                                                               \
	{                                                                                          \
		SP_STR_INIT, SP_STR_INIT, SP_STR_INIT                                              \
	}

/* Finds the entry for the reference's registry: 1 found, 0 none, -1 the file is bad. The entry with
 * the longest path that the image lies below wins ("host/team" before "host"). */
int sp_auth_read(const char *text, size_t n, const struct sp_ref *ref, struct sp_auth *out,
		 struct sp_err *e);
void sp_auth_free(struct sp_auth *a);
void sp_str_wipe(struct sp_str *s); /* overwrites, then frees */

/* Appends base64 of the bytes. */
void sp_base64_put(struct sp_str *out, const void *data, size_t n);
bool sp_base64_get(struct sp_str *out, const char *text); /* false: not base64 */

#endif
