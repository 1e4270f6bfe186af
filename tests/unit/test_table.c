/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign text on a terminal: nothing in it acts. */
#include <fcntl.h>
#include <unistd.h>

#include "tap.h"
#include "text/log.h"
#include "text/table.h"
#include "text/utf8.h"

static void escapes(const char *in, size_t n, const char *want, const char *what)
{
	sp_auto_str out = SP_STR_INIT;

	sp_text_escape(&out, in, n);
	is_str(out.p, want, "%s", what);
}

#define E(in, want, what) escapes(in, sizeof(in) - 1, want, what)

static void text(void)
{
	E("plain text", "plain text", "plain");
	E("a\tb\nc\\d", "a\\tb\\nc\\\\d", "tab, newline, backslash");
	E("\x1b[31m", "\\x1b[31m", "escape sequence");
	E("a\0b",
	  "a\\x00"
	  "b",
	  "NUL");
	E("\x7f", "\\x7f", "DEL");
	E("\xc2\x9b", "\\xc2\\x9b", "C1");
	E("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
	  "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "UTF-8 stays");
	E("\xe2\x80\xae", "\\xe2\\x80\\xae", "right-to-left override");
	E("\xe2\x81\xa6", "\\xe2\\x81\\xa6", "isolate");
	E("\xd8\x9c", "\\xd8\\x9c", "Arabic letter mark");
	E("\xe2\x80\x8e", "\\xe2\\x80\\x8e", "left-to-right mark");
	E("\xff\xc3", "\\xff\\xc3", "not UTF-8, cut off");
	E("\xc0\xaf", "\\xc0\\xaf", "over-long");
	E("\xe0\x80\xaf", "\\xe0\\x80\\xaf", "over-long, three");
	E("\xed\xa0\x80", "\\xed\\xa0\\x80", "surrogate");
	E("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", "beyond the last");
}

static void rows(void)
{
	const char *const cells[] = { "s1", NULL, "a\tb" };
	char mem[64] = "";
	int p[2], keep = dup(1);

	if (pipe(p) < 0)
		return;
	fflush(stdout);
	dup2(p[1], 1);
	sp_row_print(cells, 3);
	fflush(stdout);
	dup2(keep, 1);
	close(keep);
	ok(read(p[0], mem, sizeof mem - 1) > 0, "a row");
	is_str(mem, "s1\t-\ta\\tb\n", "joined by tabs");
	sp_log_set_fd(p[1]);
	sp_log_set_op("o1");
	sp_log(SP_LOG_WARN, "guest says %s", "\x1b]0;x\n");
	sp_log(SP_LOG_DEBUG, "not wanted");
	memset(mem, 0, sizeof mem);
	ok(read(p[0], mem, sizeof mem - 1) > 0, "a log line");
	is_str(mem, "o1: guest says \\x1b]0;x\\n\n", "escaped, with the operation");
	close(p[0]);
	close(p[1]);
}

int main(void)
{
	text();
	rows();
	return tap_done();
}
