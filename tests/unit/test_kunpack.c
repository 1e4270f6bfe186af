/* SPDX-License-Identifier: Apache-2.0 */
/* A package becomes a kernel and an initramfs; a hostile one becomes an error. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "image/kunpack.h"
#include "kernel_rig.h"
#include "sys/fd.h"
#include "tap.h"

#define MOD "lib/modules/" RELEASE "/kernel/"
#define BUILTIN "lib/modules/" RELEASE "/modules.builtin"


static void take(int fd, struct sp_str *out)
{
	char buf[4096];
	ssize_t n;
	off_t at = 0;

	sp_str_clear(out);
	while ((n = sp_fd_pread(fd, buf, sizeof buf, at)) > 0) {
		sp_str_addn(out, buf, (size_t)n);
		at += n;
	}
}

/* In this very process: what is tested is the work, not the jail. */
static int unpack(const struct rig_file *files, size_t n, struct sp_kunpacked *r,
		  struct sp_str *kernel, struct sp_str *initrd, struct sp_err *e)
{
	struct sp_kunpack k = { .deb = make_deb(files, n),
				.vmlinuz_in = -1,
				.modules = "/nowhere" };
	int p[2], rc;

	k.agent = memfd_create("agent", MFD_CLOEXEC);
	k.vmlinuz = memfd_create("vmlinuz", MFD_CLOEXEC);
	k.initrd = memfd_create("initrd", MFD_CLOEXEC);
	k.scratch = memfd_create("scratch", MFD_CLOEXEC);
	if (write(k.agent, "AGENT", 5) != 5 || pipe2(p, O_CLOEXEC) < 0)
		return -2;
	k.report = p[1];
	sp_kunpack_main(&k);
	rc = sp_fd_read(p[0], r, sizeof *r) == sizeof *r ? sp_kunpacked_check(r, e) : -2;
	if (kernel)
		take(k.vmlinuz, kernel);
	if (initrd)
		take(k.initrd, initrd);
	close(k.deb);
	close(k.agent);
	close(k.vmlinuz);
	close(k.initrd);
	close(k.scratch);
	close(p[0]);
	close(p[1]);
	return rc;
}

static struct sp_str kernel = SP_STR_INIT, net = SP_STR_INIT, plain = SP_STR_INIT,
		     stranger = SP_STR_INIT, packed = SP_STR_INIT;

static void compress(struct sp_str *out, const struct sp_str *in)
{
	struct archive *a = archive_write_new();
	struct archive_entry *e = archive_entry_new();

	archive_write_set_format_raw(a);
	archive_write_add_filter_xz(a);
	archive_write_set_bytes_in_last_block(a, 1);
	archive_write_open(a, out, NULL, rig_write, NULL);
	archive_entry_set_filetype(e, AE_IFREG);
	archive_write_header(a, e);
	archive_write_data(a, in->p, in->len);
	archive_write_close(a);
	archive_write_free(a);
	archive_entry_free(e);
}

static const char builtin[] = "kernel/fs/ext4/ext4.ko\n";

/* A package that is right; tests change one thing of it. */
#define FILES 9
static void good(struct rig_file f[FILES])
{
	const struct rig_file all[FILES] = {
		{ "./boot/vmlinuz-" RELEASE, kernel.p, kernel.len, NULL },
		{ "./" BUILTIN, builtin, sizeof builtin - 1, NULL },
		{ "./" MOD "virtio_pci.ko", plain.p, plain.len, NULL },
		{ "./" MOD "virtio_console.ko", plain.p, plain.len, NULL },
		{ "./" MOD "virtio_blk.ko.xz", packed.p, packed.len, NULL },
		{ "./" MOD "virtio-rng.ko", plain.p, plain.len, NULL },
		{ "./" MOD "virtio_net.ko", net.p, net.len, NULL },
		{ "./" MOD "failover.ko", plain.p, plain.len, NULL },
		{ "./usr/share/doc/copyright", "free", 4, NULL },
	};

	memcpy(f, all, sizeof all);
}

static void list_initrd(const struct sp_str *initrd, struct sp_str *out)
{
	struct archive *a = archive_read_new();
	struct archive_entry *e;
	char data[4096];
	la_ssize_t n;

	archive_read_support_format_cpio(a);
	archive_read_open_memory(a, initrd->p, initrd->len);
	while (archive_read_next_header(a, &e) == ARCHIVE_OK) {
		sp_str_addf(out, "%s %o %lld %lld:%lld\n", archive_entry_pathname(e),
			    archive_entry_mode(e), (long long)archive_entry_mtime(e),
			    (long long)archive_entry_uid(e), (long long)archive_entry_gid(e));
		n = archive_read_data(a, data, sizeof data);
		if (strcmp(archive_entry_pathname(e), "modules.order") == 0)
			sp_str_addf(out, "%.*s", (int)n, data);
		if (strcmp(archive_entry_pathname(e), "modules/virtio_blk.ko") == 0)
			sp_str_addf(out, "%s\n", (size_t)n == plain.len &&
							 memcmp(data, plain.p, plain.len) == 0 ?
						 "as it was before compression" :
						 "other bytes");
	}
	archive_read_free(a);
}

static void test_good(void)
{
	struct rig_file f[FILES];
	sp_auto_str k = SP_STR_INIT, initrd = SP_STR_INIT, again = SP_STR_INIT, list = SP_STR_INIT;
	struct sp_kunpacked r;
	struct sp_err e;

	good(f);
	ok(unpack(f, FILES, &r, &k, &initrd, &e) == 0, "a package is taken apart");
	is_str(r.release, RELEASE, "its release");
	ok(r.nmodules == 6, "six modules");
	ok(k.len == kernel.len && memcmp(k.p, kernel.p, k.len) == 0, "the kernel as it is");
	list_initrd(&initrd, &list);
	is_str(list.p,
	       "dev 40755 0 0:0\ndev/console 20600 0 0:0\ninit 100755 0 0:0\nmodules 40755 0 0:0\n"
	       "modules/virtio_pci.ko 100644 0 0:0\nmodules/virtio_console.ko 100644 0 0:0\n"
	       "modules/virtio_blk.ko 100644 0 0:0\nas it was before compression\n"
	       "modules/virtio_rng.ko 100644 0 0:0\n"
	       "modules/failover.ko 100644 0 0:0\nmodules/virtio_net.ko 100644 0 0:0\n"
	       "modules.order 100644 0 0:0\n/modules/virtio_pci.ko\n/modules/virtio_console.ko\n"
	       "/modules/virtio_blk.ko\n/modules/virtio_rng.ko\n/modules/failover.ko\n"
	       "/modules/virtio_net.ko\nproc 40755 0 0:0\nsys 40755 0 0:0\n",
	       "the initramfs holds this");
	ok(strncmp(initrd.p, "070701", 6) == 0, "as newc");
	ok(unpack(f, FILES, &r, NULL, &again, &e) == 0 && again.len == initrd.len &&
		   memcmp(again.p, initrd.p, again.len) == 0,
	   "and the same bytes every time");
}

static void bad(const struct rig_file *f, size_t n, const char *why, const char *what)
{
	struct sp_kunpacked r;
	struct sp_err e = { 0 };

	ok(unpack(f, n, &r, NULL, NULL, &e) == -1 && strstr(e.msg, why), "%s: %s", what, e.msg);
}

static void test_bad(void)
{
	struct rig_file f[FILES];

	good(f);
	bad(f + 1, FILES - 1, "no kernel", "without a kernel");
	f[8] = f[0];
	bad(f, FILES, "two kernels", "with two");
	good(f);
	f[0] = (struct rig_file){ "boot/vmlinuz-x", NULL, 0, "/etc/passwd" };
	bad(f, FILES, "no kernel", "a link for a kernel");
	good(f);
	f[0] = (struct rig_file){ "boot/vmlinuz-x", "x", 1, NULL };
	bad(f, FILES, "bzImage", "something for a kernel");
	good(f);
	f[3].data = stranger.p;
	f[3].n = stranger.len;
	bad(f, FILES, "another kernel", "a module of another kernel");
	good(f);
	f[3].data = "x";
	f[3].n = 1;
	bad(f, FILES, "not a kernel module", "a module that is none");
	f[3].path = MOD "virtio_console.ko.xz";
	bad(f, FILES, "not a kernel module", "a compressed module that is none");
	f[3].data = packed.p;
	f[3].n = packed.len / 2;
	bad(f, FILES, "decompressed", "a compressed module that is cut off");
	good(f);
	f[3].path = "elsewhere";
	bad(f, FILES, "virtio_console", "without a module that is needed");
	good(f);
	f[7].path = "elsewhere";
	bad(f, FILES, "failover", "without what a module needs");
	good(f);
	f[1].path = "elsewhere";
	bad(f, FILES, "ext4", "without ext4");
}

static void test_check(void)
{
	struct sp_kunpacked r = { .size = sizeof r };
	struct sp_err e;

	snprintf(r.release, sizeof r.release, "6.1");
	ok(sp_kunpacked_check(&r, &e) == 0, "an answer");
	snprintf(r.release, sizeof r.release, "../6.1");
	ok(sp_kunpacked_check(&r, &e) < 0, "a release that is a path");
	snprintf(r.release, sizeof r.release, "6/1");
	ok(sp_kunpacked_check(&r, &e) < 0, "or has a slash");
	memset(r.release, 'a', sizeof r.release);
	ok(sp_kunpacked_check(&r, &e) < 0, "or does not end");
	snprintf(r.release, sizeof r.release, "6.1");
	r.nmodules = 1;
	ok(sp_kunpacked_check(&r, &e) < 0, "a module without a name");
	snprintf(r.modules[0], sizeof r.modules[0], "a\nb");
	ok(sp_kunpacked_check(&r, &e) < 0, "one with a bad name");
	r.nmodules = SP_KMOD_ORDER + 1;
	ok(sp_kunpacked_check(&r, &e) < 0, "too many");
	r.code = 1;
	r.nmodules = 0;
	memset(r.msg, 'm', sizeof r.msg);
	ok(sp_kunpacked_check(&r, &e) < 0 && strlen(e.msg) == sizeof r.msg - 1,
	   "a message is ended");
	r.size = 1;
	ok(sp_kunpacked_check(&r, &e) < 0 && strstr(e.msg, "nonsense"), "of another size");
}

int main(void)
{
	make_kernel(&kernel, RELEASE);
	make_module(&plain, RELEASE, "");
	make_module(&net, RELEASE, "failover");
	make_module(&stranger, "5.10.0", "");
	compress(&packed, &plain);
	test_good();
	test_bad();
	test_check();
	sp_str_free(&kernel);
	sp_str_free(&plain);
	sp_str_free(&net);
	sp_str_free(&stranger);
	sp_str_free(&packed);
	return tap_done();
}
