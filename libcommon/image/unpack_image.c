/* SPDX-License-Identifier: Apache-2.0 */
#include "image/unpack_image.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "image/digest.h"
#include "image/oci.h"

#define INDEX_DEPTH 4 /* an index may name an index */

/* What the walk through an image's documents shares. */
struct walk {
	struct sp_layers *l;
	struct sp_blobs *b;
	bool registry;               /* manifests have a place of their own there */
	char digest[SP_DIGEST_SIZE]; /* of the document that the reference meant */
	struct sp_oci_manifest manifest;
	struct sp_oci_diffs diffs;
};

/* blobs/sha256/<hex>, of a digest that was checked */
static void blob_name(const char *digest, char out[static SP_DIGEST_SIZE + 8])
{
	size_t n = strcspn(digest, ":");

	snprintf(out, SP_DIGEST_SIZE + 8, "blobs/%.*s/%s", (int)n, digest, digest + n + 1);
}

/* Fetches a document; d NULL: nothing is known of it beforehand. */
static struct sp_json *get_doc(struct walk *w, const char *name, const struct sp_oci_desc *d,
			       struct sp_str *text, struct sp_err *e)
{
	struct sp_json *doc;

	if (d && d->size > SP_OCI_DOC_MAX) {
		sp_fail(e, SP_FAIL, 0, "%s is larger than %d bytes", name, SP_OCI_DOC_MAX);
		return NULL;
	}
	if (sp_blobs_slurp(w->b, name, d ? (size_t)d->size : SP_OCI_DOC_MAX, text, e) < 0)
		return NULL;
	if (d &&
	    ((int64_t)text->len != d->size || !sp_digest_is_of(d->digest, text->p, text->len))) {
		sp_fail(e, SP_FAIL, 0, "%s is not what its digest says", name);
		return NULL;
	}
	doc = sp_json_parse(text->p, text->len, e);
	if (!doc)
		sp_wrap(e, "%s", name);
	return doc;
}

static int apply_layer(struct walk *w, const char *name, const struct sp_tarball_want *want,
		       struct sp_err *e)
{
	sp_auto_tarball *t = NULL;
	struct sp_stream *s;
	struct sp_err later;
	int rc = -1;

	if (w->b->open(w->b, name, &s, e) < 0)
		return -1;
	if (sp_tarball_open(s, want, w->l->pulse, &t, e) == 0 &&
	    sp_layer_apply(w->l, t, true, e) == 0 && sp_tarball_end(t, e) == 0)
		rc = 0;
	/* a supplier that broke off knows better why than who missed the bytes */
	if (w->b->close(w->b, &later) < 0) {
		*e = later;
		return -1;
	}
	return rc;
}

static int apply_all(struct walk *w, struct sp_err *e)
{
	struct sp_tarball_want want;
	char name[SP_DIGEST_SIZE + 8], what[64];

	for (size_t i = 0; i < w->manifest.nlayers; i++) {
		const struct sp_oci_desc *d = &w->manifest.layers[i];

		snprintf(what, sizeof what, "layer %zu of %zu", i + 1, w->manifest.nlayers);
		w->l->pulse->what = what;
		want = (struct sp_tarball_want){ .digest = d->digest,
						 .size = d->size,
						 .diff_id = w->diffs.id[i],
						 .max_tar = sp_layers_max_tar(w->l) };
		blob_name(d->digest, name);
		if (apply_layer(w, name, &want, e) < 0) {
			w->l->pulse->what = "";
			return sp_wrap(e, "layer %.19s", d->digest);
		}
	}
	w->l->pulse->what = "";
	return 0;
}

/* From a manifest to the disk. */
static int from_manifest(struct walk *w, const struct sp_json *doc, struct sp_json **config,
			 struct sp_err *e)
{
	sp_auto_str text = SP_STR_INIT;
	sp_auto_json *conf = NULL, *ours = NULL;
	char name[SP_DIGEST_SIZE + 8];

	if (sp_oci_manifest_read(doc, &w->manifest, e) < 0)
		return -1;
	blob_name(w->manifest.config.digest, name);
	conf = get_doc(w, name, &w->manifest.config, &text, e);
	if (!conf || sp_oci_config_read(conf, w->manifest.nlayers, &w->diffs, &ours, e) < 0)
		return -1;
	if (apply_all(w, e) < 0)
		return -1;
	sp_json_put_str(ours, "digest", w->digest);
	sp_json_free(config);
	*config = sp_take_ptr(&ours);
	return 0;
}

/* From an index or manifest on, through indexes that name indexes. */
static int from_doc(struct walk *w, struct sp_json *doc, const char *ref, struct sp_json **config,
		    struct sp_err *e)
{
	sp_auto_json *inner = NULL;
	sp_auto_str text = SP_STR_INIT;
	char name[SP_DIGEST_SIZE + 16];
	struct sp_oci_desc d;

	for (int depth = 0; depth < INDEX_DEPTH; depth++) {
		int kind = sp_oci_kind_of(inner ? inner : doc, e);

		if (kind < 0)
			return -1;
		if (kind == SP_OCI_MANIFEST)
			return from_manifest(w, inner ? inner : doc, config, e);
		if (sp_oci_index_pick(inner ? inner : doc, ref, &d, e) < 0)
			return -1;
		ref = NULL;
		if (!w->digest[0])
			snprintf(w->digest, sizeof w->digest, "%s", d.digest);
		if (w->registry)
			snprintf(name, sizeof name, "manifests/%s", d.digest);
		else
			blob_name(d.digest, name);
		sp_json_free(&inner);
		inner = get_doc(w, name, &d, &text, e);
		if (!inner)
			return -1;
	}
	return sp_fail(e, SP_FAIL, 0, "the image's indexes are nested deeper than %d", INDEX_DEPTH);
}

static struct walk *new_walk(struct sp_layers *l, struct sp_blobs *b)
{
	struct walk *w = sp_xcalloc(1, sizeof *w);

	w->l = l;
	w->b = b;
	l->pulse->what = "reading";
	return w;
}

int sp_image_oci(struct sp_layers *l, struct sp_blobs *b, const char *ref, struct sp_json **config,
		 struct sp_err *e)
{
	sp_auto_free struct walk *w = new_walk(l, b);
	sp_auto_str text = SP_STR_INIT;
	sp_auto_json *doc = NULL;
	const char *version;

	doc = get_doc(w, "oci-layout", NULL, &text, e);
	if (!doc)
		return -1;
	version = sp_json_str(doc, "imageLayoutVersion");
	if (!version || strncmp(version, "1.", 2) != 0)
		return sp_fail(e, SP_FAIL, 0, "it is no image layout of version 1");
	sp_json_free(&doc);
	doc = get_doc(w, "index.json", NULL, &text, e);
	return doc ? from_doc(w, doc, ref, config, e) : -1;
}

int sp_image_registry(struct sp_layers *l, struct sp_blobs *b, const char *ref,
		      struct sp_json **config, struct sp_err *e)
{
	sp_auto_free struct walk *w = new_walk(l, b);
	sp_auto_str text = SP_STR_INIT;
	sp_auto_json *doc = NULL;
	sp_auto_hash *h = sp_hash_new(ref);
	char name[SP_DIGEST_SIZE + 16];

	w->registry = true;
	snprintf(name, sizeof name, "manifests/%s", ref);
	doc = get_doc(w, name, NULL, &text, e);
	if (!doc)
		return -1;
	sp_hash_add(h, text.p, text.len);
	sp_hash_end(h, w->digest);
	if (sp_digest_is_valid(ref) && strcmp(ref, w->digest) != 0)
		return sp_fail(e, SP_FAIL, 0, "the registry's manifest has the digest %s",
			       w->digest);
	return from_doc(w, doc, NULL, config, e);
}

int sp_image_docker(struct sp_layers *l, struct sp_blobs *b, const char *ref,
		    struct sp_json **config, struct sp_err *e)
{
	sp_auto_free struct walk *w = new_walk(l, b);
	sp_auto_str text = SP_STR_INIT, conf_text = SP_STR_INIT;
	sp_auto_json *doc = NULL, *conf = NULL, *ours = NULL;
	sp_auto_hash *h = sp_hash_new(NULL);
	struct sp_docker_manifest m;
	char what[64];

	doc = get_doc(w, "manifest.json", NULL, &text, e);
	if (!doc || sp_docker_manifest_read(doc, ref, &m, e) < 0)
		return -1;
	conf = get_doc(w, m.config, NULL, &conf_text, e);
	if (!conf || sp_oci_config_read(conf, m.nlayers, &w->diffs, &ours, e) < 0)
		return -1;
	/* an image's id is its config's digest; the layers' digests are in the config */
	sp_hash_add(h, conf_text.p, conf_text.len);
	sp_hash_end(h, w->digest);
	for (size_t i = 0; i < m.nlayers; i++) {
		struct sp_tarball_want want = { .size = -1,
						.diff_id = w->diffs.id[i],
						.max_tar = sp_layers_max_tar(l) };

		snprintf(what, sizeof what, "layer %zu of %zu", i + 1, m.nlayers);
		l->pulse->what = what;
		if (apply_layer(w, m.layers[i], &want, e) < 0) {
			l->pulse->what = "";
			return sp_wrap(e, "layer '%.100s'", m.layers[i]);
		}
	}
	l->pulse->what = "";
	sp_json_put_str(ours, "digest", w->digest);
	sp_json_free(config);
	*config = sp_take_ptr(&ours);
	return 0;
}
