/* SPDX-License-Identifier: Apache-2.0 */
/* Importing: a checkpoint of kind image with a disk in it, and a name that means it. Worked in the
 * caller, whose terminal shows the progress; journalled like every operation. */
#ifndef SP_SANDBOX_IMAGE_H
#define SP_SANDBOX_IMAGE_H

#include <stdint.h>

#include "base/err.h"
#include "sandbox/model.h"
#include "sandbox/task.h"
#include "state/roots.h"
#include "text/json.h"

/* request: name, source, size?, cpus?, memory?, warm?, auth_file?, request_id?; a source "-" is
 * descriptor 0. Answers {"op","id","name","digest"?,"content_bytes","disk","warm_op"?}. */
int sp_image_import(const struct sp_roots *r, const char *owner, const struct sp_json *request,
		    void (*progress)(int64_t bytes, const char *what, void *arg), void *arg,
		    struct sp_json **answer, struct sp_err *e);

/* For image_import.c. */
#define SP_IMAGE_STEP (256LL << 20) /* room asked for ahead of what is written */
int sp_image_settings(const struct sp_json *request, struct sp_shape *out, struct sp_err *e);
int sp_image_name(struct sp_task *t, struct sp_err *e);
int sp_image_undo(struct sp_task *t, struct sp_err *e);

#endif
