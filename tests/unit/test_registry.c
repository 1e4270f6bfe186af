/* SPDX-License-Identifier: Apache-2.0 */
/* The registry's client against one that misbehaves: where credentials go, and where not. */
#include "fake_registry.h"

#include <fcntl.h>

#include "image/blobs.h"
#include "image/msg.h"
#include "image/registry.h"
#include "image/registry_in.h"
#include "sys/fd.h"
#include "tap.h"

static struct fake fake;
static struct sp_err e;

struct client {
	pid_t pid;
	int sock;
	struct sp_blobs *b;
};

/* The fetcher as its own process, unconfined; auth: what the credentials file says. */
static void start(struct client *c, const char *name, const char *auth)
{
	char path[] = "/tmp/space-unit-auth.XXXXXX", ref[128];
	struct sp_fetch f = { .auth_fd = -1 };
	int p[2];

	snprintf(ref, sizeof ref, "docker://127.0.0.1:%d/%s", fake.port[0], name);
	if (sp_ref_parse(ref, &f.ref, &e) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p) < 0)
		exit(1);
	if (auth) {
		f.auth_fd = mkostemp(path, O_CLOEXEC);
		unlink(path);
		dprintf(f.auth_fd, auth, fake.port[0]);
		lseek(f.auth_fd, 0, SEEK_SET);
	}
	c->pid = fork();
	if (!c->pid) {
		close(p[0]);
		_exit(sp_fetch_main(&f, p[1]));
	}
	close(p[1]);
	sp_fd_close(&f.auth_fd);
	c->sock = p[0];
	c->b = sp_blobs_ask(c->sock);
}

static int stop(struct client *c)
{
	int status;

	sp_blobs_free(&c->b);
	close(c->sock);
	waitpid(c->pid, &status, 0);
	return status;
}

/* What the servers were asked since the last time. */
static const char *told(void)
{
	static char text[8192];
	ssize_t n;

	fcntl(fake.told, F_SETFL, O_NONBLOCK);
	n = read(fake.told, text, sizeof text - 1);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static int fetch(const char *name, const char *auth, struct sp_str *out)
{
	struct client c;
	int rc;

	told();
	start(&c, name, auth);
	rc = sp_blobs_slurp(c.b, "manifests/ok", 1 << 20, out, &e);
	if (stop(&c) != 0)
		return -2;
	return rc;
}

static bool is_body(const struct sp_str *s)
{
	if (s->len != BODY_LEN)
		return false;
	for (size_t i = 0; i < s->len; i++)
		if (s->p[i] != fake_byte(i))
			return false;
	return true;
}

#define JOE "{\"auths\":{\"127.0.0.1:%d\":{\"auth\":\"am9lOnNlY3JldA==\"}}}"
#define IDENTITY "{\"auths\":{\"127.0.0.1:%d\":{\"identitytoken\":\"refresh&1\"}}}"

static int count(const char *text, const char *what)
{
	int n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

static void test_auth(void)
{
	sp_auto_str out = SP_STR_INIT;
	const char *t;

	ok(fetch("open", JOE, &out) == 0 && is_body(&out), "an open registry: %s", e.msg);
	ok(count(told(), "Basic") == 0, "is not told credentials that it did not ask for");
	ok(fetch("basic", JOE, &out) == 0 && is_body(&out), "Basic: %s", e.msg);
	t = told();
	ok(count(t, "A GET") == 2 && count(t, "Basic am9lOnNlY3JldA==") == 1,
	   "asked once, told once");
	ok(fetch("basic", NULL, &out) < 0 && e.code == SP_DENIED && strstr(e.msg, "--auth-file"),
	   "without credentials: %s", e.msg);
	ok(fetch("token", NULL, &out) == 0 && is_body(&out), "an anonymous token: %s", e.msg);
	t = told();
	ok(strstr(t, "A GET /token?service=s%20v&scope=repository%3Atoken%3Apull \n"),
	   "asked for with our scope, not the challenge's");
	ok(fetch("token", JOE, &out) == 0 && is_body(&out), "a token for a password: %s", e.msg);
	t = told();
	ok(count(t, "Basic") == 1 && strstr(t, "pull Basic am9lOnNlY3JldA==\n"),
	   "which only the realm is told");
	ok(fetch("token", IDENTITY, &out) == 0 && is_body(&out), "a token for a token: %s", e.msg);
	t = told();
	ok(strstr(t, "A POST /token \n") && count(t, "refresh") == 0, "sent in a body");
	ok(fetch("tokenbad", JOE, &out) < 0 && strstr(e.msg, "bytes that none has"),
	   "a token with a line end in it: %s", e.msg);
	ok(fetch("tokennone", JOE, &out) < 0 && strstr(e.msg, "gave no token"), "no token: %s",
	   e.msg);
	ok(fetch("open", "{", &out) < 0 && strstr(e.msg, "credentials file"), "a bad file: %s",
	   e.msg);
}

static void test_redirects(void)
{
	sp_auto_str out = SP_STR_INIT;
	const char *t;

	ok(fetch("basic/redirect", JOE, &out) == 0 && is_body(&out), "a redirect: %s", e.msg);
	t = told();
	ok(strstr(t, "redirect/manifests/ok Basic am9l") && strstr(t, "B GET /blob?sig=secret \n"),
	   "drops the password");
	ok(fetch("token/redirect", JOE, &out) == 0 && strstr(told(), "B GET /blob?sig=secret \n"),
	   "and the token");
	ok(fetch("basic/redirect/asks-too", JOE, &out) < 0 && e.code == SP_DENIED,
	   "where it leads nobody is answered who asks for one: %s", e.msg);
	t = told();
	ok(count(t, "B GET") == 1 && strstr(t, "B GET /asks-too?sig=secret \n"), "not once");
	ok(fetch("circle", NULL, &out) < 0 && strstr(e.msg, "more than 5 times"), "in circles: %s",
	   e.msg);
}

static void test_failures(void)
{
	sp_auto_str out = SP_STR_INIT;
	struct client c;

	ok(fetch("none", NULL, &out) < 0 && e.code == SP_ABSENT, "404: %s", e.msg);
	ok(fetch("busy", NULL, &out) < 0 && e.code == SP_BUSY, "429: %s", e.msg);
	ok(fetch("broken", NULL, &out) < 0 && e.code == SP_BUSY, "500: %s", e.msg);
	ok(fetch("empty", NULL, &out) == 0 && out.len == 0, "an empty body");
	ok(fetch("short", NULL, &out) == 0 && is_body(&out), "a body that broke off goes on: %s",
	   e.msg);
	ok(fetch("again", NULL, &out) < 0, "one that begins anew does not: %s", e.msg);

	start(&c, "open", NULL);
	ok(sp_blobs_slurp(c.b, "manifests/../../secrets", 1 << 20, &out, &e) < 0 &&
		   sp_blobs_slurp(c.b, "blobs/sha256/../x", 1 << 20, &out, &e) < 0 &&
		   sp_blobs_slurp(c.b, "token", 1 << 20, &out, &e) < 0 &&
		   strstr(e.msg, "no registry has"),
	   "the unpacking side can ask for manifests and blobs only: %s", e.msg);
	ok(sp_blobs_slurp(c.b, "manifests/ok", 1000, &out, &e) < 0 && strstr(e.msg, "larger than"),
	   "a document too large: %s", e.msg);
	ok(sp_blobs_slurp(c.b, "manifests/ok", 1 << 20, &out, &e) == 0 && is_body(&out),
	   "after which it goes on");
	ok(stop(&c) == 0, "and ends with its client");
}

static void test_safety(void)
{
	static const struct {
		const char *ref, *url;
		bool safe;
	} all[] = {
		{ "docker://reg.example/x", "https://reg.example/token", true },
		{ "docker://reg.example/x", "https://auth.reg.example/token", true },
		{ "docker://reg.example/x", "http://reg.example/token", false },
		{ "docker://reg.example/x", "http://127.0.0.1/token", false },
		{ "docker+http://reg.example/x", "http://reg.example/token", false },
		{ "docker+http://reg.example/x", "https://reg.example/token", true },
		{ "docker://localhost/x", "http://127.0.0.1:1/token", true },
		{ "docker://localhost/x", "http://127.0.0.1.evil.example/token", false },
		{ "docker://localhost/x", "http://127.0.0.1@evil.example/token", false },
		{ "docker://localhost/x", "ftp://localhost/token", false },
		{ "docker://reg.example/x", "HTTPS://reg.example", true },
		{ "docker://reg.example/x", "//reg.example", false },
		{ "docker://reg.example/x", "", false },
	};
	struct sp_ref r;

	for (size_t i = 0; i < SP_NELEM(all); i++)
		ok(sp_ref_parse(all[i].ref, &r, &e) == 0 &&
			   sp_http_url_is_safe(all[i].url, &r) == all[i].safe,
		   "%s for %s: %s", all[i].safe ? "safe" : "not safe", all[i].ref, all[i].url);
	ok(sp_http_same_host("https://A.example:1/x", "http://a.example/") &&
		   !sp_http_same_host("https://a.example", "https://b.a.example"),
	   "the same host");
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	fake_start(&fake);
	test_auth();
	test_redirects();
	test_failures();
	test_safety();
	fake_stop(&fake);
	return tap_done();
}
