/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the store: shared by store*.c, seen by nobody else.
 *
 * STATE/ holds .store.lock, and either store/ as a subvolume, or store.img, store.id (the file
 * system's id, text) and store/ as the folder it is mounted on. What makes or changes them holds
 * the lock. Making the image: built as .new-*, its id written, renamed to store.img (the commit).
 * Making what is in the store: every folder, then the file `format` (the commit).
 */
#ifndef SP_VOL_STORE_INT_H
#define SP_VOL_STORE_INT_H

#include <stdbool.h>
#include <stdint.h>

#include "vol/store.h"

#define SP_STORE_DIR "store"
#define SP_STORE_IMG "store.img"
#define SP_STORE_ID "store.id"
#define SP_STORE_LOCK ".store.lock"
#define SP_UUID_SIZE 37

struct sp_place {
	bool elsewhere;   /* our mount namespace is not that of process 1 */
	char seen[4096];  /* STATE's path as we reach it: begins with /proc/1/root when elsewhere */
	const char *path; /* as it is called there: the end of seen */
	int dir;          /* STATE, or -1 */
};

/* store_place.c. Contract: start with dir -1; close dir. */
int sp_place_set(struct sp_place *p, const char *path, struct sp_err *e);
int sp_place_open(struct sp_place *p, bool create, struct sp_err *e); /* SP_ABSENT without create */
/* Mounts and unmounts STATE/store where process 1 sees it. */
int sp_place_mount(const struct sp_place *p, const char *dev, struct sp_err *e);
int sp_place_unmount(const struct sp_place *p, struct sp_err *e);

/* store.c. The store as it is: 1 ready (*fd), 0 not there, not mounted or not whole, -1 error. */
int sp_store_look(const struct sp_place *p, int *fd, struct sp_err *e);
bool sp_store_is_btrfs(int fd);
int sp_store_fs_id(int fd, char id[static SP_UUID_SIZE], struct sp_err *e);
/* Compares a mounted file system with store.id. */
int sp_store_check_id(const struct sp_place *p, int fd, struct sp_err *e);

/* store_make.c. Makes or mounts what is missing, under the lock. */
int sp_store_make(const struct sp_place *p, bool create, int *fd, struct sp_err *e);

/* subvol.c: empties what was renamed away already; subvolumes in it too. */
int sp_vol_empty(int dirfd, const char *name, struct sp_err *e);

/* store_grow.c */
struct sp_room {
	int64_t all, free; /* of the disk that holds STATE, for those without privilege */
	int64_t kept;      /* of free, stays with the host */
};
int sp_room_get(int fd, struct sp_room *out, struct sp_err *e);
void sp_size_text(int64_t bytes, char out[static 16]); /* "1.5 GiB" */
/* Lets the loop device and the file system have all of store.img: what a growth that was cut short
 * did not come to. */
int sp_store_settle(int img, int store, const char *dev, struct sp_err *e);

#endif
