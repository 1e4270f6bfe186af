/* SPDX-License-Identifier: Apache-2.0 */
#include "image/acl.h"

#include <archive.h>
#include <endian.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST 512 /* entries; more than fit beside a file anyway */

static int by_tag_and_id(const void *a, const void *b)
{
	const struct posix_acl_xattr_entry *x = a, *y = b;

	if (x->e_tag != y->e_tag)
		return le16toh(x->e_tag) < le16toh(y->e_tag) ? -1 : 1;
	if (x->e_id != y->e_id)
		return le32toh(x->e_id) < le32toh(y->e_id) ? -1 : 1;
	return 0;
}

static uint16_t tag_of(int tag)
{
	switch (tag) {
	case ARCHIVE_ENTRY_ACL_USER_OBJ:
		return ACL_USER_OBJ;
	case ARCHIVE_ENTRY_ACL_USER:
		return ACL_USER;
	case ARCHIVE_ENTRY_ACL_GROUP_OBJ:
		return ACL_GROUP_OBJ;
	case ARCHIVE_ENTRY_ACL_GROUP:
		return ACL_GROUP;
	case ARCHIVE_ENTRY_ACL_MASK:
		return ACL_MASK;
	case ARCHIVE_ENTRY_ACL_OTHER:
		return ACL_OTHER;
	default:
		return 0;
	}
}

bool sp_acl_pack(struct archive_entry *ae, bool default_acl, struct sp_str *out)
{
	int want = default_acl ? ARCHIVE_ENTRY_ACL_TYPE_DEFAULT : ARCHIVE_ENTRY_ACL_TYPE_ACCESS;
	struct posix_acl_xattr_header head = { htole32(POSIX_ACL_XATTR_VERSION) };
	struct posix_acl_xattr_entry list[MOST];
	int type, perm, tag, id, n = 0;
	const char *name;

	sp_str_clear(out);
	if (archive_entry_acl_reset(ae, want) <= 0)
		return false;
	while (archive_entry_acl_next(ae, want, &type, &perm, &tag, &id, &name) == ARCHIVE_OK) {
		uint16_t t = tag_of(tag);
		bool named = t == ACL_USER || t == ACL_GROUP;

		if (!t || n == MOST || (named && id < 0))
			return false;
		list[n++] = (struct posix_acl_xattr_entry){
			htole16(t),
			htole16((uint16_t)(perm & 7)),
			named ? htole32((uint32_t)id) : htole32((uint32_t)ACL_UNDEFINED_ID),
		};
	}
	qsort(list, (size_t)n, sizeof list[0], by_tag_and_id);
	sp_str_addn(out, &head, sizeof head);
	sp_str_addn(out, list, (size_t)n * sizeof list[0]);
	return sp_acl_is_valid(out->p, out->len);
}

/* The rules of fs/posix_acl.c: each base entry once, names in ascending order, a mask where there
 * are names. */
bool sp_acl_is_valid(const void *value, size_t n)
{
	struct posix_acl_xattr_header head;
	struct posix_acl_xattr_entry x, before = { 0, 0, 0 };
	unsigned int seen = 0, tag;

	if (n < sizeof head || (n - sizeof head) % sizeof x || n > sizeof head + MOST * sizeof x)
		return false;
	memcpy(&head, value, sizeof head);
	if (le32toh(head.a_version) != POSIX_ACL_XATTR_VERSION)
		return false;
	for (size_t at = sizeof head; at < n; at += sizeof x) {
		memcpy(&x, (const char *)value + at, sizeof x);
		tag = le16toh(x.e_tag);
		if ((tag & (tag - 1)) || !tag || tag > ACL_OTHER || le16toh(x.e_perm) > 7)
			return false;
		if (tag != ACL_USER && tag != ACL_GROUP) {
			if (seen & tag)
				return false;
		} else if (tag == le16toh(before.e_tag) && by_tag_and_id(&before, &x) >= 0) {
			return false;
		}
		if (tag < le16toh(before.e_tag))
			return false;
		seen |= tag;
		before = x;
	}
	if ((seen & (ACL_USER | ACL_GROUP)) && !(seen & ACL_MASK))
		return false;
	return (seen & (ACL_USER_OBJ | ACL_GROUP_OBJ | ACL_OTHER)) ==
	       (ACL_USER_OBJ | ACL_GROUP_OBJ | ACL_OTHER);
}
