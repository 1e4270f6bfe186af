/* SPDX-License-Identifier: Apache-2.0 */
/* Registry references: docker://host[:port]/name[:tag][@digest]; docker+http:// for a registry
 * without TLS, docker+https:// for one with it on this machine, where docker:// is plain.
 *
 * The grammar is the distribution specification's (repository names, tags) with the customary short
 * forms: a first component without dot, colon and "localhost" means Docker Hub, where a name of one
 * component lies below library/, and the tag is "latest" if there is none.
 */
#ifndef SP_IMAGE_REF_H
#define SP_IMAGE_REF_H

#include <stdbool.h>

#include "base/err.h"
#include "image/digest.h"

struct sp_ref {
	char host[256];              /* name, IPv4 address or [IPv6 address], for URLs */
	char port[8];                /* "" where none is given */
	char name[256];              /* repository */
	char tag[129];               /* "" where a digest is given */
	char digest[SP_DIGEST_SIZE]; /* or "" */
	bool plain;                  /* http */
	bool loopback;               /* the host is this machine, by its very text */
	char auth_key[272];          /* host[:port] as docker's config.json has it */
};

bool sp_ref_has_scheme(const char *s);
/* SP_USAGE when it is not one. Loopback hosts are plain; others only with docker+http://. */
int sp_ref_parse(const char *s, struct sp_ref *out, struct sp_err *e);

/* localhost, 127.x.y.z, [::1]: by its text, no name is looked up. */
bool sp_ref_host_is_loopback(const char *host);
/* What a manifest request may name: a tag or a digest. */
bool sp_ref_tag_is_valid(const char *s);

#endif
