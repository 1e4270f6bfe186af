/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: ownership, whole reads and writes, passing over a socket.
 *
 * Contract: every descriptor made here is close-on-exec. Short transfers and EINTR are handled
 * inside, and read and write wait where the descriptor would block. Functions without a
 * struct sp_err leave errno.
 */
#ifndef SP_SYS_FD_H
#define SP_SYS_FD_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

void sp_fd_close(int *fd); /* closes *fd if it is >= 0, sets it to -1, keeps errno */
#define sp_auto_fd __attribute__((cleanup(sp_fd_close))) int

static inline int sp_take_fd(int *fd)
{
	int n = *fd;

	*fd = -1;
	return n;
}

int sp_fd_write(int fd, const void *data, size_t n);   /* all of it; -1 with errno */
int sp_fd_pwrite(int fd, const void *data, size_t n, off_t at);
ssize_t sp_fd_read(int fd, void *buf, size_t n);       /* until n or end of file; bytes read */
ssize_t sp_fd_pread(int fd, void *buf, size_t n, off_t at);
/* All that is left, appended; more than max is SP_FAIL. */
int sp_fd_slurp(int fd, size_t max, struct sp_str *out, struct sp_err *e);
/* n bytes at the current offsets (-1: to the end); ENODATA where they end early. */
int sp_fd_copy(int from, int to, off_t n);

int sp_fd_nonblock(int fd, int on);
int sp_fd_cloexec(int fd, int on);
int sp_fd_dup(int fd);              /* dup, close-on-exec, 3 or above */
void sp_fd_close_from(int first);   /* close_range(first, ~0) */

/* Unix sockets. A path beyond 107 bytes is reached through its folder's descriptor
 * (/proc/self/fd/N/name, see unix(7)), so these take dirfd + name. listen takes the place of a
 * socket that an earlier process left there; connect says SP_ABSENT where nobody listens. */
int sp_sock_listen(int dirfd, const char *name, int type, mode_t mode, struct sp_err *e);
int sp_sock_connect(int dirfd, const char *name, int type, struct sp_err *e);
/* One message with up to 8 descriptors: 0, or -1 with errno. recv returns bytes (0 = end), *nfds
 * in: room, out: got; a message that was cut, or brings more, is EMSGSIZE and all of it closed. */
int sp_sock_send(int sock, const void *data, size_t n, const int *fds, int nfds);
ssize_t sp_sock_recv(int sock, void *data, size_t n, int *fds, int *nfds);

#endif
