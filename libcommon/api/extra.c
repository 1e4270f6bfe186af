/* SPDX-License-Identifier: Apache-2.0 */
#include "api/extra.h"

#include "api/doctor.h"
#include "api/import.h"
#include "api/table.h"
#include "image/kernel.h"

static int import(struct sp_api *a, const struct sp_json *request, struct sp_json **answer,
		  struct sp_err *e)
{
	return sp_api_import(a, request, NULL, NULL, answer, e);
}

static int kernel_add(struct sp_api *a, const struct sp_json *request, struct sp_json **answer,
		      struct sp_err *e)
{
	char version[64];

	if (sp_kernel_add(&a->roots, sp_json_str(request, "deb"), sp_json_str(request, "vmlinuz"),
			  sp_json_str(request, "modules"), version, e) < 0)
		return -1;
	*answer = sp_json_new_object();
	sp_json_put_str(*answer, "version", version);
	return 0;
}

static int kernel_ls(struct sp_api *a, const struct sp_json *request, struct sp_json **answer,
		     struct sp_err *e)
{
	struct sp_json *array = NULL;

	(void)request;
	if (sp_kernel_list(&a->roots, &array, e) < 0)
		return -1;
	*answer = sp_json_new_object();
	sp_json_put(*answer, "items", array);
	return 0;
}

static int kernel_rm(struct sp_api *a, const struct sp_json *request, struct sp_json **answer,
		     struct sp_err *e)
{
	if (sp_kernel_remove(&a->roots, sp_json_str(request, "version"), e) < 0)
		return -1;
	*answer = sp_json_new_object();
	sp_json_put_str(*answer, "version", sp_json_str(request, "version"));
	return 0;
}

static int doctor(struct sp_api *a, const struct sp_json *request, struct sp_json **answer,
		  struct sp_err *e)
{
	(void)a;
	(void)request;
	return sp_api_doctor(answer, e);
}

void sp_api_use_extra(void)
{
	sp_api_provide("import", import);
	sp_api_provide("kernel-add", kernel_add);
	sp_api_provide("kernel-ls", kernel_ls);
	sp_api_provide("kernel-rm", kernel_rm);
	sp_api_provide("doctor", doctor);
}
