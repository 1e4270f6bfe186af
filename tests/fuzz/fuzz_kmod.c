/* SPDX-License-Identifier: Apache-2.0 */
/* A module, a kernel's head, a list of built-in modules and a module's needs from foreign bytes:
 * names and releases that come out are plain, an order holds each module once. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "image/kmod.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void order(const char *text)
{
	struct sp_kmods set = { .builtin = sp_xstrdup(text) };
	size_t out[SP_KMOD_ORDER], n = 0;
	sp_auto_free char *copy = sp_xstrdup(text);
	char *at = copy, *line, *needs, name[SP_KMOD_NAME], first[SP_KMOD_NAME] = "";
	struct sp_err e;

	while ((line = strsep(&at, "\n")) && set.n < 200) {
		needs = line + strcspn(line, " ");
		if (*needs)
			*needs++ = '\0';
		if (sp_kmod_name(line, name) < 0)
			continue;
		assert(name[0] && !strpbrk(name, "/.- "));
		if (!first[0])
			memcpy(first, name, sizeof first);
		if (sp_kmods_add(&set, name, needs, 0, 0, &e) < 0)
			break;
	}
	if (first[0])
		(void)sp_kmods_order(&set, first, false, out, &n, &e);
	assert(n <= SP_KMOD_ORDER);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			assert(out[i] != out[k]);
	sp_kmods_free(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_kmod_info info;
	char release[64];
	sp_auto_str text = SP_STR_INIT;

	if (sp_kmod_parse(data, size, &info) == 0)
		assert(info.release[0] && !strchr(info.release, ' '));
	if (sp_kernel_release(data, size, release) == 0)
		assert(release[0] && release[0] != '.' && !strchr(release, '/'));
	sp_str_addn(&text, data, size);
	order(text.p);
	return 0;
}
