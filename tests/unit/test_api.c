/* SPDX-License-Identifier: Apache-2.0 */
/* The request checker: every type of field, good and bad. */
#include "api/table.h"
#include "tap.h"

static int check(const char *op, const char *text, struct sp_err *e)
{
	const struct sp_api_op *o = sp_api_find(op);
	sp_auto_json *q = sp_json_parse(text, strlen(text), e);

	if (!o || !q)
		return -2;
	return sp_api_check(o, q, e);
}

static const struct {
	const char *op, *request;
	bool good;
} cases[] = {
	{ "create", "{\"image\":\"debian\"}", true },
	{ "create", "{\"image\":\"\"}", true }, /* names nothing, which is not a wrong request */
	{ "create", "{}", false },
	{ "create", "[]", false },
	{ "create", "{\"image\":1}", false },
	{ "create", "{\"image\":null}", false },
	{ "create", "{\"image\":\"a\",\"colour\":\"red\"}", false },
	{ "create", "{\"image\":\"a\",\"cpus\":1}", true },
	{ "create", "{\"image\":\"a\",\"cpus\":\"32\"}", true },
	{ "create", "{\"image\":\"a\",\"cpus\":0}", false },
	{ "create", "{\"image\":\"a\",\"cpus\":33}", false },
	{ "create", "{\"image\":\"a\",\"cpus\":\"x\"}", false },
	{ "create", "{\"image\":\"a\",\"cpus\":true}", false },
	{ "create", "{\"image\":\"a\",\"cpus\":[1]}", false },
	{ "create", "{\"image\":\"a\",\"memory\":\"268435456\"}", true },
	{ "create", "{\"image\":\"a\",\"memory\":\"1\"}", false },
	{ "create", "{\"image\":\"a\",\"memory\":\"99999999999999999999\"}", false },
	{ "create", "{\"image\":\"a\",\"name\":\"box-1\"}", true },
	{ "create", "{\"image\":\"a\",\"name\":\"Box\"}", false },
	{ "create", "{\"image\":\"a\",\"name\":\"../x\"}", false },
	{ "create", "{\"image\":\"a\",\"name\":\"\"}", false },
	{ "create", "{\"image\":\"a\",\"env\":[\"A=1\",\"_b=\"]}", true },
	{ "create", "{\"image\":\"a\",\"env\":[\"A\"]}", false },
	{ "create", "{\"image\":\"a\",\"env\":[\"=1\"]}", false },
	{ "create", "{\"image\":\"a\",\"env\":[1]}", false },
	{ "create", "{\"image\":\"a\",\"env\":\"A=1\"}", false },
	{ "create", "{\"image\":\"a\",\"meta\":{\"k\":\"v\"}}", true },
	{ "create", "{\"image\":\"a\",\"meta\":{\"k\":1}}", false },
	{ "create", "{\"image\":\"a\",\"meta\":[\"k\"]}", false },
	{ "create", "{\"image\":\"a\",\"n\":256}", true },
	{ "create", "{\"image\":\"a\",\"n\":257}", false },
	{ "create", "{\"image\":\"a\",\"wait\":true,\"require_kvm\":false}", true },
	{ "create", "{\"image\":\"a\",\"wait\":\"yes\"}", false },
	{ "create", "{\"image\":\"a\",\"wait\":1}", false },
	{ "create", "{\"image\":\"a\",\"request_id\":\"a.b:c_d-1\"}", true },
	{ "create", "{\"image\":\"a\",\"request_id\":\"\"}", false },
	{ "create", "{\"image\":\"a\",\"request_id\":\"a b\"}", false },
	{ "pause", "{\"ids\":[\"x\"]}", true },
	{ "pause", "{\"ids\":[]}", false },
	{ "pause", "{\"ids\":[\"x\",\"y\"]}", false },
	{ "pause", "{\"ids\":\"x\"}", false },
	{ "pause", "{\"ids\":{\"a\":\"x\"}}", false },
	{ "rm", "{\"ids\":[\"x\"],\"cascade\":true}", true },
	{ "pause", "{\"ids\":[\"x\"],\"cascade\":true}", false },
	{ "snap", "{\"sandbox\":\"x\",\"files\":true,\"name\":\"n\"}", true },
	{ "branch", "{\"source\":\"x\",\"n\":3}", true },
	{ "branch", "{\"sandbox\":\"x\"}", false },
	{ "ls", "{}", true },
	{ "ls", "{\"what\":\"images\"}", true },
	{ "ls", "{\"what\":\"image\"}", false },
	{ "ls", "{\"what\":\"\"}", false },
	{ "opwait", "{\"id\":\"o\",\"timeout_ms\":0}", true },
	{ "opwait", "{\"id\":\"o\",\"timeout_ms\":-1}", false },
	{ "kernel-ls", "{}", true },
	{ "kernel-ls", "{\"x\":1}", false },
};

int main(void)
{
	struct sp_err e = { .code = SP_OK };

	ok(!sp_api_find("no-such"), "an unknown operation is not found");
	for (size_t i = 0; i < SP_NELEM(cases); i++) {
		int rc = check(cases[i].op, cases[i].request, &e);

		ok(cases[i].good ? rc == 0 : rc == -1 && e.code == SP_USAGE && e.msg[0],
		   "%s %s: %s", cases[i].op, cases[i].request, cases[i].good ? "taken" : "refused");
	}
	return tap_done();
}
