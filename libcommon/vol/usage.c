/* SPDX-License-Identifier: Apache-2.0 */
/* What a file costs: FIEMAP tells of each extent whether another file has it too
 * (Documentation/filesystems/fiemap.rst). */
#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "vol/store.h"

#define BATCH 512

int sp_vol_usage(int fd, int64_t *unique, int64_t *shared, struct sp_err *e)
{
	union {
		struct fiemap map;
		char mem[sizeof(struct fiemap) + BATCH * sizeof(struct fiemap_extent)];
	} u;
	uint64_t at = 0;
	unsigned i;

	*unique = *shared = 0;
	for (;;) {
		const struct fiemap_extent *last;

		u.map = (struct fiemap){ .fm_start = at,
					 .fm_length = FIEMAP_MAX_OFFSET - at,
					 .fm_extent_count = BATCH };
		if (ioctl(fd, FS_IOC_FIEMAP, &u.map) < 0)
			return sp_fail(e, SP_FAIL, errno, "ask for a file's extents");
		if (!u.map.fm_mapped_extents)
			return 0;
		for (i = 0; i < u.map.fm_mapped_extents; i++) {
			const struct fiemap_extent *x = &u.map.fm_extents[i];

			*(x->fe_flags & FIEMAP_EXTENT_SHARED ? shared : unique) +=
				(int64_t)x->fe_length;
		}
		last = &u.map.fm_extents[u.map.fm_mapped_extents - 1];
		if (last->fe_flags & FIEMAP_EXTENT_LAST)
			return 0;
		at = last->fe_logical + last->fe_length;
	}
}
