/* SPDX-License-Identifier: Apache-2.0 */
/* An initramfs: newc, uncompressed (under emulation the kernel's decompressor costs more than the
 * bytes do), the same bytes for the same content: time 0, owner root, entries in the order given.
 *
 *   /init            the guest agent
 *   /modules/NAME.ko uncompressed
 *   /modules.order   their paths ("/modules/virtio.ko"), one a line, in the order to load them in
 *   /dev /proc /sys  empty folders, and /dev/console
 */
#ifndef SP_IMAGE_INITRAMFS_H
#define SP_IMAGE_INITRAMFS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct sp_initramfs;

struct sp_initramfs *sp_initramfs_begin(int fd, struct sp_err *e);
int sp_initramfs_folder(struct sp_initramfs *w, const char *path, struct sp_err *e);
int sp_initramfs_device(struct sp_initramfs *w, const char *path, unsigned int major,
			unsigned int minor, struct sp_err *e);
int sp_initramfs_file(struct sp_initramfs *w, const char *path, mode_t mode, const void *data,
		      size_t n, struct sp_err *e);
/* n bytes of from, at offset at. */
int sp_initramfs_copy(struct sp_initramfs *w, const char *path, mode_t mode, int from, off_t at,
		      size_t n, struct sp_err *e);
int sp_initramfs_end(struct sp_initramfs **w, struct sp_err *e); /* writes the trailer */
void sp_initramfs_free(struct sp_initramfs **w);

#endif
