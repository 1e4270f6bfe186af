/* SPDX-License-Identifier: Apache-2.0 */
/* Taking a kernel out of a package or a folder: the body of the confined process, and what it
 * tells. */
#ifndef SP_IMAGE_KUNPACK_H
#define SP_IMAGE_KUNPACK_H

#include <stdint.h>

#include "image/kmod.h"

struct sp_kunpack {
	int deb;             /* the package, or -1: */
	int vmlinuz_in;      /* a kernel, and */
	const char *modules; /* a folder of modules as seen inside */
	int agent;           /* space-guest */
	int vmlinuz, initrd; /* to be written */
	int scratch;         /* an empty file for module bytes */
	int report;          /* pipe: one struct sp_kunpacked */
};

struct sp_kunpacked {
	uint32_t size;
	int32_t code; /* 0, or an enum sp_code with msg */
	char msg[256];
	char release[64];
	uint32_t nmodules;
	char modules[SP_KMOD_ORDER][SP_KMOD_NAME];
};

int sp_kunpack_main(void *arg); /* struct sp_kunpack; for sp_jail_run */
/* The parent's check of what the confined process said: 0, or -1 with its error or "nonsense". */
int sp_kunpacked_check(struct sp_kunpacked *r, struct sp_err *e);

#endif
