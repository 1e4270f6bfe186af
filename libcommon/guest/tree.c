/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define NAME_LONGEST 255 /* what every Linux file system takes */

static void put_le(unsigned char *to, uint64_t v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (unsigned char)(v >> (8 * i));
}

static uint64_t get_le(const unsigned char *from, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v |= (uint64_t)from[i] << (8 * i);
	return v;
}

void sp_tree_pack(const struct sp_tree_record *r, unsigned char out[static SP_TREE_HEADER])
{
	memset(out, 0, SP_TREE_HEADER);
	out[0] = (unsigned char)r->kind;
	put_le(out + 4, r->mode, 4);
	put_le(out + 8, (uint64_t)r->mtime, 8);
	put_le(out + 16, r->size, 8);
	put_le(out + 24, r->path_len, 2);
	put_le(out + 26, r->link_len, 2);
}

int sp_tree_unpack(const unsigned char in[static SP_TREE_HEADER], struct sp_tree_record *r)
{
	r->kind = (char)in[0];
	r->mode = (uint32_t)get_le(in + 4, 4);
	r->mtime = (int64_t)get_le(in + 8, 8);
	r->size = get_le(in + 16, 8);
	r->path_len = (uint16_t)get_le(in + 24, 2);
	r->link_len = (uint16_t)get_le(in + 26, 2);
	r->path[0] = '\0';
	r->link[0] = '\0';
	if (in[1] || in[2] || in[3])
		return -1;
	if (r->kind != 'd' && r->kind != 'f' && r->kind != 'l' && r->kind != 'e')
		return -1;
	return r->path_len > SP_TREE_PATH || r->link_len > SP_TREE_PATH ? -1 : 0;
}

/* Text of exactly n bytes: no NUL in it, one after it. */
static bool text_is_whole(const char *s, size_t n)
{
	return n <= SP_TREE_PATH && !memchr(s, '\0', n) && s[n] == '\0';
}

static bool path_is_plain(const char *path)
{
	const char *p = path;

	if (!*path)
		return true;
	for (;;) {
		size_t n = strcspn(p, "/");

		if (n == 0 || n > NAME_LONGEST)
			return false;
		if (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')))
			return false;
		if (!p[n])
			return true;
		p += n + 1;
	}
}

int sp_tree_check(const struct sp_tree_record *r)
{
	if (!text_is_whole(r->path, r->path_len) || !text_is_whole(r->link, r->link_len))
		return -1;
	if (!path_is_plain(r->path) || r->mode > 07777)
		return -1;
	switch (r->kind) {
	case 'd':
		return r->size || r->link_len ? -1 : 0;
	case 'f':
		return r->link_len || r->size > INT64_MAX ? -1 : 0;
	case 'l':
		return r->size || !r->link_len ? -1 : 0;
	case 'e':
		return r->size || r->link_len || r->path_len || r->mode || r->mtime ? -1 : 0;
	default:
		return -1;
	}
}
