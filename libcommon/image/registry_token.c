/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens (distribution specification, "token authentication"): GET with Basic credentials or none,
 * or, with an identity token, a POST as OAuth 2 has it. Answers are small and their text is
 * checked: it becomes a header. */
#include <stdlib.h>
#include <string.h>

#include "image/registry_in.h"
#include "text/json.h"

#define ANSWER_MAX 65536
#define TOKEN_MAX 32768

static int collect(void *arg, const void *data, size_t n)
{
	struct sp_str *s = arg;

	if (n > ANSWER_MAX - s->len)
		return -1;
	sp_str_addn(s, data, n);
	return 0;
}

static void add_query(struct sp_str *out, const char *name, const char *value)
{
	char *enc = curl_easy_escape(NULL, value, (int)strlen(value));

	sp_str_addf(out, "%s%s=%s", out->len && !strchr("?&", out->p[out->len - 1]) ? "&" : "",
		    name, enc ? enc : "");
	curl_free(enc);
}

static void add_scope(struct sp_str *out, const struct sp_ref *ref)
{
	sp_auto_str scope = SP_STR_INIT;

	/* ours and not what the challenge says: nothing but pulling this one */
	sp_str_addf(&scope, "repository:%s:pull", ref->name);
	add_query(out, "scope", scope.p);
}

void sp_basic_header(const struct sp_auth *auth, struct sp_str *out)
{
	struct sp_str pair = SP_STR_INIT;

	sp_str_addf(&pair, "%s:%s", auth->user.p, auth->password.p);
	sp_str_add(out, "Basic ");
	sp_base64_put(out, pair.p, pair.len);
	sp_str_wipe(&pair);
}

static int take_token(const struct sp_str *answer, struct sp_str *authorization, struct sp_err *e)
{
	sp_auto_json *doc = sp_json_parse(answer->p, answer->len, e);
	const char *token;
	size_t n;

	if (!doc)
		return sp_wrap(e, "the registry's token");
	token = sp_json_str(doc, "token");
	if (!token)
		token = sp_json_str(doc, "access_token");
	n = token ? strlen(token) : 0;
	if (!n || n > TOKEN_MAX)
		return sp_fail(e, SP_FAIL, 0, "the registry's realm gave no token");
	for (size_t i = 0; i < n; i++)
		if (token[i] <= 0x20 || token[i] >= 0x7f)
			return sp_fail(e, SP_FAIL, 0,
				       "the registry's token has bytes that none has");
	sp_str_clear(authorization);
	sp_str_addf(authorization, "Bearer %s", token);
	return 0;
}

/* The registry's own host may be this machine under some name. */
static bool realm_is_ours(const struct sp_http *h, const char *realm)
{
	sp_auto_str own = SP_STR_INIT;

	sp_str_addf(&own, "https://%s/", h->f->ref.host);
	return sp_http_same_host(realm, own.p);
}

static int request(struct sp_http *h, struct sp_http_req *q, const char *realm,
		   struct sp_str *authorization, struct sp_err *e)
{
	struct sp_str answer = SP_STR_INIT;
	int rc;

	q->sink = collect;
	q->arg = &answer;
	h->local_ok = h->f->ref.loopback || realm_is_ours(h, realm);
	rc = sp_http_do(h, q, e);
	if (rc == 0 && (q->status == 401 || q->status == 403))
		rc = sp_fail(e, SP_DENIED, 0, "the registry's realm %s refuses (%ld)%s", realm,
			     q->status,
			     q->authorization || q->form ? ""
							 : "; are credentials needed? --auth-file");
	else if (rc == 0 && q->status != 200)
		rc = sp_fail(e, q->status >= 500 || q->status == 429 ? SP_BUSY : SP_FAIL, 0,
			     "the registry's realm %s answers %ld", realm, q->status);
	if (rc == 0)
		rc = take_token(&answer, authorization, e);
	q->arg = NULL;
	sp_str_wipe(&answer);
	sp_str_free(&q->location);
	return rc;
}

int sp_token_get(struct sp_http *h, const struct sp_challenge *c, const struct sp_auth *auth,
		 struct sp_str *authorization, struct sp_err *e)
{
	struct sp_str basic = SP_STR_INIT, form = SP_STR_INIT;
	sp_auto_str url = SP_STR_INIT;
	struct sp_http_req q = { .location = SP_STR_INIT };
	bool safe = sp_http_url_is_safe(c->realm, &h->f->ref);
	int rc;

	if (!safe && !(h->f->ref.plain && sp_str_has_prefix(c->realm, "http://")))
		return sp_fail(e, SP_FAIL, 0, "the registry's realm '%.200s' is not https",
			       c->realm);
	sp_str_add(&url, c->realm);
	if (safe && auth->identity.len) {
		add_query(&form, "grant_type", "refresh_token");
		add_query(&form, "client_id", "space");
		add_query(&form, "service", c->service);
		add_scope(&form, &h->f->ref);
		add_query(&form, "refresh_token", auth->identity.p);
		q.form = form.p;
	} else {
		sp_str_addc(&url, strchr(url.p, '?') ? '&' : '?');
		if (c->service[0])
			add_query(&url, "service", c->service);
		add_scope(&url, &h->f->ref);
		if (safe && auth->user.len) {
			sp_basic_header(auth, &basic);
			q.authorization = basic.p;
		}
	}
	q.url = url.p;
	rc = request(h, &q, c->realm, authorization, e);
	sp_str_wipe(&basic);
	sp_str_wipe(&form);
	return rc;
}
