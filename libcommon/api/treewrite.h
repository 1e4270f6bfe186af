/* SPDX-License-Identifier: Apache-2.0 */
/* A tree (guest/tree.h) from a guest, written into a folder here. The stream is a hostile archive:
 *
 * - every record is checked; every path is opened beneath the folder, through no symbolic link
 *   (openat2 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS), so neither a link that the tree made nor one
 *   that was there leads anywhere;
 * - files and links are made under a random hidden name and renamed into place, and only over what
 *   is absent, a file or a link: nothing is written through, no device or fifo is touched;
 * - only folders, files and links; no owners, no setuid or setgid bits;
 * - at most so many bytes and entries.
 *
 * The first error stops it; what was written before stays, and the caller says so.
 */
#ifndef SP_API_TREEWRITE_H
#define SP_API_TREEWRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sp_treewrite;

struct sp_treewrite_how {
	int dir;         /* the folder; stays the caller's */
	const char *top; /* what the tree's top becomes in it; "": the top is the folder itself */
	bool folder;     /* the top must be a folder */
	uint64_t max_bytes, max_entries;
};

struct sp_treewrite *sp_treewrite_new(const struct sp_treewrite_how *how);
void sp_treewrite_free(struct sp_treewrite **w); /* a file that is not whole is removed */
/* The next bytes of the stream, cut anywhere. */
int sp_treewrite_feed(struct sp_treewrite *w, const void *data, size_t n, struct sp_err *e);
/* The stream ended: -1 if it was not whole. */
int sp_treewrite_end(struct sp_treewrite *w, struct sp_err *e);
uint64_t sp_treewrite_entries(const struct sp_treewrite *w);
/* From here on SIGINT, SIGTERM and SIGHUP remove a file that is not whole before they end us. */
void sp_treewrite_tidy_on_signals(void);

#endif
