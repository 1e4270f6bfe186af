/* SPDX-License-Identifier: Apache-2.0 */
#include "image/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "image/msg.h"
#include "image/oci.h"
#include "image/registry_in.h"
#include "sys/fd.h"

#define REDIRECTS_MAX 5
#define TRIES_MAX 4 /* of a body that breaks off on its way */

static const char manifest_types[] = "application/vnd.oci.image.index.v1+json, "
				     "application/vnd.docker.distribution.manifest.list.v2+json, "
				     "application/vnd.oci.image.manifest.v1+json, "
				     "application/vnd.docker.distribution.manifest.v2+json";

struct registry {
	struct sp_http http;
	struct sp_auth auth;
	struct sp_str authorization; /* of requests to the registry itself */
	int sock;
	int out; /* write end of the body's pipe, -1 until it begins */
	int64_t sent;
	bool reader_gone;
};

/* The first byte of a body opens the pipe and hands its other end over. */
static int begin_body(struct registry *r)
{
	struct sp_msg m = { .kind = SP_MSG_GIVE, .n = { -1, 1 } };
	int p[2], rc;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	fcntl(p[1], F_SETPIPE_SZ, 1 << 20); /* less would only be slower */
	r->out = p[1];
	rc = sp_msg_send(r->sock, &m, p[0]);
	close(p[0]);
	return rc;
}

static int pass_on(void *arg, const void *data, size_t n)
{
	struct registry *r = arg;

	if (r->out < 0 && begin_body(r) < 0)
		return -1;
	if (sp_fd_write(r->out, data, n) < 0) {
		r->reader_gone = true;
		return -1;
	}
	r->sent += (int64_t)n;
	return 0;
}

static void registry_url(const struct sp_ref *ref, const char *rest, struct sp_str *out)
{
	sp_str_addf(out, "%s://%s%s%s/v2/%s/%s", ref->plain ? "http" : "https", ref->host,
		    ref->port[0] ? ":" : "", ref->port, ref->name, rest);
}

/* A status that ends the request. */
static int explain(const struct registry *r, long status, const char *what, struct sp_err *e)
{
	const struct sp_ref *ref = &r->http.f->ref;
	const char *who = r->http.f->auth_fd >= 0 ? "" : "; are credentials needed? --auth-file";

	switch (status) {
	case 401:
	case 403:
		return sp_fail(e, SP_DENIED, 0, "registry %s refuses %s (%ld)%s", ref->auth_key,
			       what, status, who);
	case 404:
		return sp_fail(e, SP_ABSENT, 0, "registry %s has no %s of %s", ref->auth_key, what,
			       ref->name);
	case 429:
		return sp_fail(e, SP_BUSY, 0, "registry %s wants fewer requests (429)",
			       ref->auth_key);
	default:
		return sp_fail(e, status >= 500 ? SP_BUSY : SP_FAIL, 0,
			       "registry %s answers %ld for %s", ref->auth_key, status, what);
	}
}

/* After a 401 of the registry itself: 1 there are credentials to try, 0 there are none. */
static int answer_challenge(struct registry *r, const struct sp_challenge *c, struct sp_err *e)
{
	const struct sp_ref *ref = &r->http.f->ref;

	if (c->kind == SP_CHALLENGE_BEARER)
		return sp_token_get(&r->http, c, &r->auth, &r->authorization, e) < 0 ? -1 : 1;
	if (c->kind != SP_CHALLENGE_BASIC || !r->auth.user.len)
		return 0;
	if (ref->plain && !ref->loopback)
		return sp_fail(e, SP_DENIED, 0, "credentials are not sent over plain http");
	sp_str_clear(&r->authorization);
	sp_basic_header(&r->auth, &r->authorization);
	return 1;
}

static bool is_redirect(long status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* One try: from the registry, through redirects. Only the first request has our authorization, and
 * only its 401 is listened to. */
static int try_once(struct registry *r, const char *rest, const char *accept, struct sp_http_req *q,
		    struct sp_err *e)
{
	const struct sp_ref *ref = &r->http.f->ref;
	sp_auto_str own = SP_STR_INIT, url = SP_STR_INIT;
	int hops;

	registry_url(ref, rest, &own);
	sp_str_add(&url, own.p);
	for (hops = 0; hops <= REDIRECTS_MAX; hops++) {
		q->url = url.p;
		q->accept = accept;
		q->authorization = hops == 0 && r->authorization.len ? r->authorization.p : NULL;
		r->http.local_ok = ref->loopback || sp_http_same_host(url.p, own.p);
		if (sp_http_do(&r->http, q, e) < 0)
			return -1;
		if (hops && q->status == 401)
			memset(&q->challenge, 0, sizeof q->challenge);
		if (!is_redirect(q->status))
			return 0;
		if (!q->location.len)
			return sp_fail(e, SP_FAIL, 0, "registry %s redirects to nowhere",
				       ref->auth_key);
		if (sp_str_has_prefix(url.p, "https:") &&
		    !sp_str_has_prefix(q->location.p, "https:"))
			return sp_fail(e, SP_DENIED, 0,
				       "registry %s redirects from https to '%.200s'",
				       ref->auth_key, q->location.p);
		sp_str_clear(&url);
		sp_str_add(&url, q->location.p);
	}
	return sp_fail(e, SP_FAIL, 0, "registry %s redirects more than %d times", ref->auth_key,
		       REDIRECTS_MAX);
}

static int get(struct registry *r, const char *rest, const char *accept, struct sp_err *e)
{
	struct sp_http_req q = { .sink = pass_on, .arg = r, .location = SP_STR_INIT };
	bool asked = false;
	int rc, tries = 1, more;

	for (;;) {
		q.from = r->sent;
		rc = try_once(r, rest, accept, &q, e);
		if (rc < 0 && q.broken && !r->reader_gone && tries++ < TRIES_MAX)
			continue;
		if (rc == 0 && q.status == 401 && !asked && q.challenge.kind != SP_CHALLENGE_NONE) {
			asked = true;
			more = answer_challenge(r, &q.challenge, e);
			if (more > 0)
				continue;
			if (more < 0)
				rc = -1;
		}
		break;
	}
	if (rc == 0 && q.status != 200 && q.status != 206)
		rc = explain(r, q.status, rest, e);
	sp_str_free(&q.location);
	if (rc == 0 && r->out < 0 && begin_body(r) < 0) /* an empty body */
		rc = sp_fail(e, SP_FAIL, errno, "make a pipe");
	return rc;
}

/* "manifests/<tag or digest>", "blobs/<algorithm>/<hex>": to the registry's own form. */
static int translate(const char *name, struct sp_str *rest, const char **accept, struct sp_err *e)
{
	char digest[SP_DIGEST_SIZE];

	*accept = NULL;
	if (sp_str_has_prefix(name, "manifests/")) {
		const char *what = name + strlen("manifests/");

		*accept = manifest_types;
		sp_str_add(rest, name);
		if (sp_ref_tag_is_valid(what) || sp_digest_is_valid(what))
			return 0;
	} else if (sp_str_has_prefix(name, "blobs/") && strlen(name) < sizeof digest) {
		memcpy(digest, name + strlen("blobs/"), strlen(name) - strlen("blobs/") + 1);
		if (strchr(digest, '/'))
			*strchr(digest, '/') = ':';
		sp_str_addf(rest, "blobs/%s", digest);
		if (sp_digest_is_valid(digest))
			return 0;
	}
	return sp_fail(e, SP_FAIL, 0, "the unpacking side asks for what no registry has");
}

static int serve_one(struct registry *r, const char *name)
{
	sp_auto_str rest = SP_STR_INIT;
	struct sp_err e = { SP_FAIL, 0, "" };
	struct sp_msg end = { .kind = SP_MSG_END };
	const char *accept;
	int rc;

	r->out = -1;
	r->sent = 0;
	r->reader_gone = false;
	rc = translate(name, &rest, &accept, &e);
	if (rc == 0)
		rc = get(r, rest.p, accept, &e);
	sp_fd_close(&r->out);
	return rc < 0 ? sp_msg_send_fail(r->sock, &e) : sp_msg_send(r->sock, &end, -1);
}

static int read_auth(struct registry *r, int fd, struct sp_err *e)
{
	struct sp_str text = SP_STR_INIT;
	int rc;

	if (fd < 0)
		return 0;
	rc = sp_fd_slurp(fd, SP_AUTH_MAX, &text, e);
	if (rc == 0)
		rc = sp_auth_read(text.p, text.len, &r->http.f->ref, &r->auth, e);
	sp_str_wipe(&text);
	return rc < 0 ? -1 : 0;
}

int sp_fetch_main(const struct sp_fetch *f, int sock)
{
	struct registry r = { .auth = SP_AUTH_INIT, .authorization = SP_STR_INIT, .sock = sock };
	struct sp_err e = { SP_FAIL, 0, "" };
	struct sp_msg m;
	int got, rc;

	signal(SIGPIPE, SIG_IGN);
	rc = sp_http_open(&r.http, f, &e);
	if (rc == 0)
		rc = read_auth(&r, f->auth_fd, &e);
	while ((got = sp_msg_recv(sock, &m, NULL, NULL, &e)) == 1 && m.kind == SP_MSG_ASK) {
		if (rc < 0) /* said when asked, as any other failure */
			sp_msg_send_fail(sock, &e);
		else if (serve_one(&r, m.text) < 0)
			break;
	}
	sp_auth_free(&r.auth);
	sp_str_wipe(&r.authorization);
	sp_http_close(&r.http);
	return got == 0 ? 0 : 1;
}
