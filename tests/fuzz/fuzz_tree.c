/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of tree records from foreign bytes: a record that passes the check stays beneath its
 * target whatever its path says, and packs to the bytes it came from. */
#include <assert.h>
#include <string.h>

#include "guest/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void assert_beneath(const struct sp_tree_record *r)
{
	char copy[SP_TREE_PATH + 1], *save = NULL;
	size_t slashes = 0, parts = 0;

	memcpy(copy, r->path, sizeof copy);
	assert(strlen(copy) == r->path_len);
	assert(copy[0] != '/');
	for (const char *p = copy; *p; p++)
		slashes += *p == '/';
	for (char *c = strtok_r(copy, "/", &save); c; c = strtok_r(NULL, "/", &save)) {
		assert(strcmp(c, "..") != 0 && strcmp(c, ".") != 0);
		parts++;
	}
	assert(!r->path_len || parts == slashes + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sp_tree_record r;
	unsigned char again[SP_TREE_HEADER];

	while (size >= SP_TREE_HEADER) {
		if (sp_tree_unpack(data, &r))
			return 0;
		sp_tree_pack(&r, again);
		assert(memcmp(again, data, sizeof again) == 0);
		data += SP_TREE_HEADER;
		size -= SP_TREE_HEADER;
		if (size < (size_t)r.path_len + r.link_len)
			return 0;
		memcpy(r.path, data, r.path_len);
		r.path[r.path_len] = '\0';
		memcpy(r.link, data + r.path_len, r.link_len);
		r.link[r.link_len] = '\0';
		data += r.path_len + r.link_len;
		size -= (size_t)r.path_len + r.link_len;
		if (sp_tree_check(&r))
			return 0;
		assert_beneath(&r);
		if (r.kind == 'e' || r.size > size)
			return 0;
		data += r.size;
		size -= r.size;
	}
	return 0;
}
