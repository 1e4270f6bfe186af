/* SPDX-License-Identifier: Apache-2.0 */
/* Between the parts of image/registry.h; no one else includes this. */
#ifndef SP_IMAGE_REGISTRY_IN_H
#define SP_IMAGE_REGISTRY_IN_H

#include <curl/curl.h>

#include "base/str.h"
#include "image/auth.h"
#include "image/challenge.h"
#include "image/registry.h"

struct sp_http {
	CURL *curl;
	const struct sp_fetch *f;
	bool local_ok; /* the next connection may go to this machine */
	bool proxied;  /* a proxy of the environment stands between */
	char why[CURL_ERROR_SIZE];
};

/* One request. The body goes to sink, for statuses of 200 and 206 only. */
struct sp_http_req {
	const char *url;
	const char *authorization; /* the header's value, or NULL */
	const char *accept;        /* or NULL */
	const char *form;          /* POST of a form, or NULL for GET */
	int64_t from;              /* first byte wanted */
	/* Takes n bytes: 0, or -1 to stop. */
	int (*sink)(void *arg, const void *data, size_t n);
	void *arg;

	long status; /* answers */
	bool broken; /* the connection ended early; *e says how */
	struct sp_challenge challenge;
	struct sp_str location; /* of a redirect, absolute */
	struct sp_http *http;   /* inside */
};

int sp_http_open(struct sp_http *h, const struct sp_fetch *f, struct sp_err *e);
void sp_http_close(struct sp_http *h);
/* -1 where there was no answer at all, or it broke off (broken), or sink stopped it. */
int sp_http_do(struct sp_http *h, struct sp_http_req *q, struct sp_err *e);

/* Where credentials may go: https, or this machine to this machine. */
bool sp_http_url_is_safe(const char *url, const struct sp_ref *ref);
bool sp_http_same_host(const char *a, const char *b); /* of two URLs */

/* "Basic ..." */
void sp_basic_header(const struct sp_auth *auth, struct sp_str *out);

/* Gets a token from the realm of a challenge: anonymous, or with credentials where the realm is
 * safe for them. *authorization gets the header's value. */
int sp_token_get(struct sp_http *h, const struct sp_challenge *c, const struct sp_auth *auth,
		 struct sp_str *authorization, struct sp_err *e);

#endif
