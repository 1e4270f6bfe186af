/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of e2fsprogs, each run confined on a disk image that it sees as /disk.
 *
 * Features are named one by one, so that neither the host's mke2fs.conf nor a newer release's
 * defaults decide them; all are known to Linux 6.1. The disk stays sparse: inode tables of a fresh
 * sparse file are zero already and are marked so, which also spares the guest's kernel the work of
 * zeroing them. The journal is small and near the start: what the guest writes into it is stored
 * once for every sandbox.
 *
 * Contract: disk_fd is owned by uid meanwhile (sp_mkfs_* change nothing about that).
 */
#ifndef SP_IMAGE_MKFS_H
#define SP_IMAGE_MKFS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

#define SP_MKFS_MIN (64LL << 20)
#define SP_MKFS_MAX (16LL << 40)   /* ext4 with 4 KiB blocks and 32-bit ones in every tool */
#define SP_MKFS_INODE_RATIO 8192   /* bytes of disk for each inode */
#define SP_MKFS_FOLDER_INDEX 65536 /* folders beyond that many bytes get an index */

/* mke2fs's command line for a disk of that many bytes. */
void sp_mkfs_argv(const char *disk, int64_t bytes, const char *argv[static 32]);

int sp_mkfs_make(int disk_fd, uid_t uid, struct sp_err *e); /* as large as the file */
int sp_mkfs_resize(int disk_fd, uid_t uid, int64_t bytes, struct sp_err *e);
/* Checks it (and gives large folders an index first); anything but clean is SP_FAIL. */
int sp_mkfs_check(int disk_fd, uid_t uid, bool index, struct sp_err *e);

/* The size for content that takes used bytes and inodes: used + 25 % + 1 GiB, no less than the
 * inodes need, in whole MiB. */
int64_t sp_mkfs_size_for(int64_t used, int64_t inodes);

#endif
