/* SPDX-License-Identifier: Apache-2.0 */
#include "text/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/str.h"
#include "sys/fd.h"
#include "text/table.h"

static int log_fd = 2;
static char log_op[32];

void sp_log_set_op(const char *op_id)
{
	snprintf(log_op, sizeof log_op, "%s", op_id ? op_id : "");
}

void sp_log_set_fd(int fd)
{
	log_fd = fd;
}

/* systemd names the journal's stream by device and inode, so that a redirected standard error is
 * told apart from it (systemd.exec(5), JOURNAL_STREAM). */
static bool is_journal(void)
{
	const char *text = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return text && sscanf(text, "%llu:%llu", &dev, &ino) == 2 && fstat(log_fd, &st) == 0 &&
	       st.st_dev == dev && st.st_ino == ino;
}

void sp_log(enum sp_level level, const char *fmt, ...)
{
	sp_auto_str text = SP_STR_INIT;
	sp_auto_str line = SP_STR_INIT;
	va_list ap;

	if (level == SP_LOG_DEBUG && !getenv("SPACE_DEBUG"))
		return;
	va_start(ap, fmt);
	sp_str_vaddf(&text, fmt, ap);
	va_end(ap);
	if (is_journal())
		sp_str_addf(&line, "<%d>", (int)level);
	if (log_op[0])
		sp_str_addf(&line, "%s: ", log_op);
	sp_text_escape(&line, text.p, text.len);
	sp_str_addc(&line, '\n');
	sp_fd_write(log_fd, line.p, line.len); /* a log that cannot be written has no one to tell */
}
