/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the jail that only libcommon/jail sees. */
#ifndef SP_JAIL_INSIDE_H
#define SP_JAIL_INSIDE_H

#include <linux/filter.h>

#include "base/err.h"
#include "jail/jail.h"

/* Where sp_jail_exec puts the program's path: in page 0, which no process may map without
 * CAP_SYS_RAWIO (mmap_min_addr). Filters allow execve of this address, which works exactly once:
 * the new program starts without the page and can never have it again. */
#define SP_JAIL_PATH_AT 64u
#define SP_JAIL_PATH_MAX 4000u

/* The root: runs in the child, still privileged and in the caller's mount namespace; leaves the
 * child in a mount namespace of its own with nothing but what was asked for. */
int sp_jail_root_enter(const struct sp_jail *j, struct sp_err *e);

/* The filter of a kind of process, built once in this process; it is kept and not to be freed. */
const struct sock_fprog *sp_jail_filter(enum sp_jail_calls calls, struct sp_err *e);

/* An open descriptor of the leaf's folder, made if needed, limits set; -1 where there is no cgroup2
 * that can be written (which is no error). */
int sp_jail_cgroup_open(const char *leaf, uint64_t memory, uint32_t procs);

#endif
