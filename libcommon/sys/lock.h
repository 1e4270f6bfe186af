/* SPDX-License-Identifier: Apache-2.0 */
/* Locks. A writer's lock is flock(2) on a file, held as long as the returned descriptor; after
 * taking it the inode is compared with the name's and the open repeated if it was replaced. A
 * life lock is an OFD write lock (fcntl(2), F_OFD_SETLK) on byte 0, so that anyone may ask who
 * lives without taking it. Order between locks: root, then sandboxes by sorted id.
 */
#ifndef SP_SYS_LOCK_H
#define SP_SYS_LOCK_H

#include <stdbool.h>

#include "base/err.h"

/* Creates the file (0600) when absent. wait_ms: -1 for ever, 0 not at all; SP_BUSY when it is held
 * past that ("NAME is held"). Returns the descriptor. */
int sp_lock_take(int dirfd, const char *name, int wait_ms, struct sp_err *e);

/* Opens or creates a life file and locks it; SP_BUSY if another holds it. Returns the
 * descriptor. */
int sp_life_take(int dirfd, const char *name, struct sp_err *e);
/* Asks (F_OFD_GETLK) without taking: 1 held, 0 not held or no such file, -1 error. */
int sp_life_is_held(int dirfd, const char *name, struct sp_err *e);
int sp_life_fd_is_held(int fd); /* same for an open descriptor that does not hold it itself */
int sp_life_fd_take(int fd);    /* locks an open descriptor: 0, or -1 with errno EAGAIN if held */

#endif
