/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/tty.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* What ends a process by default and is not caught elsewhere: the terminal is put right first. */
static const int deadly[] = { SIGSEGV, SIGBUS,	SIGABRT,   SIGFPE,  SIGILL,  SIGSYS,
			      SIGTRAP, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGXFSZ };

static struct termios saved;
static volatile sig_atomic_t raw_fd = -1;

static void on_deadly(int sig)
{
	sp_tty_restore();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void prepare(void)
{
	static bool done;
	struct sigaction sa = { .sa_handler = on_deadly, .sa_flags = SA_RESETHAND };

	if (done)
		return;
	done = true;
	atexit(sp_tty_restore);
	for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
		sigaction(deadly[i], &sa, NULL);
}

int sp_tty_raw(int fd)
{
	struct termios t;

	if (raw_fd < 0) {
		if (tcgetattr(fd, &saved) < 0)
			return -1;
		prepare();
	}
	t = saved;
	cfmakeraw(&t);
	raw_fd = fd;
	return tcsetattr(fd, TCSANOW, &t);
}

/* Called from a signal handler too: tcsetattr is safe there (signal-safety(7)). */
void sp_tty_restore(void)
{
	int keep = errno, fd = raw_fd;

	raw_fd = -1;
	if (fd >= 0)
		tcsetattr(fd, TCSANOW, &saved);
	errno = keep;
}

bool sp_tty_is_raw(void)
{
	return raw_fd >= 0;
}

bool sp_tty_size(uint32_t *rows, uint32_t *cols)
{
	struct winsize w;

	for (int fd = 0; fd < 3; fd++) {
		if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_row && w.ws_col) {
			*rows = w.ws_row;
			*cols = w.ws_col;
			return true;
		}
	}
	*rows = 24;
	*cols = 80;
	return false;
}
