/* SPDX-License-Identifier: Apache-2.0 */
/* Names of ids: names/<owner>/<name> is a symbolic link whose text is the id (never followed). One
 * space of names for sandboxes, snapshots and images, so an operand means one thing. */
#ifndef SP_STATE_NAME_H
#define SP_STATE_NAME_H

#include "base/err.h"
#include "state/roots.h"
#include "text/id.h"

int sp_name_take(const struct sp_roots *r, const char *owner, const char *name, const char *id,
		 struct sp_err *e); /* SP_CONFLICT when taken by another id */
/* Moves a name to a new id in one step (re-import). */
int sp_name_move(const struct sp_roots *r, const char *owner, const char *name, const char *id,
		 struct sp_err *e);
int sp_name_drop(const struct sp_roots *r, const char *owner, const char *name, const char *id,
		 struct sp_err *e); /* only if it still means id; absent: fine */
int sp_name_find(const struct sp_roots *r, const char *owner, const char *name,
		 char id[static SP_ID_SIZE], struct sp_err *e); /* SP_ABSENT */
/* Calls fn for each name of every owner (owner NULL) or of one; a return other than 0 stops and is
 * returned. */
int sp_name_each(const struct sp_roots *r, const char *owner,
		 int (*fn)(const char *owner, const char *name, const char *id, void *arg),
		 void *arg, struct sp_err *e);
int sp_name_drop_all(const struct sp_roots *r, const char *id, struct sp_err *e); /* that mean id */
/* An operand (id of any kind as it is, or a name) to an id. SP_ABSENT "no such sandbox, snapshot
 * or image"; text that is neither a valid id nor a valid name is SP_ABSENT too. */
int sp_name_resolve(const struct sp_roots *r, const char *owner, const char *operand,
		    char id[static SP_ID_SIZE], struct sp_err *e);

#endif
