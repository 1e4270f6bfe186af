/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's network: a namespace of its own with a tap and no route out of it. */
#ifndef SP_NET_TAP_H
#define SP_NET_TAP_H

#include "base/err.h"

/* Moves the calling process (single-threaded) into a new network namespace, makes "tap0" there
 * (tun(4): no packet information, with the virtio header) and sets it up. Nothing listens and
 * nothing is routed. *ns is the namespace, *tap the device's descriptor; both the caller's. */
int sp_net_tap_create(int *ns, int *tap, struct sp_err *e);

#endif
