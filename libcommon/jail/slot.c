/* SPDX-License-Identifier: Apache-2.0 */
/* Uid slots: a lock file each, host-wide. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/jail.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"

#define SLOTS "/run/space-uids"

int sp_jail_slot_take(struct sp_jail_slot *out, struct sp_err *e)
{
	sp_auto_fd dir = -1;
	uint32_t start, i, n;
	char name[16];
	int fd;

	if (mkdir(SLOTS, 0700) < 0 && errno != EEXIST)
		return sp_fail(e, sp_code_of_errno(errno), errno, "make %s", SLOTS);
	dir = open(SLOTS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "open %s", SLOTS);
	if (sp_fs_check_private(dir, SLOTS, e) < 0)
		return -1;
	/* From a random place on: with few of the slots taken the first try nearly always holds,
	 * and a slot just given up is not at once another's. */
	sp_random(&start, sizeof start);
	for (i = 0; i < SP_JAIL_SLOTS; i++) {
		n = (uint32_t)(((uint64_t)start + i) % SP_JAIL_SLOTS);
		snprintf(name, sizeof name, "%u", n);
		/* read-only: the processes that hold the slot inherit it, and can write nothing
		 * there */
		fd = openat(dir, name, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0)
			return sp_fail(e, sp_code_of_errno(errno), errno, "user id slot %u", n);
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			close(fd);
			continue;
		}
		out->fd = fd;
		out->uid[0] = SP_JAIL_UID_BASE + 2 * n;
		out->uid[1] = out->uid[0] + 1;
		return 0;
	}
	return sp_fail(e, SP_BUSY, 0, "all %u user id slots are taken", SP_JAIL_SLOTS);
}
