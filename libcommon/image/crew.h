/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of one import, seen from their parent.
 *
 *   unpacker  confined, no network, own uid: parses archives and documents, writes the disk
 *   fetcher   confined, another uid, network: a registry's client; talks to the unpacker alone
 *   walker    may read every file, does nothing else: a root folder's tar
 *
 * Contract: sp_crew_start fills a zeroed crew whose descriptors were set to -1 (SP_CREW_INIT);
 * sp_crew_end ends whoever still lives and closes everything, at any time.
 */
#ifndef SP_IMAGE_CREW_H
#define SP_IMAGE_CREW_H

#include <sys/types.h>

#include "base/err.h"
#include "image/source.h"
#include "image/unpack.h"
#include "jail/jail.h"

struct sp_member {
	pid_t pid; /* 0: there is none */
	int pidfd;
	int sock; /* our end of its talk with us, or -1 */
};

struct sp_crew {
	struct sp_member unpacker, fetcher, walker;
	int ask; /* a folder's parts are asked of us here, or -1 */
	int spool;
};
#define SP_CREW_INIT                                                                               \
	{                                                                                          \
		{ 0, -1, -1 }, { 0, -1, -1 }, { 0, -1, -1 }, -1, -1                                \
	}

struct sp_crew_plan {
	const struct sp_source *source;
	const struct sp_jail_slot *slot;
	int disk_fd;
	int64_t disk_size;
	int64_t max_bytes, max_entries;
	const char *auth_file;
};

int sp_crew_start(struct sp_crew *c, const struct sp_crew_plan *plan, struct sp_err *e);
void sp_crew_end(struct sp_crew *c);

/* Answers one question for a part of a folder. 1 answered, 0 the unpacker is gone. */
int sp_crew_supply(struct sp_crew *c, int folder_fd, struct sp_err *e);
/* Waits for a member that has said its last word; anything but exit status 0 is SP_FAIL. */
int sp_crew_join(struct sp_member *m, const char *who, struct sp_err *e);

#endif
