/* SPDX-License-Identifier: Apache-2.0 */
#include "image/oci.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "image/config.h"

#define SIZE_MAX_BLOB (1LL << 42)

static const char *const layer_types[] = {
	"application/vnd.oci.image.layer.v1.tar",
	"application/vnd.oci.image.layer.nondistributable.v1.tar",
	"application/vnd.docker.image.rootfs.diff.tar",
	"application/vnd.docker.image.rootfs.foreign.diff.tar",
	"application/vnd.docker.container.image.rootfs.diff+x-gtar",
};

static const char *const config_types[] = {
	"application/vnd.oci.image.config.v1+json",
	"application/vnd.docker.container.image.v1+json",
};

/* type is one of the list, or one with a suffix such as +gzip, .gzip, +zstd. */
static bool is_type(const char *type, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(list[i]);

		if (!strncmp(type, list[i], len) &&
		    (!type[len] || type[len] == '+' || type[len] == '.'))
			return true;
	}
	return false;
}

int sp_oci_kind_of(const struct sp_json *doc, struct sp_err *e)
{
	bool index = sp_json_is_array(sp_json_get(doc, "manifests"));
	bool manifest = sp_json_is_array(sp_json_get(doc, "layers"));

	/* CVE-2021-41190: a document read as either, by whoever is asked */
	if ((index && (manifest || sp_json_get(doc, "config"))) ||
	    (manifest && sp_json_get(doc, "manifests")))
		return sp_fail(e, SP_FAIL, 0, "the image's manifest claims to be an index too");
	if (index)
		return SP_OCI_INDEX;
	if (manifest)
		return SP_OCI_MANIFEST;
	if (sp_json_get(doc, "fsLayers"))
		return sp_fail(e, SP_FAIL, 0, "the image's manifest is of the old schema 1");
	return sp_fail(e, SP_FAIL, 0, "the image's manifest is none");
}

static int read_desc(const struct sp_json *v, const char *what, struct sp_oci_desc *out,
		     struct sp_err *e)
{
	const char *digest = v ? sp_json_str(v, "digest") : NULL;
	int64_t size = v ? sp_json_i64(v, "size", -1) : -1;

	if (!digest || !sp_digest_is_valid(digest))
		return sp_fail(e, SP_FAIL, 0, "the image's %s has no valid digest", what);
	if (size < 0 || size > SIZE_MAX_BLOB)
		return sp_fail(e, SP_FAIL, 0, "the image's %s has no valid size", what);
	snprintf(out->digest, sizeof out->digest, "%s", digest);
	out->size = size;
	return 0;
}

/* How well a platform fits: 2 this one, 1 not said, 0 another. */
static int platform_fit(const struct sp_json *m)
{
	const struct sp_json *p = sp_json_get(m, "platform");
	const char *os = p ? sp_json_str(p, "os") : NULL, *arch;

	if (!p || sp_json_is_null(p))
		return 1;
	arch = sp_json_str(p, "architecture");
	if (!os || !arch || strcmp(os, "linux") != 0 || strcmp(arch, "amd64") != 0)
		return 0;
	return 2;
}

/* Whether it has that reference name in either spelling: "latest", or "repo:latest" as containerd
 * writes it. ref NULL: whether it has one at all. */
static bool has_ref(const struct sp_json *m, const char *ref)
{
	static const char *const keys[] = { "org.opencontainers.image.ref.name",
					    "io.containerd.image.name" };
	const struct sp_json *notes = sp_json_get(m, "annotations");

	for (size_t i = 0; notes && i < SP_NELEM(keys); i++) {
		const char *name = sp_json_str(notes, keys[i]);

		if (name && (!ref || !strcmp(name, ref)))
			return true;
	}
	return false;
}

int sp_oci_index_pick(const struct sp_json *index, const char *ref, struct sp_oci_desc *out,
		      struct sp_err *e)
{
	const struct sp_json *list = sp_json_get(index, "manifests"), *best = NULL;
	int fit = 0, same = 0;
	bool named = false;

	for (const struct sp_json *m = list ? sp_json_first(list) : NULL; m; m = sp_json_next(m)) {
		int f = platform_fit(m);

		if (ref && !has_ref(m, ref))
			continue;
		named = true;
		if (f > fit) {
			fit = f;
			best = m;
			same = 1;
		} else if (f && f == fit) {
			same++;
		}
	}
	if (ref && !named)
		return sp_fail(e, SP_ABSENT, 0, "there is no image '%.100s' in it", ref);
	if (!best)
		return sp_fail(e, SP_ABSENT, 0, "there is no image for linux/amd64 in it");
	/* several for one platform (variants) are the order of preference in a registry; several
	 * images in one folder are a question */
	if (same > 1 && !ref && has_ref(best, NULL))
		return sp_fail(e, SP_USAGE, 0,
			       "there are several images in it, say which: SOURCE:TAG");
	return read_desc(best, "index entry", out, e);
}

int sp_oci_manifest_read(const struct sp_json *doc, struct sp_oci_manifest *out, struct sp_err *e)
{
	const struct sp_json *config = sp_json_get(doc, "config"), *layers;
	const char *type = config ? sp_json_str(config, "mediaType") : NULL;

	memset(out, 0, sizeof *out);
	if (type && !is_type(type, config_types, SP_NELEM(config_types)))
		return sp_fail(e, SP_FAIL, 0, "it is no container image: its config is %.100s",
			       type);
	if (read_desc(config, "config", &out->config, e) < 0)
		return -1;
	if (out->config.size > SP_OCI_DOC_MAX)
		return sp_fail(e, SP_FAIL, 0, "the image's config is larger than %d bytes",
			       SP_OCI_DOC_MAX);
	layers = sp_json_get(doc, "layers");
	for (const struct sp_json *l = sp_json_first(layers); l; l = sp_json_next(l)) {
		type = sp_json_str(l, "mediaType");
		if (out->nlayers == SP_OCI_LAYERS_MAX)
			return sp_fail(e, SP_FAIL, 0, "the image has more than %d layers",
				       SP_OCI_LAYERS_MAX);
		if (type && !is_type(type, layer_types, SP_NELEM(layer_types)))
			return sp_fail(e, SP_FAIL, 0, "a layer of the image is %.100s, no tar",
				       type);
		if (read_desc(l, "layer", &out->layers[out->nlayers++], e) < 0)
			return -1;
	}
	if (!out->nlayers)
		return sp_fail(e, SP_FAIL, 0, "the image has no layers");
	return 0;
}

static int read_diffs(const struct sp_json *doc, size_t nlayers, struct sp_oci_diffs *diffs,
		      struct sp_err *e)
{
	const struct sp_json *rootfs = sp_json_get(doc, "rootfs");
	const struct sp_json *list = rootfs ? sp_json_get(rootfs, "diff_ids") : NULL;

	diffs->n = 0;
	if (!list || !sp_json_is_array(list))
		return sp_fail(e, SP_FAIL, 0, "the image's config has no diff_ids");
	for (const struct sp_json *v = sp_json_first(list); v; v = sp_json_next(v)) {
		const char *id = sp_json_value_str(v);

		if (diffs->n == nlayers || !id || !sp_digest_is_valid(id))
			return sp_fail(e, SP_FAIL, 0, "the image's diff_ids do not fit its layers");
		snprintf(diffs->id[diffs->n++], SP_DIGEST_SIZE, "%s", id);
	}
	if (diffs->n != nlayers)
		return sp_fail(e, SP_FAIL, 0, "the image's diff_ids do not fit its layers");
	return 0;
}

int sp_oci_config_read(const struct sp_json *doc, size_t nlayers, struct sp_oci_diffs *diffs,
		       struct sp_json **config, struct sp_err *e)
{
	const char *os = sp_json_str(doc, "os"), *arch = sp_json_str(doc, "architecture");

	if ((os && *os && strcmp(os, "linux") != 0) ||
	    (arch && *arch && strcmp(arch, "amd64") != 0))
		return sp_fail(e, SP_FAIL, 0, "the image is for %.32s/%.32s, not linux/amd64",
			       os ? os : "?", arch ? arch : "?");
	if (read_diffs(doc, nlayers, diffs, e) < 0)
		return -1;
	*config = sp_config_from_oci(sp_json_get(doc, "config"), e);
	return *config ? 0 : -1;
}

bool sp_oci_name_is_valid(const char *name)
{
	size_t n;

	if (!*name || strlen(name) > 255)
		return false;
	for (const char *p = name;; p += n + 1) {
		n = strcspn(p, "/");
		if (!n || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		if (!p[n])
			return true;
	}
}

/* "debian:12" means "docker.io/library/debian:12" too. */
static bool is_tag(const char *tag, const char *ref)
{
	size_t n = strlen(tag), m = strlen(ref);

	return n >= m && !strcmp(tag + n - m, ref) && (n == m || tag[n - m - 1] == '/');
}

/* The image of a docker archive: the one with that tag, or the only one. */
static const struct sp_json *docker_pick(const struct sp_json *doc, const char *ref,
					 struct sp_err *e)
{
	const struct sp_json *tags;

	if (!sp_json_is_array(doc) || !sp_json_len(doc)) {
		sp_fail(e, SP_FAIL, 0, "manifest.json is no list of images");
		return NULL;
	}
	if (!ref && sp_json_len(doc) == 1)
		return sp_json_first(doc);
	if (!ref) {
		sp_fail(e, SP_USAGE, 0,
			"there are several images in it, say which: SOURCE:NAME:TAG");
		return NULL;
	}
	for (const struct sp_json *m = sp_json_first(doc); m; m = sp_json_next(m)) {
		tags = sp_json_get(m, "RepoTags");
		for (const struct sp_json *t = tags ? sp_json_first(tags) : NULL; t;
		     t = sp_json_next(t)) {
			const char *tag = sp_json_value_str(t);

			if (tag && is_tag(tag, ref))
				return m;
		}
	}
	sp_fail(e, SP_ABSENT, 0, "there is no image '%.100s' in it", ref);
	return NULL;
}

int sp_docker_manifest_read(const struct sp_json *doc, const char *ref,
			    struct sp_docker_manifest *out, struct sp_err *e)
{
	const struct sp_json *m = docker_pick(doc, ref, e), *layers;

	memset(out, 0, sizeof *out);
	if (!m)
		return -1;
	out->config = sp_json_str(m, "Config");
	layers = sp_json_get(m, "Layers");
	if (!out->config || !sp_oci_name_is_valid(out->config) || !layers ||
	    !sp_json_is_array(layers) || !sp_json_len(layers))
		return sp_fail(e, SP_FAIL, 0, "manifest.json names no config and layers");
	for (const struct sp_json *l = sp_json_first(layers); l; l = sp_json_next(l)) {
		const char *name = sp_json_value_str(l);

		if (out->nlayers == SP_OCI_LAYERS_MAX || !name || !sp_oci_name_is_valid(name))
			return sp_fail(e, SP_FAIL, 0, "manifest.json names a bad layer");
		out->layers[out->nlayers++] = name;
	}
	return 0;
}
