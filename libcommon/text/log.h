/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines to standard error: "<N>" level prefix (sd-daemon(3)) under systemd, no clock, control
 * characters escaped, the operation id in every line once it is set. Never for an error that is
 * also returned. Debug lines come out only where SPACE_DEBUG is set. */
#ifndef SP_TEXT_LOG_H
#define SP_TEXT_LOG_H

enum sp_level { SP_LOG_ERR = 3, SP_LOG_WARN = 4, SP_LOG_INFO = 6, SP_LOG_DEBUG = 7 };

void sp_log(enum sp_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sp_log_set_op(const char *op_id);
void sp_log_set_fd(int fd); /* default 2 */

#endif
