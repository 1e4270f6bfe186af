/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of files as a byte stream, for GET and PUT. Records, little endian:
 *
 *   u8 kind ('d' folder, 'f' file, 'l' symbolic link, 'e' end), u8 zero[3], u32 mode (07777),
 *   i64 mtime ns, u64 size (of a file's bytes that follow), u16 path length, u16 link length,
 *   path (relative, components joined by '/', "" for the top itself), link text, bytes.
 *
 * The stream begins with the top, whose path is "", and ends with 'e'. A folder comes before what
 * is in it; a file or link as the top is the only record.
 *
 * GET does not follow a link that is the top itself (unless its path ends in '/'), sends what is
 * mounted beneath too, but of /proc, /sys and the like only the folder. Small files, and those
 * whose size the kernel tells as 0, are read before their size is sent.
 *
 * PUT puts the top at PATH itself; who wants `cp -a SRC FOLDER/` asks STAT first and puts at
 * FOLDER/name. A folder goes into a folder that is there (which as the top keeps its mode and time;
 * beneath it takes the record's); a file or link replaces a file or link, whole, by a rename. A
 * folder never replaces what is none, nor the other way round: SP_CONFLICT. What was put before an
 * error stays. Beneath the top no link is followed.
 *
 * Sockets, fifos and devices are passed over. Owners do not
 * travel. What comes out of a guest is a hostile archive: the taking side checks every record with
 * sp_tree_check before it acts on it, writes beneath the target only, and has byte and entry caps.
 */
#ifndef SP_GUEST_TREE_H
#define SP_GUEST_TREE_H

#include <stdint.h>

#define SP_TREE_HEADER 28
#define SP_TREE_PATH 4095

struct sp_tree_record {
	char kind;
	uint32_t mode;
	int64_t mtime;
	uint64_t size;
	uint16_t path_len, link_len;
	char path[SP_TREE_PATH + 1];
	char link[SP_TREE_PATH + 1];
};

void sp_tree_pack(const struct sp_tree_record *r, unsigned char out[static SP_TREE_HEADER]);
/* Header only; path and link follow in the stream. -1: no such kind, or a length out of bounds. */
int sp_tree_unpack(const unsigned char in[static SP_TREE_HEADER], struct sp_tree_record *r);
/* A whole record (path and link filled in): -1 where the path is absolute, holds "..", ".", empty
 * or over-long components or a NUL, or fields do not fit the kind. */
int sp_tree_check(const struct sp_tree_record *r);

#endif
