/* SPDX-License-Identifier: Apache-2.0 */
/* The folders and names of an image while it is being unpacked, in memory.
 *
 * Folders are written to the disk once, at the end: so a whiteout, an opaque folder or a file in
 * the place of a folder costs nothing, big folders are not searched block by block, and no path of
 * an archive is ever looked up anywhere but here. Symbolic links are followed here too, with the
 * image's root as their "/", so that an entry "lib/x" below lib -> usr/lib lands where the image
 * means it, and nothing lands outside.
 *
 * Contract: nodes belong to their struct sp_nodes and are freed with it. Memory is bounded by the
 * caller's cap; sp_node_add fails with SP_FAIL when it is reached.
 */
#ifndef SP_IMAGE_NODE_H
#define SP_IMAGE_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SP_NODE_NAME 255
#define SP_NODE_PATH 4096 /* longest name of an entry, as PATH_MAX */
#define SP_NODE_DEPTH 512 /* deepest folder */
#define SP_NODE_LINKS 40  /* symbolic links on one way, as Linux */

enum sp_node_type { SP_NODE_DIR, SP_NODE_LINK, SP_NODE_OTHER };

struct sp_node {
	struct sp_node *parent, *chain; /* chain: of the hash table */
	struct sp_node *first, *last;   /* children of a folder */
	struct sp_node *next, *prev;    /* siblings, in the order they came */
	char *target;                   /* of a symbolic link */
	uint32_t ino;
	uint16_t layer; /* which layer made or named it last */
	uint16_t depth;
	uint8_t type;
	uint8_t kind; /* the directory entry's file type, the caller's business */
	uint8_t len;
	char name[];
};

struct sp_nodes;

struct sp_nodes *sp_nodes_new(size_t max_bytes, uint32_t root_ino);
void sp_nodes_free(struct sp_nodes **t);
struct sp_node *sp_nodes_root(struct sp_nodes *t);
size_t sp_nodes_bytes(const struct sp_nodes *t);

struct sp_node *sp_node_find(const struct sp_nodes *t, const struct sp_node *dir, const char *name,
			     size_t n);
/* Adds a name that is not there yet; target for SP_NODE_LINK. */
struct sp_node *sp_node_add(struct sp_nodes *t, struct sp_node *dir, const char *name, size_t n,
			    enum sp_node_type type, const char *target, struct sp_err *e);
void sp_node_remove(struct sp_nodes *t, struct sp_node *n); /* no children left, not the root */
/* Depth first, children before their folder; start with NULL, ends with top itself, then NULL. */
struct sp_node *sp_node_after(const struct sp_node *top, struct sp_node *n);

/* Where an entry's name leads. */
struct sp_place {
	struct sp_node *dir;  /* the folder it lies in; missing ones were made by mkdir */
	struct sp_node *node; /* what is there now, or NULL; the last component is not followed */
	char name[SP_NODE_NAME + 1]; /* "" where it is a way only ("./", "a/."): node is dir */
};

struct sp_node_walk {
	struct sp_nodes *nodes;
	/* Makes a folder that the way needs; NULL: none is made, to look only. */
	struct sp_node *(*mkdir)(void *arg, struct sp_node *dir, const char *name,
				 struct sp_err *e);
	void *arg;
};

/* 1 found the place, 0 mkdir is NULL and a folder on the way is missing or no folder, -1 the name
 * is refused: "..", a component or path too long, a file where a folder must be, a loop of links. A
 * leading "/" and "." components mean nothing. */
int sp_node_place(const struct sp_node_walk *w, const char *path, struct sp_place *out,
		  struct sp_err *e);

#endif
