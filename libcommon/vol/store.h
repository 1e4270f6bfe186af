/* SPDX-License-Identifier: Apache-2.0 */
/* The store: a btrfs of ours. libbtrfsutil sits behind this header.
 *
 * SPACE_STATE (default /var/lib/space) on btrfs: STATE/store is a subvolume. Elsewhere: STATE/
 * store.img, fallocated ahead (never sparse), holds a btrfs that is loop-mounted on STATE/store in
 * the mount namespace of process 1, without discard, loop with direct I/O; the first tool that
 * needs
 * it mounts it (also after a reboot), under a flock on STATE/.store.lock. Before anything is
 * written
 * to a found mount its file system id is compared with STATE/store.id. Our own mount namespace may
 * be another: then the store is reached through /proc/1/root.
 */
#ifndef SP_VOL_STORE_H
#define SP_VOL_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "state/roots.h"

#define SP_STORE_FIRST (4LL << 30) /* first size of store.img; SPACE_STORE_SIZE changes it */
#define SP_STORE_RESERVE                                                                           \
	(512LL << 20) /* kept free: below it the store grows or operations are refused */

/* Opens both roots, making and mounting what is missing when create is set; without create, an
 * absent store is SP_ABSENT ("nothing here yet"). Refuses roots that others can write
 * (SP_DENIED). */
int sp_store_open(struct sp_roots *out, bool create, struct sp_err *e);
void sp_roots_close(struct sp_roots *r);
/* Makes sure that `bytes` more can be written: grows the loop file (fallocate, LOOP_SET_CAPACITY,
 * btrfs resize) when the store's free room would fall below the reserve; SP_BUSY with figures when
 * the host's disk cannot give them. */
int sp_store_need(const struct sp_roots *r, int64_t bytes, struct sp_err *e);
/* Unmounts the store and detaches its loop device (for tests and uninstalling); SP_BUSY when in
 * use. */
int sp_store_close_down(const char *state_path, struct sp_err *e);

/* Subvolumes; names are single components below dirfd. */
int sp_vol_create(int dirfd, const char *name, struct sp_err *e);
int sp_vol_snapshot(int from_dirfd, const char *from, int dirfd, const char *name, bool read_only,
		    struct sp_err *e);
int sp_vol_set_read_only(int dirfd, const char *name, bool on, struct sp_err *e);
bool sp_vol_is_subvolume(int dirfd, const char *name);
int sp_vol_delete(int dirfd, const char *name, struct sp_err *e); /* absent: fine; read-only too */
/* Deletes a folder tree that may hold subvolumes; first renamed to .trash-*, which is the
 * commit. */
int sp_vol_remove_tree(int dirfd, const char *name, struct sp_err *e);
int sp_vol_clone_file(int from_fd, int to_fd, struct sp_err *e); /* FICLONE */
/* Bytes of a file by FIEMAP: unique to it, and shared with others. */
int sp_vol_usage(int fd, int64_t *unique, int64_t *shared, struct sp_err *e);
/* Sweeps .new-*, .tmp-*, .trash-* that no live operation owns, in every folder of the store; under
 * the root lock, which the caller holds. */
int sp_store_sweep(const struct sp_roots *r, struct sp_err *e);

#endif
