/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel modules: what a module says of itself, and which ones a guest needs in which order.
 *
 * Names are normalised as modprobe does ('-' is '_', no folder, no suffix). Dependencies come from
 * the modules themselves (.modinfo), not from modules.dep: a package has none before its scripts
 * ran, and they never run here. All of this meets foreign bytes and runs in the confined process.
 */
#ifndef SP_IMAGE_KMOD_H
#define SP_IMAGE_KMOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define SP_KMOD_NAME 64
#define SP_KMOD_MAX 20000 /* modules of one kernel */
#define SP_KMOD_ORDER 64  /* modules of one initramfs */

struct sp_kmod_info {
	char release[64];   /* first word of vermagic */
	char depends[1024]; /* "virtio,virtio_ring" */
};

/* What a module (ELF64, little endian) says; -1 where it is none. */
int sp_kmod_parse(const unsigned char *elf, size_t n, struct sp_kmod_info *out);
/* "kernel/drivers/char/hw_random/virtio-rng.ko.xz" to "virtio_rng"; -1: no module's path. */
int sp_kmod_name(const char *path, char out[static SP_KMOD_NAME]);
/* Release from a bzImage's head (its first 64 KiB will do); -1 where it is none. */
int sp_kernel_release(const unsigned char *head, size_t n, char out[static 64]);

struct sp_kmod {
	char name[SP_KMOD_NAME];
	char *depends;
	off_t at; /* where its bytes are kept */
	size_t size;
	bool taken, visiting;
};

struct sp_kmods {
	struct sp_kmod *mod;
	size_t n, cap;
	char *builtin; /* text of modules.builtin, or NULL */
};

void sp_kmods_free(struct sp_kmods *set);
int sp_kmods_add(struct sp_kmods *set, const char *name, const char *depends, off_t at, size_t size,
		 struct sp_err *e); /* a name that is there already: passed over */
bool sp_kmods_is_builtin(const struct sp_kmods *set, const char *name);
/* Appends the module and, before it, what it needs to order[] (indexes). optional: one that is not
 * there is no error. */
int sp_kmods_order(struct sp_kmods *set, const char *name, bool optional,
		   size_t order[static SP_KMOD_ORDER], size_t *n, struct sp_err *e);

#endif
