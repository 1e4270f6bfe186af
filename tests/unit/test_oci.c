/* SPDX-License-Identifier: Apache-2.0 */
/* Image layouts and docker archives made by hand, in a tar, unpacked: good ones, and ones whose
 * documents do not hold together. */
#include "tarkit.h"

#include "image/config.h"
#include "image/digest.h"
#include "image/oci.h"
#include "image/peek.h"
#include "image/unpack.h"
#include "tap.h"

static struct sp_err e;

static const char *digest_of(const struct sp_str *s)
{
	static char out[4][SP_DIGEST_SIZE];
	static int at;
	sp_auto_hash *h = sp_hash_new(NULL);

	at = (at + 1) % 4;
	sp_hash_add(h, s->p, s->len);
	sp_hash_end(h, out[at]);
	return out[at];
}

/* What can be wrong with an image. */
enum flaw {
	NONE,
	LAYER_BYTES, /* the layer is not what its digest says */
	LAYER_SIZE,  /* the manifest says another size */
	DIFF_ID,     /* the config says another digest of the layer unpacked */
	DIFF_COUNT,  /* the config has more diff_ids than there are layers */
	CONFIG_BYTES,
	MANIFEST_BYTES,
	NO_LAYER, /* missing in the archive */
	PLATFORM, /* the config is for another processor */
	INDEX_PLATFORM,
	BOTH,     /* manifest and index in one */
	ARTIFACT, /* something that is no image */
	LAYOUT,   /* a version of the layout that we do not know */
	NESTED,   /* an index in an index: fine */
	DEEP,     /* indexes without end */
	OLD,      /* schema 1 */
	ENV,      /* a config that is far too large */
};

static void put_blob(struct kit *k, const struct sp_str *s, const char *digest)
{
	sp_auto_str name = SP_STR_INIT;

	sp_str_addf(&name, "./blobs/sha256/%s", digest + 7);
	kit_put(k, kit_entry(name.p, S_IFREG | 0644), s->p, s->len);
}

static void make_layer(const char *file, const char *text, const char *filter, struct sp_str *raw,
		       struct sp_str *packed)
{
	struct kit k;

	kit_begin(&k, NULL);
	kit_file(&k, file, text);
	kit_end(&k);
	*raw = k.out;
	kit_begin(&k, filter);
	kit_file(&k, file, text);
	kit_end(&k);
	*packed = k.out;
}

static void make_config(enum flaw f, const struct sp_str *raw, struct sp_str *out)
{
	sp_str_addf(
		out,
		"{\"architecture\":\"%s\",\"os\":\"linux\",\"config\":{\"Env\":[\"A=1\",\"odd\"",
		f == PLATFORM ? "arm64" : "amd64");
	for (int i = 0; f == ENV && i < 1000; i++)
		sp_str_addf(out, ",\"K%d=%0200d\"", i, i);
	sp_str_addf(
		out,
		"],\"User\":\"1:2\",\"WorkingDir\":\"/w\",\"Cmd\":[\"c\",\"d\"],"
		"\"Entrypoint\":null,\"ExposedPorts\":{\"80\":{},\"53/udp\":{},\"7-9/tcp\":{},"
		"\"x/tcp\":{}}},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"%s\"%s]}}",
		f == DIFF_ID
			? "sha256:0000000000000000000000000000000000000000000000000000000000000000"
			: digest_of(raw),
		f == DIFF_COUNT
			? ",\"sha256:0000000000000000000000000000000000000000000000000000000"
			  "000000000\""
			: "");
}

static void make_manifest(enum flaw f, const struct sp_str *config, const struct sp_str *layer,
			  struct sp_str *out)
{
	if (f == OLD) {
		sp_str_add(out, "{\"schemaVersion\":1,\"name\":\"x\",\"fsLayers\":[]}");
		return;
	}
	sp_str_addf(out,
		    "{\"schemaVersion\":2,%s\"config\":{\"mediaType\":\"%s\",\"digest\":\"%s\","
		    "\"size\":%zu},",
		    f == BOTH ? "\"manifests\":[]," : "",
		    f == ARTIFACT ? "application/vnd.cncf.helm.config.v1+json"
				  : "application/vnd.oci.image.config.v1+json",
		    digest_of(config), config->len);
	sp_str_addf(out,
		    "\"layers\":[{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+gzip\","
		    "\"digest\":\"%s\",\"size\":%zu}]}",
		    digest_of(layer), layer->len + (f == LAYER_SIZE ? 1 : 0));
}

static void make_index(enum flaw f, const struct sp_str *what, const char *name, struct sp_str *out)
{
	sp_str_addf(out,
		    "{\"schemaVersion\":2,\"manifests\":[{\"digest\":\"%s\",\"size\":%zu,"
		    "\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\"}%s%s%s}]}",
		    digest_of(what), what->len, f == INDEX_PLATFORM ? "s390x" : "amd64",
		    name ? ",\"annotations\":{\"org.opencontainers.image.ref.name\":\"" : "",
		    name ? name : "", name ? "\"}" : "");
}

/* A layout in a tar, with one image called "one". */
static void make_oci(enum flaw f, struct kit *k)
{
	struct sp_str raw, packed, config = SP_STR_INIT, manifest = SP_STR_INIT;
	struct sp_str index = SP_STR_INIT, layout = SP_STR_INIT, inner = SP_STR_INIT;
	const char *name;

	make_layer("hello", "world", "gzip", &raw, &packed);
	make_config(f, &raw, &config);
	make_manifest(f, &config, &packed, &manifest);
	kit_dir(k, "./", 0755);
	name = digest_of(&packed);
	if (f == LAYER_BYTES)
		packed.p[packed.len / 2] ^= 1;
	if (f != NO_LAYER)
		put_blob(k, &packed, name);
	name = digest_of(&config);
	if (f == CONFIG_BYTES)
		config.p[config.len - 1] = ' ';
	put_blob(k, &config, name);
	for (int i = 0; i < (f == DEEP ? 6 : f == NESTED ? 2 : 0); i++) {
		put_blob(k, &manifest, digest_of(&manifest));
		sp_str_clear(&inner);
		make_index(f, &manifest, NULL, &inner);
		sp_str_clear(&manifest);
		sp_str_add(&manifest, inner.p);
	}
	make_index(f, &manifest, "one", &index);
	name = digest_of(&manifest);
	if (f == MANIFEST_BYTES)
		manifest.p[manifest.len - 1] = ' ';
	put_blob(k, &manifest, name);
	sp_str_addf(&layout, "{\"imageLayoutVersion\":\"%s\"}", f == LAYOUT ? "7.0" : "1.0.0");
	kit_file(k, "./index.json", index.p);
	kit_file(k, "./oci-layout", layout.p);
	sp_str_free(&raw);
	sp_str_free(&packed);
	sp_str_free(&config);
	sp_str_free(&manifest);
	sp_str_free(&index);
	sp_str_free(&layout);
	sp_str_free(&inner);
}

/* docker save's form; manifest.json comes last, as it may. */
static void make_docker(enum flaw f, struct kit *k)
{
	struct sp_str raw, packed, config = SP_STR_INIT;
	char id[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef/layer.tar";

	make_layer("hello", "world", NULL, &raw, &packed);
	make_config(f, &raw, &config);
	if (f == LAYER_BYTES)
		packed.p[600] ^= 1;
	if (f != NO_LAYER)
		kit_put(k, kit_entry(id, S_IFREG | 0644), packed.p, packed.len);
	kit_link(k, "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef/layer.tar",
		 "../0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef/layer.tar");
	kit_put(k, kit_entry("c.json", S_IFREG | 0644), config.p, config.len);
	kit_file(k, "manifest.json",
		 "[{\"Config\":\"c.json\",\"RepoTags\":[\"docker.io/team/app:1\"],\"Layers\":"
		 "[\"1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef/"
		 "layer.tar\"]}]");
	sp_str_free(&raw);
	sp_str_free(&packed);
	sp_str_free(&config);
}

/* Unpacks a tar through a file, or a pipe's stand-in that is no file; the config's text in out. */
static int unpack(struct kit *k, enum sp_source_kind kind, bool file, const char *ref,
		  struct disk *d, struct sp_str *out)
{
	char path[] = "/tmp/space-unit-source.XXXXXX", spool[] = "/tmp/space-unit-spool.XXXXXX";
	struct sp_unpack u = { .kind = kind,
			       .tar_fd = mkstemp(path),
			       .tar_is_file = file,
			       .spool_fd = mkstemp(spool),
			       .ask_sock = -1,
			       .ref = ref,
			       .max_bytes = 64 << 20,
			       .max_entries = 1000,
			       .max_memory = 64 << 20 };
	sp_auto_json *config = NULL;
	struct sp_unpacked got;
	int rc;

	unlink(path);
	unlink(spool);
	disk_make(d, 64);
	sp_ext4_drop(&d->x);
	u.disk_fd = d->fd;
	if (k->a)
		kit_end(k);
	if (write(u.tar_fd, k->out.p, k->out.len) != (ssize_t)k->out.len)
		return -1;
	lseek(u.tar_fd, 0, SEEK_SET);
	u.tar_size = (int64_t)k->out.len;
	rc = sp_unpack_run(&u, NULL, &got, &config, &e);
	sp_str_clear(out);
	if (rc == 0)
		sp_json_print(config, out);
	close(u.tar_fd);
	close(u.spool_fd);
	return rc;
}

static void one(const char *what, void (*make)(enum flaw, struct kit *), enum flaw f,
		const char *ref, const char *says)
{
	sp_auto_str out = SP_STR_INIT;
	struct disk d;
	struct kit k;
	int rc;

	kit_begin(&k, NULL);
	make(f, &k);
	rc = unpack(&k, SP_SOURCE_AUTO, true, ref, &d, &out);
	if (says)
		ok(rc < 0 && strstr(e.msg, says), "%s: refused (%s)", what,
		   rc < 0 ? e.msg : "it was not");
	else
		ok(rc == 0 && disk_has(&d, "hello", "world"), "%s (%s)", what, rc < 0 ? e.msg : "");
	disk_drop(&d);
	sp_str_free(&k.out);
}

static void test_images(void)
{
	one("a layout", make_oci, NONE, NULL, NULL);
	one("by its name", make_oci, NONE, "one", NULL);
	one("by another name", make_oci, NONE, "two", "no image 'two'");
	one("indexes in indexes", make_oci, NESTED, NULL, NULL);
	one("indexes without end", make_oci, DEEP, NULL, "nested deeper");
	one("a layer of other bytes", make_oci, LAYER_BYTES, NULL, "layer sha256:");
	one("a layer of another size", make_oci, LAYER_SIZE, NULL, "announced were");
	one("another diff_id", make_oci, DIFF_ID, NULL, "unpacked, its digest is");
	one("a diff_id too many", make_oci, DIFF_COUNT, NULL, "do not fit its layers");
	one("a config of other bytes", make_oci, CONFIG_BYTES, NULL, "not what its digest says");
	one("a manifest of other bytes", make_oci, MANIFEST_BYTES, NULL,
	    "not what its digest says");
	one("a missing layer", make_oci, NO_LAYER, NULL, "the archive has no");
	one("a config for arm64", make_oci, PLATFORM, NULL, "not linux/amd64");
	one("an index for s390x", make_oci, INDEX_PLATFORM, NULL, "no image for linux/amd64");
	one("a manifest that is an index too", make_oci, BOTH, NULL, "claims to be an index");
	one("no image but something else", make_oci, ARTIFACT, NULL, "no container image");
	one("a layout of version 7", make_oci, LAYOUT, NULL, "image layout of version 1");
	one("a manifest of schema 1", make_oci, OLD, NULL, "schema 1");
	one("a config that is too large", make_oci, ENV, NULL, "larger than 65536");
	one("a docker archive, its layer behind a link", make_docker, NONE, NULL, NULL);
	one("by its tag", make_docker, NONE, "team/app:1", NULL);
	one("by its whole tag", make_docker, NONE, "docker.io/team/app:1", NULL);
	one("by a part of a word", make_docker, NONE, "am/app:1", "no image 'am/app:1'");
	one("a layer of other bytes", make_docker, LAYER_BYTES, NULL, "layer '1123");
	one("another diff_id", make_docker, DIFF_ID, NULL, "unpacked, its digest is");
	one("a missing layer", make_docker, NO_LAYER, NULL, "the archive has no");
}

static void test_ways(void)
{
	static const char *const filters[] = { NULL, "gzip", "xz", "zstd", "bzip2" };
	sp_auto_str out = SP_STR_INIT;
	struct disk d;
	struct kit k;
	int rc;

	for (size_t i = 0; i < SP_NELEM(filters); i++)
		for (int file = 0; file < 2; file++) {
			kit_begin(&k, filters[i]);
			make_oci(NONE, &k);
			rc = unpack(&k, SP_SOURCE_AUTO, file, NULL, &d, &out);
			ok(rc == 0 && disk_has(&d, "hello", "world"), "a layout in a %s %s: %s",
			   filters[i] ? filters[i] : "plain", file ? "file" : "stream",
			   rc < 0 ? e.msg : "");
			disk_drop(&d);
			sp_str_free(&k.out);
		}
	ok(strstr(out.p, "\"env\":[\"A=1\"]") && strstr(out.p, "\"user\":\"1:2\"") &&
		   strstr(out.p, "\"workdir\":\"/w\"") && strstr(out.p, "\"cmd\":[\"c\",\"d\"]") &&
		   strstr(out.p, "\"entrypoint\":[]") && strstr(out.p, "\"digest\":\"sha256:") &&
		   strstr(out.p, "\"ports\":[\"80/tcp\",\"53/udp\",\"7/tcp\",\"8/tcp\",\"9/tcp\"]"),
	   "its config: %s", out.p);
}

/* A root that begins as an image archive does is a root all the same. */
static void test_roots(void)
{
	sp_auto_str out = SP_STR_INIT;
	struct disk d;
	struct kit k;

	for (int file = 0; file < 2; file++) {
		kit_begin(&k, file ? NULL : "gzip");
		kit_dir(&k, "blobs", 0755);
		kit_file(&k, "hello", "world");
		kit_file(&k, ".wh.x", "mine");
		ok(unpack(&k, SP_SOURCE_AUTO, file, NULL, &d, &out) == 0 &&
			   disk_has(&d, "hello", "world") && disk_has(&d, ".wh.x", "mine"),
		   "a root with a folder 'blobs'");
		disk_drop(&d);
		sp_str_free(&k.out);
	}
	kit_begin(&k, NULL);
	make_oci(NONE, &k);
	ok(unpack(&k, SP_SOURCE_ROOT, true, NULL, &d, &out) == 0 &&
		   disk_stat_has(&d, "blobs/sha256", "directory"),
	   "an image archive that is said to be a root");
	disk_drop(&d);
	sp_str_free(&k.out);
	kit_begin(&k, NULL);
	kit_file(&k, "hello", "world");
	ok(unpack(&k, SP_SOURCE_OCI, false, NULL, &d, &out) < 0 && strstr(e.msg, "oci-layout"),
	   "a root that is said to be an image: %s", e.msg);
	disk_drop(&d);
	sp_str_free(&k.out);
	k = (struct kit){ NULL, SP_STR_INIT };
	ok(unpack(&k, SP_SOURCE_AUTO, false, NULL, &d, &out) < 0 && strstr(e.msg, "empty"),
	   "nothing at all: %s", e.msg);
	disk_drop(&d);
}

static void test_config(void)
{
	static const char *const bad[] = {
		"",
		"[]x",
		"{\"env\":\"A=1\"}",
		"{\"env\":[\"no equals sign\"]}",
		"{\"env\":[\"=1\"]}",
		"{\"env\":[1]}",
		"{\"user\":7}",
		"{\"user\":\"a\\nb\"}",
		"{\"ports\":[\"80\"]}",
		"{\"ports\":[\"0/tcp\"]}",
		"{\"ports\":[\"65536/tcp\"]}",
		"{\"ports\":[\"80/tcp; rm\"]}",
		"{\"digest\":\"sha256:xyz\"}",
		"{\"cmd\":{}}",
	};
	sp_auto_json *c = NULL;

	for (size_t i = 0; i < SP_NELEM(bad); i++) {
		c = sp_config_parse(bad[i], strlen(bad[i]), &e);
		ok(!c, "a config that the parent refuses: %s", bad[i]);
		sp_json_free(&c);
	}
	c = sp_config_parse("{\"env\":[\"A=\\u00e9\\n\"],\"other\":1,\"ports\":[\"1/sctp\"]}", 51,
			    &e);
	ok(c && !sp_json_get(c, "other") && sp_json_get(c, "entrypoint"),
	   "what it takes has its keys and no others");
}

static void test_names(void)
{
	static const char *const good[] = { "a", "blobs/sha256/00", "..a/b..", "a b" };
	static const char *const bad[] = { "",       "/a",   "a/", "a//b", "../a",
					   "a/../b", "a/..", ".",  "./a" };

	for (size_t i = 0; i < SP_NELEM(good); i++)
		ok(sp_oci_name_is_valid(good[i]), "a part's name: %s", good[i]);
	for (size_t i = 0; i < SP_NELEM(bad); i++)
		ok(!sp_oci_name_is_valid(bad[i]), "none: %s", bad[i]);
	ok(sp_peek_is_image_name("./oci-layout") && sp_peek_is_image_name("blobs/") &&
		   !sp_peek_is_image_name("blob") && !sp_peek_is_image_name("etc/manifest.json"),
	   "names of image archives");
}

int main(void)
{
	if (access("/usr/sbin/mke2fs", X_OK) < 0) {
		printf("1..0 # SKIP no mke2fs\n");
		return 0;
	}
	setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
	test_images();
	test_ways();
	test_roots();
	test_config();
	test_names();
	return tap_done();
}
