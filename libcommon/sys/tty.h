/* SPDX-License-Identifier: Apache-2.0 */
/* Our own terminal: raw for a while, and as it was on every way out (return, exit, a signal that
 * ends us). One at a time. */
#ifndef SP_SYS_TTY_H
#define SP_SYS_TTY_H

#include <stdbool.h>
#include <stdint.h>

int sp_tty_raw(int fd);    /* 0, or -1 with errno; raw already: set again */
void sp_tty_restore(void); /* not raw: nothing */
bool sp_tty_is_raw(void);
/* Of the first of descriptors 0, 1, 2 that is a terminal with a size; else 24 by 80, and false. */
bool sp_tty_size(uint32_t *rows, uint32_t *cols);

#endif
