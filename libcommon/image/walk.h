/* SPDX-License-Identifier: Apache-2.0 */
/* A root folder of the host as a pax tar stream.
 *
 * The walker is the one part of an import that is privileged, since it must read every file; so it
 * only reads, and parses nothing. It opens each file below the folder's descriptor without
 * following a link, stays on one file system (a mount point or a btrfs subvolume becomes an empty
 * folder), and passes sockets over. Kept are owners, modes, times, hard links, holes, user.*
 * attributes, file capabilities and access control lists. A file that shrinks meanwhile is filled
 * up with zeros, one that vanishes is left out.
 */
#ifndef SP_IMAGE_WALK_H
#define SP_IMAGE_WALK_H

#include "base/err.h"

int sp_walk_run(int root_fd, int out_fd, struct sp_err *e);

#endif
