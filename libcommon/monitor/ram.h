/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of RAM that a VMM has changed, found and copied from outside.
 *
 * The VMM maps its machine's RAM privately from an immutable file, so a page of its own (anonymous,
 * present or swapped out) is a page that the guest wrote since the load. They are found with
 * PAGEMAP_SCAN (Linux 6.7), else by /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst),
 * and read with
 * process_vm_readv(2), which brings swapped pages in. Needs CAP_SYS_PTRACE. Whatever a hostile VMM
 * does to its mappings, offsets stay within the machine's size.
 */
#ifndef SP_MONITOR_RAM_H
#define SP_MONITOR_RAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

#define SP_PAGE 4096u

struct sp_ram_area {
	uint64_t addr, len, off; /* in the VMM; bytes; place in the RAM file */
};

struct sp_ram {
	pid_t pid;
	uint64_t size;
	bool no_scan; /* use pagemap even where PAGEMAP_SCAN is there */
	size_t nareas;
	struct sp_ram_area area[64];
};

/* A run of changed pages: the same three numbers. */
struct sp_ram_pages {
	struct sp_str list; /* of struct sp_ram_area */
	uint64_t bytes;     /* all of them together */
};

/* Finds where pid maps the file behind mem_fd. */
int sp_ram_find(pid_t pid, int mem_fd, uint64_t size, struct sp_ram *out, struct sp_err *e);
/* Lists the changed pages in order of address (out is cleared first; free with sp_str_free). */
int sp_ram_scan(const struct sp_ram *ram, struct sp_ram_pages *out, struct sp_err *e);
/* Copies pages, from the one at byte `from` of the whole on, as many as fit into buf; returns
 * bytes. */
int64_t sp_ram_copy(const struct sp_ram *ram, const struct sp_ram_pages *pages, uint64_t from,
		    void *buf, size_t n, struct sp_err *e);

/* A buffer that is faulted in beforehand, on huge pages where there are any; munmap it. NULL,
 * errno. */
void *sp_ram_buffer(size_t n);

/* Writes copied pages (bytes [from, from + n) of the whole, in buf) into mem_fd where they differ
 * from what prev_fd has there. *written counts pages. */
int sp_ram_store(const struct sp_ram_pages *pages, uint64_t from, const void *buf, size_t n,
		 int prev_fd, int mem_fd, uint64_t *written, struct sp_err *e);

#endif
