/* SPDX-License-Identifier: Apache-2.0 */
/* What a VMM may write on its control connection. */
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vmm/qmp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct sp_qmp q;
	struct sp_err e;
	int s[2];

	if (n > 100000 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s) < 0)
		return 0;
	if (send(s[1], data, n, MSG_NOSIGNAL) >= 0) {
		shutdown(s[1], SHUT_WR);
		sp_qmp_init(&q, s[0]);
		if (sp_qmp_greet(&q, 0, &e) == 0)
			sp_qmp_call(&q, "stop", NULL, -1, 0, NULL, &e);
		sp_qmp_drain(&q, &e);
		sp_buf_free(&q.in);
	}
	close(s[0]);
	close(s[1]);
	return 0;
}
