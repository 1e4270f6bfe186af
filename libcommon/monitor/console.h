/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's console: a ring in a file of fixed size, sandboxes/<id>/console, written by the
 * monitor's reading half alone. Header (4096 bytes): "SPCONS1\n", u64 total bytes ever written
 * (little endian); then SP_CONSOLE_RING bytes, byte number n at n % SP_CONSOLE_RING. */
#ifndef SP_MONITOR_CONSOLE_H
#define SP_MONITOR_CONSOLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SP_CONSOLE_HEADER 4096
#define SP_CONSOLE_RING (256 * 1024)

int sp_console_create(int dirfd, const char *name, struct sp_err *e); /* exists: opened; the fd */
int sp_console_append(int fd, const void *data, size_t n);            /* -1 errno */
/* Reads up to n bytes from console offset *at (moved to the oldest kept byte if that is past);
 * returns bytes (0: nothing newer). */
long sp_console_read(int fd, uint64_t *at, void *buf, size_t n, struct sp_err *e);

#endif
