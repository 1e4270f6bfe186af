/* SPDX-License-Identifier: Apache-2.0 */
#include "image/kunpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "image/deb.h"
#include "image/initramfs.h"
#include "sys/fd.h"

#define MODULE_MAX (64u << 20)
#define VMLINUZ_MAX (256u << 20)
#define BUILTIN_MAX (4u << 20)
#define ENTRIES_MAX 500000

/* What a guest's first minute needs, in the order to load: the bus and the agent's channel, the
 * disk
 * and what makes its checksums fast, randomness, the network card. */
static const struct {
	const char *name;
	bool optional;
} wanted[] = {
	{ "virtio_pci", false },  { "virtio_console", false }, { "virtio_blk", false },
	{ "crc32c_intel", true }, { "ext4", false },           { "virtio_rng", false },
	{ "vmgenid", true },      { "virtio_net", false },
};

struct work {
	const struct sp_kunpack *k;
	struct sp_kmods set;
	off_t scratch_end;
	unsigned char
		*file; /* MODULE_MAX bytes: the file being looked at, then the same unpacked */
	unsigned char *plain;
	bool kernel_seen;
	char release[64];
	char releases_of[64]; /* the first module's, for the message */
};

/* A compressed module's content. */
static int decompress(struct work *w, size_t *n, struct sp_err *e)
{
	struct archive *a = archive_read_new();
	struct archive_entry *entry;
	la_ssize_t got = -1;

	if (a) {
		archive_read_support_format_raw(a);
		archive_read_support_filter_gzip(a);
		archive_read_support_filter_xz(a);
		archive_read_support_filter_zstd(a);
		if (archive_read_open_memory(a, w->file, *n) == ARCHIVE_OK &&
		    archive_read_next_header(a, &entry) == ARCHIVE_OK)
			got = archive_read_data(a, w->plain, MODULE_MAX);
		archive_read_free(a);
	}
	if (got < 0 || got == MODULE_MAX)
		return sp_fail(e, SP_FAIL, 0, "a module cannot be decompressed");
	*n = (size_t)got;
	return 0;
}

/* w->file holds n bytes of the file at path. */
static int take_module(struct work *w, const char *path, size_t n, struct sp_err *e)
{
	struct sp_kmod_info info;
	char name[SP_KMOD_NAME];
	const unsigned char *bytes = w->file;
	const char *suffix = strrchr(path, '.');

	if (sp_kmod_name(path, name) < 0)
		return 0;
	if (strcmp(suffix, ".ko") != 0) {
		if (decompress(w, &n, e) < 0)
			return sp_wrap(e, "%.100s", name);
		bytes = w->plain;
	}
	if (sp_kmod_parse(bytes, n, &info) < 0)
		return sp_fail(e, SP_FAIL, 0, "'%s' is not a kernel module", name);
	/* all of one kernel: the release is compared once it is known */
	if (!w->releases_of[0])
		snprintf(w->releases_of, sizeof w->releases_of, "%s", info.release);
	if (strcmp(w->releases_of, info.release) != 0)
		return sp_fail(e, SP_FAIL, 0, "module '%s' is of another kernel", name);
	if (sp_fd_pwrite(w->k->scratch, bytes, n, w->scratch_end) < 0)
		return sp_fail(e, SP_FAIL, 0, "no room to unpack modules");
	if (sp_kmods_add(&w->set, name, info.depends, w->scratch_end, n, e) < 0)
		return -1;
	w->scratch_end += (off_t)n;
	return 0;
}

static bool is_module(const char *path)
{
	char name[SP_KMOD_NAME];

	return sp_kmod_name(path, name) == 0;
}

static const char *base_of(const char *path)
{
	const char *p = strrchr(path, '/');

	return p ? p + 1 : path;
}

static int take_kernel_entry(struct work *w, struct archive *a, struct sp_err *e)
{
	uint64_t total = 0;
	la_ssize_t got;

	if (w->kernel_seen)
		return sp_fail(e, SP_FAIL, 0, "the package holds two kernels");
	w->kernel_seen = true;
	while ((got = archive_read_data(a, w->file, MODULE_MAX)) > 0) {
		total += (uint64_t)got;
		if (total > VMLINUZ_MAX)
			return sp_fail(e, SP_FAIL, 0, "the kernel is larger than %u MiB",
				       VMLINUZ_MAX >> 20);
		if (sp_fd_write(w->k->vmlinuz, w->file, (size_t)got) < 0)
			return sp_fail(e, SP_FAIL, 0, "no room for the kernel");
	}
	if (got < 0)
		return sp_fail(e, SP_FAIL, 0, "package: %s", archive_error_string(a));
	return 0;
}

static int take_entry(struct work *w, struct archive *a, const char *path, struct sp_err *e)
{
	bool builtin = strcmp(base_of(path), "modules.builtin") == 0;
	la_ssize_t got;

	if (sp_str_has_prefix(path, "./"))
		path += 2;
	if (sp_str_has_prefix(path, "boot/vmlinuz-"))
		return take_kernel_entry(w, a, e);
	if (!builtin && !is_module(path))
		return 0;
	got = archive_read_data(a, w->file, MODULE_MAX);
	if (got < 0)
		return sp_fail(e, SP_FAIL, 0, "package: %s", archive_error_string(a));
	if (got == (builtin ? BUILTIN_MAX : MODULE_MAX))
		return sp_fail(e, SP_FAIL, 0, "'%.100s' is too large", base_of(path));
	if (!builtin)
		return take_module(w, path, (size_t)got, e);
	free(w->set.builtin);
	w->set.builtin = sp_xcalloc((size_t)got + 1, 1);
	memcpy(w->set.builtin, w->file, (size_t)got);
	return 0;
}

static int read_deb(struct work *w, struct sp_err *e)
{
	struct sp_deb *d = sp_deb_open(w->k->deb, e);
	struct archive *a = d ? sp_deb_files(d) : NULL;
	struct archive_entry *entry;
	size_t entries = 0;
	int rc, ok = 0;

	if (!d)
		return -1;
	while ((rc = archive_read_next_header(a, &entry)) == ARCHIVE_OK || rc == ARCHIVE_WARN) {
		const char *path = archive_entry_pathname(entry);

		if (++entries > ENTRIES_MAX) {
			ok = sp_fail(e, SP_FAIL, 0, "the package holds too many files");
			break;
		}
		if (!path || archive_entry_filetype(entry) != AE_IFREG ||
		    archive_entry_hardlink(entry))
			continue;
		ok = take_entry(w, a, path, e);
		if (ok < 0)
			break;
	}
	if (ok == 0 && rc != ARCHIVE_EOF)
		ok = sp_fail(e, SP_FAIL, 0, "package: %s", archive_error_string(a));
	if (ok == 0 && !w->kernel_seen)
		ok = sp_fail(e, SP_FAIL, 0, "the package holds no kernel (boot/vmlinuz-…)");
	sp_deb_close(&d);
	return ok;
}

static int read_file(struct work *w, const char *path, size_t max, size_t *n, struct sp_err *e)
{
	sp_auto_fd fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : sp_fd_read(fd, w->file, max);

	if (got < 0)
		return sp_fail(e, SP_FAIL, 0, "'%.100s' cannot be read", base_of(path));
	if ((size_t)got == max)
		return sp_fail(e, SP_FAIL, 0, "'%.100s' is too large", base_of(path));
	*n = (size_t)got;
	return 0;
}

static int read_folder(struct work *w, struct sp_err *e)
{
	sp_auto_free char *top = sp_xstrdup(w->k->modules);
	char *const tops[] = { top, NULL };
	FTS *tree = fts_open(tops, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	FTSENT *f;
	size_t n = 0, entries = 0;
	int ok = 0;

	if (!tree)
		return sp_fail(e, SP_FAIL, 0, "the folder of modules cannot be read");
	while (ok == 0 && (f = fts_read(tree))) {
		bool builtin = strcmp(f->fts_name, "modules.builtin") == 0;

		if (++entries > ENTRIES_MAX)
			ok = sp_fail(e, SP_FAIL, 0, "the folder holds too many files");
		if (f->fts_info != FTS_F || (!builtin && !is_module(f->fts_name)))
			continue;
		ok = read_file(w, f->fts_path, builtin ? BUILTIN_MAX : MODULE_MAX, &n, e);
		if (ok == 0 && !builtin)
			ok = take_module(w, f->fts_path, n, e);
		if (ok == 0 && builtin) {
			free(w->set.builtin);
			w->set.builtin = sp_xcalloc(n + 1, 1);
			memcpy(w->set.builtin, w->file, n);
		}
	}
	fts_close(tree);
	return ok;
}

static int copy_kernel(struct work *w, struct sp_err *e)
{
	struct stat st;

	if (fstat(w->k->vmlinuz_in, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > VMLINUZ_MAX)
		return sp_fail(e, SP_FAIL, 0, "the kernel is no file, or larger than %u MiB",
			       VMLINUZ_MAX >> 20);
	if (sp_fd_copy(w->k->vmlinuz_in, w->k->vmlinuz, st.st_size) < 0)
		return sp_fail(e, SP_FAIL, 0, "the kernel cannot be copied");
	return 0;
}

static int check_release(struct work *w, struct sp_err *e)
{
	ssize_t n = sp_fd_pread(w->k->vmlinuz, w->file, 65536, 0);

	if (n < 0 || sp_kernel_release(w->file, (size_t)n, w->release) < 0)
		return sp_fail(e, SP_FAIL, 0, "the kernel is no x86 bzImage");
	if (w->releases_of[0] && strcmp(w->release, w->releases_of) != 0)
		return sp_fail(e, SP_FAIL, 0, "the kernel is %s, its modules are of %s", w->release,
			       w->releases_of);
	return 0;
}

static int put_modules(struct work *w, struct sp_initramfs *out, const size_t *order, size_t n,
		       struct sp_err *e)
{
	sp_auto_str list = SP_STR_INIT;
	char path[SP_KMOD_NAME + 16];

	for (size_t i = 0; i < n; i++) {
		const struct sp_kmod *m = &w->set.mod[order[i]];

		snprintf(path, sizeof path, "modules/%s.ko", m->name);
		if (sp_initramfs_copy(out, path, 0644, w->k->scratch, m->at, m->size, e) < 0)
			return -1;
		sp_str_addf(&list, "/%s\n", path);
	}
	return sp_initramfs_file(out, "modules.order", 0644, list.p, list.len, e);
}

static int write_initrd(struct work *w, const size_t *order, size_t n, struct sp_err *e)
{
	struct sp_initramfs *out = sp_initramfs_begin(w->k->initrd, e);
	struct stat st;
	int rc = -1;

	if (!out)
		return -1;
	if (fstat(w->k->agent, &st) < 0 || st.st_size <= 0 || st.st_size > MODULE_MAX) {
		sp_fail(e, SP_FAIL, 0, "the guest agent cannot be read");
		goto undo;
	}
	if (sp_initramfs_folder(out, "dev", e) < 0 ||
	    sp_initramfs_device(out, "dev/console", 5, 1, e) < 0 ||
	    sp_initramfs_copy(out, "init", 0755, w->k->agent, 0, (size_t)st.st_size, e) < 0 ||
	    sp_initramfs_folder(out, "modules", e) < 0 || put_modules(w, out, order, n, e) < 0 ||
	    sp_initramfs_folder(out, "proc", e) < 0 || sp_initramfs_folder(out, "sys", e) < 0)
		goto undo;
	rc = sp_initramfs_end(&out, e);
undo:
	sp_initramfs_free(&out);
	return rc;
}

static int work_through(struct work *w, struct sp_kunpacked *r, struct sp_err *e)
{
	size_t order[SP_KMOD_ORDER], n = 0;

	if (w->k->deb >= 0 ? read_deb(w, e) < 0 : (copy_kernel(w, e) < 0 || read_folder(w, e) < 0))
		return -1;
	if (check_release(w, e) < 0)
		return -1;
	for (size_t i = 0; i < SP_NELEM(wanted); i++)
		if (sp_kmods_order(&w->set, wanted[i].name, wanted[i].optional, order, &n, e) < 0)
			return -1;
	if (write_initrd(w, order, n, e) < 0)
		return -1;
	snprintf(r->release, sizeof r->release, "%s", w->release);
	for (size_t i = 0; i < n; i++)
		snprintf(r->modules[i], sizeof r->modules[i], "%s", w->set.mod[order[i]].name);
	r->nmodules = (uint32_t)n;
	return 0;
}

int sp_kunpack_main(void *arg)
{
	struct work w = { .k = arg };
	struct sp_kunpacked r = { .size = sizeof r };
	struct sp_err e;

	w.file = sp_xmalloc(MODULE_MAX);
	w.plain = sp_xmalloc(MODULE_MAX);
	if (work_through(&w, &r, &e) < 0) {
		r.code = e.code;
		snprintf(r.msg, sizeof r.msg, "%.*s", (int)sizeof r.msg - 1, e.msg);
	}
	sp_kmods_free(&w.set);
	free(w.file);
	free(w.plain);
	return sp_fd_write(w.k->report, &r, sizeof r) < 0;
}

static bool is_plain(const char *s, size_t cap, const char *more)
{
	size_t n = strnlen(s, cap);

	if (!n || n == cap || s[0] == '.' || s[0] == '-')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
		      (s[i] >= '0' && s[i] <= '9') || strchr(more, s[i])))
			return false;
	return true;
}

int sp_kunpacked_check(struct sp_kunpacked *r, struct sp_err *e)
{
	bool good = r->size == sizeof *r && r->nmodules <= SP_KMOD_ORDER;

	if (good && r->code) {
		r->msg[sizeof r->msg - 1] = '\0';
		return sp_fail(e, SP_FAIL, 0, "%s", r->msg);
	}
	good = good && is_plain(r->release, sizeof r->release, ".+~_-");
	for (uint32_t i = 0; good && i < r->nmodules; i++)
		good = is_plain(r->modules[i], sizeof r->modules[i], "_");
	return good ? 0 : sp_fail(e, SP_FAIL, 0, "the confined process answered nonsense");
}
