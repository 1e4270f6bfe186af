/* SPDX-License-Identifier: Apache-2.0 */
/* What an image says about running it: {"env":["K=V"],"user":"","workdir":"","entrypoint":[],
 * "cmd":[],"ports":["80/tcp"],"source":"…","digest":"sha256:…"?}.
 *
 * The unpacking side makes it of an image's own config, the parent makes it once more of what the
 * unpacking side sent: both through the same checks, so that a text that is passed on has no NUL,
 * a bounded length and the right shape, whoever wrote it.
 */
#ifndef SP_IMAGE_CONFIG_H
#define SP_IMAGE_CONFIG_H

#include <stddef.h>

#include "base/err.h"
#include "text/json.h"

#define SP_CONFIG_MAX (64 * 1024) /* bytes as JSON */

struct sp_json *sp_config_new(void); /* with every list and text empty */
/* Of "config" in an image's configuration (OCI image specification, config.md); NULL gives the
 * empty one. Env entries without "=" and malformed ports are left out, the rest is SP_FAIL. */
struct sp_json *sp_config_from_oci(const struct sp_json *config, struct sp_err *e);
/* Of text in our own shape, which is checked and copied key by key. */
struct sp_json *sp_config_parse(const char *text, size_t n, struct sp_err *e);

#endif
