/* SPDX-License-Identifier: Apache-2.0 */
/* Between the parts of image/ext4.h; no one else includes this. */
#ifndef SP_IMAGE_EXT4_IN_H
#define SP_IMAGE_EXT4_IN_H

#include <et/com_err.h>
#include <ext2fs/ext2fs.h>

#include "image/ext4.h"
#include "image/node.h"

/* A file that is being written. Bytes gather in run until a hole, a full buffer or the end. */
struct sp_ext4_file {
	struct ext2_inode_large inode;
	ext2_ino_t ino;
	ext2_extent_handle_t extents;
	struct ext2fs_extent last; /* not yet inserted; e_len 0: none */
	unsigned char *run;
	blk64_t run_at;     /* logical block where run begins */
	size_t run_n;       /* bytes in it */
	int64_t size, done; /* done: where the next byte may go at the earliest */
	const struct sp_ext4_meta *meta;
};

struct sp_ext4 {
	ext2_filsys fs;
	struct sp_nodes *nodes;
	struct sp_node_walk walk;
	unsigned int layer;
	blk64_t free_first; /* blocks that were free at the beginning */
	blk64_t goal;       /* where to look for free blocks */
	bool freed;         /* blocks were given back that had been written */
	bool writing;
	struct sp_ext4_file file;
	int64_t big_folder;
	unsigned char *block; /* one block */
};

#define SP_EXT4_BLOCK 4096u
#define SP_EXT4_INODE 256u
#define SP_EXT4_RUN (1u << 20)

extern struct struct_io_manager sp_ext4_io; /* over a descriptor, uncached */

/* Turns libext2fs's code into ours: no room in the image, no room on the host, or "<what>: …". */
int sp_ext4_fail(const struct sp_ext4 *x, errcode_t code, const char *what, struct sp_err *e);

/* ext4_inode.c */
void sp_ext4_inode_init(struct ext2_inode_large *inode, const struct sp_ext4_meta *m);
int sp_ext4_inode_new(struct sp_ext4 *x, struct ext2_inode_large *inode, ext2_ino_t *ino,
		      struct sp_err *e);
/* Writes all of it and gives it m's extended attributes (m may be NULL); it must have none. */
int sp_ext4_inode_put(struct sp_ext4 *x, ext2_ino_t ino, struct ext2_inode_large *inode,
		      const struct sp_ext4_meta *m, struct sp_err *e);
/* One link less; the last one frees blocks and inode. */
int sp_ext4_inode_drop(struct sp_ext4 *x, ext2_ino_t ino, struct sp_err *e);
/* Sets the link count, and keeps what lies behind the fields. */
int sp_ext4_links_put(struct sp_ext4 *x, ext2_ino_t ino, struct ext2_inode_large *inode, int links,
		      struct sp_err *e);
int sp_ext4_xattrs_clear(struct sp_ext4 *x, ext2_ino_t ino, struct ext2_inode_large *inode,
			 struct sp_err *e);
int sp_ext4_xattrs_put(struct sp_ext4 *x, ext2_ino_t ino, const struct sp_ext4_meta *m,
		       struct sp_err *e);

/* ext4_file.c */
int sp_ext4_file_open(struct sp_ext4 *x, const struct sp_ext4_meta *m, int64_t size,
		      struct sp_err *e);
int sp_ext4_blocks_take(struct sp_ext4 *x, blk64_t want, blk64_t *at, blk64_t *got,
			struct sp_err *e);

/* Of x->file: the extent is kept until one comes that does not continue it, or flush. */
int sp_ext4_extent_add(struct sp_ext4 *x, blk64_t logical, blk64_t at, blk64_t n, struct sp_err *e);
int sp_ext4_extent_flush(struct sp_ext4 *x, struct sp_err *e);

/* ext4_dir.c */
int sp_ext4_dirs_load(struct sp_ext4 *x, struct sp_err *e); /* what mke2fs made: lost+found */
int sp_ext4_dirs_write(struct sp_ext4 *x, struct sp_err *e);

#endif
