/* SPDX-License-Identifier: Apache-2.0 */
/* Leftovers: what a writer that died left behind under a hidden name.
 *
 *   .trash-*   its rename was the commit: emptied
 *   .new-<id>  half made: removed, unless an unfinished operation speaks of that id (its repair
 *              decides, and may even finish it)
 *   .new-*     other ones are made under the root lock, which is ours: removed
 *   .tmp-*     a record on its way to its name: removed when it is old and nobody has it open
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state/op.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "text/id.h"
#include "vol/store_int.h"

#define TMP_AGE_NS (60LL * 1000000000)
#define TMP_OLD_NS (3600LL * 1000000000)

struct sweep {
	const struct sp_roots *roots;
	struct sp_str open; /* records of the unfinished operations, as text */
	int depth;          /* folders below the one that is swept */
	struct sp_err *e;
};

static int note_open(const struct sp_roots *r, const char *op_id, void *arg)
{
	struct sweep *s = arg;
	sp_auto_json *rec = sp_op_load(r, op_id, s->e);

	if (!rec)
		return s->e->code == SP_ABSENT ? 0 : -1;
	sp_json_print(rec, &s->open);
	sp_str_addc(&s->open, '\n');
	return 0;
}

/* Is it nobody's? A writer has its file open from making it until just before the rename; a lease
 * for writing is given only where no one else has a file open (fcntl(2)). The age covers the rest
 * of the way, and symbolic links, which are never open. */
static bool is_abandoned(int dirfd, const char *name)
{
	sp_auto_fd fd = -1;
	struct stat st;
	int64_t age;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	age = sp_clock_real() - ((int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
	if (!S_ISREG(st.st_mode))
		return age > TMP_AGE_NS;
	if (age < TMP_AGE_NS)
		return false;
	fd = openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (fcntl(fd, F_SETLEASE, F_WRLCK) == 0)
		return true;
	return errno != EAGAIN && errno != EBUSY && age > TMP_OLD_NS;
}

static bool has_prefix(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

static int sweep_entry(int dirfd, const char *name, void *arg)
{
	struct sweep *s = arg;
	const char *id = name + strlen(SP_FS_NEW);

	if (has_prefix(name, SP_FS_TRASH))
		return sp_vol_empty(dirfd, name, s->e);
	if (has_prefix(name, SP_FS_TMP))
		return is_abandoned(dirfd, name) ? sp_fs_unlink(dirfd, name, s->e) : 0;
	if (has_prefix(name, SP_FS_NEW)) {
		if (sp_id_looks_like(id) && strstr(s->open.p, id))
			return 0;
		return sp_vol_remove_tree(dirfd, name, s->e);
	}
	if (s->depth > 0 && name[0] != '.') {
		struct sweep below = *s;
		sp_auto_fd fd =
			openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		below.depth--;
		return fd < 0 ? 0 : sp_fs_each(fd, sweep_entry, &below, s->e);
	}
	return 0;
}

static int sweep_folders(struct sweep *s)
{
	static const struct {
		const char *name;
		int depth;
	} dirs[] = { { SP_DIR_CHECKPOINTS, 0 }, { SP_DIR_SANDBOXES, 1 }, { SP_DIR_KERNELS, 0 },
		     { SP_DIR_NAMES, 1 },       { SP_DIR_OPS, 0 },       { SP_DIR_QUEUE, 0 },
		     { SP_DIR_WARM, 1 } };
	size_t i;

	if (sp_fs_each(s->roots->store, sweep_entry, s, s->e) < 0)
		return -1;
	for (i = 0; i < SP_NELEM(dirs); i++) {
		sp_auto_fd fd = sp_fs_open_dir(s->roots->store, dirs[i].name, s->e);

		s->depth = dirs[i].depth;
		if (fd < 0 || sp_fs_each(fd, sweep_entry, s, s->e) < 0)
			return -1;
	}
	return 0;
}

int sp_store_sweep(const struct sp_roots *r, struct sp_err *e)
{
	struct sweep s = { .roots = r, .open = SP_STR_INIT, .e = e };
	int rc = sp_op_sweep(r, e);

	if (rc == 0)
		rc = sp_op_each_open(r, note_open, &s, e);
	if (rc == 0)
		rc = sweep_folders(&s);
	sp_str_free(&s.open);
	return rc < 0 ? -1 : 0;
}
