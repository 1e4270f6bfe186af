/* SPDX-License-Identifier: Apache-2.0 */
/* Registry references: what is taken is safe to put into a URL, whatever it was made of. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "image/ref.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	sp_auto_str text = SP_STR_INIT;
	struct sp_ref r;
	struct sp_err e;

	sp_str_addn(&text, data, size);
	if (sp_ref_parse(text.p, &r, &e) < 0) {
		assert(e.code == SP_USAGE);
		return 0;
	}
	for (const char *p = r.host; *p; p++)
		assert((*p > ' ' && *p < 0x7f) && !strchr("/@?#%\\\"", *p));
	assert(r.host[0] && r.name[0] && r.name[0] != '/' && !strstr(r.name, "..") &&
	       !strstr(r.name, "//"));
	for (const char *p = r.name; *p; p++)
		assert(strchr("abcdefghijklmnopqrstuvwxyz0123456789._-/", *p));
	assert(strspn(r.port, "0123456789") == strlen(r.port));
	assert(!r.tag[0] || sp_ref_tag_is_valid(r.tag));
	assert(!r.digest[0] || sp_digest_is_valid(r.digest));
	assert(!r.tag[0] != !r.digest[0]);
	assert(!r.loopback || sp_ref_host_is_loopback(r.host));
	return 0;
}
