/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: whole transfers, copies, sockets beyond the path limit, descriptors in messages. */
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tap.h"
#include "tmp.h"

static void *slow_writer(void *arg)
{
	int fd = *(int *)arg;

	for (int i = 0; i < 50; i++) {
		if (write(fd, "0123456789", 10) != 10)
			break;
		usleep(200);
	}
	close(fd);
	return NULL;
}

static void transfers(int dir)
{
	sp_auto_str s = SP_STR_INIT;
	struct sp_err e;
	char mem[1000];
	pthread_t t;
	int p[2];

	ok(pipe2(p, O_CLOEXEC | O_NONBLOCK) == 0, "a pipe that does not block");
	pthread_create(&t, NULL, slow_writer, &p[1]);
	ok(sp_fd_read(p[0], mem, sizeof mem) == 500, "is read to its end all the same");
	pthread_join(t, NULL);
	close(p[0]);

	p[0] = sp_fs_open(dir, "data", O_RDWR | O_CREAT, 0600, &e);
	ok(sp_fd_write(p[0], "hello world", 11) == 0, "write");
	ok(sp_fd_pwrite(p[0], "W", 1, 6) == 0 && sp_fd_pread(p[0], mem, 100, 6) == 5 &&
		   memcmp(mem, "World", 5) == 0,
	   "positioned");
	lseek(p[0], 0, SEEK_SET);
	ok(sp_fd_slurp(p[0], 11, &s, &e) == 0 && s.len == 11, "slurp takes exactly the limit");
	is_str(s.p, "hello World", "and all of it");
	lseek(p[0], 0, SEEK_SET);
	ok(sp_fd_slurp(p[0], 10, &s, &e) == -1 && e.code == SP_FAIL, "one more is refused");
	sp_fd_close(&p[0]);
	ok(p[0] == -1, "close leaves -1");
	ok(sp_fd_write(-1, "x", 1) == -1 && errno == EBADF, "errors are told");
}

static void copies(int dir)
{
	struct sp_err e;
	sp_auto_fd a = sp_fs_open(dir, "a", O_RDWR | O_CREAT, 0600, &e);
	sp_auto_fd b = sp_fs_open(dir, "b", O_RDWR | O_CREAT, 0600, &e);
	sp_auto_fd proc = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	char mem[100] = "";
	int p[2];

	sp_fd_write(a, "0123456789", 10);
	lseek(a, 2, SEEK_SET);
	ok(sp_fd_copy(a, b, 5) == 0 && sp_fd_pread(b, mem, 100, 0) == 5 &&
		   memcmp(mem, "23456", 5) == 0,
	   "file to file, a part");
	ok(sp_fd_copy(a, b, -1) == 0 && sp_fd_pread(b, mem, 100, 0) == 8, "the rest");
	ok(sp_fd_copy(a, b, 1) == -1 && errno == ENODATA, "an early end is an error");
	if (pipe2(p, O_CLOEXEC) < 0)
		return;
	lseek(a, 0, SEEK_SET);
	ok(sp_fd_copy(a, p[1], 10) == 0 && read(p[0], mem, 100) == 10, "file to pipe");
	close(p[0]);
	close(p[1]);
	ok(ftruncate(b, 0) == 0, "emptied");
	lseek(b, 0, SEEK_SET);
	ok(sp_fd_copy(proc, b, -1) == 0 && lseek(b, 0, SEEK_END) > 100, "a file of /proc");
}

static void flags(void)
{
	int p[2], d;

	if (pipe2(p, O_CLOEXEC) < 0)
		return;
	ok(sp_fd_nonblock(p[0], 1) == 0 && (fcntl(p[0], F_GETFL) & O_NONBLOCK), "nonblock on");
	ok(sp_fd_nonblock(p[0], 0) == 0 && !(fcntl(p[0], F_GETFL) & O_NONBLOCK), "and off");
	ok(sp_fd_cloexec(p[0], 0) == 0 && !(fcntl(p[0], F_GETFD) & FD_CLOEXEC), "cloexec off");
	d = sp_fd_dup(p[0]);
	ok(d >= 3 && (fcntl(d, F_GETFD) & FD_CLOEXEC), "a duplicate is close-on-exec");
	close(d);
	close(p[0]);
	close(p[1]);
}

static void messages(int client, int server)
{
	int give[3] = { 0, 1, 2 }, got[8], n = 8;
	char mem[16];

	ok(sp_sock_send(client, "abc", 3, give, 3) == 0, "send three descriptors");
	ok(sp_sock_recv(server, mem, sizeof mem, got, &n) == 3 && n == 3, "they come");
	ok(n == 3 && (fcntl(got[0], F_GETFD) & FD_CLOEXEC), "close-on-exec");
	while (n > 0)
		close(got[--n]);
	sp_sock_send(client, "abc", 3, give, 3);
	n = 2;
	ok(sp_sock_recv(server, mem, sizeof mem, got, &n) == -1 && errno == EMSGSIZE && n == 0,
	   "more than there is room for are refused");
	sp_sock_send(client, "abc", 3, give, 1);
	ok(sp_sock_recv(server, mem, sizeof mem, NULL, NULL) == -1, "and where none are wanted");
	/* They would have come by the numbers that the first ones had. */
	ok(fcntl(got[0], F_GETFD) < 0 && fcntl(got[1], F_GETFD) < 0, "none was left open");
	sp_sock_send(client, "0123456789", 10, NULL, 0);
	ok(sp_sock_recv(server, mem, 4, NULL, NULL) == -1 && errno == EMSGSIZE, "a cut message");
	ok(sp_sock_send(client, "x", 1, give, 9) == -1 && errno == EINVAL, "nine are too many");
}

static void sockets(int dir)
{
	char longname[90];
	struct stat st;
	struct sp_err e;
	int deep, s, c, a;

	memset(longname, 'n', sizeof longname - 1);
	longname[sizeof longname - 1] = '\0';
	sp_fs_mkdir(dir, longname, 0700, &e);
	deep = sp_fs_open_dir(dir, longname, &e);
	umask(077);
	s = sp_sock_listen(deep, "ctl", SOCK_SEQPACKET, 0666, &e);
	ok(s >= 0, "listen where the path is longer than an address");
	ok(fstatat(deep, "ctl", &st, 0) == 0 && (st.st_mode & 0777) == 0666,
	   "with the mode as asked");
	c = sp_sock_connect(deep, "ctl", SOCK_SEQPACKET, &e);
	a = accept4(s, NULL, NULL, SOCK_CLOEXEC);
	ok(c >= 0 && a >= 0, "connect");
	sp_fd_close(&deep);
	deep = a < 0 ? -1 : dup2(a, 5);
	sp_fd_close(&a);
	if (c >= 0 && deep >= 0)
		messages(c, deep);
	sp_fd_close(&c);
	sp_fd_close(&s);
	sp_fd_close(&deep);
	deep = sp_fs_open_dir(dir, longname, &e);
	ok(sp_sock_connect(deep, "ctl", SOCK_SEQPACKET, &e) == -1 && e.code == SP_ABSENT,
	   "nobody listens: absent");
	s = sp_sock_listen(deep, "ctl", SOCK_STREAM, 0600, &e);
	ok(s >= 0, "a left-over socket is replaced");
	ok(sp_sock_connect(deep, "none", SOCK_STREAM, &e) == -1 && e.code == SP_ABSENT, "no such");
	sp_fs_replace(deep, "file", "x", 1, 0600, &e);
	ok(sp_sock_listen(deep, "file", SOCK_STREAM, 0600, &e) == -1 && sp_fs_exists(deep, "file"),
	   "a file is not");
	sp_fd_close(&s);
	sp_fd_close(&deep);
}

int main(void)
{
	int dir = tmp_make();

	transfers(dir);
	copies(dir);
	flags();
	sockets(dir);
	tmp_clear();
	return tap_done();
}
