/* SPDX-License-Identifier: Apache-2.0 */
/* Files below a folder's descriptor. Names are single components unless a comment says path (or
 * dirfd is AT_FDCWD); no symbolic link is ever followed. Modes are as asked, whatever the umask.
 *
 * Durable replace: random hidden temp in the same folder (O_EXCL), write all, fsync, renameat,
 * fsync of the folder. A crash leaves the old or the new content and perhaps a ".tmp-*" that the
 * next sweep takes.
 */
#ifndef SP_SYS_FS_H
#define SP_SYS_FS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

#define SP_FS_TMP ".tmp-"
#define SP_FS_NEW ".new-"
#define SP_FS_TRASH ".trash-"

int sp_fs_open(int dirfd, const char *name, int flags, mode_t mode, struct sp_err *e);
int sp_fs_open_dir(int dirfd, const char *name, struct sp_err *e); /* O_DIRECTORY|O_NOFOLLOW */
/* openat2 with RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS|RESOLVE_NO_MAGICLINKS; path may have
 * folders. -1, errno. */
int sp_fs_open_beneath(int dirfd, const char *path, int flags, mode_t mode);

int sp_fs_read(int dirfd, const char *name, size_t max, struct sp_str *out, struct sp_err *e);
int sp_fs_replace(int dirfd, const char *name, const void *data, size_t n, mode_t mode,
		  struct sp_err *e);
/* The same, but fails with SP_CONFLICT when the name exists (linkat/renameat2 NOREPLACE). */
int sp_fs_create(int dirfd, const char *name, const void *data, size_t n, mode_t mode,
		 struct sp_err *e);
int sp_fs_mkdir(int dirfd, const char *name, mode_t mode, struct sp_err *e); /* exists: fine */
int sp_fs_mkdir_path(const char *path, mode_t mode, struct sp_err *e);       /* mkdir -p */
/* Without replacing: SP_CONFLICT where b exists. */
int sp_fs_rename_new(int from, const char *a, int to, const char *b, struct sp_err *e);
int sp_fs_unlink(int dirfd, const char *name, struct sp_err *e);   /* absent: fine */
/* Removes a file or a whole tree, never leaving dirfd or crossing to another file system; nested
 * btrfs subvolumes are the caller's to remove first. Absent: fine. */
int sp_fs_remove_tree(int dirfd, const char *name, struct sp_err *e);
int sp_fs_sync_dir(int dirfd, struct sp_err *e);
bool sp_fs_exists(int dirfd, const char *name);
/* prefix (<= 16) and 20 of [a-z0-9] */
void sp_fs_random_name(const char *prefix, char out[static 40]);
int64_t sp_fs_free_bytes(int fd); /* for root, of the file system behind fd; -1 with errno */

/* Calls fn for each entry but . and .., in no order; a return other than 0 stops, and is
 * returned. */
int sp_fs_each(int dirfd, int (*fn)(int dirfd, const char *name, void *arg), void *arg,
	       struct sp_err *e);

/* SP_DENIED where the folder is owned by another than us or root, or writable by others. */
int sp_fs_check_private(int dirfd, const char *what, struct sp_err *e);

#endif
