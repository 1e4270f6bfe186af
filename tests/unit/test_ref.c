/* SPDX-License-Identifier: Apache-2.0 */
/* Registry references, challenges and credentials: the texts that decide where a password goes. */
#include "image/auth.h"
#include "image/challenge.h"
#include "image/ref.h"
#include "tap.h"

static struct sp_err e;

static const struct {
	const char *text, *host, *port, *name, *tag, *auth;
	bool plain;
} good_refs[] = {
	{ "docker://registry.example/a/b:1", "registry.example", "", "a/b", "1", "registry.example",
	  false },
	{ "docker://registry.example:5000/a", "registry.example", "5000", "a", "latest",
	  "registry.example:5000", false },
	{ "docker://debian", "registry-1.docker.io", "", "library/debian", "latest",
	  "index.docker.io", false },
	{ "docker://debian:12", "registry-1.docker.io", "", "library/debian", "12",
	  "index.docker.io", false },
	{ "docker://docker.io/debian", "registry-1.docker.io", "", "library/debian", "latest",
	  "index.docker.io", false },
	{ "docker://docker.io/team/app", "registry-1.docker.io", "", "team/app", "latest",
	  "index.docker.io", false },
	{ "docker://team/app", "registry-1.docker.io", "", "team/app", "latest", "index.docker.io",
	  false },
	{ "docker://localhost/x", "localhost", "", "x", "latest", "localhost", true },
	{ "docker://localhost:5000/x", "localhost", "5000", "x", "latest", "localhost:5000", true },
	{ "docker://127.1.2.3:5000/x", "127.1.2.3", "5000", "x", "latest", "127.1.2.3:5000", true },
	{ "docker://[::1]:5000/x", "[::1]", "5000", "x", "latest", "[::1]:5000", true },
	{ "docker+https://127.0.0.1:5000/x", "127.0.0.1", "5000", "x", "latest", "127.0.0.1:5000",
	  false },
	{ "docker+http://registry.example/x", "registry.example", "", "x", "latest",
	  "registry.example", true },
	{ "docker://192.0.2.1/a__b/c-d.e--f:T_.-9", "192.0.2.1", "", "a__b/c-d.e--f", "T_.-9",
	  "192.0.2.1", false },
};
static const char *const bad_refs[] = {
	"",
	"debian",
	"docker:/x",
	"docker://",
	"docker:///x",
	"docker://h.example/",
	"docker://h.example//x",
	"docker://h.example/../x",
	"docker://h.example/X",
	"docker://h.example/x/",
	"docker://h.example/x:",
	"docker://h.example/x:.t",
	"docker://h.example/x:a/b",
	"docker://h.example/x@sha256:12",
	"docker://h.example/x@md5:00000000000000000000000000000000",
	"docker://h.example:/x",
	"docker://h.example:70000/x",
	"docker://h.example:5x/x",
	"docker://user:pass@h.example/x",
	"docker://user@h.example/x",
	"docker://h example.com/x",
	"docker://h.example/x?y",
	"docker://h.example/x#y",
	"docker://h.example/x\r\nHost: y",
	"docker://[::1/x",
	"docker://[fe80::1%25eth0]/x",
	"docker://-h.example/x",
	"docker://h..example/x",
	"docker://h.example/a_-b",
	"docker://h.example/.a",
	"docker+http://x",
};

static void test_refs(void)
{
	struct sp_ref r;

	for (size_t i = 0; i < SP_NELEM(good_refs); i++) {
		int rc = sp_ref_parse(good_refs[i].text, &r, &e);

		ok(rc == 0 && !strcmp(r.host, good_refs[i].host) &&
			   !strcmp(r.port, good_refs[i].port) &&
			   !strcmp(r.name, good_refs[i].name) && !strcmp(r.tag, good_refs[i].tag) &&
			   !strcmp(r.auth_key, good_refs[i].auth) && r.plain == good_refs[i].plain,
		   "%s", good_refs[i].text);
	}
	for (size_t i = 0; i < SP_NELEM(bad_refs); i++)
		ok(sp_ref_parse(bad_refs[i], &r, &e) < 0 && e.code == SP_USAGE,
		   "no reference %zu: %.30s", i, i == 23 ? "(header)" : bad_refs[i]);
	ok(sp_ref_parse("docker://h.example/x:t@sha256:0123456789abcdef0123456789abcdef0123456789"
			"abcdef0123456789abcdef",
			&r, &e) == 0 &&
		   !r.tag[0] && r.digest[0],
	   "a digest says more than a tag");
}

static void test_challenges(void)
{
	static const struct {
		const char *text;
		enum sp_challenge_kind kind;
		const char *realm, *service;
	} all[] = {
		{ "Bearer realm=\"https://a.example/token\",service=\"reg\",scope=\"x:y:pull\"",
		  SP_CHALLENGE_BEARER, "https://a.example/token", "reg" },
		{ "bearer realm=https://a.example/t , service=r", SP_CHALLENGE_BEARER,
		  "https://a.example/t", "r" },
		{ " Basic realm=\"x\"", SP_CHALLENGE_BASIC, "x", "" },
		{ "Basic", SP_CHALLENGE_BASIC, "", "" },
		{ "Basic realm=\"x\", Bearer realm=\"https://b.example\"", SP_CHALLENGE_BEARER,
		  "https://b.example", "" },
		{ "Bearer realm=\"https://b.example\", Basic realm=\"x\"", SP_CHALLENGE_BEARER,
		  "https://b.example", "" },
		{ "Bearer service=\"r\"", SP_CHALLENGE_NONE, "", "" },
		{ "Negotiate abc==", SP_CHALLENGE_NONE, "", "" },
		{ "Bearer realm=\"https://a.example", SP_CHALLENGE_NONE, "", "" },
		{ "Bearer realm=\"a\\\"b\"", SP_CHALLENGE_BEARER, "a\"b", "" },
		{ "Bearer realm=\"a\x01\"", SP_CHALLENGE_NONE, "", "" },
		{ ",,,", SP_CHALLENGE_NONE, "", "" },
		{ "=", SP_CHALLENGE_NONE, "", "" },
		{ "", SP_CHALLENGE_NONE, "", "" },
	};

	for (size_t i = 0; i < SP_NELEM(all); i++) {
		struct sp_challenge c = { 0 };

		sp_challenge_read(all[i].text, &c);
		ok(c.kind == all[i].kind && !strcmp(c.realm, all[i].realm) &&
			   !strcmp(c.service, all[i].service),
		   "challenge %zu", i);
	}
}

static int find(const char *json, const char *ref, struct sp_auth *a)
{
	struct sp_ref r;

	*a = (struct sp_auth)SP_AUTH_INIT;
	if (sp_ref_parse(ref, &r, &e) < 0)
		return -2;
	return sp_auth_read(json, strlen(json), &r, a, &e);
}

static void test_auth(void)
{
	/* joe:secret, ann:a:b */
	static const char file[] =
		"{\"auths\":{\"reg.example\":{\"auth\":\"am9lOnNlY3JldA==\"},"
		"\"reg.example/team\":{\"username\":\"t\",\"password\":\"p\"},"
		"\"https://old.example/v1/\":{\"auth\":\"YW5uOmE6Yg==\"},"
		"\"https://index.docker.io/v1/\":{\"identitytoken\":\"tok\"},"
		"\"empty.example\":{}},\"credHelpers\":{\"helped.example\":\"x\"}}";
	struct sp_auth a;

	ok(find(file, "docker://reg.example/app", &a) == 1 && !strcmp(a.user.p, "joe") &&
		   !strcmp(a.password.p, "secret"),
	   "base64 of user:password");
	sp_auth_free(&a);
	ok(find(file, "docker://REG.example/app", &a) == 1, "hosts have no case");
	sp_auth_free(&a);
	ok(find(file, "docker://reg.example/team/app", &a) == 1 && !strcmp(a.user.p, "t"),
	   "the longest path wins");
	sp_auth_free(&a);
	ok(find(file, "docker://reg.example/teams/app", &a) == 1 && !strcmp(a.user.p, "joe"),
	   "a path ends at a slash");
	sp_auth_free(&a);
	ok(find(file, "docker://old.example/app", &a) == 1 && !strcmp(a.password.p, "a:b"),
	   "a key that is a URL; a colon in the password");
	sp_auth_free(&a);
	ok(find(file, "docker://debian", &a) == 1 && !strcmp(a.identity.p, "tok"),
	   "Docker Hub's key, an identity token");
	sp_auth_free(&a);
	ok(find(file, "docker://reg.example:5000/app", &a) == 0,
	   "another port is another registry");
	ok(find(file, "docker://evil-reg.example/app", &a) == 0,
	   "a longer name is another registry");
	ok(find(file, "docker://reg.example.evil.example/app", &a) == 0, "so is a longer end");
	ok(find(file, "docker://empty.example/app", &a) == 0, "an entry without credentials");
	ok(find(file, "docker://helped.example/app", &a) == 0, "helpers are not run");
	ok(find("{}", "docker://reg.example/app", &a) == 0, "an empty file");
	ok(find("{", "docker://reg.example/app", &a) < 0, "no JSON");
	ok(find("{\"auths\":{\"reg.example\":{\"auth\":\"!\"}}}", "docker://reg.example/app", &a) <
		   0,
	   "no base64");
	ok(find("{\"auths\":{\"reg.example\":{\"auth\":\"am9l\"}}}", "docker://reg.example/app",
		&a) < 0,
	   "no colon in it");
	sp_auth_free(&a);
}

static void test_base64(void)
{
	static const char *const pairs[][2] = {
		{ "", "" },        { "f", "Zg==" },        { "fo", "Zm8=" },
		{ "foo", "Zm9v" }, { "foob", "Zm9vYg==" }, { "\xff\xfe\xfd", "//79" }
	};
	sp_auto_str out = SP_STR_INIT;

	for (size_t i = 0; i < SP_NELEM(pairs); i++) {
		sp_str_clear(&out);
		sp_base64_put(&out, pairs[i][0], strlen(pairs[i][0]));
		is_str(out.p, pairs[i][1], "base64 %zu", i);
		sp_str_clear(&out);
		ok(sp_base64_get(&out, pairs[i][1]) && !strcmp(out.p, pairs[i][0]), "and back");
	}
	ok(!sp_base64_get(&out, "Zg===") && !sp_base64_get(&out, "Z g"), "what is none");
}

int main(void)
{
	test_refs();
	test_challenges();
	test_auth();
	test_base64();
	return tap_done();
}
