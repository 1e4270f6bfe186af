/* SPDX-License-Identifier: Apache-2.0 */
/* libext2fs's way to the disk, over a descriptor that is open already.
 *
 * The library's own manager keeps a small write-back cache, which plain writes of file data beside
 * it would not know of, and asks the device questions that a confined process may not. The kernel's
 * page cache serves here; libext2fs keeps the inode block it works on by itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "image/ext4_in.h"
#include "sys/fd.h"

static int fd_of(io_channel c)
{
	return *(int *)c->private_data;
}

static errcode_t io_open(const char *name, int flags, io_channel *out)
{
	io_channel c = calloc(1, sizeof *c);
	int *fd = malloc(sizeof *fd);

	(void)flags;
	if (!c || !fd) {
		free(c);
		free(fd);
		return EXT2_ET_NO_MEMORY;
	}
	*fd = atoi(name);
	c->magic = EXT2_ET_MAGIC_IO_CHANNEL;
	c->manager = &sp_ext4_io;
	c->name = sp_xstrdup(name);
	c->block_size = 1024;
	c->refcount = 1;
	c->flags = CHANNEL_FLAGS_DISCARD_ZEROES;
	c->private_data = fd;
	*out = c;
	return 0;
}

static errcode_t io_close(io_channel c)
{
	if (--c->refcount > 0)
		return 0;
	free(c->private_data);
	free(c->name);
	free(c);
	return 0;
}

static errcode_t io_set_blksize(io_channel c, int size)
{
	c->block_size = size;
	return 0;
}

/* A negative count is a number of bytes. */
static size_t bytes_of(io_channel c, int count)
{
	return count < 0 ? (size_t) - (int64_t)count : (size_t)count * (size_t)c->block_size;
}

static errcode_t io_read(io_channel c, unsigned long long block, int count, void *data)
{
	size_t n = bytes_of(c, count);
	ssize_t got = sp_fd_pread(fd_of(c), data, n, (off_t)(block * (unsigned)c->block_size));

	if (got < 0)
		return errno;
	memset((char *)data + got, 0, n - (size_t)got);
	return (size_t)got == n ? 0 : EXT2_ET_SHORT_READ;
}

static errcode_t io_write(io_channel c, unsigned long long block, int count, const void *data)
{
	off_t at = (off_t)(block * (unsigned)c->block_size);

	return sp_fd_pwrite(fd_of(c), data, bytes_of(c, count), at) < 0 ? errno : 0;
}

static errcode_t io_read32(io_channel c, unsigned long block, int count, void *data)
{
	return io_read(c, block, count, data);
}

static errcode_t io_write32(io_channel c, unsigned long block, int count, const void *data)
{
	return io_write(c, block, count, data);
}

static errcode_t io_write_byte(io_channel c, unsigned long at, int n, const void *data)
{
	return sp_fd_pwrite(fd_of(c), data, (size_t)n, (off_t)at) < 0 ? errno : 0;
}

static errcode_t io_flush(io_channel c)
{
	(void)c;
	return 0; /* the parent syncs the file once, at the end */
}

static errcode_t io_discard(io_channel c, unsigned long long block, unsigned long long count)
{
	if (fallocate(fd_of(c), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      (off_t)(block * (unsigned)c->block_size),
		      (off_t)(count * (unsigned)c->block_size)) < 0)
		return errno == EOPNOTSUPP ? EXT2_ET_UNIMPLEMENTED : errno;
	return 0;
}

struct struct_io_manager sp_ext4_io = {
	.magic = EXT2_ET_MAGIC_IO_MANAGER,
	.name = "a descriptor",
	.open = io_open,
	.close = io_close,
	.set_blksize = io_set_blksize,
	.read_blk = io_read32,
	.write_blk = io_write32,
	.flush = io_flush,
	.write_byte = io_write_byte,
	.read_blk64 = io_read,
	.write_blk64 = io_write,
	.discard = io_discard,
	.zeroout = io_discard,
};
