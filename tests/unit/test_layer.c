/* SPDX-License-Identifier: Apache-2.0 */
/* Layers onto an ext4 disk, and what e2fsck and debugfs find there. */
#include "tarkit.h"

#include <sys/sysmacros.h>

#include "tap.h"

static struct sp_err e;

/* --- what is kept --- */

static void test_attributes(void)
{
	struct disk d;
	struct kit k;
	struct archive_entry *ae;
	char path[] = "long/0123456789012345678901234567890123456789012345678901234567890123";

	if (!ok(disk_make(&d, 128), "a disk"))
		return;
	kit_begin(&k, NULL);
	ae = kit_entry("owned", S_IFREG | 04751);
	archive_entry_set_uid(ae, 123456);
	archive_entry_set_gid(ae, 70000);
	archive_entry_set_mtime(ae, 5000000000, 123456789);
	archive_entry_xattr_add_entry(ae, "user.colour", "blue", 4);
	archive_entry_xattr_add_entry(ae, "trusted.secret", "x", 1);
	archive_entry_xattr_add_entry(ae, "security.capability",
				      "\1\0\0\2\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
	kit_put(&k, ae, "content", 7);
	kit_hard(&k, "second", "owned");
	kit_link(&k, "short", "owned");
	kit_link(&k, path,
		 "a/target/that/is/longer/than/the/sixty/bytes/which/fit/into/an/inode/itself");
	kit_node(&k, "dev/tty", S_IFCHR, 5, 1);
	kit_node(&k, "dev/big", S_IFBLK, 259, 100000);
	kit_node(&k, "fifo", S_IFIFO, 0, 0);
	kit_dir(&k, "sticky", 01777);
	kit_file(&k, "caf\xc3\xa9", "nfc");
	kit_file(&k, "cafe\xcc\x81", "nfd");
	kit_file(&k, "bytes\xff\xfe", "raw");
	ok(disk_apply_kit(&d, &k, false, &e) == 0, "a tar of every kind: %s", e.msg);
	ok(disk_close(&d), "e2fsck finds it clean");
	ok(disk_has(&d, "owned", "content"), "content");
	ok(disk_stat_has(&d, "owned", "Mode:  04751"), "mode with setuid");
	ok(disk_stat_has(&d, "owned", "User: 123456   Group: 70000"), "owners beyond 16 bits");
	ok(disk_stat_has(&d, "owned", "Links: 2"), "hard link counted");
	ok(disk_stat_has(&d, "owned", "mtime: 0x2a05f200:1d6f3455"),
	   "time beyond 2038, nanoseconds");
	ok(disk_stat_has(&d, "owned", "user.colour (4) = \"blue\""), "user attribute");
	ok(disk_stat_has(&d, "owned", "security.capability (20)"), "file capability");
	ok(disk_stat_lacks(&d, "owned", "trusted."), "a host's own attribute is left out");
	ok(disk_has(&d, "second", "content"), "the second name");
	ok(disk_stat_has(&d, "short", "Fast link dest: \"owned\""), "short symbolic link");
	ok(disk_stat_has(&d, path, "Type: symlink"), "long symbolic link");
	ok(disk_has(&d, path,
		    "a/target/that/is/longer/than/the/sixty/bytes/which/fit/into/an/inode/itself"),
	   "its target");
	ok(disk_stat_has(&d, "dev/tty", "05:01"), "character device");
	ok(disk_stat_has(&d, "dev/big", "number: 259:100000"), "block device with large numbers");
	ok(disk_stat_has(&d, "fifo", "Type: FIFO"), "fifo");
	ok(disk_stat_has(&d, "sticky", "Mode:  01777"), "sticky folder");
	ok(disk_stat_has(&d, "dev", "Mode:  0755"), "a missing folder is made");
	ok(disk_has(&d, "caf\xc3\xa9", "nfc") && disk_has(&d, "cafe\xcc\x81", "nfd"),
	   "names are bytes: no letter is composed");
	ok(disk_has(&d, "bytes\xff\xfe", "raw"), "nor need they be UTF-8");
	disk_drop(&d);
}

static void test_acl(void)
{
	struct disk d;
	struct kit k;
	struct archive_entry *ae;

	disk_make(&d, 128);
	kit_begin(&k, NULL);
	ae = kit_entry("shared", S_IFREG | 0640);
	archive_entry_acl_add_entry(ae, ARCHIVE_ENTRY_ACL_TYPE_ACCESS, 6, ARCHIVE_ENTRY_ACL_USER,
				    1000, NULL);
	archive_entry_acl_add_entry(ae, ARCHIVE_ENTRY_ACL_TYPE_ACCESS, 7, ARCHIVE_ENTRY_ACL_MASK,
				    -1, NULL);
	kit_put(&k, ae, "x", 1);
	ok(disk_apply_kit(&d, &k, false, &e) == 0 && disk_close(&d), "an access control list");
	ok(disk_stat_has(&d, "shared", "system.posix_acl_access"), "is in the image");
	disk_drop(&d);
}

static void test_content(void)
{
	struct disk d;
	struct kit k;
	struct archive_entry *ae;
	struct stat st;
	sp_auto_free char *big = sp_xcalloc(1, 8 << 20);
	sp_auto_str out = SP_STR_INIT;

	disk_make(&d, 256);
	for (size_t i = 0; i < 8 << 20; i++)
		big[i] = (char)(i * 2654435761u >> 13);
	memset(big + (2 << 20), 0, 4 << 20);
	kit_begin(&k, NULL);
	kit_put(&k, kit_entry("big", S_IFREG | 0644), big, 8 << 20);
	kit_put(&k, kit_entry("tail", S_IFREG | 0644), big, 4097);
	ae = kit_entry("sparse", S_IFREG | 0644);
	archive_entry_set_size(ae, 1LL << 33);
	archive_entry_sparse_add_entry(ae, 4096, 4096);
	archive_entry_sparse_add_entry(ae, (1LL << 33) - 10, 10);
	archive_write_header(k.a, ae);
	archive_write_data(k.a, big, 4096);
	archive_write_data(k.a, big, 4096);
	for (long long left = (1LL << 33) - 10 - 8192; left > 0; left -= 4 << 20)
		archive_write_data(k.a, big + (2 << 20), left < 4 << 20 ? (size_t)left : 4 << 20);
	archive_write_data(k.a, "0123456789", 10);
	archive_entry_free(ae);
	kit_put(&k, kit_entry("empty", S_IFREG | 0644), NULL, 0);
	ok(disk_apply_kit(&d, &k, false, &e) == 0, "large, sparse and empty files: %s", e.msg);
	ok(d.l.bytes < 10 << 20, "holes are not counted as content");
	ok(disk_close(&d), "clean");
	fstat(d.fd, &st);
	ok((int64_t)st.st_blocks * 512 < 12 << 20, "zeros became holes (%lld KiB)",
	   (long long)st.st_blocks / 2);
	ok(disk_stat_has(&d, "sparse", "Size: 8589934592"), "the sparse file's size");
	ok(disk_stat_has(&d, "sparse", "Blockcount: 16"), "and its two blocks");
	ok(disk_stat_has(&d, "big", "EXTENTS:\n(0-511)"), "the zeros inside a file are a hole");
	disk_ask(&d, "dump big /dev/shm/space-unit-big", &out);
	{
		sp_auto_str got = SP_STR_INIT;
		FILE *f = fopen("/dev/shm/space-unit-big", "r");

		if (f) {
			got.len = fread(sp_str_room(&got, 9 << 20), 1, 9 << 20, f);
			fclose(f);
		}
		unlink("/dev/shm/space-unit-big");
		ok(got.len == 8 << 20 && !memcmp(got.p, big, 8 << 20), "every byte is there");
	}
	disk_drop(&d);
}

/* Folders of a size that e2fsck has to believe: several blocks, thousands of subfolders. */
static void test_many(void)
{
	struct disk d;
	struct kit k;
	char name[300];

	disk_make(&d, 128);
	kit_begin(&k, NULL);
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof name, "many/%0*d", 20 + i % 200, i);
		kit_dir(&k, name, 0700);
	}
	ok(disk_apply_kit(&d, &k, false, &e) == 0 && disk_close(&d), "5000 folders in one: %s",
	   e.msg);
	ok(disk_stat_has(&d, "many", "Links: 5002"), "counted");
	disk_drop(&d);
}

/* --- layers --- */

static void lower_layer(struct kit *k)
{
	kit_begin(k, NULL);
	kit_file(k, "keep", "1");
	kit_file(k, "gone", "1");
	kit_file(k, "tree/a/b/c", "1");
	kit_file(k, "opaque/old", "1");
	kit_file(k, "opaque/sub/old", "1");
	kit_file(k, "late/old", "1");
	kit_file(k, "again", "1");
	kit_dir(k, "becomes-file", 0755);
	kit_file(k, "becomes-file/x", "1");
	kit_file(k, "becomes-folder", "1");
	kit_dir(k, "merged", 0700);
	kit_file(k, "merged/one", "1");
	kit_file(k, "linked", "1");
	kit_hard(k, "linked-too", "linked");
}

static void upper_layer(struct kit *k)
{
	kit_begin(k, NULL);
	kit_file(k, ".wh.gone", "");
	kit_file(k, ".wh.never-was", "");
	kit_file(k, "tree/.wh.a", "");
	kit_file(k, "opaque/.wh..wh..opq", "");
	kit_file(k, "opaque/new", "2");
	kit_file(k, "late/new", "2");
	kit_file(k, "late/sub/new", "2");
	kit_file(k, "late/.wh..wh..opq", "");
	kit_file(k, "again", "2");
	kit_file(k, ".wh.again", "");
	kit_file(k, "becomes-file", "2");
	kit_file(k, "becomes-file/.wh.x", "");
	kit_dir(k, "becomes-folder", 0755);
	kit_file(k, "becomes-folder/y", "2");
	kit_dir(k, "merged", 0711);
	kit_file(k, "merged/two", "2");
	kit_file(k, ".wh.linked", "");
	kit_file(k, ".wh..wh.plnk/1.2", "union");
}

static void test_whiteouts(void)
{
	struct disk d;
	struct kit k;

	disk_make(&d, 128);
	lower_layer(&k);
	ok(disk_apply_kit(&d, &k, true, &e) == 0, "lower layer: %s", e.msg);
	upper_layer(&k);
	ok(disk_apply_kit(&d, &k, true, &e) == 0, "upper layer: %s", e.msg);
	ok(disk_close(&d), "clean");
	ok(disk_has(&d, "keep", "1"), "what nobody names stays");
	ok(disk_lacks(&d, "gone"), "whiteout of a file");
	ok(disk_lacks(&d, "tree/a"), "whiteout of a tree");
	ok(disk_lacks(&d, "opaque/old") && disk_lacks(&d, "opaque/sub"), "opaque folder");
	ok(disk_has(&d, "opaque/new", "2"), "and what its layer puts there");
	ok(disk_lacks(&d, "late/old") && disk_has(&d, "late/new", "2") &&
		   disk_has(&d, "late/sub/new", "2"),
	   "an opaque marker that comes last hides lower layers only");
	ok(disk_has(&d, "again", "2"), "a whiteout does not hide its own layer");
	ok(disk_has(&d, "becomes-file", "2"), "file over folder");
	ok(disk_has(&d, "becomes-folder/y", "2"), "folder over file");
	ok(disk_has(&d, "merged/one", "1") && disk_has(&d, "merged/two", "2") &&
		   disk_stat_has(&d, "merged", "Mode:  0711"),
	   "folder over folder");
	ok(disk_lacks(&d, "linked") && disk_has(&d, "linked-too", "1") &&
		   disk_stat_has(&d, "linked-too", "Links: 1"),
	   "one of two hard links hidden");
	ok(disk_lacks(&d, ".wh..wh.plnk"), "a union file system's own names are left out");
	disk_drop(&d);

	disk_make(&d, 128);
	kit_begin(&k, NULL);
	kit_file(&k, ".wh.file", "mine");
	ok(disk_apply_kit(&d, &k, false, &e) == 0 && disk_close(&d) &&
		   disk_has(&d, ".wh.file", "mine"),
	   "a root's .wh. names mean themselves");
	disk_drop(&d);
}

/* Space that a replaced file had is given back, and reused without its old bytes or attributes. */
static void test_reuse(void)
{
	struct disk d;
	struct kit k;
	struct archive_entry *ae;
	struct stat st;
	sp_auto_free char *big = sp_xmalloc(4 << 20);

	memset(big, 'x', 4 << 20);
	disk_make(&d, 128);
	for (int i = 0; i < 40; i++) {
		kit_begin(&k, NULL);
		ae = kit_entry("same", S_IFREG | 0644);
		if (!i)
			archive_entry_xattr_add_entry(ae, "user.old", "1", 1);
		kit_put(&k, ae, big, 4 << 20);
		if (disk_apply_kit(&d, &k, true, &e) < 0)
			break;
	}
	ok(d.l.count == 40, "160 MiB in turn on a disk of 128: %s", e.msg);
	ok(disk_close(&d), "clean");
	ok(disk_stat_lacks(&d, "same", "user.old"), "no attribute of the one before");
	fstat(d.fd, &st);
	ok((int64_t)st.st_blocks * 512 < 12 << 20, "what is free is a hole again (%lld KiB)",
	   (long long)st.st_blocks / 2);
	disk_drop(&d);
}

static void test_compressed(void)
{
	static const char *const filters[] = { "gzip", "xz", "zstd", "bzip2", "lz4" };
	struct disk d;
	struct kit k;

	for (size_t i = 0; i < SP_NELEM(filters); i++) {
		disk_make(&d, 128);
		kit_begin(&k, filters[i]);
		kit_file(&k, "f", filters[i]);
		ok(disk_apply_kit(&d, &k, false, &e) == 0 && disk_close(&d) &&
			   disk_has(&d, "f", filters[i]),
		   "%s", filters[i]);
		disk_drop(&d);
	}
}

int main(void)
{
	if (access("/usr/sbin/mke2fs", X_OK) < 0) {
		printf("1..0 # SKIP no mke2fs\n");
		return 0;
	}
	setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
	test_attributes();
	test_acl();
	test_content();
	test_many();
	test_whiteouts();
	test_reuse();
	test_compressed();
	return tap_done();
}
