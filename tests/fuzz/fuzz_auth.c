/* SPDX-License-Identifier: Apache-2.0 */
/* What a registry says it wants (WWW-Authenticate), and a credentials file. The first byte
 * chooses. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "image/auth.h"
#include "image/challenge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void challenge(const char *text)
{
	struct sp_challenge c = { 0 };

	sp_challenge_read(text, &c);
	assert(c.kind <= SP_CHALLENGE_BEARER);
	assert(c.kind != SP_CHALLENGE_BEARER || c.realm[0]);
	for (const char *p = c.realm; *p; p++)
		assert((unsigned char)*p >= 0x20);
	assert(strlen(c.service) < sizeof c.service);
}

static void file(const struct sp_str *text)
{
	struct sp_auth a = SP_AUTH_INIT;
	struct sp_ref r;
	struct sp_err e;
	int got;

	if (sp_ref_parse("docker://reg.example/team/app", &r, &e) < 0)
		abort();
	got = sp_auth_read(text->p, text->len, &r, &a, &e);
	assert(got != 1 || a.user.len || a.identity.len);
	sp_auth_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	sp_auto_str text = SP_STR_INIT;

	if (!size)
		return 0;
	sp_str_addn(&text, data + 1, size - 1);
	if (data[0] & 1)
		challenge(text.p);
	else
		file(&text);
	return 0;
}
