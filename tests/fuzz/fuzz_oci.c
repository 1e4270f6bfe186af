/* SPDX-License-Identifier: Apache-2.0 */
/* The documents of an image: what comes out of any of them has valid digests, sizes in bounds, and
 * names that stay where they belong; and the config that is made of one is one that the parent
 * takes. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "image/config.h"
#include "image/oci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void manifest(const struct sp_json *doc)
{
	static struct sp_oci_manifest m;
	struct sp_oci_desc d;
	struct sp_err e;
	int kind = sp_oci_kind_of(doc, &e);

	if (kind == SP_OCI_INDEX && sp_oci_index_pick(doc, NULL, &d, &e) == 0)
		assert(sp_digest_is_valid(d.digest) && d.size >= 0);
	if (kind != SP_OCI_MANIFEST || sp_oci_manifest_read(doc, &m, &e) < 0)
		return;
	assert(m.nlayers > 0 && m.nlayers <= SP_OCI_LAYERS_MAX);
	assert(m.config.size <= SP_OCI_DOC_MAX);
	for (size_t i = 0; i < m.nlayers; i++)
		assert(sp_digest_is_valid(m.layers[i].digest) && m.layers[i].size >= 0);
}

static void config(const struct sp_json *doc)
{
	static struct sp_oci_diffs diffs;
	sp_auto_json *ours = NULL, *again = NULL;
	sp_auto_str text = SP_STR_INIT;
	struct sp_err e;

	if (sp_oci_config_read(doc, 1, &diffs, &ours, &e) < 0)
		return;
	assert(diffs.n == 1 && sp_digest_is_valid(diffs.id[0]));
	sp_json_print(ours, &text);
	again = sp_config_parse(text.p, text.len, &e);
	assert(again);
}

static void docker(const struct sp_json *doc)
{
	static struct sp_docker_manifest m;
	struct sp_err e;

	if (sp_docker_manifest_read(doc, NULL, &m, &e) < 0)
		return;
	assert(sp_oci_name_is_valid(m.config) && m.nlayers > 0);
	for (size_t i = 0; i < m.nlayers; i++)
		assert(sp_oci_name_is_valid(m.layers[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_err e;
	sp_auto_json *doc = sp_json_parse((const char *)data, size, &e), *ours = NULL;

	ours = sp_config_parse((const char *)data, size, &e);
	if (!doc)
		return 0;
	manifest(doc);
	config(doc);
	docker(doc);
	return 0;
}
