/* SPDX-License-Identifier: Apache-2.0 */
/* Writing an ext4 file system with libext2fs: nothing is mounted, no file of the host is made.
 *
 * For the confined process. The disk is a descriptor with an empty file system on it (mke2fs made
 * it). Files are written as they come, in runs of blocks, blocks of zeros becoming holes; folders
 * are kept in memory (image/node.h) and written by sp_ext4_close. libext2fs sits behind this
 * header.
 *
 * Contract: paths are names of archive entries; see sp_node_place for what is refused. A path whose
 * folders are missing gets them (0755, root). What was at the path goes away first, except that a
 * folder over a folder keeps its content and takes the new attributes.
 */
#ifndef SP_IMAGE_EXT4_H
#define SP_IMAGE_EXT4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct sp_xattr {
	const char *name; /* user.*, security.capability, system.posix_acl_access and _default */
	const void *value;
	size_t n;
};

struct sp_ext4_meta {
	mode_t mode; /* type and permissions */
	uint32_t uid, gid;
	int64_t mtime; /* seconds */
	uint32_t mtime_ns;
	uint32_t major, minor; /* of device nodes */
	const struct sp_xattr *xattrs;
	size_t nxattrs;
};

struct sp_ext4_counts {
	int64_t used;       /* bytes in blocks that the content takes */
	int64_t inodes;     /* used */
	int64_t big_folder; /* bytes of the largest folder */
};

struct sp_ext4;

int sp_ext4_open(int fd, size_t max_memory, struct sp_ext4 **out, struct sp_err *e);
/* Writes folders and tables. Frees also on failure. */
int sp_ext4_close(struct sp_ext4 **x, struct sp_ext4_counts *out, struct sp_err *e);
void sp_ext4_drop(struct sp_ext4 **x); /* frees without writing anything more */
#define sp_auto_ext4 __attribute__((cleanup(sp_ext4_drop))) struct sp_ext4

/* Layers count up from 1; a whiteout hides what lower ones made. */
void sp_ext4_layer(struct sp_ext4 *x, unsigned int layer);

int sp_ext4_dir(struct sp_ext4 *x, const char *path, const struct sp_ext4_meta *m,
		struct sp_err *e);
int sp_ext4_symlink(struct sp_ext4 *x, const char *path, const char *target,
		    const struct sp_ext4_meta *m, struct sp_err *e);
/* Device nodes, FIFOs, sockets. */
int sp_ext4_node(struct sp_ext4 *x, const char *path, const struct sp_ext4_meta *m,
		 struct sp_err *e);
/* The target is a path in the image, its last component not followed; it must be there. */
int sp_ext4_hardlink(struct sp_ext4 *x, const char *path, const char *target, struct sp_err *e);
int sp_ext4_whiteout(struct sp_ext4 *x, const char *path, struct sp_err *e); /* the hidden path */
int sp_ext4_opaque(struct sp_ext4 *x, const char *path, struct sp_err *e);   /* of a folder */

/* A regular file: begin, write in ascending offsets (gaps are holes), end. size is final. */
int sp_ext4_begin(struct sp_ext4 *x, const char *path, const struct sp_ext4_meta *m, int64_t size,
		  struct sp_err *e);
int sp_ext4_write(struct sp_ext4 *x, const void *data, size_t n, int64_t at, struct sp_err *e);
int sp_ext4_end(struct sp_ext4 *x, struct sp_err *e);

#endif
