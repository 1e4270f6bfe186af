/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request with libcurl: no redirect is followed here, no cookie kept, no netrc read. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "image/registry_in.h"

#define CONNECT_S 20
#define STALL_S 60 /* less than a byte a second for that long ends it */

/* This machine itself: loopback, "any", link-local (where clouds keep their metadata). */
static bool is_local_v4(uint32_t a)
{
	return a >> 24 == 127 || a >> 24 == 0 || a >> 16 == 0xa9fe;
}

static bool is_local(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, sa, sizeof in);
		return is_local_v4(ntohl(in.sin_addr.s_addr));
	}
	if (sa->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;
		uint32_t low;

		memcpy(&in6, sa, sizeof in6);
		if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
			memcpy(&low, in6.sin6_addr.s6_addr + 12, sizeof low);
			return is_local_v4(ntohl(low));
		}
		return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr) ||
		       IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr) ||
		       IN6_IS_ADDR_UNSPECIFIED(&in6.sin6_addr);
	}
	return true;
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
	const struct sp_http *h = arg;

	(void)purpose;
	if (!h->local_ok && !h->proxied && is_local(&to->addr))
		return CURL_SOCKET_BAD;
	return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static size_t on_body(char *data, size_t one, size_t n, void *arg)
{
	struct sp_http_req *q = arg;

	(void)one;
	curl_easy_getinfo(q->http->curl, CURLINFO_RESPONSE_CODE, &q->status);
	if (q->status != 200 && q->status != 206)
		return n; /* a page of an error or redirect: passed over */
	if (q->from && q->status != 206)
		return 0; /* it begins at the front again, where we are not */
	return q->sink(q->arg, data, n) < 0 ? 0 : n;
}

static size_t on_header(char *data, size_t one, size_t n, void *arg)
{
	static const char name[] = "www-authenticate:";
	struct sp_http_req *q = arg;
	char value[4096];
	size_t len = n;

	(void)one;
	while (len && (data[len - 1] == '\n' || data[len - 1] == '\r'))
		len--;
	if (len < sizeof name || len - sizeof name + 1 >= sizeof value ||
	    strncasecmp(data, name, sizeof name - 1) != 0)
		return n;
	memcpy(value, data + sizeof name - 1, len - sizeof name + 1);
	value[len - sizeof name + 1] = '\0';
	sp_challenge_read(value, &q->challenge);
	return n;
}

static bool has_proxy(void)
{
	static const char *const names[] = { "http_proxy", "https_proxy", "HTTPS_PROXY",
					     "all_proxy", "ALL_PROXY" };
	const char *v;

	for (size_t i = 0; i < SP_NELEM(names); i++)
		if ((v = getenv(names[i])) && *v)
			return true;
	return false;
}

int sp_http_open(struct sp_http *h, const struct sp_fetch *f, struct sp_err *e)
{
	memset(h, 0, sizeof *h);
	h->f = f;
	h->proxied = has_proxy() && !f->ref.loopback;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) || !(h->curl = curl_easy_init()))
		return sp_fail(e, SP_FAIL, 0, "start libcurl");
	return 0;
}

void sp_http_close(struct sp_http *h)
{
	curl_easy_cleanup(h->curl);
	h->curl = NULL;
}

static void set_up(struct sp_http *h, struct sp_http_req *q, struct curl_slist *headers)
{
	CURL *c = h->curl;

	curl_easy_reset(c); /* keeps the connections */
	curl_easy_setopt(c, CURLOPT_URL, q->url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, h->f->ref.plain ? "http,https" : "https");
	curl_easy_setopt(c, CURLOPT_USERAGENT, "space/" SP_VERSION);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, h->why);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, q);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, q);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, h);
	if (h->f->ref.loopback)
		curl_easy_setopt(c, CURLOPT_PROXY, "");
	if (h->f->ca_file)
		curl_easy_setopt(c, CURLOPT_CAINFO, h->f->ca_file);
	if (q->form)
		curl_easy_setopt(c, CURLOPT_POSTFIELDS, q->form);
	if (q->from)
		curl_easy_setopt(c, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)q->from);
}

static struct curl_slist *make_headers(const struct sp_http_req *q)
{
	static const char *const names[] = { "Authorization: ", "Accept: " };
	const char *const values[] = { q->authorization, q->accept };
	struct curl_slist *list = NULL;
	struct sp_str line = SP_STR_INIT;

	for (size_t i = 0; i < SP_NELEM(names); i++) {
		if (!values[i])
			continue;
		sp_str_clear(&line);
		sp_str_add(&line, names[i]);
		sp_str_add(&line, values[i]);
		list = curl_slist_append(list, line.p);
	}
	sp_str_wipe(&line);
	return list;
}

int sp_http_do(struct sp_http *h, struct sp_http_req *q, struct sp_err *e)
{
	struct curl_slist *headers = make_headers(q);
	const char *to = NULL;
	CURLcode rc;
	bool again;

	q->status = 0;
	q->broken = false;
	q->http = h;
	memset(&q->challenge, 0, sizeof q->challenge);
	sp_str_clear(&q->location);
	h->why[0] = '\0';
	set_up(h, q, headers);
	rc = curl_easy_perform(h->curl);
	curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &q->status);
	curl_easy_getinfo(h->curl, CURLINFO_REDIRECT_URL, &to);
	if (to)
		sp_str_add(&q->location, to);
	curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, NULL);
	curl_slist_free_all(headers);
	if (rc == CURLE_OK)
		return 0;
	q->broken = rc == CURLE_PARTIAL_FILE || rc == CURLE_RECV_ERROR ||
		    rc == CURLE_OPERATION_TIMEDOUT || rc == CURLE_HTTP2_STREAM;
	again = q->broken || rc == CURLE_COULDNT_RESOLVE_HOST || rc == CURLE_COULDNT_CONNECT;
	/* without the query: where a redirect led it may be a signature */
	return sp_fail(e, again ? SP_BUSY : SP_FAIL, 0, "%.*s: %s", (int)strcspn(q->url, "?"),
		       q->url, h->why[0] ? h->why : curl_easy_strerror(rc));
}

/* Scheme and host of a URL, the host in lower case. */
static bool split_url(const char *url, struct sp_str *scheme_out, struct sp_str *host_out)
{
	CURLU *u = curl_url();
	char *scheme = NULL, *host = NULL;
	bool good = u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
		    curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
		    curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK;

	if (good) {
		sp_str_add(scheme_out, scheme);
		sp_str_add(host_out, host);
		for (char *p = host_out->p; *p; p++)
			if (*p >= 'A' && *p <= 'Z')
				*p = (char)(*p - 'A' + 'a');
	}
	curl_free(scheme);
	curl_free(host);
	curl_url_cleanup(u);
	return good;
}

bool sp_http_same_host(const char *a, const char *b)
{
	sp_auto_str scheme = SP_STR_INIT, one = SP_STR_INIT, two = SP_STR_INIT;

	return split_url(a, &scheme, &one) && split_url(b, &scheme, &two) && !strcmp(one.p, two.p);
}

bool sp_http_url_is_safe(const char *url, const struct sp_ref *ref)
{
	sp_auto_str scheme = SP_STR_INIT, host = SP_STR_INIT;

	if (!split_url(url, &scheme, &host))
		return false;
	if (!strcmp(scheme.p, "https"))
		return true;
	return !strcmp(scheme.p, "http") && ref->loopback && sp_ref_host_is_loopback(host.p);
}
