/* SPDX-License-Identifier: Apache-2.0 */
#include "api/import.h"

#include "api/table.h"
#include "sandbox/image.h"

int sp_api_import(struct sp_api *a, const struct sp_json *request, sp_import_progress *progress,
		  void *arg, struct sp_json **answer, struct sp_err *e)
{
	*answer = NULL;
	if (sp_api_check(sp_api_find("import"), request, e) < 0)
		return -1;
	return sp_image_import(&a->roots, a->owner, request, progress, arg, answer, e);
}
