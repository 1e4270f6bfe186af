/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "sys/fd.h"

static int set_up(const char *name, struct sp_err *e)
{
	sp_auto_fd sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = { .ifr_flags = IFF_UP };

	memcpy(ifr.ifr_name, name, strlen(name) + 1);
	if (sock < 0 || ioctl(sock, SIOCSIFFLAGS, &ifr) < 0)
		return sp_fail(e, SP_HOST, errno, "cannot set '%s' up", name);
	return 0;
}

int sp_net_tap_create(int *ns, int *tap, struct sp_err *e)
{
	struct ifreq ifr = { .ifr_name = "tap0", .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	sp_auto_fd dev = -1, own = -1;

	if (unshare(CLONE_NEWNET) < 0)
		return sp_fail(e, SP_HOST, errno, "cannot make a network namespace");
	own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (own < 0)
		return sp_fail(e, SP_HOST, errno, "cannot open the network namespace");
	dev = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (dev < 0)
		return sp_fail(e, SP_HOST, errno, "cannot open /dev/net/tun (modprobe tun)");
	if (ioctl(dev, TUNSETIFF, &ifr) < 0)
		return sp_fail(e, SP_HOST, errno, "cannot make a tap");
	if (set_up("tap0", e) < 0)
		return -1;
	*ns = sp_take_fd(&own);
	*tap = sp_take_fd(&dev);
	return 0;
}
