/* SPDX-License-Identifier: Apache-2.0 */
/* QMP against a VMM that speaks well, lies, stalls and floods. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tap.h"
#include "vmm/qmp.h"

#define GREETING "{\"QMP\": {\"version\": {}, \"capabilities\": []}}\r\n"

struct fake {
	int fd;
	const char *const *say; /* one a command received; the first at once; NULL: stop talking */
};

static void *talk(void *arg)
{
	struct fake *f = arg;
	char buf[4096];
	const char *const *s = f->say;

	while (*s) {
		if (send(f->fd, *s, strlen(*s), MSG_NOSIGNAL) < 0)
			break;
		s++;
		if (recv(f->fd, buf, sizeof buf, 0) <= 0)
			break;
	}
	while (recv(f->fd, buf, sizeof buf, 0) > 0)
		; /* stalls until we go */
	close(f->fd);
	return NULL;
}

/* Greets, then calls "stop"; -1 with *e from whichever failed. */
static int converse(const char *const *say, struct sp_qmp *q, struct sp_err *e)
{
	pthread_t t;
	struct fake f = { .say = say };
	int s[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0)
		return -1;
	f.fd = s[1];
	pthread_create(&t, NULL, talk, &f);
	sp_qmp_init(q, s[0]);
	rc = sp_qmp_greet(q, 300, e);
	if (rc == 0)
		rc = sp_qmp_call(q, "stop", NULL, -1, 300, NULL, e);
	shutdown(s[0], SHUT_RDWR);
	pthread_join(t, NULL);
	close(s[0]);
	sp_buf_free(&q->in);
	return rc;
}

int main(void)
{
	static const char *const good[] = { GREETING, "{\"return\": {}}\r\n",
					    "{\"event\":\"STOP\"}\r\n{\"return\": {}}\r\n", NULL };
	static const char *const refuses[] = { GREETING, "{\"return\": {}}\n",
					       "{\"error\": {\"desc\": \"not now\"}}\n", NULL };
	static const char *const no_greeting[] = { "{\"hello\": 1}\n", NULL };
	static const char *const garbage[] = { GREETING, "}}}}\n", NULL };
	static const char *const number[] = { GREETING, "17\n", NULL };
	static const char *const stalls[] = { GREETING, "{\"return\": {}}\n", "{\"event\":\"X\"}\n",
					      NULL };
	static const char *const disk[] = {
		GREETING, "{\"return\": {}}\n",
		"{\"event\":\"BLOCK_IO_ERROR\"}\n{\"event\":\"STOP\"}\n{\"return\": {}}\n", NULL
	};
	const char *flood[] = { NULL, NULL };
	char *line = malloc(SP_QMP_LINE + 4096);
	struct sp_err e = { .code = SP_OK };
	struct sp_qmp q;

	signal(SIGPIPE, SIG_IGN);
	ok(converse(good, &q, &e) == 0, "a VMM that speaks well (%s)", e.msg);
	ok(q.told == SP_VM_PAUSED, "its event is noted");
	ok(converse(disk, &q, &e) == 0 && q.told == SP_VM_STOPPED_IO,
	   "a full disk is told from a stop");
	ok(converse(refuses, &q, &e) < 0 && e.code == SP_FAIL && strstr(e.msg, "not now"),
	   "a refusal brings its reason: %s", e.msg);
	ok(!q.ended, "and the conversation goes on");
	ok(converse(no_greeting, &q, &e) < 0 && q.ended, "no greeting: %s", e.msg);
	ok(converse(garbage, &q, &e) < 0 && q.ended, "garbage ends it: %s", e.msg);
	ok(converse(number, &q, &e) < 0 && q.ended, "so does JSON that is no object: %s", e.msg);
	ok(converse(stalls, &q, &e) < 0 && e.code == SP_BUSY, "one that stalls: %s", e.msg);
	memset(line, 'a', SP_QMP_LINE + 4095);
	line[SP_QMP_LINE + 4095] = '\0';
	flood[0] = line;
	ok(converse(flood, &q, &e) < 0 && q.ended, "a line without end: %s", e.msg);
	free(line);
	return tap_done();
}
