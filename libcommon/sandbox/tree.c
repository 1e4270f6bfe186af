/* SPDX-License-Identifier: Apache-2.0 */
/* Lineage: what came from what. A sandbox hangs below the checkpoint that it was made from, a
 * checkpoint below the sandbox that it was taken of; where that is gone, below the next one that is
 * left on the way to the image. */
#include <stdlib.h>
#include <string.h>

#include "sandbox/list.h"
#include "text/id.h"

struct node {
	const char *id;
	struct sp_json *item;
	long parent, child, last, next; /* indexes, -1 none */
	bool placed;
};

struct tree {
	struct node *node;
	size_t n;
	struct sp_json *out;
};

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct node *)a)->id, ((const struct node *)b)->id);
}

static long find(const struct tree *t, const char *id)
{
	struct node key = { .id = id };
	const struct node *n = id && t->n ? bsearch(&key, t->node, t->n, sizeof key, by_id) : NULL;

	return n ? n - t->node : -1;
}

static long parent_of(const struct tree *t, const struct node *n)
{
	static const char *const keys[] = { "sandbox", "parent", "image" };
	long self = n - t->node;

	for (size_t i = 0; i < SP_NELEM(keys); i++) {
		long p = find(t, sp_json_str(n->item, keys[i]));

		if (p >= 0 && p != self)
			return p;
	}
	return -1;
}

/* Records are files: a loop in them must not become one here. */
static bool is_loop(const struct tree *t, long from)
{
	long at = t->node[from].parent;

	for (size_t steps = 0; at >= 0; steps++) {
		if (at == from || steps > t->n)
			return true;
		at = t->node[at].parent;
	}
	return false;
}

static void place(struct tree *t, long at)
{
	int depth = 0;

	/* Down and to the right without recursion: depth is bounded by the store alone. */
	while (at >= 0) {
		struct node *n = &t->node[at];

		if (!n->placed) {
			n->placed = true;
			sp_json_put_int(n->item, "depth", depth);
			sp_json_push(t->out, n->item);
			if (n->child >= 0) {
				at = n->child;
				depth++;
				continue;
			}
		}
		if (n->next >= 0 && depth > 0) {
			at = n->next;
			continue;
		}
		at = depth > 0 ? n->parent : -1;
		depth--;
	}
}

static void link_children(struct tree *t, const long *order)
{
	for (size_t k = 0; k < t->n; k++) {
		struct node *n = &t->node[order[k]];
		struct node *p;

		if (n->parent < 0)
			continue;
		p = &t->node[n->parent];
		if (p->last >= 0)
			t->node[p->last].next = order[k];
		else
			p->child = order[k];
		p->last = order[k];
	}
}

struct sp_json *sp_list_tree(struct sp_json *take)
{
	struct tree t = { .n = sp_json_len(take), .out = sp_json_new_array() };
	sp_auto_free struct node *nodes = sp_xcalloc(t.n, sizeof *nodes);
	sp_auto_free long *order = sp_xcalloc(t.n, sizeof *order);
	sp_auto_free const char **ids = sp_xcalloc(t.n, sizeof *ids);

	t.node = nodes;
	for (size_t i = 0; i < t.n; i++) {
		nodes[i] = (struct node){ .item = sp_json_take_first(take),
					  .parent = -1,
					  .child = -1,
					  .last = -1,
					  .next = -1 };
		nodes[i].id = sp_json_str(nodes[i].item, "id");
		if (!nodes[i].id)
			nodes[i].id = "";
		ids[i] = nodes[i].id;
	}
	qsort(nodes, t.n, sizeof *nodes, by_id);
	for (size_t i = 0; i < t.n; i++) {
		order[i] = find(&t, ids[i]); /* age, as they came */
		nodes[i].parent = parent_of(&t, &nodes[i]);
		if (is_loop(&t, (long)i))
			nodes[i].parent = -1;
	}
	link_children(&t, order);
	for (size_t k = 0; k < t.n; k++)
		if (nodes[order[k]].parent < 0)
			place(&t, order[k]);
	sp_json_free(&take);
	return t.out;
}
