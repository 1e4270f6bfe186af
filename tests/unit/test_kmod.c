/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and kernels taken by what they say of themselves, and the order of loading. */
#include <stdio.h>

#include "image/kmod.h"
#include "kernel_rig.h"
#include "tap.h"

static void test_names(void)
{
	char name[SP_KMOD_NAME];

	ok(sp_kmod_name("kernel/drivers/char/hw_random/virtio-rng.ko", name) == 0, "a path");
	is_str(name, "virtio_rng", "is the name with underscores");
	ok(sp_kmod_name("ext4.ko.xz", name) == 0 && strcmp(name, "ext4") == 0, ".ko.xz");
	ok(sp_kmod_name("ext4.ko.zst", name) == 0 && strcmp(name, "ext4") == 0, ".ko.zst");
	ok(sp_kmod_name("ext4.ko.gz", name) == 0 && strcmp(name, "ext4") == 0, ".ko.gz");
	ok(sp_kmod_name("ext4.ko.sig", name) < 0, "not .ko.sig");
	ok(sp_kmod_name("a/.ko", name) < 0, "not an empty name");
	ok(sp_kmod_name("ext4", name) < 0, "not without a suffix");
	ok(sp_kmod_name("a b.ko", name) < 0 && sp_kmod_name("a\n.ko", name) < 0,
	   "not other characters");
	ok(sp_kmod_name("a23456789012345678901234567890123456789012345678901234567890123.ko",
			name) == 0,
	   "63 characters");
	ok(sp_kmod_name("a234567890123456789012345678901234567890123456789012345678901234.ko",
			name) < 0,
	   "not 64");
}

static void test_parse(void)
{
	sp_auto_str m = SP_STR_INIT, longer = SP_STR_INIT;
	struct sp_kmod_info info;
	Elf64_Ehdr *h;
	Elf64_Shdr *s;
	int bad = 0;

	make_module(&m, RELEASE, "virtio,virtio_ring");
	ok(sp_kmod_parse((unsigned char *)m.p, m.len, &info) == 0, "a module");
	is_str(info.release, RELEASE, "its release is the first word");
	is_str(info.depends, "virtio,virtio_ring", "what it needs");
	for (size_t n = 0; n < m.len; n++) {
		unsigned char *part = memcpy(malloc(n ? n : 1), m.p, n);

		bad += sp_kmod_parse(part, n, &info) == 0;
		free(part);
	}
	ok(bad == 0, "cut off anywhere it is none");
	h = (Elf64_Ehdr *)(void *)m.p;
	s = (Elf64_Shdr *)(void *)(m.p + sizeof *h);
	s[2].sh_offset = UINT64_MAX - 4;
	ok(sp_kmod_parse((unsigned char *)m.p, m.len, &info) < 0, "a section beyond the end");
	make_module(&m, RELEASE, "");
	h = (Elf64_Ehdr *)(void *)m.p;
	h->e_shoff = UINT64_MAX - 8;
	ok(sp_kmod_parse((unsigned char *)m.p, m.len, &info) < 0, "sections beyond the end");
	make_module(&m, RELEASE, "");
	((Elf64_Ehdr *)(void *)m.p)->e_shstrndx = 3;
	ok(sp_kmod_parse((unsigned char *)m.p, m.len, &info) < 0, "no section of names");
	make_module(&m, "", "virtio");
	ok(sp_kmod_parse((unsigned char *)m.p, m.len, &info) < 0, "no release");
	for (int i = 0; i < 300; i++)
		sp_str_add(&longer, "depends,");
	make_module(&m, RELEASE, longer.p);
	ok(sp_kmod_parse((unsigned char *)m.p, m.len, &info) == 0 && !info.depends[0],
	   "a list that is too long is not cut in a name");
}

static void test_release(void)
{
	sp_auto_str k = SP_STR_INIT;
	char release[64];

	make_kernel(&k, RELEASE);
	ok(sp_kernel_release((unsigned char *)k.p, k.len, release) == 0, "a kernel");
	is_str(release, RELEASE, "its release");
	ok(sp_kernel_release((unsigned char *)k.p, 0x20f, release) < 0, "cut off");
	ok(sp_kernel_release((unsigned char *)k.p, 0x284, release) < 0, "cut off in the text");
	k.p[0x20f] = 0x7f;
	ok(sp_kernel_release((unsigned char *)k.p, k.len, release) < 0, "text beyond the end");
	make_kernel(&k, "../../etc");
	ok(sp_kernel_release((unsigned char *)k.p, k.len, release) < 0, "a release that is a path");
	make_kernel(&k, "6.1/x");
	ok(sp_kernel_release((unsigned char *)k.p, k.len, release) < 0, "a slash in it");
	make_kernel(&k, "6.1234567890123456789012345678901234567890123456789012345678901234");
	ok(sp_kernel_release((unsigned char *)k.p, k.len, release) < 0, "too long");
	memset(k.p + 0x202, 0, 4);
	ok(sp_kernel_release((unsigned char *)k.p, k.len, release) < 0, "no kernel");
}

static void add(struct sp_kmods *set, const char *name, const char *depends)
{
	struct sp_err e;

	ok(sp_kmods_add(set, name, depends, 0, 0, &e) == 0, "module %s", name);
}

static void test_order(void)
{
	struct sp_kmods set = { 0 };
	size_t order[SP_KMOD_ORDER], n = 0;
	sp_auto_str got = SP_STR_INIT;
	struct sp_err e;
	char name[SP_KMOD_NAME];

	add(&set, "virtio_net", "net-failover,virtio,virtio_ring");
	add(&set, "net_failover", "failover");
	add(&set, "failover", "");
	add(&set, "virtio", "virtio_ring");
	add(&set, "virtio_ring", "");
	add(&set, "a", "b");
	add(&set, "b", "a");
	add(&set, "lost", "nowhere");
	add(&set, "virtio", "lost"); /* the first one counts */
	ok(sp_kmods_order(&set, "virtio_net", false, order, &n, &e) == 0, "an order");
	for (size_t i = 0; i < n; i++)
		sp_str_addf(&got, "%s ", set.mod[order[i]].name);
	is_str(got.p, "failover net_failover virtio_ring virtio virtio_net ",
	       "needs first, each once");
	ok(sp_kmods_order(&set, "virtio", false, order, &n, &e) == 0 && n == 5, "not again");
	ok(sp_kmods_order(&set, "a", false, order, &n, &e) < 0 && strstr(e.msg, "itself"),
	   "a circle: %s", e.msg);
	ok(sp_kmods_order(&set, "lost", false, order, &n, &e) < 0 && strstr(e.msg, "nowhere"),
	   "a need that is not there: %s", e.msg);
	ok(sp_kmods_order(&set, "vmgenid", true, order, &n, &e) == 0 && n == 5, "an optional one");
	ok(sp_kmods_order(&set, "ext4", false, order, &n, &e) < 0, "one that is not there");
	set.builtin = sp_xstrdup("kernel/fs/ext2/ext2.ko\nkernel/fs/ext4/ext4.ko\n");
	ok(sp_kmods_order(&set, "ext4", false, order, &n, &e) == 0 && n == 5,
	   "one that is built in");
	ok(!sp_kmods_is_builtin(&set, "ext") && sp_kmods_is_builtin(&set, "ext2"),
	   "whole names only");
	for (int i = 0; i < SP_KMOD_ORDER; i++) {
		snprintf(name, sizeof name, "m%d", i);
		if (sp_kmods_add(&set, name, "", 0, 0, &e) < 0 ||
		    sp_kmods_order(&set, name, false, order, &n, &e) < 0)
			break;
	}
	ok(n == SP_KMOD_ORDER && strstr(e.msg, "more than"), "no more than fit: %s", e.msg);
	sp_kmods_free(&set);
}

int main(void)
{
	test_names();
	test_parse();
	test_release();
	test_order();
	return tap_done();
}
