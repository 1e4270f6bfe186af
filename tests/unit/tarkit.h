/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of images: tars made by hand, disks to unpack them on, and e2fsprogs to look inside. */
#ifndef SP_TESTS_TARKIT_H
#define SP_TESTS_TARKIT_H

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "image/layer.h"
#include "image/mkfs.h"
#include "sys/proc.h"

/* --- a tar in memory --- */

struct kit {
	struct archive *a;
	struct sp_str out;
};

__attribute__((unused)) static la_ssize_t kit_take(struct archive *a, void *arg, const void *p,
						   size_t n)
{
	(void)a;
	sp_str_addn(&((struct kit *)arg)->out, p, n);
	return (la_ssize_t)n;
}

/* filter: "gzip", "xz", "zstd", "bzip2", or NULL */
__attribute__((unused)) static void kit_begin(struct kit *k, const char *filter)
{
	k->out = (struct sp_str)SP_STR_INIT;
	k->a = archive_write_new();
	archive_write_set_format_pax(k->a);
	archive_write_set_format_option(k->a, "pax", "hdrcharset", "BINARY");
	if (filter)
		archive_write_add_filter_by_name(k->a, filter);
	archive_write_set_bytes_per_block(k->a, 10240);
	archive_write_set_bytes_in_last_block(k->a, 1);
	archive_write_open(k->a, k, NULL, kit_take, NULL);
}

__attribute__((unused)) static struct archive_entry *kit_entry(const char *path, mode_t mode)
{
	struct archive_entry *ae = archive_entry_new();

	archive_entry_copy_pathname(ae, path);
	archive_entry_set_mode(ae, mode);
	archive_entry_set_mtime(ae, 1000000000, 5);
	archive_entry_set_size(ae, 0);
	return ae;
}

__attribute__((unused)) static void kit_put(struct kit *k, struct archive_entry *ae,
					    const void *data, size_t n)
{
	archive_entry_set_size(ae, (la_int64_t)n);
	archive_write_header(k->a, ae);
	if (n)
		archive_write_data(k->a, data, n);
	archive_write_finish_entry(k->a);
	archive_entry_free(ae);
}

__attribute__((unused)) static void kit_file(struct kit *k, const char *path, const char *text)
{
	kit_put(k, kit_entry(path, S_IFREG | 0644), text, strlen(text));
}

__attribute__((unused)) static void kit_dir(struct kit *k, const char *path, mode_t perm)
{
	kit_put(k, kit_entry(path, S_IFDIR | perm), NULL, 0);
}

__attribute__((unused)) static void kit_link(struct kit *k, const char *path, const char *to)
{
	struct archive_entry *ae = kit_entry(path, S_IFLNK | 0777);

	archive_entry_copy_symlink(ae, to);
	kit_put(k, ae, NULL, 0);
}

__attribute__((unused)) static void kit_hard(struct kit *k, const char *path, const char *to)
{
	struct archive_entry *ae = kit_entry(path, S_IFREG | 0644);

	archive_entry_copy_hardlink(ae, to);
	kit_put(k, ae, NULL, 0);
}

__attribute__((unused)) static void kit_node(struct kit *k, const char *path, mode_t type,
					     unsigned int major, unsigned int minor)
{
	struct archive_entry *ae = kit_entry(path, type | 0600);

	archive_entry_set_rdevmajor(ae, major);
	archive_entry_set_rdevminor(ae, minor);
	kit_put(k, ae, NULL, 0);
}

__attribute__((unused)) static void kit_end(struct kit *k)
{
	archive_write_close(k->a);
	archive_write_free(k->a);
	k->a = NULL;
}

/* --- a disk --- */

struct disk {
	char path[64];
	int fd;
	struct sp_ext4 *x;
	struct sp_layers l;
};

/* An empty file system of some MiB in a temporary file. */
__attribute__((unused)) static bool disk_make(struct disk *d, int mib)
{
	const char *argv[32];
	sp_auto_str out = SP_STR_INIT;
	struct sp_err e;

	memset(d, 0, sizeof *d);
	/* in memory where that can be: e2fsprogs sync a lot */
	snprintf(d->path, sizeof d->path, "%s/space-unit-disk.XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	d->fd = mkostemp(d->path, O_CLOEXEC);
	if (d->fd < 0 || ftruncate(d->fd, (off_t)mib << 20) < 0)
		return false;
	sp_mkfs_argv(d->path, (int64_t)mib << 20, argv);
	if (sp_proc_run(argv, -1, &out, &e) < 0 || sp_ext4_open(d->fd, 64 << 20, &d->x, &e) < 0) {
		printf("# %s\n", e.msg);
		return false;
	}
	d->l = (struct sp_layers){ .x = d->x, .max_bytes = 256 << 20, .max_entries = 100000 };
	return true;
}

/* One more layer; the tar stays the caller's. */
__attribute__((unused)) static int disk_apply(struct disk *d, const void *tar, size_t n,
					      bool whiteouts, struct sp_err *e)
{
	struct sp_tarball_want want = { .size = -1, .max_tar = sp_layers_max_tar(&d->l) };
	sp_auto_tarball *t = NULL;
	struct sp_mem_stream mem;

	sp_mem_stream_init(&mem, tar, n);
	if (sp_tarball_open(&mem.base, &want, NULL, &t, e) < 0 ||
	    sp_layer_apply(&d->l, t, whiteouts, e) < 0 || sp_tarball_end(t, e) < 0)
		return -1;
	return 0;
}

__attribute__((unused)) static int disk_apply_kit(struct disk *d, struct kit *k, bool whiteouts,
						  struct sp_err *e)
{
	int rc;

	kit_end(k);
	rc = disk_apply(d, k->out.p, k->out.len, whiteouts, e);
	sp_str_free(&k->out);
	return rc;
}

/* Writes it out and has e2fsck look at it: true where it is clean. */
__attribute__((unused)) static bool disk_close(struct disk *d)
{
	const char *argv[] = { "e2fsck", "-f", "-n", d->path, NULL };
	sp_auto_str out = SP_STR_INIT;
	struct sp_ext4_counts counts;
	struct sp_err e;

	if (sp_ext4_close(&d->x, &counts, &e) < 0 || sp_proc_run(argv, -1, &out, &e) < 0) {
		printf("# %s\n# %s\n", e.msg, out.p);
		return false;
	}
	return true;
}

__attribute__((unused)) static void disk_drop(struct disk *d)
{
	sp_ext4_drop(&d->x);
	if (d->fd >= 0)
		close(d->fd);
	unlink(d->path);
}

/* What debugfs says to one request. */
__attribute__((unused)) static void disk_ask(struct disk *d, const char *request,
					     struct sp_str *out)
{
	const char *argv[] = { "debugfs", "-R", request, d->path, NULL };
	struct sp_err e;

	sp_str_clear(out);
	sp_proc_run(argv, -1, out, &e);
}

/* Whether a file in the image has that text. */
__attribute__((unused)) static bool disk_has(struct disk *d, const char *path, const char *text)
{
	sp_auto_str out = SP_STR_INIT;
	char request[600];
	const char *got;

	snprintf(request, sizeof request, "cat \"%s\"", path);
	disk_ask(d, request, &out);
	/* debugfs greets first, on standard error */
	got = strchr(out.p, '\n');
	got = got && sp_str_has_prefix(out.p, "debugfs ") ? got + 1 : out.p;
	if (strcmp(got, text) != 0)
		printf("# %s: got '%.200s', want '%s'\n", path, got, text);
	return !strcmp(got, text);
}

/* Whether "stat" of a path shows that text. */
__attribute__((unused)) static bool disk_stat_has(struct disk *d, const char *path,
						  const char *text)
{
	sp_auto_str out = SP_STR_INIT;
	char request[600];

	snprintf(request, sizeof request, "stat \"%s\"", path);
	disk_ask(d, request, &out);
	if (!strstr(out.p, text))
		printf("# stat %s: no '%s' in\n%s\n", path, text, out.p);
	return strstr(out.p, text) != NULL;
}

/* The other way round, of a file that is there. */
__attribute__((unused)) static bool disk_stat_lacks(struct disk *d, const char *path,
						    const char *text)
{
	sp_auto_str out = SP_STR_INIT;
	char request[600];

	snprintf(request, sizeof request, "stat \"%s\"", path);
	disk_ask(d, request, &out);
	return strstr(out.p, "Inode:") && !strstr(out.p, text);
}

__attribute__((unused)) static bool disk_lacks(struct disk *d, const char *path)
{
	sp_auto_str out = SP_STR_INIT;
	char request[600];

	snprintf(request, sizeof request, "stat \"%s\"", path);
	disk_ask(d, request, &out);
	return strstr(out.p, "File not found") != NULL;
}

#endif
