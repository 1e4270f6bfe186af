/* SPDX-License-Identifier: Apache-2.0 */
#include "image/ext4.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "image/ext4_in.h"
#include "sys/clock.h"

int sp_ext4_fail(const struct sp_ext4 *x, errcode_t code, const char *what, struct sp_err *e)
{
	switch (code) {
	case EXT2_ET_BLOCK_ALLOC_FAIL:
	case EXT2_ET_EXTENT_NO_SPACE:
		return sp_fail(e, SP_FAIL, 0, "the content does not fit in a disk of %llu MiB",
			       (unsigned long long)ext2fs_blocks_count(x->fs->super) >> 8);
	case EXT2_ET_INODE_ALLOC_FAIL:
		return sp_fail(e, SP_FAIL, 0, "a disk of %llu MiB holds no more than %u files",
			       (unsigned long long)ext2fs_blocks_count(x->fs->super) >> 8,
			       x->fs->super->s_inodes_count);
	case EXT2_ET_NO_MEMORY:
		return sp_fail(e, SP_FAIL, 0, "%s: out of memory", what);
	case ENOSPC:
	case EDQUOT:
		return sp_fail(e, SP_BUSY, 0, "no room left on the host's disk");
	default:
		break;
	}
	if (code > 0 && code < 4096)
		return sp_fail(e, SP_FAIL, (int)code, "%s", what);
	return sp_fail(e, SP_FAIL, 0, "%s: %s", what, error_message(code));
}

static struct sp_node *make_missing(void *arg, struct sp_node *dir, const char *name,
				    struct sp_err *e);

int sp_ext4_open(int fd, size_t max_memory, struct sp_ext4 **out, struct sp_err *e)
{
	sp_auto_ext4 *x = sp_xcalloc(1, sizeof *x);
	char name[16];
	errcode_t rc;

	initialize_ext2_error_table();
	snprintf(name, sizeof name, "%d", fd);
	rc = ext2fs_open2(name, NULL, EXT2_FLAG_RW | EXT2_FLAG_64BITS, 0, 0, &sp_ext4_io, &x->fs);
	if (!rc)
		rc = ext2fs_read_bitmaps(x->fs);
	if (rc) {
		return sp_fail(e, SP_FAIL, 0, "open the new file system: %s", error_message(rc));
	}
	if (x->fs->blocksize != SP_EXT4_BLOCK || EXT2_INODE_SIZE(x->fs->super) != SP_EXT4_INODE ||
	    !ext2fs_has_feature_extents(x->fs->super) ||
	    !ext2fs_has_feature_metadata_csum(x->fs->super))
		return sp_fail(e, SP_FAIL, 0, "the new file system is of another kind");
	x->fs->flags &= ~EXT2_FLAG_MASTER_SB_ONLY;
	x->free_first = ext2fs_free_blocks_count(x->fs->super);
	x->nodes = sp_nodes_new(max_memory, EXT2_ROOT_INO);
	x->walk = (struct sp_node_walk){ .nodes = x->nodes, .mkdir = make_missing, .arg = x };
	x->block = sp_xmalloc(SP_EXT4_BLOCK);
	x->layer = 1;
	if (sp_ext4_dirs_load(x, e) < 0)
		return -1;
	*out = sp_take_ptr(&x);
	return 0;
}

void sp_ext4_drop(struct sp_ext4 **xp)
{
	struct sp_ext4 *x = *xp;

	if (!x)
		return;
	if (x->writing)
		ext2fs_extent_free(x->file.extents);
	if (x->fs)
		ext2fs_free(x->fs);
	sp_nodes_free(&x->nodes);
	free(x->file.run);
	free(x->block);
	free(x);
	*xp = NULL;
}

/* Blocks that were written and given back become holes again. */
static int punch_free(struct sp_ext4 *x, struct sp_err *e)
{
	blk64_t n = ext2fs_blocks_count(x->fs->super), from = 0, to;
	errcode_t rc;

	while (from < n &&
	       ext2fs_find_first_zero_block_bitmap2(x->fs->block_map, from, n - 1, &from) == 0) {
		if (ext2fs_find_first_set_block_bitmap2(x->fs->block_map, from, n - 1, &to))
			to = n;
		rc = io_channel_discard(x->fs->io, from, to - from);
		if (rc == EXT2_ET_UNIMPLEMENTED)
			return 0;
		if (rc)
			return sp_ext4_fail(x, rc, "punch holes", e);
		from = to;
	}
	return 0;
}

int sp_ext4_close(struct sp_ext4 **xp, struct sp_ext4_counts *out, struct sp_err *e)
{
	sp_auto_ext4 *x = sp_take_ptr(xp);
	struct ext2_super_block *sb = x->fs->super;
	errcode_t rc;

	if (sp_ext4_dirs_write(x, e) < 0 || (x->freed && punch_free(x, e) < 0))
		return -1;
	out->used =
		((int64_t)x->free_first - (int64_t)ext2fs_free_blocks_count(sb)) * SP_EXT4_BLOCK;
	if (out->used < 0) /* lost+found is written smaller than mke2fs made it */
		out->used = 0;
	out->inodes = (int64_t)sb->s_inodes_count - sb->s_free_inodes_count;
	out->big_folder = x->big_folder;
	rc = ext2fs_flush(x->fs);
	return rc ? sp_ext4_fail(x, rc, "write the file system's tables", e) : 0;
}

void sp_ext4_layer(struct sp_ext4 *x, unsigned int layer)
{
	x->layer = layer;
}

static uint8_t kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return EXT2_FT_DIR;
	case S_IFLNK:
		return EXT2_FT_SYMLINK;
	case S_IFCHR:
		return EXT2_FT_CHRDEV;
	case S_IFBLK:
		return EXT2_FT_BLKDEV;
	case S_IFIFO:
		return EXT2_FT_FIFO;
	case S_IFSOCK:
		return EXT2_FT_SOCK;
	default:
		return EXT2_FT_REG_FILE;
	}
}

static struct sp_node *name_add(struct sp_ext4 *x, struct sp_node *dir, const char *name,
				ext2_ino_t ino, mode_t mode, const char *target, struct sp_err *e)
{
	enum sp_node_type type = S_ISDIR(mode)   ? SP_NODE_DIR
				 : S_ISLNK(mode) ? SP_NODE_LINK
						 : SP_NODE_OTHER;
	struct sp_node *n = sp_node_add(x->nodes, dir, name, strlen(name), type, target, e);

	if (n) {
		n->ino = ino;
		n->kind = kind_of(mode);
		n->layer = (uint16_t)x->layer;
	}
	return n;
}

static int name_drop(struct sp_ext4 *x, struct sp_node *n, struct sp_err *e)
{
	if (sp_ext4_inode_drop(x, n->ino, e) < 0)
		return -1;
	sp_node_remove(x->nodes, n);
	return 0;
}

/* Removes a file, or a folder with everything below it. */
static int drop_all(struct sp_ext4 *x, struct sp_node *top, struct sp_err *e)
{
	struct sp_node *n, *next;

	for (n = sp_node_after(top, NULL); n; n = next) {
		next = sp_node_after(top, n);
		if (name_drop(x, n, e) < 0)
			return -1;
	}
	return 0;
}

static struct sp_node *dir_add(struct sp_ext4 *x, struct sp_node *dir, const char *name,
			       const struct sp_ext4_meta *m, struct sp_err *e)
{
	struct ext2_inode_large inode = { 0 };
	ext2_ino_t ino;

	sp_ext4_inode_init(&inode, m);
	if (sp_ext4_inode_new(x, &inode, &ino, e) < 0 ||
	    sp_ext4_inode_put(x, ino, &inode, m, e) < 0)
		return NULL;
	return name_add(x, dir, name, ino, S_IFDIR, NULL, e);
}

static struct sp_node *make_missing(void *arg, struct sp_node *dir, const char *name,
				    struct sp_err *e)
{
	struct sp_ext4_meta m = { .mode = S_IFDIR | 0755, .mtime = sp_clock_real() / 1000000000 };

	return dir_add(arg, dir, name, &m, e);
}

/* Finds the place of a new file that is no folder and clears it. */
static int take_place(struct sp_ext4 *x, const char *path, struct sp_place *p, struct sp_err *e)
{
	if (sp_node_place(&x->walk, path, p, e) < 0)
		return -1;
	if (!p->name[0])
		return sp_fail(e, SP_FAIL, 0,
			       "entry '%.200s': it would replace a folder that is a "
			       "way only",
			       path);
	return p->node ? drop_all(x, p->node, e) : 0;
}

static int dir_change(struct sp_ext4 *x, struct sp_node *n, const struct sp_ext4_meta *m,
		      struct sp_err *e)
{
	struct ext2_inode_large inode;
	errcode_t rc = ext2fs_read_inode_full(x->fs, n->ino, EXT2_INODE(&inode), sizeof inode);

	if (rc)
		return sp_ext4_fail(x, rc, "read an inode", e);
	if (sp_ext4_xattrs_clear(x, n->ino, &inode, e) < 0)
		return -1;
	sp_ext4_inode_init(&inode, m);
	n->layer = (uint16_t)x->layer;
	return sp_ext4_inode_put(x, n->ino, &inode, m, e);
}

int sp_ext4_dir(struct sp_ext4 *x, const char *path, const struct sp_ext4_meta *m, struct sp_err *e)
{
	struct sp_place p;

	if (sp_node_place(&x->walk, path, &p, e) < 0)
		return -1;
	if (p.node && p.node->type == SP_NODE_DIR)
		return dir_change(x, p.node, m, e);
	if (p.node && drop_all(x, p.node, e) < 0)
		return -1;
	return dir_add(x, p.dir, p.name, m, e) ? 0 : -1;
}

int sp_ext4_symlink(struct sp_ext4 *x, const char *path, const char *target,
		    const struct sp_ext4_meta *m, struct sp_err *e)
{
	size_t n = strlen(target);
	struct sp_place p;
	ext2_ino_t ino;

	if (!n || n >= SP_EXT4_BLOCK)
		return sp_fail(e, SP_FAIL, 0, "entry '%.200s': a symbolic link of %zu bytes", path,
			       n);
	if (take_place(x, path, &p, e) < 0)
		return -1;
	if (n < sizeof x->file.inode.i_block) { /* short ones lie in the inode */
		struct ext2_inode_large inode = { 0 };

		sp_ext4_inode_init(&inode, m);
		inode.i_size = (uint32_t)n;
		memcpy(inode.i_block, target, n);
		if (sp_ext4_inode_new(x, &inode, &ino, e) < 0 ||
		    sp_ext4_inode_put(x, ino, &inode, m, e) < 0)
			return -1;
	} else {
		if (sp_ext4_file_open(x, m, (int64_t)n, e) < 0)
			return -1;
		ino = x->file.ino;
		if (sp_ext4_write(x, target, n, 0, e) < 0 || sp_ext4_end(x, e) < 0)
			return -1;
	}
	return name_add(x, p.dir, p.name, ino, S_IFLNK, target, e) ? 0 : -1;
}

int sp_ext4_node(struct sp_ext4 *x, const char *path, const struct sp_ext4_meta *m,
		 struct sp_err *e)
{
	struct ext2_inode_large inode = { 0 };
	struct sp_place p;
	ext2_ino_t ino;

	if (take_place(x, path, &p, e) < 0)
		return -1;
	sp_ext4_inode_init(&inode, m);
	if (S_ISCHR(m->mode) || S_ISBLK(m->mode)) {
		if (m->major >= 1u << 12 || m->minor >= 1u << 20)
			return sp_fail(e, SP_FAIL, 0, "entry '%.200s': no device number", path);
		if (m->major < 256 && m->minor < 256)
			inode.i_block[0] = m->major << 8 | m->minor;
		else
			inode.i_block[1] =
				(m->minor & 0xff) | m->major << 8 | (m->minor & ~0xffu) << 12;
	}
	if (sp_ext4_inode_new(x, &inode, &ino, e) < 0 ||
	    sp_ext4_inode_put(x, ino, &inode, m, e) < 0)
		return -1;
	return name_add(x, p.dir, p.name, ino, m->mode, NULL, e) ? 0 : -1;
}

int sp_ext4_hardlink(struct sp_ext4 *x, const char *path, const char *target, struct sp_err *e)
{
	struct sp_node_walk look = { .nodes = x->nodes };
	struct ext2_inode_large inode;
	struct sp_place from, to;
	struct sp_node *n;
	errcode_t rc;

	if (sp_node_place(&look, target, &from, e) < 0)
		return sp_wrap(e, "hard link '%.100s'", path);
	if (!from.node)
		return sp_fail(e, SP_FAIL, 0, "hard link '%.200s': there is no '%.200s'", path,
			       target);
	if (from.node->type == SP_NODE_DIR)
		return sp_fail(e, SP_FAIL, 0, "hard link '%.200s': '%.200s' is a folder", path,
			       target);
	if (sp_node_place(&x->walk, path, &to, e) < 0)
		return -1;
	if (to.node == from.node)
		return 0;
	rc = ext2fs_read_inode_full(x->fs, from.node->ino, EXT2_INODE(&inode), sizeof inode);
	if (rc)
		return sp_ext4_fail(x, rc, "read an inode", e);
	/* counted before what is in the way goes: that may be the target's own folder */
	if (sp_ext4_links_put(x, from.node->ino, &inode, inode.i_links_count + 1, e) < 0)
		return -1;
	n = name_add(x, to.dir, to.name, from.node->ino, inode.i_mode, from.node->target, e);
	if (!n)
		return -1;
	return to.node ? drop_all(x, to.node, e) : 0;
}

/* Removes what layers below this one made, at and below top; what this one named stays, and the
 * folders on the way to it. */
static int drop_older(struct sp_ext4 *x, struct sp_node *top, bool top_too, struct sp_err *e)
{
	struct sp_node *n, *next;

	for (n = sp_node_after(top, NULL); n; n = next) {
		next = sp_node_after(top, n);
		if ((n != top || top_too) && n->layer < x->layer && !n->first &&
		    name_drop(x, n, e) < 0)
			return -1;
	}
	return 0;
}

int sp_ext4_whiteout(struct sp_ext4 *x, const char *path, struct sp_err *e)
{
	struct sp_node_walk look = { .nodes = x->nodes };
	struct sp_place p;
	int got = sp_node_place(&look, path, &p, e);

	if (got <= 0 || !p.node)
		return got < 0 ? -1 : 0;
	if (!p.name[0])
		return sp_fail(e, SP_FAIL, 0, "entry '%.200s': a whiteout of a way", path);
	return drop_older(x, p.node, true, e);
}

int sp_ext4_opaque(struct sp_ext4 *x, const char *path, struct sp_err *e)
{
	struct sp_node_walk look = { .nodes = x->nodes };
	struct sp_place p;
	int got = sp_node_place(&look, path, &p, e);

	if (got <= 0 || !p.node || p.node->type != SP_NODE_DIR)
		return got < 0 ? -1 : 0;
	return drop_older(x, p.node, false, e);
}

int sp_ext4_begin(struct sp_ext4 *x, const char *path, const struct sp_ext4_meta *m, int64_t size,
		  struct sp_err *e)
{
	struct sp_place p;

	if (take_place(x, path, &p, e) < 0 || sp_ext4_file_open(x, m, size, e) < 0)
		return -1;
	return name_add(x, p.dir, p.name, x->file.ino, S_IFREG, NULL, e) ? 0 : -1;
}
