/* SPDX-License-Identifier: Apache-2.0 */
/* WWW-Authenticate (RFC 9110, 11.6.1), as far as registries use it: Bearer with realm, service and
 * scope, or Basic. Pure functions. */
#ifndef SP_IMAGE_CHALLENGE_H
#define SP_IMAGE_CHALLENGE_H

enum sp_challenge_kind { SP_CHALLENGE_NONE, SP_CHALLENGE_BASIC, SP_CHALLENGE_BEARER };

struct sp_challenge {
	enum sp_challenge_kind kind;
	char realm[1024]; /* Bearer: where a token is had; checked by the caller */
	char service[256];
};

/* Reads one header's value, which may hold several challenges, and keeps the best one seen so far
 * in *c (Bearer before Basic). Begin with a zeroed *c. What does not parse or is too long is not
 * taken. */
void sp_challenge_read(const char *value, struct sp_challenge *c);

#endif
