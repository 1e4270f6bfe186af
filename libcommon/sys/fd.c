/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FDS_MAX 8 /* descriptors in one message */

void sp_fd_close(int *fd)
{
	int keep = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = keep;
}

/* A descriptor may have been set non-blocking by whoever shares it (a terminal, a pipe). */
static int wait_ready(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	if (errno == EINTR)
		return 0;
	if (errno != EAGAIN)
		return -1;
	return poll(&p, 1, -1) < 0 && errno != EINTR ? -1 : 0;
}

int sp_fd_write(int fd, const void *data, size_t n)
{
	const char *p = data;

	while (n) {
		ssize_t k = write(fd, p, n);

		if (k < 0) {
			if (wait_ready(fd, POLLOUT) < 0)
				return -1;
			continue;
		}
		p += k;
		n -= (size_t)k;
	}
	return 0;
}

int sp_fd_pwrite(int fd, const void *data, size_t n, off_t at)
{
	const char *p = data;

	while (n) {
		ssize_t k = pwrite(fd, p, n, at);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -1;
		p += k;
		n -= (size_t)k;
		at += k;
	}
	return 0;
}

ssize_t sp_fd_read(int fd, void *buf, size_t n)
{
	char *p = buf;
	size_t got = 0;

	while (got < n) {
		ssize_t k = read(fd, p + got, n - got);

		if (k < 0) {
			if (wait_ready(fd, POLLIN) < 0)
				return -1;
			continue;
		}
		if (!k)
			break;
		got += (size_t)k;
	}
	return (ssize_t)got;
}

ssize_t sp_fd_pread(int fd, void *buf, size_t n, off_t at)
{
	char *p = buf;
	size_t got = 0;

	while (got < n) {
		ssize_t k = pread(fd, p + got, n - got, at + (off_t)got);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -1;
		if (!k)
			break;
		got += (size_t)k;
	}
	return (ssize_t)got;
}

int sp_fd_slurp(int fd, size_t max, struct sp_str *out, struct sp_err *e)
{
	size_t start = out->len;

	for (;;) {
		size_t left = max - (out->len - start), want = left < 65536 ? left + 1 : 65536;
		ssize_t k = sp_fd_read(fd, sp_str_room(out, want), want);

		if (k < 0)
			return sp_fail(e, SP_FAIL, errno, "read");
		if ((size_t)k > left)
			return sp_fail(e, SP_FAIL, 0, "larger than %zu bytes", max);
		out->len += (size_t)k;
		out->p[out->len] = '\0';
		if ((size_t)k < want)
			return 0;
	}
}

/* In the kernel where it can be; *left is what remains. 1 done, 0 go on by hand, -1 error. */
static int copy_in_kernel(int from, int to, off_t n, off_t *left)
{
	while (n < 0 || *left > 0) {
		size_t want = n < 0 || *left > 1 << 30 ? 1 << 30 : (size_t)*left;
		ssize_t k = copy_file_range(from, NULL, to, NULL, want, 0);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return errno == EIO || errno == ENOSPC || errno == EDQUOT || errno == EFBIG
				       ? -1
				       : 0;
		if (!k)
			return 0; /* the end, or a file of /proc that only read(2) can see into */
		*left -= k;
	}
	return 1;
}

int sp_fd_copy(int from, int to, off_t n)
{
	static const size_t chunk = 65536;
	sp_auto_free char *mem = NULL;
	off_t left = n < 0 ? 0 : n;
	struct stat a, b;
	int rc = 0;

	if (fstat(from, &a) < 0 || fstat(to, &b) < 0)
		return -1;
	if (S_ISREG(a.st_mode) && S_ISREG(b.st_mode))
		rc = copy_in_kernel(from, to, n, &left);
	if (rc)
		return rc < 0 ? -1 : 0;
	mem = sp_xmalloc(chunk);
	while (n < 0 || left > 0) {
		size_t want = n < 0 || left > (off_t)chunk ? chunk : (size_t)left;
		ssize_t k = read(from, mem, want);

		if (k < 0) {
			if (wait_ready(from, POLLIN) < 0)
				return -1;
			continue;
		}
		if (!k && n < 0)
			return 0;
		if (!k) {
			errno = ENODATA;
			return -1;
		}
		if (sp_fd_write(to, mem, (size_t)k) < 0)
			return -1;
		left -= k;
	}
	return 0;
}

int sp_fd_nonblock(int fd, int on)
{
	int fl = fcntl(fd, F_GETFL);

	if (fl < 0)
		return -1;
	return fcntl(fd, F_SETFL, on ? fl | O_NONBLOCK : fl & ~O_NONBLOCK);
}

int sp_fd_cloexec(int fd, int on)
{
	return fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0);
}

int sp_fd_dup(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

void sp_fd_close_from(int first)
{
	close_range((unsigned)first, ~0u, 0);
}

static int sock_address(int dirfd, const char *name, struct sockaddr_un *sa, struct sp_err *e)
{
	int n;

	*sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (dirfd == AT_FDCWD)
		n = snprintf(sa->sun_path, sizeof sa->sun_path, "%s", name);
	else
		n = snprintf(sa->sun_path, sizeof sa->sun_path, "/proc/self/fd/%d/%s", dirfd, name);
	if (n < 0 || (size_t)n >= sizeof sa->sun_path)
		return sp_fail(e, SP_FAIL, ENAMETOOLONG, "socket '%s'", name);
	return 0;
}

int sp_sock_listen(int dirfd, const char *name, int type, mode_t mode, struct sp_err *e)
{
	sp_auto_fd s = -1;
	struct sockaddr_un sa;
	struct stat st;

	if (sock_address(dirfd, name, &sa, e) < 0)
		return -1;
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode))
		unlinkat(dirfd, name, 0);
	s = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (s < 0)
		return sp_fail(e, SP_FAIL, errno, "socket");
	/* Linux gives the name the mode of the unbound socket, less the umask: so it is never wider
	 * than asked, not even for a moment. The second chmod undoes the umask. */
	if (fchmod(s, mode) < 0)
		return sp_fail(e, SP_FAIL, errno, "socket '%s'", name);
	if (bind(s, (const struct sockaddr *)&sa, sizeof sa) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "bind socket '%s'", name);
	if (fchmodat(dirfd, name, mode, 0) < 0)
		return sp_fail(e, SP_FAIL, errno, "chmod socket '%s'", name);
	if (type != SOCK_DGRAM && listen(s, SOMAXCONN) < 0)
		return sp_fail(e, SP_FAIL, errno, "listen on socket '%s'", name);
	return sp_take_fd(&s);
}

int sp_sock_connect(int dirfd, const char *name, int type, struct sp_err *e)
{
	sp_auto_fd s = -1;
	struct sockaddr_un sa;
	int rc;

	if (sock_address(dirfd, name, &sa, e) < 0)
		return -1;
	s = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (s < 0)
		return sp_fail(e, SP_FAIL, errno, "socket");
	do
		rc = connect(s, (const struct sockaddr *)&sa, sizeof sa);
	while (rc < 0 && errno == EINTR);
	if (rc < 0)
		return sp_fail(e, errno == ECONNREFUSED ? SP_ABSENT : sp_code_of_errno(errno),
			       errno, "connect to socket '%s'", name);
	return sp_take_fd(&s);
}

union control {
	struct cmsghdr align;
	char mem[CMSG_SPACE(sizeof(int) * FDS_MAX)];
};

int sp_sock_send(int sock, const void *data, size_t n, const int *fds, int nfds)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control c;
	struct cmsghdr *h;
	ssize_t k;

	if (nfds < 0 || nfds > FDS_MAX) {
		errno = EINVAL;
		return -1;
	}
	if (nfds) {
		memset(&c, 0, sizeof c);
		m.msg_control = c.mem;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)nfds);
		h = &c.align; /* what CMSG_FIRSTHDR gives where there is room for one */
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)nfds);
		memcpy(CMSG_DATA(h), fds, sizeof(int) * (size_t)nfds);
	}
	do
		k = sendmsg(sock, &m, MSG_NOSIGNAL);
	while (k < 0 && errno == EINTR);
	if (k < 0)
		return -1;
	/* Only a stream takes a part; the descriptors went with its first byte. */
	for (size_t done = (size_t)k; done < n; done += (size_t)k) {
		k = send(sock, (const char *)data + done, n - done, MSG_NOSIGNAL);
		if (k < 0 && wait_ready(sock, POLLOUT) < 0)
			return -1;
		if (k < 0)
			k = 0;
	}
	return 0;
}

static int take_fds(struct msghdr *m, int got[static FDS_MAX])
{
	int n = 0;

	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		size_t bytes = h->cmsg_len - CMSG_LEN(0);

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= bytes && n < FDS_MAX; at += sizeof(int))
			memcpy(&got[n++], CMSG_DATA(h) + at, sizeof(int));
	}
	return n;
}

ssize_t sp_sock_recv(int sock, void *data, size_t n, int *fds, int *nfds)
{
	struct iovec iov = { .iov_base = data, .iov_len = n };
	union control c;
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = c.mem,
			    .msg_controllen = sizeof c.mem };
	int got[FDS_MAX], room = nfds ? *nfds : 0, count;
	ssize_t k;

	if (nfds)
		*nfds = 0;
	do
		k = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	while (k < 0 && errno == EINTR);
	if (k < 0)
		return -1;
	count = take_fds(&m, got);
	if (count > room || (m.msg_flags & (MSG_CTRUNC | MSG_TRUNC))) {
		while (count)
			close(got[--count]);
		errno = EMSGSIZE;
		return -1;
	}
	if (count && nfds) {
		memcpy(fds, got, sizeof(int) * (size_t)count);
		*nfds = count;
	}
	return k;
}
