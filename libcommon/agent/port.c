/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the port of the channel, by the kernel's own events.
 *
 * A virtio port gets its name some time after its device node, by a message from outside, and the
 * kernel tells of each with a uevent. So the socket is opened first, then the ports are looked
 * through, then again at each event, until ours is there. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"

#define PORT_NAME "org.space.agent.0"
#define PORT_CLASS "/sys/class/virtio-ports"

int sp_uevent_open(void)
{
	struct sockaddr_nl at = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_KOBJECT_UEVENT);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at)) {
		close(fd);
		return -1;
	}
	return fd;
}

bool sp_uevent_take(int fd)
{
	char message[4096];
	bool any = false;

	/* ENOBUFS: events were lost, which is as good as one. */
	while (recv(fd, message, sizeof message, 0) >= 0 || errno == ENOBUFS || errno == EINTR)
		any = true;
	return any;
}

static bool is_ours(const char *port)
{
	char path[320], name[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, PORT_CLASS "/%s/name", port);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, name, sizeof name - 1);
	close(fd);
	if (n <= 0)
		return false;
	name[n] = '\0';
	name[strcspn(name, "\n")] = '\0';
	return strcmp(name, PORT_NAME) == 0;
}

static int open_port(void)
{
	char path[320];
	struct dirent *d;
	int fd = -1;
	DIR *dir = opendir(PORT_CLASS);

	while (dir && fd < 0 && (d = readdir(dir))) {
		if (d->d_name[0] == '.' || !is_ours(d->d_name))
			continue;
		snprintf(path, sizeof path, "/dev/%s", d->d_name);
		fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	}
	if (dir)
		closedir(dir);
	return fd;
}

static void on_uevent(struct sp_agent *a, struct sp_watch *w, uint32_t events)
{
	(void)events;
	if (sp_uevent_take(w->fd))
		sp_port_open(a);
}

void sp_port_open(struct sp_agent *a)
{
	struct sp_channel *ch = &a->ch;

	if (ch->uevents.fd < 0)
		ch->uevents.fd = sp_uevent_open();
	ch->w.fd = open_port();
	if (ch->w.fd < 0) {
		ch->uevents.fn = on_uevent;
		sp_watch_set(a, &ch->uevents, EPOLLIN);
		return;
	}
	sp_watch_close(a, &ch->uevents);
	/* Edge-triggered: a port with nobody outside reports a hang-up all the time, and a level
	 * would spin. Each change (a connection, bytes, room) wakes the port's queue: one edge. */
	ch->w.fn = sp_channel_event;
	sp_watch_set(a, &ch->w, EPOLLIN | EPOLLOUT | EPOLLET);
	ch->readable = ch->writable = true;
}
