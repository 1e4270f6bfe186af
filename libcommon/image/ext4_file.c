/* SPDX-License-Identifier: Apache-2.0 */
/* Files: blocks are taken in runs, blocks of zeros are left out, extents follow each other. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "image/ext4_in.h"

#define EXTENT_MAX 32768u                                  /* blocks in one initialised extent */
#define SIZE_MAX_EXT4 (((int64_t)1 << 44) - SP_EXT4_BLOCK) /* 2^32 blocks less one */

static const unsigned char zeros[SP_EXT4_BLOCK];

int sp_ext4_blocks_take(struct sp_ext4 *x, blk64_t want, blk64_t *at, blk64_t *got,
			struct sp_err *e)
{
	errcode_t rc = ext2fs_new_range(x->fs, 0, x->goal, want, NULL, at, got);

	if (rc)
		return sp_ext4_fail(x, rc, "find free blocks", e);
	ext2fs_block_alloc_stats_range(x->fs, *at, (blk_t)*got, 1);
	x->goal = *at + *got;
	return 0;
}

int sp_ext4_extent_flush(struct sp_ext4 *x, struct sp_err *e)
{
	struct sp_ext4_file *f = &x->file;
	errcode_t rc;

	if (!f->last.e_len)
		return 0;
	rc = ext2fs_extent_insert(f->extents, EXT2_EXTENT_INSERT_AFTER, &f->last);
	if (rc)
		return sp_ext4_fail(x, rc, "add an extent", e);
	f->last.e_len = 0;
	return 0;
}

int sp_ext4_extent_add(struct sp_ext4 *x, blk64_t logical, blk64_t at, blk64_t n, struct sp_err *e)
{
	struct ext2fs_extent *l = &x->file.last;

	if (l->e_len && l->e_lblk + l->e_len == logical && l->e_pblk + l->e_len == at &&
	    l->e_len + n <= EXTENT_MAX) {
		l->e_len += (uint32_t)n;
		return 0;
	}
	if (sp_ext4_extent_flush(x, e) < 0)
		return -1;
	*l = (struct ext2fs_extent){ .e_lblk = logical, .e_pblk = at, .e_len = (uint32_t)n };
	return 0;
}

/* n blocks of data for the logical blocks from `logical` on. */
static int put_blocks(struct sp_ext4 *x, blk64_t logical, const unsigned char *data, size_t n,
		      struct sp_err *e)
{
	blk64_t at, got;
	errcode_t rc;

	while (n) {
		if (sp_ext4_blocks_take(x, n, &at, &got, e) < 0)
			return -1;
		rc = io_channel_write_blk64(x->fs->io, at, (int)got, data);
		if (rc)
			return sp_ext4_fail(x, rc, "write a file", e);
		if (sp_ext4_extent_add(x, logical, at, got, e) < 0)
			return -1;
		ext2fs_iblk_add_blocks(x->fs, EXT2_INODE(&x->file.inode), got);
		logical += got;
		data += got * SP_EXT4_BLOCK;
		n -= got;
	}
	return 0;
}

/* The run goes to the disk, without its blocks of zeros. Its last block is filled up. */
static int run_flush(struct sp_ext4 *x, struct sp_err *e)
{
	struct sp_ext4_file *f = &x->file;
	size_t n = (f->run_n + SP_EXT4_BLOCK - 1) / SP_EXT4_BLOCK, i = 0, from;

	if (!f->run_n)
		return 0;
	memset(f->run + f->run_n, 0, n * SP_EXT4_BLOCK - f->run_n);
	while (i < n) {
		while (i < n && !memcmp(f->run + i * SP_EXT4_BLOCK, zeros, SP_EXT4_BLOCK))
			i++;
		from = i;
		while (i < n && memcmp(f->run + i * SP_EXT4_BLOCK, zeros, SP_EXT4_BLOCK) != 0)
			i++;
		if (i > from &&
		    put_blocks(x, f->run_at + from, f->run + from * SP_EXT4_BLOCK, i - from, e) < 0)
			return -1;
	}
	f->run_at += n;
	f->run_n = 0;
	return 0;
}

/* Begins a file or the text of a long symbolic link; the inode is taken. */
int sp_ext4_file_open(struct sp_ext4 *x, const struct sp_ext4_meta *m, int64_t size,
		      struct sp_err *e)
{
	struct sp_ext4_file *f = &x->file;
	unsigned char *run = f->run ? f->run : sp_xmalloc(SP_EXT4_RUN);
	errcode_t rc;

	memset(f, 0, sizeof *f);
	f->run = run;
	if (size < 0 || size > SIZE_MAX_EXT4)
		return sp_fail(e, SP_FAIL, 0, "a file of %lld bytes is more than ext4 holds",
			       (long long)size);
	f->size = size;
	f->meta = m;
	sp_ext4_inode_init(&f->inode, m);
	if (sp_ext4_inode_new(x, &f->inode, &f->ino, e) < 0)
		return -1;
	rc = ext2fs_inode_size_set(x->fs, EXT2_INODE(&f->inode), (uint64_t)size);
	if (!rc)
		rc = ext2fs_extent_open2(x->fs, f->ino, EXT2_INODE(&f->inode), &f->extents);
	if (rc)
		return sp_ext4_fail(x, rc, "begin a file", e);
	x->writing = true;
	return 0;
}

int sp_ext4_write(struct sp_ext4 *x, const void *data, size_t n, int64_t at, struct sp_err *e)
{
	struct sp_ext4_file *f = &x->file;
	const unsigned char *p = data;
	size_t part;

	if (at < f->done || at > f->size || n > (uint64_t)(f->size - at))
		return sp_fail(e, SP_FAIL, 0, "data outside of its file, or out of order");
	if (at > f->done) { /* a hole: what of it lies in begun blocks is written as zeros */
		int64_t in_run = (int64_t)(f->run_at * SP_EXT4_BLOCK) + (int64_t)f->run_n;
		int64_t edge = (in_run + SP_EXT4_BLOCK - 1) / SP_EXT4_BLOCK * SP_EXT4_BLOCK;

		if (edge > at)
			edge = at;
		memset(f->run + f->run_n, 0, (size_t)(edge - in_run));
		f->run_n += (size_t)(edge - in_run);
		if (edge < at) {
			if (run_flush(x, e) < 0)
				return -1;
			f->run_at = (blk64_t)at / SP_EXT4_BLOCK;
			f->run_n = (size_t)(at % SP_EXT4_BLOCK);
			memset(f->run, 0, f->run_n);
		}
	}
	f->done = at + (int64_t)n;
	for (; n; n -= part, p += part) {
		part = SP_EXT4_RUN - f->run_n < n ? SP_EXT4_RUN - f->run_n : n;
		memcpy(f->run + f->run_n, p, part);
		f->run_n += part;
		if (f->run_n == SP_EXT4_RUN && run_flush(x, e) < 0)
			return -1;
	}
	return 0;
}

int sp_ext4_end(struct sp_ext4 *x, struct sp_err *e)
{
	struct sp_ext4_file *f = &x->file;
	int rc = -1;

	if (run_flush(x, e) == 0 && sp_ext4_extent_flush(x, e) == 0)
		rc = 0;
	ext2fs_extent_free(f->extents);
	f->extents = NULL;
	x->writing = false;
	return rc < 0 ? -1 : sp_ext4_inode_put(x, f->ino, &f->inode, f->meta, e);
}
