/* SPDX-License-Identifier: Apache-2.0 */
/* Guest kernels: store/kernels/<version>/ with vmlinuz, initrd (image/initramfs.h: space-guest as
 * /init, the modules and /modules.order), record.json {"format":1,"version","added",
 * "vmlinuz_bytes","initrd_bytes","modules":[…]}. The host's own boot files are never touched.
 * Packages and modules are taken apart in the confined process (jail/jail.h). */
#ifndef SP_IMAGE_KERNEL_H
#define SP_IMAGE_KERNEL_H

#include "base/err.h"
#include "state/roots.h"
#include "text/json.h"

/* One of: deb (a path), vmlinuz + modules (paths), or all NULL: Debian's cloud kernel by apt
 * (`apt-get download` into a private folder). version[] gets the kernel's release,
 * "6.1.0-37-cloud-amd64".
 * Already there with the same content: fine; with other content (a newer agent): replaced. */
int sp_kernel_add(const struct sp_roots *r, const char *deb, const char *vmlinuz,
		  const char *modules, char version[static 64], struct sp_err *e);
/* Records, oldest version first, each with "default":bool added. */
int sp_kernel_list(const struct sp_roots *r, struct sp_json **array, struct sp_err *e);
/* SP_CONFLICT while a sandbox's record names it. */
int sp_kernel_remove(const struct sp_roots *r, const char *version, struct sp_err *e);
/* The newest installed (version order); SP_HOST "no kernel: space-kernel add" where there is
 * none. */
int sp_kernel_default(const struct sp_roots *r, char version[static 64], struct sp_err *e);

#endif
