/* SPDX-License-Identifier: Apache-2.0 */
/* The fetching side of a registry import: network and credentials, and nothing of what it fetches.
 *
 * Speaks the distribution specification's pull half. The unpacking side asks for manifests and
 * blobs of one repository; bodies go to it through a pipe unread. Credentials are sent to the
 * registry itself (Basic) or to the realm that the registry named for its tokens, over https only,
 * or between addresses of this machine; never to where a redirect leads, never over plain http to
 * elsewhere. A redirect may not lead from https to http, nor from a registry elsewhere to this
 * machine. libcurl sits behind this header.
 */
#ifndef SP_IMAGE_REGISTRY_H
#define SP_IMAGE_REGISTRY_H

#include "base/err.h"
#include "image/ref.h"

struct sp_fetch {
	struct sp_ref ref;
	int auth_fd;         /* docker config.json, or -1 */
	const char *ca_file; /* certificates to trust beside the system's, or NULL */
};

/* Serves requests on sock (image/msg.h) until the other side is gone. Returns an exit status. */
int sp_fetch_main(const struct sp_fetch *f, int sock);

#endif
