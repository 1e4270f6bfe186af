/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's own round trip for `true`, without the tool: a connection to RUN/<sandbox>/guest, an
 * EXEC frame, until EXIT.
 *
 *   roundtrip SOCKET N      prints N lines: ms
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "guest/frame.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "text/id.h"

static int connect_to(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof sa.sun_path)
		return -1;
	strcpy(sa.sun_path, path);
	return connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0 ? -1 : fd;
}

static int run_once(const char *path)
{
	unsigned char mem[512];
	const unsigned char *payload;
	struct sp_g_header h;
	struct sp_fields f;
	struct sp_buf out, in;
	char proc[SP_ID_SIZE];
	int fd = connect_to(path);
	ssize_t n;

	if (fd < 0)
		return -1;
	sp_id_make(SP_PROCESS, proc);
	sp_buf_init(&out, 1024);
	sp_buf_init(&in, 2 * (SP_G_PAYLOAD + SP_G_HEADER));
	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_str(&f, SP_T_ARG, "true");
	sp_fields_add_str(&f, SP_T_PROC, proc);
	if (sp_fields_end(&f) < 0 || !sp_frame_put(&out, 0, SP_G_EXEC, 0, mem, (uint32_t)f.len) ||
	    sp_fd_write(fd, sp_buf_head(&out), sp_buf_len(&out)) < 0)
		return -1;
	for (;;) {
		while (sp_frame_peek(&in, &h, &payload) == 1) {
			if (h.type == SP_G_EXIT || h.type == SP_G_ERROR) {
				sp_buf_free(&in);
				sp_buf_free(&out);
				close(fd);
				return h.type == SP_G_EXIT ? 0 : -1;
			}
			sp_buf_drop(&in, SP_G_HEADER + h.len);
		}
		n = read(fd, sp_buf_room(&in, 4096), 4096);
		if (n <= 0)
			return -1;
		sp_buf_added(&in, (size_t)n);
	}
}

int main(int argc, char **argv)
{
	int i;

	if (argc != 3)
		return 2;
	for (i = 0; i < atoi(argv[2]); i++) {
		int64_t t0 = sp_clock_mono();

		if (run_once(argv[1]) < 0)
			return 1;
		printf("%.3f\n", (double)(sp_clock_mono() - t0) / 1e6);
	}
	return 0;
}
