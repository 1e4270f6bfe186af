/* SPDX-License-Identifier: Apache-2.0 */
/* Folders: each is written once, when every name is known. Blocks hold entries in the order they
 * came; e2fsck -D makes an index for those that are large (see image/mkfs.h). */
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "image/ext4_in.h"

#define TAIL 12u /* ext2_dir_entry_tail, the block's checksum */
#define LINK_MAX_EXT4 65000
#define LOST_FOUND "lost+found"

/* A folder being laid out: entries go into the block until one does not fit. */
struct layout {
	struct sp_ext4 *x;
	ext2_ino_t ino;
	bool count_only; /* the first pass: how many blocks */
	uint32_t blocks; /* done */
	size_t used;     /* bytes of the block in x->block */
	struct ext2_dir_entry *last;
	blk64_t at, left; /* of the run of blocks that was taken */
	uint32_t want;    /* blocks in all, in the second pass */
};

static size_t entry_size(size_t len)
{
	return (8 + len + 3) & ~(size_t)3;
}

static int block_out(struct layout *l, struct sp_err *e)
{
	struct sp_ext4 *x = l->x;
	errcode_t rc;

	if (!l->count_only) {
		if (!l->left) {
			if (sp_ext4_blocks_take(x, l->want - l->blocks, &l->at, &l->left, e) < 0 ||
			    sp_ext4_extent_add(x, l->blocks, l->at, l->left, e) < 0)
				return -1;
		}
		l->last->rec_len = (uint16_t)(l->last->rec_len + SP_EXT4_BLOCK - TAIL - l->used);
		ext2fs_initialize_dirent_tail(x->fs, EXT2_DIRENT_TAIL(x->block, x->fs->blocksize));
		rc = ext2fs_write_dir_block4(x->fs, l->at, x->block, 0, l->ino);
		if (rc)
			return sp_ext4_fail(x, rc, "write a folder", e);
		l->at++;
		l->left--;
		memset(x->block, 0, SP_EXT4_BLOCK);
	}
	l->blocks++;
	l->used = 0;
	return 0;
}

static int entry_out(struct layout *l, ext2_ino_t ino, const char *name, size_t len, int kind,
		     struct sp_err *e)
{
	size_t n = entry_size(len);

	if (l->used + n > SP_EXT4_BLOCK - TAIL && block_out(l, e) < 0)
		return -1;
	if (!l->count_only) {
		struct ext2_dir_entry *d = (void *)(l->x->block + l->used);

		d->inode = ino;
		d->rec_len = (uint16_t)n;
		ext2fs_dirent_set_name_len(d, (int)len);
		ext2fs_dirent_set_file_type(d, kind);
		memcpy(d->name, name, len);
		l->last = d;
	}
	l->used += n;
	return 0;
}

static int entries_out(struct layout *l, const struct sp_node *dir, struct sp_err *e)
{
	ext2_ino_t up = dir->parent ? dir->parent->ino : dir->ino;

	if (entry_out(l, dir->ino, ".", 1, EXT2_FT_DIR, e) < 0 ||
	    entry_out(l, up, "..", 2, EXT2_FT_DIR, e) < 0)
		return -1;
	for (const struct sp_node *c = dir->first; c; c = c->next)
		if (entry_out(l, c->ino, c->name, c->len, c->kind, e) < 0)
			return -1;
	return block_out(l, e);
}

static int subfolders(const struct sp_node *dir)
{
	int n = 0;

	for (const struct sp_node *c = dir->first; c; c = c->next)
		n += c->type == SP_NODE_DIR;
	return n;
}

static int dir_write(struct sp_ext4 *x, const struct sp_node *dir, struct sp_err *e)
{
	struct layout l = { .x = x, .ino = dir->ino, .count_only = true };
	struct sp_ext4_file *f = &x->file;
	int subs = subfolders(dir);
	errcode_t rc;

	if (entries_out(&l, dir, e) < 0)
		return -1;
	l = (struct layout){ .x = x, .ino = dir->ino, .want = l.blocks };
	rc = ext2fs_read_inode_full(x->fs, dir->ino, EXT2_INODE(&f->inode), sizeof f->inode);
	if (!rc && f->inode.i_size) /* one that mke2fs made */
		rc = ext2fs_punch(x->fs, dir->ino, EXT2_INODE(&f->inode), NULL, 0, ~0ULL);
	if (!rc)
		rc = ext2fs_inode_size_set(x->fs, EXT2_INODE(&f->inode),
					   (uint64_t)l.want * SP_EXT4_BLOCK);
	if (!rc)
		rc = ext2fs_extent_open2(x->fs, dir->ino, EXT2_INODE(&f->inode), &f->extents);
	if (rc)
		return sp_ext4_fail(x, rc, "begin a folder", e);
	f->last.e_len = 0;
	x->writing = true;
	memset(x->block, 0, SP_EXT4_BLOCK);
	if (entries_out(&l, dir, e) < 0 || sp_ext4_extent_flush(x, e) < 0)
		return -1;
	ext2fs_extent_free(f->extents);
	x->writing = false;
	ext2fs_iblk_add_blocks(x->fs, EXT2_INODE(&f->inode), l.want);
	if (x->big_folder < (int64_t)l.want * SP_EXT4_BLOCK)
		x->big_folder = (int64_t)l.want * SP_EXT4_BLOCK;
	/* dir_nlink: 1 stands for more than can be counted */
	return sp_ext4_links_put(x, dir->ino, &f->inode, subs + 2 > LINK_MAX_EXT4 ? 1 : subs + 2,
				 e);
}

int sp_ext4_dirs_load(struct sp_ext4 *x, struct sp_err *e)
{
	struct sp_node *root = sp_nodes_root(x->nodes), *n;
	ext2_ino_t ino;
	errcode_t rc =
		ext2fs_lookup(x->fs, EXT2_ROOT_INO, LOST_FOUND, sizeof LOST_FOUND - 1, NULL, &ino);

	if (rc)
		return sp_ext4_fail(x, rc, "look for " LOST_FOUND, e);
	n = sp_node_add(x->nodes, root, LOST_FOUND, sizeof LOST_FOUND - 1, SP_NODE_DIR, NULL, e);
	if (!n)
		return -1;
	n->ino = ino;
	n->kind = EXT2_FT_DIR;
	return 0;
}

int sp_ext4_dirs_write(struct sp_ext4 *x, struct sp_err *e)
{
	const struct sp_ext4_meta m = { .mode = S_IFDIR | 0700 };
	struct sp_node *root = sp_nodes_root(x->nodes), *n;

	/* an image may have hidden or replaced it; e2fsck wants its folder */
	n = sp_node_find(x->nodes, root, LOST_FOUND, sizeof LOST_FOUND - 1);
	if ((!n || n->type != SP_NODE_DIR) && sp_ext4_dir(x, LOST_FOUND, &m, e) < 0)
		return -1;
	for (n = sp_node_after(root, NULL); n; n = sp_node_after(root, n))
		if (n->type == SP_NODE_DIR && dir_write(x, n, e) < 0)
			return -1;
	return 0;
}
