/* SPDX-License-Identifier: Apache-2.0 */
/* A registry that can be made to misbehave: two little HTTP servers on loopback, one for the
 * registry, one for where it redirects to. What they are asked is told through a pipe, a line each:
 * "A GET /path authorization". */
#ifndef SP_TESTS_FAKE_REGISTRY_H
#define SP_TESTS_FAKE_REGISTRY_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct fake {
	int port[2];
	pid_t pid[2];
	int told; /* read end */
};

struct fake_talk {
	int sock;
	char who;
	const struct fake *f;
	char path[512], auth[512], range[64];
};

#define BODY_LEN 200000

static void fake_say(int sock, const char *text)
{
	if (send(sock, text, strlen(text), MSG_NOSIGNAL) < 0)
		return;
}

/* The body that blobs have: bytes that can be told apart. */
static char fake_byte(size_t i)
{
	return (char)('a' + (i * 7 + i / 1000) % 26);
}

static void fake_body(int sock, size_t from, size_t to)
{
	char buf[1000];

	for (size_t i = from; i < to;) {
		size_t n = 0;

		while (n < sizeof buf && i < to)
			buf[n++] = fake_byte(i++);
		if (send(sock, buf, n, MSG_NOSIGNAL) < 0)
			return;
	}
}

static void fake_head(int sock, const char *status, size_t length, const char *more)
{
	char line[1024];

	snprintf(line, sizeof line,
		 "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n", status,
		 length, more);
	fake_say(sock, line);
}

/* What wants a password or a token first: true where that was the answer. */
static bool fake_refuses(const struct fake_talk *t)
{
	const char *p = t->path;
	char more[512];

	if (t->who == 'B' && strstr(p, "asks-too")) {
		fake_head(t->sock, "401 no", 0, "WWW-Authenticate: Basic realm=\"b\"\r\n");
		return true;
	}
	if (strstr(p, "/v2/basic/") && strcmp(t->auth, "Basic am9lOnNlY3JldA==") != 0) {
		fake_head(t->sock, "401 no", 0, "WWW-Authenticate: Basic realm=\"r\"\r\n");
		return true;
	}
	if (strstr(p, "/v2/token") && strcmp(t->auth, "Bearer tok1") != 0) {
		snprintf(more, sizeof more,
			 "WWW-Authenticate: Bearer realm=\"http://127.0.0.1:%d/token%s\","
			 "service=\"s v\",scope=\"repository:other:push\"\r\n",
			 t->f->port[0],
			 strstr(p, "tokenbad")    ? "/bad"
			 : strstr(p, "tokennone") ? "/none"
						  : "");
		fake_head(t->sock, "401 no", 0, more);
		return true;
	}
	return false;
}

/* A body that breaks off in its middle; its rest when that is asked for. */
static void fake_short(const struct fake_talk *t)
{
	size_t from = strtoul(t->range, NULL, 10);
	char more[128];

	snprintf(more, sizeof more, "Content-Range: bytes %zu-%d/%d\r\n", from, BODY_LEN - 1,
		 BODY_LEN);
	fake_head(t->sock, from ? "206 part" : "200 ok", BODY_LEN - from, more);
	fake_body(t->sock, from, from ? BODY_LEN : BODY_LEN / 2);
}

static void fake_redirect(const struct fake_talk *t)
{
	char more[128];

	snprintf(more, sizeof more, "Location: http://127.0.0.1:%d/%s?sig=secret\r\n",
		 t->f->port[1], strstr(t->path, "asks-too") ? "asks-too" : "blob");
	fake_head(t->sock, "307 there", 0, more);
}

static void fake_token(const struct fake_talk *t)
{
	const char *token = strstr(t->path, "bad")    ? "{\"token\":\"a\\r\\nX: y\"}"
			    : strstr(t->path, "none") ? "{}"
						      : "{\"token\":\"tok1\"}";

	fake_head(t->sock, "200 ok", strlen(token), "");
	fake_say(t->sock, token);
}

static void fake_answer(const struct fake_talk *t)
{
	const char *p = t->path;

	if (fake_refuses(t))
		return;
	if (!strncmp(p, "/token", 6)) {
		fake_token(t);
	} else if (strstr(p, "/redirect")) {
		fake_redirect(t);
	} else if (strstr(p, "/circle")) {
		fake_head(t->sock, "302 round", 0, "Location: /circle\r\n");
	} else if (strstr(p, "/short")) {
		fake_short(t);
	} else if (strstr(p, "/again")) { /* breaks off; asked for the rest it begins anew */
		fake_head(t->sock, "200 ok", BODY_LEN, "");
		fake_body(t->sock, 0, BODY_LEN / 2);
	} else if (strstr(p, "/busy")) {
		fake_head(t->sock, "429 slow down", 0, "");
	} else if (strstr(p, "/broken")) {
		fake_head(t->sock, "500 oh", 0, "");
	} else if (strstr(p, "/empty")) {
		fake_head(t->sock, "200 ok", 0, "");
	} else if (strstr(p, "/none/")) {
		fake_head(t->sock, "404 none", 0, "");
	} else {
		fake_head(t->sock, "200 ok", BODY_LEN, "");
		fake_body(t->sock, 0, BODY_LEN);
	}
}

static void fake_header(const char *head, const char *name, char *out, size_t n)
{
	const char *p = strcasestr(head, name);

	out[0] = '\0';
	if (p)
		snprintf(out, n, "%.*s", (int)strcspn(p + strlen(name), "\r\n"), p + strlen(name));
}

static void fake_serve(const struct fake *f, int listener, char who, int tell)
{
	char head[8192], line[1200], verb[16];

	for (;;) {
		struct fake_talk t = { .sock = accept(listener, NULL, NULL), .who = who, .f = f };
		size_t n = 0;
		ssize_t got;

		if (t.sock < 0)
			_exit(1);
		while (n < sizeof head - 1 &&
		       (got = recv(t.sock, head + n, sizeof head - 1 - n, 0)) > 0) {
			n += (size_t)got;
			head[n] = '\0';
			if (strstr(head, "\r\n\r\n"))
				break;
		}
		head[n] = '\0';
		if (sscanf(head, "%15s %511s", verb, t.path) == 2) {
			fake_header(head, "\r\nAuthorization: ", t.auth, sizeof t.auth);
			fake_header(head, "\r\nRange: bytes=", t.range, sizeof t.range);
			n = (size_t)snprintf(line, sizeof line, "%c %s %s %s\n", who, verb, t.path,
					     t.auth);
			if (write(tell, line, n) < 0)
				_exit(1);
			fake_answer(&t);
		}
		shutdown(t.sock, SHUT_WR);
		while (recv(t.sock, head, sizeof head, 0) > 0)
			;
		close(t.sock);
	}
}

__attribute__((unused)) static void fake_start(struct fake *f)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	int s[2], p[2];

	if (pipe(p) < 0)
		exit(1);
	for (int i = 0; i < 2; i++) {
		s[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		a.sin_port = 0;
		if (bind(s[i], (struct sockaddr *)&a, sizeof a) < 0 || listen(s[i], 16) < 0 ||
		    getsockname(s[i], (struct sockaddr *)&a, &len) < 0)
			exit(1);
		f->port[i] = ntohs(a.sin_port);
	}
	for (int i = 0; i < 2; i++) {
		f->pid[i] = fork();
		if (!f->pid[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(p[0]);
			close(s[1 - i]);
			fake_serve(f, s[i], i ? 'B' : 'A', p[1]);
		}
	}
	close(s[0]);
	close(s[1]);
	close(p[1]);
	f->told = p[0];
}

__attribute__((unused)) static void fake_stop(struct fake *f)
{
	for (int i = 0; i < 2; i++) {
		kill(f->pid[i], SIGKILL);
		waitpid(f->pid[i], NULL, 0);
	}
	close(f->told);
}

#endif
