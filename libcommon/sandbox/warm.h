/* SPDX-License-Identifier: Apache-2.0 */
/* Images: finding one, its shape, and keeping it warm. */
#ifndef SP_SANDBOX_WARM_H
#define SP_SANDBOX_WARM_H

#include "base/err.h"
#include "sandbox/model.h"
#include "sandbox/task.h"
#include "text/json.h"

/* An operand that must mean an image: SP_ABSENT, or SP_CONFLICT for something else. The caller
 * frees *meta. */
int sp_image_find(const struct sp_roots *r, const char *owner, const char *operand,
		  char id[static SP_ID_SIZE], struct sp_json **meta, struct sp_err *e);
/* The shape that a request (cpus?, memory?, disk?) asks of an image: checked. */
int sp_image_shape(const struct sp_json *meta, const struct sp_json *request, struct sp_shape *out,
		   struct sp_err *e);
/* The warm checkpoint of a shape; boots the image once when there is none that this host can load,
 * by a warm operation of its own, and waits for it. */
int sp_warm_ensure(const struct sp_roots *r, const char *owner, const char *image,
		   const struct sp_shape *shape, char id[static SP_ID_SIZE], struct sp_err *e);
/* Begins warming and does not wait. */
int sp_warm_begin(const struct sp_roots *r, const char *owner, const char *image,
		  const struct sp_shape *shape, char op[static SP_ID_SIZE], struct sp_err *e);

#endif
