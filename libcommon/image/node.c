/* SPDX-License-Identifier: Apache-2.0 */
#include "image/node.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sys/clock.h"

struct sp_nodes {
	struct sp_node *root;
	struct sp_node **heads;
	size_t nheads, count; /* nheads is a power of two */
	size_t bytes, max_bytes;
	uint64_t seed; /* an archive cannot choose names that fall into one chain */
};

static size_t node_size(size_t len)
{
	return sizeof(struct sp_node) + len + 1;
}

static uint64_t hash(const struct sp_nodes *t, const struct sp_node *dir, const char *name,
		     size_t n)
{
	uint64_t h = t->seed ^ (uintptr_t)dir;

	for (size_t i = 0; i < n; i++) {
		h ^= (unsigned char)name[i];
		h *= 0x9e3779b97f4a7c15u;
		h ^= h >> 29;
	}
	h ^= h >> 32;
	return h * 0xd6e8feb86659fd93u >> 20;
}

struct sp_nodes *sp_nodes_new(size_t max_bytes, uint32_t root_ino)
{
	struct sp_nodes *t = sp_xcalloc(1, sizeof *t);

	t->max_bytes = max_bytes;
	t->nheads = 1024;
	t->heads = sp_xcalloc(t->nheads, sizeof *t->heads);
	sp_random(&t->seed, sizeof t->seed);
	t->root = sp_xcalloc(1, node_size(0));
	t->root->type = SP_NODE_DIR;
	t->root->ino = root_ino;
	return t;
}

struct sp_node *sp_node_after(const struct sp_node *top, struct sp_node *n)
{
	if (n == top)
		return NULL;
	if (!n)
		n = (struct sp_node *)(uintptr_t)top;
	else if (n->next)
		n = n->next;
	else
		return n->parent;
	while (n->first)
		n = n->first;
	return n;
}

void sp_nodes_free(struct sp_nodes **tp)
{
	struct sp_nodes *t = *tp;
	struct sp_node *n, *next;

	if (!t)
		return;
	for (n = sp_node_after(t->root, NULL); n; n = next) {
		next = sp_node_after(t->root, n);
		free(n->target);
		free(n);
	}
	free(t->heads);
	free(t);
	*tp = NULL;
}

struct sp_node *sp_nodes_root(struct sp_nodes *t)
{
	return t->root;
}

size_t sp_nodes_bytes(const struct sp_nodes *t)
{
	return t->bytes;
}

struct sp_node *sp_node_find(const struct sp_nodes *t, const struct sp_node *dir, const char *name,
			     size_t n)
{
	struct sp_node *c = t->heads[hash(t, dir, name, n) & (t->nheads - 1)];

	while (c && (c->parent != dir || c->len != n || memcmp(c->name, name, n) != 0))
		c = c->chain;
	return c;
}

static void rehash(struct sp_nodes *t)
{
	struct sp_node **old = t->heads, *c, *next;
	size_t n = t->nheads;

	t->nheads *= 2;
	t->heads = sp_xcalloc(t->nheads, sizeof *t->heads);
	for (size_t i = 0; i < n; i++) {
		for (c = old[i]; c; c = next) {
			size_t at = hash(t, c->parent, c->name, c->len) & (t->nheads - 1);

			next = c->chain;
			c->chain = t->heads[at];
			t->heads[at] = c;
		}
	}
	free(old);
}

struct sp_node *sp_node_add(struct sp_nodes *t, struct sp_node *dir, const char *name, size_t n,
			    enum sp_node_type type, const char *target, struct sp_err *e)
{
	size_t size = node_size(n) + sizeof(void *) + (target ? strlen(target) + 1 : 0), at;
	struct sp_node *c;

	if (size > t->max_bytes - t->bytes) {
		sp_fail(e, SP_FAIL, 0, "more names than the %zu MiB kept for them hold",
			t->max_bytes >> 20);
		return NULL;
	}
	if (dir->depth >= SP_NODE_DEPTH) {
		sp_fail(e, SP_FAIL, 0, "folders nested deeper than %d", SP_NODE_DEPTH);
		return NULL;
	}
	if (t->count >= t->nheads)
		rehash(t);
	c = sp_xcalloc(1, node_size(n));
	c->parent = dir;
	c->type = (uint8_t)type;
	c->depth = (uint16_t)(dir->depth + 1);
	c->target = target ? sp_xstrdup(target) : NULL;
	c->len = (uint8_t)n;
	memcpy(c->name, name, n);
	c->prev = dir->last;
	if (dir->last)
		dir->last->next = c;
	else
		dir->first = c;
	dir->last = c;
	at = hash(t, dir, name, n) & (t->nheads - 1);
	c->chain = t->heads[at];
	t->heads[at] = c;
	t->count++;
	t->bytes += size;
	return c;
}

void sp_node_remove(struct sp_nodes *t, struct sp_node *n)
{
	struct sp_node **c = &t->heads[hash(t, n->parent, n->name, n->len) & (t->nheads - 1)];

	while (*c != n)
		c = &(*c)->chain;
	*c = n->chain;
	*(n->prev ? &n->prev->next : &n->parent->first) = n->next;
	*(n->next ? &n->next->prev : &n->parent->last) = n->prev;
	t->count--;
	t->bytes -= node_size(n->len) + sizeof(void *) + (n->target ? strlen(n->target) + 1 : 0);
	free(n->target);
	free(n);
}

/* One walk: what is left to do is a text that links put their targets before. */
struct way {
	const struct sp_node_walk *w;
	struct sp_node *at;
	struct sp_str left;
	size_t pos; /* of the next component in left */
	int links;
	const char *path; /* as given, for messages */
};

static int refuse(const struct way *y, const char *why, struct sp_err *e)
{
	return sp_fail(e, SP_FAIL, 0, "entry '%.200s': %s", y->path, why);
}

/* A link on the way: its target, then what was left. */
static int follow(struct way *y, const struct sp_node *link, struct sp_err *e)
{
	struct sp_str s = SP_STR_INIT;

	if (++y->links > SP_NODE_LINKS)
		return refuse(y, "too many symbolic links on the way", e);
	if (link->target[0] == '/')
		y->at = sp_nodes_root(y->w->nodes);
	sp_str_add(&s, link->target);
	sp_str_addc(&s, '/');
	sp_str_add(&s, y->left.p + y->pos);
	sp_str_free(&y->left);
	y->left = s;
	y->pos = 0;
	return 0;
}

/* The next component: its length (0 at the end), *p its begin; last says whether none follows. */
static size_t next_part(struct way *y, const char **p, bool *last)
{
	size_t n;

	y->pos += strspn(y->left.p + y->pos, "/");
	*p = y->left.p + y->pos;
	n = strcspn(*p, "/");
	y->pos += n;
	*last = strspn(y->left.p + y->pos, "/") == strlen(y->left.p + y->pos);
	return n;
}

/* Goes one component down. 1 went, 0 it is missing, -1 refused. */
static int step(struct way *y, const char *part, size_t n, struct sp_err *e)
{
	struct sp_node *c = sp_node_find(y->w->nodes, y->at, part, n);
	char name[SP_NODE_NAME + 1];

	if (c && c->type == SP_NODE_LINK)
		return follow(y, c, e) < 0 ? -1 : 1;
	if ((!c || c->type != SP_NODE_DIR) && !y->w->mkdir)
		return 0;
	if (c && c->type != SP_NODE_DIR)
		return refuse(y, "it lies below what is no folder", e);
	if (!c) {
		memcpy(name, part, n);
		name[n] = '\0';
		c = y->w->mkdir(y->w->arg, y->at, name, e);
		if (!c)
			return -1;
	}
	y->at = c;
	return 1;
}

static int walk(struct way *y, struct sp_place *out, struct sp_err *e)
{
	const char *part;
	bool last;
	size_t n;
	int got;

	while ((n = next_part(y, &part, &last)) != 0) {
		if (n > SP_NODE_NAME)
			return refuse(y, "a part of the name is longer than 255 bytes", e);
		if (n == 1 && part[0] == '.')
			continue;
		if (n == 2 && part[0] == '.' && part[1] == '.') {
			if (y->at->parent) /* a link's: it may go up, to the root at most */
				y->at = y->at->parent;
			continue;
		}
		if (last) {
			memcpy(out->name, part, n);
			out->name[n] = '\0';
			out->dir = y->at;
			out->node = sp_node_find(y->w->nodes, y->at, part, n);
			return 1;
		}
		got = step(y, part, n, e);
		if (got <= 0)
			return got;
	}
	out->dir = out->node = y->at;
	return 1;
}

/* The archive's own ".." is looked for first: behind a link it would no longer be told apart. */
static bool has_dotdot(const char *s)
{
	for (; *s; s += strcspn(s, "/"), s += strspn(s, "/"))
		if (!strncmp(s, "..", 2) && (s[2] == '/' || !s[2]))
			return true;
	return false;
}

int sp_node_place(const struct sp_node_walk *w, const char *path, struct sp_place *out,
		  struct sp_err *e)
{
	struct way y = { .w = w, .at = sp_nodes_root(w->nodes), .left = SP_STR_INIT, .path = path };
	int got;

	memset(out, 0, sizeof *out);
	if (strlen(path) > SP_NODE_PATH)
		return refuse(&y, "the name is longer than 4096 bytes", e);
	if (has_dotdot(path + strspn(path, "/")))
		return refuse(&y, "'..' in a name", e);
	sp_str_add(&y.left, path);
	got = walk(&y, out, e);
	sp_str_free(&y.left);
	return got;
}
