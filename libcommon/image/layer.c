/* SPDX-License-Identifier: Apache-2.0 */
#include "image/layer.h"

#include <archive_entry.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "image/acl.h"

#define WH ".wh."
#define WH_META ".wh..wh."
#define WH_OPAQUE ".wh..wh..opq"
#define XATTRS_MAX 64
#define HEADER_MAX 4096 /* of an entry in the tar, on average: two blocks, a pax record, its data */

/* An entry as it goes into the image. The texts are the archive's until the next header. */
struct item {
	struct archive_entry *ae;
	const char *path;
	struct sp_ext4_meta meta;
	struct sp_xattr xattrs[XATTRS_MAX];
	struct sp_str acl, default_acl;
};

int64_t sp_layers_max_tar(const struct sp_layers *l)
{
	return l->max_bytes + l->max_entries * HEADER_MAX;
}

static int add_xattr(struct item *it, const char *name, const void *value, size_t n,
		     struct sp_err *e)
{
	if (it->meta.nxattrs == XATTRS_MAX)
		return sp_fail(e, SP_FAIL, 0, "entry '%.200s': more than %d extended attributes",
			       it->path, XATTRS_MAX);
	it->xattrs[it->meta.nxattrs++] = (struct sp_xattr){ name, value, n };
	return 0;
}

static int take_xattrs(struct item *it, struct sp_err *e)
{
	const char *name;
	const void *value;
	size_t n;

	archive_entry_xattr_reset(it->ae);
	while (archive_entry_xattr_next(it->ae, &name, &value, &n) == ARCHIVE_OK) {
		if (sp_str_has_prefix(name, "system.posix_acl_") && !sp_acl_is_valid(value, n))
			return sp_fail(e, SP_FAIL, 0, "entry '%.200s': bad access control list",
				       it->path);
		if (add_xattr(it, name, value, n, e) < 0)
			return -1;
	}
	if (sp_acl_pack(it->ae, false, &it->acl) &&
	    add_xattr(it, "system.posix_acl_access", it->acl.p, it->acl.len, e) < 0)
		return -1;
	if (S_ISDIR(it->meta.mode) && sp_acl_pack(it->ae, true, &it->default_acl) &&
	    add_xattr(it, "system.posix_acl_default", it->default_acl.p, it->default_acl.len, e) <
		    0)
		return -1;
	it->meta.xattrs = it->xattrs;
	return 0;
}

static int take_meta(struct item *it, struct sp_err *e)
{
	la_int64_t uid = archive_entry_uid(it->ae), gid = archive_entry_gid(it->ae);

	if (uid < 0 || uid >= UINT32_MAX || gid < 0 || gid >= UINT32_MAX)
		return sp_fail(e, SP_FAIL, 0,
			       "entry '%.200s': owner %lld:%lld is no number of a user", it->path,
			       (long long)uid, (long long)gid);
	it->meta = (struct sp_ext4_meta){
		.mode = archive_entry_filetype(it->ae) | (archive_entry_perm(it->ae) & 07777),
		.uid = (uint32_t)uid,
		.gid = (uint32_t)gid,
		.mtime = archive_entry_mtime(it->ae),
		.mtime_ns = (uint32_t)archive_entry_mtime_nsec(it->ae),
	};
	if (S_ISCHR(it->meta.mode) || S_ISBLK(it->meta.mode)) {
		dev_t major = archive_entry_rdevmajor(it->ae),
		      minor = archive_entry_rdevminor(it->ae);

		it->meta.major = major > UINT32_MAX ? UINT32_MAX : (uint32_t)major;
		it->meta.minor = minor > UINT32_MAX ? UINT32_MAX : (uint32_t)minor;
	}
	return take_xattrs(it, e);
}

static int copy_data(struct sp_layers *l, struct sp_tarball *t, const struct item *it,
		     struct sp_err *e)
{
	struct archive *a = sp_tarball_tar(t);
	const void *buf;
	la_int64_t at;
	size_t n;
	int rc;

	while ((rc = archive_read_data_block(a, &buf, &n, &at)) == ARCHIVE_OK) {
		l->bytes += (int64_t)n;
		if (l->bytes > l->max_bytes)
			return sp_fail(e, SP_FAIL, 0, "more than %lld bytes of content",
				       (long long)l->max_bytes);
		if (l->pulse)
			l->pulse->content = l->bytes;
		if (sp_ext4_write(l->x, buf, n, at, e) < 0)
			return sp_wrap(e, "entry '%.150s'", it->path);
	}
	return rc == ARCHIVE_EOF ? 0 : sp_tarball_fail(t, "read the archive", e);
}

static int put_file(struct sp_layers *l, struct sp_tarball *t, const struct item *it,
		    struct sp_err *e)
{
	if (sp_ext4_begin(l->x, it->path, &it->meta, archive_entry_size(it->ae), e) < 0)
		return -1;
	if (archive_entry_size(it->ae) > 0 && copy_data(l, t, it, e) < 0)
		return -1;
	return sp_ext4_end(l->x, e);
}

static int put_item(struct sp_layers *l, struct sp_tarball *t, struct item *it, struct sp_err *e)
{
	const char *link = archive_entry_hardlink(it->ae);

	if (link)
		return sp_ext4_hardlink(l->x, it->path, link, e);
	if (take_meta(it, e) < 0)
		return -1;
	switch (it->meta.mode & S_IFMT) {
	case S_IFREG:
		return put_file(l, t, it, e);
	case S_IFDIR:
		return sp_ext4_dir(l->x, it->path, &it->meta, e);
	case S_IFLNK:
		link = archive_entry_symlink(it->ae);
		it->meta.mode = S_IFLNK | 0777;
		return sp_ext4_symlink(l->x, it->path, link ? link : "", &it->meta, e);
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
		return sp_ext4_node(l->x, it->path, &it->meta, e);
	case S_IFSOCK:
		return 0;
	default:
		return sp_fail(e, SP_FAIL, 0, "entry '%.200s': unknown type", it->path);
	}
}

/* The last component, without slashes behind it; its length in *n. */
static const char *base_name(const char *path, size_t *n)
{
	size_t end = strlen(path), from;

	while (end && path[end - 1] == '/')
		end--;
	from = end;
	while (from && path[from - 1] != '/')
		from--;
	*n = end - from;
	return path + from;
}

/* Below a folder of the union file system's own. */
static bool is_below_meta(const char *path, const char *base)
{
	for (const char *p = path; p < base; p += strcspn(p, "/"), p += strspn(p, "/"))
		if (sp_str_has_prefix(p, WH_META))
			return true;
	return false;
}

/* 1 it was a whiteout or the like and is done, 0 it is none, -1 error. */
static int put_whiteout(struct sp_layers *l, const char *path, struct sp_err *e)
{
	sp_auto_str other = SP_STR_INIT;
	size_t n;
	const char *base = base_name(path, &n), *hidden = base + sizeof WH - 1;

	if (is_below_meta(path, base))
		return 1;
	if (n < sizeof WH - 1 || strncmp(base, WH, sizeof WH - 1) != 0)
		return 0;
	sp_str_addn(&other, path, (size_t)(base - path));
	if (n == sizeof WH_OPAQUE - 1 && !strncmp(base, WH_OPAQUE, n)) {
		sp_str_add(&other, "."); /* the folder, through links */
		return sp_ext4_opaque(l->x, other.p, e) < 0 ? -1 : 1;
	}
	if (n >= sizeof WH_META - 1 && !strncmp(base, WH_META, sizeof WH_META - 1))
		return 1;
	n -= sizeof WH - 1;
	if (!n || (n == 1 && hidden[0] == '.') || (n == 2 && !strncmp(hidden, "..", 2)))
		return sp_fail(e, SP_FAIL, 0, "entry '%.200s': a whiteout of nothing", path);
	sp_str_addn(&other, hidden, n);
	return sp_ext4_whiteout(l->x, other.p, e) < 0 ? -1 : 1;
}

static int one_entry(struct sp_layers *l, struct sp_tarball *t, struct archive_entry *ae,
		     bool whiteouts, struct sp_err *e)
{
	struct item it = { .ae = ae,
			   .path = archive_entry_pathname(ae),
			   .acl = SP_STR_INIT,
			   .default_acl = SP_STR_INIT };
	int rc;

	if (!it.path || !it.path[0])
		return sp_fail(e, SP_FAIL, 0, "an entry without a name");
	if (++l->entries > l->max_entries)
		return sp_fail(e, SP_FAIL, 0, "more than %lld entries", (long long)l->max_entries);
	rc = whiteouts ? put_whiteout(l, it.path, e) : 0;
	if (rc == 0)
		rc = put_item(l, t, &it, e);
	sp_str_free(&it.acl);
	sp_str_free(&it.default_acl);
	if (rc < 0 && !strchr(e->msg, '\'')) /* it names nothing yet */
		return sp_wrap(e, "entry '%.150s'", it.path);
	return rc < 0 ? -1 : 0;
}

int sp_layer_apply(struct sp_layers *l, struct sp_tarball *t, bool whiteouts, struct sp_err *e)
{
	struct archive *a = sp_tarball_tar(t);
	struct archive_entry *ae;
	int rc;

	sp_ext4_layer(l->x, ++l->count);
	for (;;) {
		rc = archive_read_next_header(a, &ae);
		if (rc == ARCHIVE_EOF)
			return 0;
		/* WARN: names that are not in the locale's letters, which are taken as bytes */
		if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
			return sp_tarball_fail(t, "read the archive", e);
		if (one_entry(l, t, ae, whiteouts, e) < 0)
			return -1;
	}
}
