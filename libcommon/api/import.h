/* SPDX-License-Identifier: Apache-2.0 */
/* Importing an image, worked in the caller's foreground so that its progress can be shown.
 *
 * The request has the fields of "import" in api/api.h: name, source, size?, cpus?, memory?, warm,
 * auth_file?; a source of "-" is the caller's standard input. The operation is journalled as any
 * other. The answer is the image: {"op","id","name","digest"?,"content_bytes","disk"}; warming it
 * up goes on behind, as another operation. progress (may be NULL) is called a few times a second,
 * with the bytes read so far and what is being done.
 */
#ifndef SP_API_IMPORT_H
#define SP_API_IMPORT_H

#include <stdint.h>

#include "api/api.h"
#include "base/err.h"
#include "text/json.h"

typedef void sp_import_progress(int64_t bytes, const char *what, void *arg);

int sp_api_import(struct sp_api *a, const struct sp_json *request, sp_import_progress *progress,
		  void *arg, struct sp_json **answer, struct sp_err *e);

#endif
