/* SPDX-License-Identifier: Apache-2.0 */
/* A file, folder or link here as a tree stream (guest/tree.h), on its way into a guest. Sockets,
 * fifos and devices are passed over; links are kept, not followed. */
#ifndef SP_API_TREEREAD_H
#define SP_API_TREEREAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sp_treeread;

/* path: as the user gave it; a link that it names is read as a link, unless it ends in '/'. */
struct sp_treeread *sp_treeread_new(const char *path, struct sp_err *e);
void sp_treeread_free(struct sp_treeread **r);
/* The next bytes, at most n; 0 at the end. -1: something could not be read, or has changed. */
long sp_treeread_next(struct sp_treeread *r, void *buf, size_t n, struct sp_err *e);
uint64_t sp_treeread_skipped(const struct sp_treeread *r);

#endif
