/* SPDX-License-Identifier: Apache-2.0 */
/* Ids and names (space-names(7)).
 *
 * An id is one letter for the kind and 20 of [a-z0-9], random. A name is
 * [a-z0-9][a-z0-9-]{0,62} and may not look like an id (21 characters, a letter first, no hyphen).
 */
#ifndef SP_TEXT_ID_H
#define SP_TEXT_ID_H

#include <stdbool.h>

#define SP_ID_LEN 21
#define SP_ID_SIZE 22
#define SP_NAME_SIZE 64

enum sp_kind {
	SP_SANDBOX = 's',
	SP_CHECKPOINT = 'c', /* images and snapshots are checkpoints */
	SP_OPERATION = 'o',
	SP_PROCESS = 'p', /* a process in a guest */
};

void sp_id_make(enum sp_kind kind, char out[static SP_ID_SIZE]);
bool sp_id_is_valid(const char *s, enum sp_kind kind);
bool sp_id_looks_like(const char *s); /* has the shape of an id of any kind */
bool sp_name_is_valid(const char *s);

#endif
