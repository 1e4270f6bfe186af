/* SPDX-License-Identifier: Apache-2.0 */
/* State roots in a test's own folder, for what needs no btrfs: records, names, operations,
 * events. */
#ifndef SP_TESTS_ROOTS_H
#define SP_TESTS_ROOTS_H

#include <unistd.h>

#include "state/roots.h"
#include "tmp.h"

__attribute__((unused)) static struct sp_roots roots_make(void)
{
	static const char *const dirs[] = { SP_DIR_CHECKPOINTS, SP_DIR_SANDBOXES, SP_DIR_KERNELS,
					    SP_DIR_NAMES,       SP_DIR_OPS,       SP_DIR_QUEUE,
					    SP_DIR_WARM };
	struct sp_roots r = { .run = -1 };
	struct sp_err e;

	/* In memory where there is such a place: what is tested here is order, not the disk, and
	 * thousands of flushes to a disk that others use too take minutes. */
	if (access("/dev/shm", W_OK) == 0)
		setenv("SPACE_TEST_TMP", "/dev/shm", 1);
	r.store = tmp_make();
	for (size_t i = 0; i < SP_NELEM(dirs); i++)
		if (sp_fs_mkdir(r.store, dirs[i], 0700, &e) < 0)
			abort();
	return r;
}

__attribute__((unused)) static int roots_count(const struct sp_roots *r, const char *dir)
{
	struct sp_err e;
	sp_auto_fd fd = sp_fs_open_dir(r->store, dir, &e);

	return fd < 0 ? -1 : tmp_count(fd);
}

#endif
