/* SPDX-License-Identifier: Apache-2.0 */
/* Inodes: attributes, extended attributes, allocation and its end. */
#include <errno.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "image/ext4_in.h"
#include "sys/clock.h"

#define LINK_MAX_EXT4 65000

/* Seconds since 1970 as ext4 keeps them: 32 bits and 2 of the epoch (ext4_encode_extra_time in the
 * kernel's ext4.h). */
static void put_time(int64_t sec, uint32_t ns, uint32_t *low, uint32_t *extra)
{
	const int64_t first = INT32_MIN, last = first + ((int64_t)4 << 32) - 1;

	if (sec < first)
		sec = first;
	if (sec > last)
		sec = last;
	*low = (uint32_t)sec;
	*extra = (uint32_t)((uint64_t)(sec - (int32_t)sec) >> 32) & 3;
	*extra |= (ns < 1000000000u ? ns : 0) << 2;
}

void sp_ext4_inode_init(struct ext2_inode_large *inode, const struct sp_ext4_meta *m)
{
	int64_t now = sp_clock_real();

	inode->i_mode = (uint16_t)m->mode;
	inode->i_uid = (uint16_t)m->uid;
	inode->i_gid = (uint16_t)m->gid;
	ext2fs_set_i_uid_high(*inode, (uint16_t)(m->uid >> 16));
	ext2fs_set_i_gid_high(*inode, (uint16_t)(m->gid >> 16));
	inode->i_extra_isize = sizeof *inode - EXT2_GOOD_OLD_INODE_SIZE;
	put_time(m->mtime, m->mtime_ns, &inode->i_mtime, &inode->i_mtime_extra);
	put_time(m->mtime, m->mtime_ns, &inode->i_ctime, &inode->i_ctime_extra);
	put_time(m->mtime, m->mtime_ns, &inode->i_atime, &inode->i_atime_extra);
	put_time(now / 1000000000, (uint32_t)(now % 1000000000), &inode->i_crtime,
		 &inode->i_crtime_extra);
}

int sp_ext4_inode_new(struct sp_ext4 *x, struct ext2_inode_large *inode, ext2_ino_t *ino,
		      struct sp_err *e)
{
	bool dir = S_ISDIR(inode->i_mode);
	errcode_t rc = ext2fs_new_inode(x->fs, EXT2_ROOT_INO, inode->i_mode, NULL, ino);

	if (rc)
		return sp_ext4_fail(x, rc, "find a free inode", e);
	ext2fs_inode_alloc_stats2(x->fs, *ino, 1, dir);
	inode->i_links_count = 1;
	return 0;
}

int sp_ext4_inode_put(struct sp_ext4 *x, ext2_ino_t ino, struct ext2_inode_large *inode,
		      const struct sp_ext4_meta *m, struct sp_err *e)
{
	unsigned char whole[SP_EXT4_INODE] = { 0 };
	errcode_t rc;

	/* all of it: behind the fields may be attributes of a file that was here before */
	memcpy(whole, inode, sizeof *inode);
	rc = ext2fs_write_inode_full(x->fs, ino, (struct ext2_inode *)whole, sizeof whole);
	if (rc)
		return sp_ext4_fail(x, rc, "write an inode", e);
	return m && m->nxattrs ? sp_ext4_xattrs_put(x, ino, m, e) : 0;
}

/* Which may be in an image: labels and trusted attributes are a host's own business. */
static bool xattr_is_kept(const char *name)
{
	return (sp_str_has_prefix(name, "user.") && name[5]) ||
	       !strcmp(name, "security.capability") || !strcmp(name, "system.posix_acl_access") ||
	       !strcmp(name, "system.posix_acl_default");
}

int sp_ext4_xattrs_put(struct sp_ext4 *x, ext2_ino_t ino, const struct sp_ext4_meta *m,
		       struct sp_err *e)
{
	struct ext2_xattr_handle *h = NULL;
	errcode_t rc = ext2fs_xattrs_open(x->fs, ino, &h);

	/* each set is written at once */
	for (size_t i = 0; i < m->nxattrs && !rc; i++)
		if (strlen(m->xattrs[i].name) > XATTR_NAME_MAX)
			rc = ERANGE; /* libext2fs would cut its length to a byte */
		else if (xattr_is_kept(m->xattrs[i].name))
			rc = ext2fs_xattr_set(h, m->xattrs[i].name, m->xattrs[i].value,
					      m->xattrs[i].n);
	if (h)
		ext2fs_xattrs_close(&h);
	if (rc == EXT2_ET_EA_NO_SPACE || rc == EXT2_ET_EA_KEY_NOT_FOUND || rc == ERANGE)
		return sp_fail(e, SP_FAIL, 0, "its extended attributes are too many or too long");
	return rc ? sp_ext4_fail(x, rc, "write extended attributes", e) : 0;
}

static bool has_blocks(const struct ext2_inode_large *inode)
{
	return (inode->i_flags & EXT4_EXTENTS_FL) &&
	       (S_ISREG(inode->i_mode) || S_ISDIR(inode->i_mode) || S_ISLNK(inode->i_mode));
}

/* Takes the extended attributes off, within the inode and behind it. */
int sp_ext4_xattrs_clear(struct sp_ext4 *x, ext2_ino_t ino, struct ext2_inode_large *inode,
			 struct sp_err *e)
{
	errcode_t rc = 0;

	if (ext2fs_file_acl_block(x->fs, EXT2_INODE(inode)))
		rc = ext2fs_free_ext_attr(x->fs, ino, inode);
	return rc ? sp_ext4_fail(x, rc, "free extended attributes", e) : 0;
}

static int free_inode(struct sp_ext4 *x, ext2_ino_t ino, struct ext2_inode_large *inode,
		      struct sp_err *e)
{
	errcode_t rc = 0;

	if (has_blocks(inode)) {
		rc = ext2fs_punch(x->fs, ino, EXT2_INODE(inode), NULL, 0, ~0ULL);
		x->freed = true;
	}
	if (rc)
		return sp_ext4_fail(x, rc, "free a file's blocks", e);
	if (sp_ext4_xattrs_clear(x, ino, inode, e) < 0)
		return -1;
	ext2fs_inode_alloc_stats2(x->fs, ino, -1, S_ISDIR(inode->i_mode));
	memset(inode, 0, sizeof *inode);
	inode->i_dtime = (uint32_t)(sp_clock_real() / 1000000000);
	x->goal = 0; /* there are free blocks before it now */
	return sp_ext4_inode_put(x, ino, inode, NULL, e);
}

int sp_ext4_links_put(struct sp_ext4 *x, ext2_ino_t ino, struct ext2_inode_large *inode, int links,
		      struct sp_err *e)
{
	errcode_t rc;

	if (links > LINK_MAX_EXT4)
		return sp_fail(e, SP_FAIL, 0, "more than %d hard links to one file", LINK_MAX_EXT4);
	inode->i_links_count = (uint16_t)links;
	rc = ext2fs_write_inode_full(x->fs, ino, EXT2_INODE(inode), sizeof *inode);
	return rc ? sp_ext4_fail(x, rc, "write an inode", e) : 0;
}

int sp_ext4_inode_drop(struct sp_ext4 *x, ext2_ino_t ino, struct sp_err *e)
{
	struct ext2_inode_large inode;
	errcode_t rc = ext2fs_read_inode_full(x->fs, ino, EXT2_INODE(&inode), sizeof inode);

	if (rc)
		return sp_ext4_fail(x, rc, "read an inode", e);
	if (S_ISDIR(inode.i_mode) || inode.i_links_count <= 1)
		return free_inode(x, ino, &inode, e);
	return sp_ext4_links_put(x, ino, &inode, inode.i_links_count - 1, e);
}
