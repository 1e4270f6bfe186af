/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and the boot id. Times are nanoseconds. */
#ifndef SP_SYS_CLOCK_H
#define SP_SYS_CLOCK_H

#include <stddef.h>
#include <stdint.h>

int64_t sp_clock_real(void); /* since 1970 */
int64_t sp_clock_mono(void); /* CLOCK_MONOTONIC */
const char *sp_clock_boot_id(void); /* 36 characters, cached; "" where /proc has none */
void sp_clock_format(int64_t real_ns, char out[static 32]); /* 2026-01-31T12:00:00.123Z */
/* "90s", "5m", "2h", "1d", or a plain number of seconds, to ns; 0 and -1 on bad text. */
int sp_clock_parse_span(const char *text, int64_t *ns);
void sp_random(void *buf, size_t n); /* getrandom(2), whole */
void sp_random_text(char *out, size_t n); /* n random letters of [a-z0-9], and a NUL */

#endif
