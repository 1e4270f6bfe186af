/* SPDX-License-Identifier: Apache-2.0 */
/* Loop devices (loop(4), linux/loop.h): attach a file with direct I/O, find, grow, detach. */
#ifndef SP_SYS_LOOP_H
#define SP_SYS_LOOP_H

#include <stddef.h>

#include "base/err.h"

/* Attaches file_fd to a free device with LOOP_CONFIGURE (direct I/O where the file system can,
 * autoclear as asked). dev gets "/dev/loopN"; returns an open descriptor of the device. Makes the
 * device node when devtmpfs has none. */
int sp_loop_attach(int file_fd, int autoclear, char dev[static 32], struct sp_err *e);
/* The device that has this very file (dev + inode): 1 found, 0 none, -1 error. */
int sp_loop_find(int file_fd, char dev[static 32], struct sp_err *e);
int sp_loop_grow(const char *dev, struct sp_err *e); /* LOOP_SET_CAPACITY after the file grew */
int sp_loop_detach(const char *dev, struct sp_err *e);

#endif
