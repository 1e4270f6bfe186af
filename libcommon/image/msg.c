/* SPDX-License-Identifier: Apache-2.0 */
#include "image/msg.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "sys/fd.h"
#include "text/table.h"

int sp_msg_send(int sock, const struct sp_msg *m, int fd)
{
	return sp_sock_send(sock, m, sizeof *m, &fd, fd >= 0 ? 1 : 0);
}

int sp_msg_send_config(int sock, const char *text, size_t n)
{
	struct sp_msg m = { .kind = SP_MSG_CONFIG };
	sp_auto_str all = SP_STR_INIT;

	sp_str_addn(&all, &m, sizeof m);
	sp_str_addn(&all, text, n);
	return sp_sock_send(sock, all.p, all.len, NULL, 0);
}

int sp_msg_send_fail(int sock, const struct sp_err *err)
{
	struct sp_msg m = { .kind = SP_MSG_FAIL, .n = { err->code } };

	snprintf(m.text, sizeof m.text, "%.*s", (int)sizeof m.text - 1, err->msg);
	return sp_msg_send(sock, &m, -1);
}

int sp_msg_recv(int sock, struct sp_msg *m, int *fd, struct sp_str *tail, struct sp_err *e)
{
	const size_t most = sizeof *m + SP_MSG_TAIL;
	sp_auto_free char *room = sp_xmalloc(most);
	int fds[8], nfds = (int)SP_NELEM(fds);
	ssize_t n;

	if (fd)
		*fd = -1;
	n = sp_sock_recv(sock, room, most, fds, &nfds);
	if (n == 0)
		return 0;
	for (int i = 0; n > 0 && i < nfds; i++) {
		if (fd && *fd < 0)
			*fd = fds[i];
		else
			sp_fd_close(&fds[i]);
	}
	if (n < 0)
		return sp_fail(e, SP_FAIL, errno, "a confined process stopped talking");
	if ((size_t)n < sizeof *m)
		goto bad;
	memcpy(m, room, sizeof *m);
	m->text[sizeof m->text - 1] = '\0';
	if (m->kind == 0 || m->kind > SP_MSG_END || m->zero)
		goto bad;
	if ((size_t)n > sizeof *m && m->kind != SP_MSG_CONFIG)
		goto bad;
	if (tail) {
		sp_str_clear(tail);
		sp_str_addn(tail, room + sizeof *m, (size_t)n - sizeof *m);
	}
	return 1;
bad:
	if (fd)
		sp_fd_close(fd);
	return sp_fail(e, SP_FAIL, 0, "a confined process sent what is no message");
}

int sp_msg_fail(const struct sp_msg *m, struct sp_err *e)
{
	enum sp_code code = SP_FAIL;
	sp_auto_str text = SP_STR_INIT;

	switch (m->n[0]) {
#define SP_EXIT(sym, num, name, meaning)                                                           \
	case num:                                                                                  \
		code = num ? (enum sp_code)num : SP_FAIL;                                          \
		break;
#include "base/exitcodes.def"
#undef SP_EXIT
	default:
		break;
	}
	sp_text_escape(&text, m->text, strlen(m->text));
	return sp_fail(e, code, 0, "%.480s", text.p);
}
