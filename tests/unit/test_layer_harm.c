/* SPDX-License-Identifier: Apache-2.0 */
/* Archives that mean harm, each beside one of the same shape that means none. */
#include "tarkit.h"

#include "tap.h"

static struct sp_err e;

/* Links inside the image that look out of it lead around in the image. */
static void test_inside(void)
{
	struct disk d;
	struct kit k;

	disk_make(&d, 128);
	kit_begin(&k, NULL);
	kit_link(&k, "lib", "usr/lib");
	kit_file(&k, "lib/x", "in usr/lib");
	kit_link(&k, "abs", "/etc");
	kit_file(&k, "abs/passwd", "the image's");
	kit_link(&k, "up", "../../../../../..");
	kit_file(&k, "up/tmp/y", "at the root");
	kit_link(&k, "deep/er/out", "../../../../etc");
	kit_file(&k, "deep/er/out/shadow", "inside");
	kit_file(&k, "/absolute", "no leading slash");
	kit_file(&k, "./dot/./f", "dots");
	kit_file(&k, "slash//es///f", "slashes");
	kit_link(&k, "victim", "/etc/passwd");
	kit_file(&k, "victim", "replaced, not followed");
	kit_link(&k, "a-folder", "usr");
	kit_dir(&k, "a-folder", 0755);
	kit_file(&k, "a-folder/z", "a folder of its own");
	kit_file(&k, "twice", "first");
	kit_file(&k, "twice", "second");
	kit_file(&k, "self", "self");
	kit_hard(&k, "self", "self");
	kit_file(&k, "holder/inner", "moved");
	kit_hard(&k, "holder", "holder/inner");
	ok(disk_apply_kit(&d, &k, false, &e) == 0, "names through links: %s", e.msg);
	ok(disk_close(&d), "clean");
	ok(disk_has(&d, "usr/lib/x", "in usr/lib"), "a link to a folder that is made");
	ok(disk_has(&d, "etc/passwd", "the image's"), "an absolute link means the image's root");
	ok(disk_has(&d, "tmp/y", "at the root"), "a link up ends at the image's root");
	ok(disk_has(&d, "etc/shadow", "inside"), "a link up and down");
	ok(disk_has(&d, "absolute", "no leading slash"), "an absolute name");
	ok(disk_has(&d, "dot/f", "dots") && disk_has(&d, "slash/es/f", "slashes"), "dots, slashes");
	ok(disk_has(&d, "victim", "replaced, not followed"), "a link in the last place");
	ok(disk_has(&d, "a-folder/z", "a folder of its own") && disk_lacks(&d, "usr/z"),
	   "a folder in a link's place");
	ok(disk_has(&d, "twice", "second"), "the later of two entries");
	ok(disk_has(&d, "self", "self") && disk_stat_has(&d, "self", "Links: 1"),
	   "a hard link to itself");
	ok(disk_has(&d, "holder", "moved") && disk_stat_has(&d, "holder", "Links: 1"),
	   "a hard link in the place of its target's folder");
	disk_drop(&d);
}

/* name of the case, the entries that are refused, the ones of the same shape that are not */
struct harm {
	const char *what;
	void (*bad)(struct kit *);
	void (*good)(struct kit *);
	const char *says;
};

static void dotdot(struct kit *k)
{
	kit_file(k, "a/../../etc/cron.d/x", "1");
}
static void no_dotdot(struct kit *k)
{
	kit_file(k, "a/..b/..c./etc/cron.d/x", "1");
}
static void dotdot_first(struct kit *k)
{
	kit_file(k, "../x", "1");
}
static void dotdot_last(struct kit *k)
{
	kit_dir(k, "a/..", 0777);
}
static void dotdot_dir(struct kit *k)
{
	kit_dir(k, "a/...", 0777);
}
static void hard_out(struct kit *k)
{
	kit_hard(k, "x", "/etc/passwd");
}
static void hard_in(struct kit *k)
{
	kit_file(k, "etc/passwd", "1");
	kit_hard(k, "x", "/etc/passwd");
}
static void hard_up(struct kit *k)
{
	kit_file(k, "y", "1");
	kit_hard(k, "x", "../y");
}
static void hard_ok(struct kit *k)
{
	kit_file(k, "y", "1");
	kit_hard(k, "x", "./y");
}
static void hard_dir(struct kit *k)
{
	kit_dir(k, "y", 0755);
	kit_hard(k, "x", "y");
}
static void below_file(struct kit *k)
{
	kit_file(k, "y", "1");
	kit_file(k, "y/x", "1");
}
static void below_dir(struct kit *k)
{
	kit_dir(k, "y", 0755);
	kit_file(k, "y/x", "1");
}
static void loop(struct kit *k)
{
	kit_link(k, "l", "m");
	kit_link(k, "m", "l");
	kit_file(k, "l/x", "1");
}
static void no_loop(struct kit *k)
{
	kit_link(k, "l", "m");
	kit_link(k, "m", "n");
	kit_file(k, "l/x", "1");
}
static void bad_wh(struct kit *k)
{
	kit_file(k, "a/.wh...", "");
}
static void good_wh(struct kit *k)
{
	kit_file(k, "a/.wh....", "");
}
static void root_file(struct kit *k)
{
	kit_file(k, "a/.", "1");
}
static void root_dir(struct kit *k)
{
	kit_dir(k, "./", 0711);
}
static void no_target(struct kit *k)
{
	struct archive_entry *ae = kit_entry("s", S_IFREG | 0644);
	sp_auto_free char *t = sp_xcalloc(1, 4200);

	archive_entry_set_mode(ae, S_IFLNK | 0777);
	memset(t, 't', 4199);
	archive_entry_copy_symlink(ae, t);
	kit_put(k, ae, NULL, 0);
}
static void long_target(struct kit *k)
{
	sp_auto_free char *t = sp_xcalloc(1, 4096);

	memset(t, 't', 4095);
	kit_link(k, "s", t);
}
static void repeat(struct kit *k, const char *part, int times)
{
	sp_auto_str s = SP_STR_INIT;

	for (int i = 0; i < times; i++)
		sp_str_add(&s, part);
	sp_str_add(&s, "f");
	kit_file(k, s.p, "1");
}
static void too_deep(struct kit *k)
{
	repeat(k, "d/", 513);
}
static void deep(struct kit *k)
{
	repeat(k, "d/", 500);
}
static void long_part(struct kit *k)
{
	repeat(k, "n", 255);
}
static void part(struct kit *k)
{
	repeat(k, "n", 254);
}
static void long_path(struct kit *k)
{
	repeat(k,
	       "0123456789012345678901234567890123456789012345678901234567890123456789012345678/",
	       52);
}
static void path(struct kit *k)
{
	repeat(k,
	       "0123456789012345678901234567890123456789012345678901234567890123456789012345678/",
	       51);
}
static void device(struct kit *k)
{
	kit_node(k, "n", S_IFCHR, 4096, 1);
}
static void good_device(struct kit *k)
{
	kit_node(k, "n", S_IFCHR, 4095, 1);
}
static void xattr(struct kit *k, size_t n)
{
	struct archive_entry *ae = kit_entry("x", S_IFREG | 0644);
	sp_auto_free char *v = sp_xcalloc(1, n);

	archive_entry_xattr_add_entry(ae, "user.big", v, n);
	kit_put(k, ae, "1", 1);
}
static void xattr_big(struct kit *k)
{
	xattr(k, 100000);
}
static void xattr_fits(struct kit *k)
{
	xattr(k, 3900);
}
static void xattr_named(struct kit *k, size_t n)
{
	struct archive_entry *ae = kit_entry("x", S_IFREG | 0644);
	sp_auto_free char *name = sp_xcalloc(1, n + 1);

	memset(name, 'n', n);
	memcpy(name, "user.", 5);
	archive_entry_xattr_add_entry(ae, name, "v", 1);
	kit_put(k, ae, "1", 1);
}
static void xattr_name(struct kit *k)
{
	xattr_named(k, 300);
}
static void xattr_name_fits(struct kit *k)
{
	xattr_named(k, 255);
}
static void acl(struct kit *k, const char *v, size_t n)
{
	struct archive_entry *ae = kit_entry("x", S_IFREG | 0644);

	archive_entry_xattr_add_entry(ae, "system.posix_acl_access", v, n);
	kit_put(k, ae, "1", 1);
}
static void acl_bad(struct kit *k)
{
	acl(k, "\2\0\0\0\1\0\6\0\377\377\377\377\7\0", 14);
}
static void acl_good(struct kit *k)
{
	acl(k, "\2\0\0\0\1\0\6\0\377\377\377\377\4\0\4\0\377\377\377\377\40\0\4\0\377\377\377\377",
	    28);
}
static void owner(struct kit *k, long long uid)
{
	struct archive_entry *ae = kit_entry("x", S_IFREG | 0644);

	archive_entry_set_uid(ae, uid);
	kit_put(k, ae, "1", 1);
}
static void owner_huge(struct kit *k)
{
	owner(k, 1LL << 40);
}
static void owner_large(struct kit *k)
{
	owner(k, 4000000000LL);
}
static void entries(struct kit *k, int n)
{
	char name[32];

	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof name, "e%d", i % 7);
		kit_file(k, name, "");
	}
}
static void many(struct kit *k)
{
	entries(k, 1001);
}
static void enough(struct kit *k)
{
	entries(k, 1000);
}
static void content(struct kit *k, size_t n)
{
	sp_auto_free char *v = sp_xcalloc(1, n);

	memset(v, 'v', n);
	kit_put(k, kit_entry("v", S_IFREG | 0644), v, n);
}
static void content_big(struct kit *k)
{
	content(k, (8 << 20) + 1);
}
static void content_fits(struct kit *k)
{
	content(k, 8 << 20);
}
static void wh_root(struct kit *k)
{
	kit_file(k, ".wh./", "");
}

static const struct harm harms[] = {
	{ "'..' in the middle", dotdot, no_dotdot, "'..'" },
	{ "'..' first", dotdot_first, no_dotdot, "'..'" },
	{ "'..' last", dotdot_last, dotdot_dir, "'..'" },
	{ "hard link to a file of the host", hard_out, hard_in, "there is no '/etc/passwd'" },
	{ "hard link upwards", hard_up, hard_ok, "'..'" },
	{ "hard link to a folder", hard_dir, hard_ok, "is a folder" },
	{ "a name below a file", below_file, below_dir, "no folder" },
	{ "a loop of links", loop, no_loop, "too many symbolic links" },
	{ "a whiteout of '..'", bad_wh, good_wh, "whiteout of nothing" },
	{ "a whiteout without a name", wh_root, good_wh, "whiteout of nothing" },
	{ "a link of 4199 bytes", no_target, long_target, "symbolic link of" },
	{ "513 folders deep", too_deep, deep, "deeper than 512" },
	{ "a part of 256 bytes", long_part, part, "longer than 255" },
	{ "a path of 4161 bytes", long_path, path, "longer than 4096" },
	{ "a device number that is none", device, good_device, "no device number" },
	{ "an attribute of 100 kB", xattr_big, xattr_fits, "extended attributes" },
	{ "an attribute's name of 300 bytes", xattr_name, xattr_name_fits, "extended attributes" },
	{ "an access control list cut short", acl_bad, acl_good, "access control list" },
	{ "an owner beyond 32 bits", owner_huge, owner_large, "no number of a user" },
	{ "more entries than allowed", many, enough, "more than 1000 entries" },
	{ "more content than allowed", content_big, content_fits, "more than 8388608 bytes" },
	{ "a file in the root's place", root_file, root_dir, "would replace a folder" },
};

static int try_kit(void (*fill)(struct kit *), bool *clean)
{
	struct disk d;
	struct kit k;
	int rc;

	disk_make(&d, 128);
	d.l.max_entries = 1000;
	d.l.max_bytes = 8 << 20;
	kit_begin(&k, NULL);
	fill(&k);
	rc = disk_apply_kit(&d, &k, true, &e);
	*clean = rc == 0 && disk_close(&d);
	disk_drop(&d);
	return rc;
}

static void test_harm(void)
{
	bool clean;

	for (size_t i = 0; i < SP_NELEM(harms); i++) {
		int rc = try_kit(harms[i].bad, &clean);

		ok(rc < 0 && strstr(e.msg, harms[i].says), "%s: refused (%s)", harms[i].what,
		   rc < 0 ? e.msg : "it was not");
		rc = try_kit(harms[i].good, &clean);
		ok(rc == 0 && clean, "%s: its harmless twin is not (%s)", harms[i].what,
		   rc < 0 ? e.msg : "");
	}
}

static void test_streams(void)
{
	struct disk d;
	struct kit k;
	sp_auto_free char *big = sp_xcalloc(1, 64 << 20);
	sp_auto_str tar = SP_STR_INIT;

	/* a bomb: 64 MiB of zeros in some hundred bytes */
	disk_make(&d, 128);
	d.l.max_bytes = 16 << 20;
	kit_begin(&k, "xz");
	kit_put(&k, kit_entry("z", S_IFREG | 0644), big, 64 << 20);
	ok(disk_apply_kit(&d, &k, true, &e) < 0 && strstr(e.msg, "more than 16777216 bytes"),
	   "a bomb stops at the limit: %s", e.msg);
	disk_drop(&d);

	/* more of everything than the tar's entries say: zeros behind the end */
	disk_make(&d, 128);
	d.l.max_bytes = 1 << 20;
	d.l.max_entries = 100;
	kit_begin(&k, "gzip");
	kit_file(&k, "f", "1");
	kit_end(&k);
	sp_str_addn(&tar, k.out.p, k.out.len);
	sp_str_free(&k.out);
	kit_begin(&k, "gzip");
	archive_write_close(k.a);
	archive_write_free(k.a);
	sp_str_free(&k.out);
	{
		struct archive *a = archive_write_new();
		struct archive_entry *entry;

		k.out = (struct sp_str)SP_STR_INIT;
		archive_write_add_filter_gzip(a);
		archive_write_set_format_raw(a);
		archive_write_open(a, &k, NULL, kit_take, NULL);
		entry = kit_entry("raw", S_IFREG | 0644);
		archive_write_header(a, entry);
		archive_entry_free(entry);
		archive_write_data(a, big, 64 << 20);
		archive_write_close(a);
		archive_write_free(a);
		sp_str_addn(&tar, k.out.p, k.out.len);
		sp_str_free(&k.out);
	}
	ok(disk_apply(&d, tar.p, tar.len, true, &e) < 0 && strstr(e.msg, "unpacks to more than"),
	   "padding without end: %s", e.msg);
	disk_drop(&d);
}

static void test_broken_off(void)
{
	struct disk d;
	struct kit k;
	sp_auto_free char *big = sp_xcalloc(1, 100000);

	kit_begin(&k, NULL);
	kit_put(&k, kit_entry("f", S_IFREG | 0644), big, 100000);
	kit_end(&k);
	disk_make(&d, 128);
	ok(disk_apply(&d, k.out.p, 50000, true, &e) < 0, "a tar that breaks off: %s", e.msg);
	disk_drop(&d);
	disk_make(&d, 128);
	ok(disk_apply(&d, k.out.p, k.out.len, true, &e) == 0, "and the whole one");
	disk_drop(&d);
	sp_str_free(&k.out);
	disk_make(&d, 128);
	ok(disk_apply(&d, "this is no tar at all, just text", 32, true, &e) < 0, "no tar: %s",
	   e.msg);
	disk_drop(&d);
}

static void test_full(void)
{
	struct disk d;
	struct kit k;
	char name[32];
	sp_auto_free char *big = sp_xmalloc(100 << 20);

	memset(big, 'f', 100 << 20);
	disk_make(&d, 64);
	kit_begin(&k, NULL);
	kit_put(&k, kit_entry("f", S_IFREG | 0644), big, 100 << 20);
	ok(disk_apply_kit(&d, &k, true, &e) < 0 &&
		   strstr(e.msg, "does not fit in a disk of 64 MiB"),
	   "content that does not fit: %s", e.msg);
	disk_drop(&d);
	disk_make(&d, 64);
	kit_begin(&k, NULL);
	for (int i = 0; i < 9000; i++) {
		snprintf(name, sizeof name, "%d", i);
		kit_file(&k, name, "");
	}
	ok(disk_apply_kit(&d, &k, true, &e) < 0 && strstr(e.msg, "holds no more than"),
	   "more files than inodes: %s", e.msg);
	disk_drop(&d);
}

int main(void)
{
	if (access("/usr/sbin/mke2fs", X_OK) < 0) {
		printf("1..0 # SKIP no mke2fs\n");
		return 0;
	}
	setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
	test_inside();
	test_harm();
	test_streams();
	test_broken_off();
	test_full();
	return tap_done();
}
