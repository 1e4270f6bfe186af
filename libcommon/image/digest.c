/* SPDX-License-Identifier: Apache-2.0 */
#include "image/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

struct sp_hash {
	EVP_MD_CTX *ctx;
	char alg[8];
};

bool sp_digest_is_valid(const char *s)
{
	size_t want;

	if (!strncmp(s, "sha256:", 7))
		want = 64;
	else if (!strncmp(s, "sha512:", 7))
		want = 128;
	else
		return false;
	s += 7;
	return strlen(s) == want && strspn(s, "0123456789abcdef") == want;
}

struct sp_hash *sp_hash_new(const char *like)
{
	bool long_one = like && !strncmp(like, "sha512:", 7);
	struct sp_hash *h = sp_xcalloc(1, sizeof *h);

	/* no configuration file: hashes are made in processes that may open none */
	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	snprintf(h->alg, sizeof h->alg, "%s", long_one ? "sha512" : "sha256");
	h->ctx = EVP_MD_CTX_new();
	if (!h->ctx || !EVP_DigestInit_ex(h->ctx, long_one ? EVP_sha512() : EVP_sha256(), NULL))
		abort(); /* out of memory: there is no other cause */
	return h;
}

void sp_hash_free(struct sp_hash **h)
{
	if (!*h)
		return;
	EVP_MD_CTX_free((*h)->ctx);
	free(*h);
	*h = NULL;
}

void sp_hash_add(struct sp_hash *h, const void *data, size_t n)
{
	EVP_DigestUpdate(h->ctx, data, n);
}

void sp_hash_end(struct sp_hash *h, char out[static SP_DIGEST_SIZE])
{
	unsigned char raw[EVP_MAX_MD_SIZE];
	unsigned int len = 0;
	int at;

	EVP_DigestFinal_ex(h->ctx, raw, &len);
	at = snprintf(out, SP_DIGEST_SIZE, "%s:", h->alg);
	for (unsigned int i = 0; i < len; i++, at += 2)
		snprintf(out + at, (size_t)(SP_DIGEST_SIZE - at), "%02x", raw[i]);
}

bool sp_digest_is_of(const char *digest, const void *data, size_t n)
{
	sp_auto_hash *h = sp_hash_new(digest);
	char got[SP_DIGEST_SIZE];

	sp_hash_add(h, data, n);
	sp_hash_end(h, got);
	return !strcmp(digest, got);
}
