/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/engine.h"

#include <stdlib.h>
#include <string.h>

static const struct sp_engine *const engines[] = { &sp_engine_qemu };

const struct sp_engine *sp_engine_find(const char *name)
{
	size_t i;

	for (i = 0; i < SP_NELEM(engines); i++) {
		if (strcmp(engines[i]->name, name) == 0)
			return engines[i];
	}
	return NULL;
}

void sp_vm_command_free(struct sp_vm_command *c)
{
	size_t i;

	for (i = 0; i < SP_NELEM(c->argv); i++)
		free(c->argv[i]);
	for (i = 0; i < SP_NELEM(c->envp); i++)
		free(c->envp[i]);
	memset(c, 0, sizeof *c);
}
