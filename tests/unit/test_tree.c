/* SPDX-License-Identifier: Apache-2.0 */
/* Tree records: packing, and what a hostile sender may not say. */
#include <string.h>

#include "guest/tree.h"
#include "tap.h"

static struct sp_tree_record record(char kind, const char *path, const char *link)
{
	static struct sp_tree_record r;

	memset(&r, 0, sizeof r);
	r.kind = kind;
	r.mode = 0644;
	r.path_len = (uint16_t)strlen(path);
	r.link_len = (uint16_t)strlen(link);
	memcpy(r.path, path, r.path_len);
	memcpy(r.link, link, r.link_len);
	return r;
}

static int checked(char kind, const char *path, const char *link)
{
	struct sp_tree_record r = record(kind, path, link);

	return sp_tree_check(&r);
}

static void packing(void)
{
	unsigned char raw[SP_TREE_HEADER];
	struct sp_tree_record r = record('f', "a/b", ""), back;

	r.mtime = -5;
	r.size = 1ull << 40;
	r.mode = 04755;
	sp_tree_pack(&r, raw);
	ok(sp_tree_unpack(raw, &back) == 0, "a packed header is taken");
	ok(back.kind == 'f' && back.mode == 04755 && back.mtime == -5 && back.size == 1ull << 40 &&
		   back.path_len == 3 && back.link_len == 0,
	   "with every number as it was");
	ok(back.path[0] == '\0' && back.link[0] == '\0', "text is still empty");
	raw[2] = 1;
	ok(sp_tree_unpack(raw, &back) == -1, "reserved bytes are refused");
	raw[2] = 0;
	raw[0] = 'c';
	ok(sp_tree_unpack(raw, &back) == -1, "a device is no kind");
	raw[0] = 'l';
	raw[25] = 0x10;
	raw[24] = 0;
	ok(sp_tree_unpack(raw, &back) == -1, "a path of 4096 is too long");
	raw[24] = 0xff;
	raw[25] = 0x0f;
	ok(sp_tree_unpack(raw, &back) == 0, "one of 4095 is not");
	raw[27] = 0x10;
	ok(sp_tree_unpack(raw, &back) == -1, "a link of 4096 is");
}

static void paths(void)
{
	static const char *const bad[] = { "/", "/etc", "..",  "../a", "a/..", "a/../b",
					   ".", "./a",  "a/.", "a//b", "a/",   "//" };
	static const char *const good[] = { "",    "a",  "a/b/c", "...", "..a",
					    "a..", ".a", "a/...", "-x",  "a b" };
	char name[300];

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ok(checked('f', bad[i], "") == -1, "path '%s' is refused", bad[i]);
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		ok(checked('f', good[i], "") == 0, "path '%s' is taken", good[i]);
	memset(name, 'n', sizeof name);
	name[256] = '\0';
	ok(checked('f', name, "") == -1, "a component of 256 is refused");
	name[255] = '\0';
	ok(checked('f', name, "") == 0, "one of 255 is taken");
}

static void kinds(void)
{
	struct sp_tree_record r = record('f', "a", "");

	r.path_len = 3;
	ok(sp_tree_check(&r) == -1, "a NUL inside a path is refused");
	r = record('f', "abc", "");
	r.path_len = 2;
	ok(sp_tree_check(&r) == -1, "a path longer than told is refused");
	r = record('d', "a", "");
	r.size = 1;
	ok(sp_tree_check(&r) == -1, "a folder has no bytes");
	ok(checked('d', "a", "x") == -1, "a folder has no link");
	ok(checked('l', "a", "") == -1, "an empty link is refused");
	ok(checked('l', "a", "../../etc/passwd") == 0, "a link's text is free");
	r = record('f', "a", "");
	r.size = UINT64_MAX;
	ok(sp_tree_check(&r) == -1, "an absurd size is refused");
	r.size = 0;
	r.mode = 0100644;
	ok(sp_tree_check(&r) == -1, "file type bits are refused");
	r = record('e', "", "");
	r.mode = 0;
	ok(sp_tree_check(&r) == 0, "the end");
	r.path_len = 1;
	r.path[0] = 'a';
	ok(sp_tree_check(&r) == -1, "the end has no path");
	r = record('x', "", "");
	ok(sp_tree_check(&r) == -1, "unknown kinds are refused");
}

int main(void)
{
	packing();
	paths();
	kinds();
	return tap_done();
}
