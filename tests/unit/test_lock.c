/* SPDX-License-Identifier: Apache-2.0 */
/* Locks keep others out, time out, notice a replaced file, and die with their holder. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/lock.h"
#include "sys/proc.h"
#include "tap.h"
#include "tmp.h"

/* A child that holds the lock until it is killed, or for ms. */
static pid_t hold(int dir, bool life, int ms)
{
	char c;
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		abort();
	pid = fork();
	if (!pid) {
		struct sp_err e;
		int fd = life ? sp_life_take(dir, "life", &e) : sp_lock_take(dir, "lock", 0, &e);

		if (fd < 0 || write(p[1], "x", 1) != 1)
			sp_proc_exit(1);
		usleep((unsigned)ms * 1000);
		sp_proc_exit(0);
	}
	if (read(p[0], &c, 1) != 1)
		abort();
	close(p[0]);
	close(p[1]);
	return pid;
}

static void writers(int dir)
{
	struct sp_err e;
	struct stat st;
	int64_t t;
	int fd, status;
	pid_t pid;

	umask(0);
	fd = sp_lock_take(dir, "lock", 0, &e);
	ok(fd >= 0, "taken");
	ok(fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0600, "the file is ours alone");
	ok(sp_lock_take(dir, "lock", 0, &e) == -1 && e.code == SP_BUSY, "held: busy");
	is_str(e.msg, "lock is held", "and says which");
	t = sp_clock_mono();
	ok(sp_lock_take(dir, "lock", 50, &e) == -1 && e.code == SP_BUSY, "still, after a while");
	t = (sp_clock_mono() - t) / 1000000;
	ok(t >= 50 && t < 500, "the while was as asked (%d ms)", (int)t);
	close(fd);
	pid = hold(dir, false, 100);
	fd = sp_lock_take(dir, "lock", 5000, &e);
	ok(fd >= 0, "taken as soon as the holder ends");
	close(fd);
	waitpid(pid, &status, 0);
	pid = hold(dir, false, 100);
	fd = sp_lock_take(dir, "lock", -1, &e);
	ok(fd >= 0, "waiting for ever ends then too");
	close(fd);
	waitpid(pid, &status, 0);
}

static void replaced(int dir)
{
	struct sp_err e;
	int fd, other, status;
	pid_t pid;

	fd = sp_lock_take(dir, "lock", 0, &e);
	pid = fork();
	if (!pid) {
		/* Waits on the old file, gone when its lock comes: must take the new one. */
		struct stat a, b;
		int mine;

		close(fd); /* or we would hold it too */
		mine = sp_lock_take(dir, "lock", -1, &e);
		sp_proc_exit(mine >= 0 && fstat(mine, &a) == 0 &&
					     fstatat(dir, "lock", &b, 0) == 0 &&
					     a.st_ino == b.st_ino
				     ? 0
				     : 1);
	}
	usleep(30000);
	renameat(dir, "lock", dir, "old");
	other = openat(dir, "lock", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	close(fd);
	waitpid(pid, &status, 0);
	ok(status == 0, "a lock on a file that was replaced is not taken for the lock");
	close(other);
	ok(symlinkat("old", dir, "sym") == 0, "a link is made");
	ok(sp_lock_take(dir, "sym", 0, &e) == -1, "a link is no lock");
}

static void lives(int dir)
{
	struct sp_err e;
	int fd, status;
	pid_t pid;

	ok(sp_life_is_held(dir, "life", &e) == 0, "no file: nobody lives");
	pid = hold(dir, true, 60000);
	ok(sp_life_is_held(dir, "life", &e) == 1, "held by a child");
	ok(sp_life_take(dir, "life", &e) == -1 && e.code == SP_BUSY, "not to be taken");
	fd = openat(dir, "life", O_RDWR | O_CLOEXEC);
	ok(sp_life_fd_is_held(fd) == 1, "asked by descriptor");
	ok(sp_life_fd_take(fd) == -1 && errno == EAGAIN, "taken by descriptor: not");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	ok(sp_life_fd_is_held(fd) == 0 && sp_life_is_held(dir, "life", &e) == 0, "killed: free");
	ok(sp_life_fd_take(fd) == 0, "taken");
	pid = fork();
	if (!pid) {
		usleep(100000);
		sp_proc_exit(0);
	}
	close(fd);
	ok(sp_life_is_held(dir, "life", &e) == 1, "a child that inherited it keeps it");
	waitpid(pid, &status, 0);
	ok(sp_life_is_held(dir, "life", &e) == 0, "until it ends");
}

int main(void)
{
	int dir = tmp_make();

	writers(dir);
	replaced(dir);
	lives(dir);
	tmp_clear();
	return tap_done();
}
