/* SPDX-License-Identifier: Apache-2.0 */
/* Listing: records as they are shown. Takes no lock and repairs nothing. */
#ifndef SP_SANDBOX_LIST_H
#define SP_SANDBOX_LIST_H

#include <stdbool.h>

#include "base/err.h"
#include "state/roots.h"
#include "text/json.h"

struct sp_list {
	const char *what; /* "sandboxes" (or NULL), "snapshots", "images", "ops" */
	const struct sp_json *ids; /* operands of any kind; NULL or empty: all */
	bool tree;  /* everything, parents before children, each with its "depth" */
	bool bytes; /* with "unique" and "shared" */
};

/* Items: records with "type" ("sandbox", "snapshot", "image", "op"), and a sandbox's "state" as it
 * is now. An array, oldest first; the caller frees. NULL on error: an id that names nothing is
 * SP_ABSENT. */
struct sp_json *sp_list(const struct sp_roots *r, const char *owner, const struct sp_list *how,
			struct sp_err *e);

/* For list.c and tree.c. */
int sp_list_bytes(const struct sp_roots *r, struct sp_json *item, struct sp_err *e);
/* Puts items (an array, taken and given back in a new order) into tree order, with depths. */
struct sp_json *sp_list_tree(struct sp_json *take);

#endif
