/* SPDX-License-Identifier: Apache-2.0 */
/* Debian's cloud kernel by apt: the package that linux-image-cloud-amd64 depends on, downloaded
 * (apt checks its signature chain) into a private folder. Nothing is installed. */
#ifndef SP_IMAGE_APT_H
#define SP_IMAGE_APT_H

#include "base/err.h"

/* An open descriptor of the package; the folder is gone again. SP_HOST where apt is not there, does
 * not know such a package, or cannot fetch it. */
int sp_apt_kernel(struct sp_err *e);

#endif
