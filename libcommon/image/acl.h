/* SPDX-License-Identifier: Apache-2.0 */
/* Access control lists of archive entries, in the form that the kernel's extended attributes have
 * (linux/posix_acl_xattr.h, version 2). */
#ifndef SP_IMAGE_ACL_H
#define SP_IMAGE_ACL_H

#include <archive_entry.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* The entry's list (default_acl: the one that a folder hands down) in out; false where it has none,
 * or one that says who only by name, which an image has no numbers for. */
bool sp_acl_pack(struct archive_entry *ae, bool default_acl, struct sp_str *out);
/* Whether bytes from an archive are such a list, in order and whole. */
bool sp_acl_is_valid(const void *value, size_t n);

#endif
