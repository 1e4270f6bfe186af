/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the machine, where the agent is its first process. The signals are those that busybox
 * sends: SIGUSR1 halt, SIGUSR2 power off, SIGTERM and SIGINT (ctrl-alt-del) reboot. */
#include <signal.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <unistd.h>

#include "agent/agent.h"

#define TERM_MS 3000

static _Noreturn void finish(int how)
{
	sync();
	mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL);
	sync();
	reboot(how);
	for (;;)
		pause();
}

static void on_timer(struct sp_agent *a)
{
	if (a->power.killed)
		finish(a->power.how); /* what does not die of that, does not die */
	a->power.killed = true;
	kill(-1, SIGKILL);
	sp_timer_set(a, &a->power.timer, TERM_MS, on_timer);
}

void sp_power_children(struct sp_agent *a)
{
	if (a->power.how)
		finish(a->power.how);
}

void sp_power_signal(struct sp_agent *a, int signal)
{
	if (!a->boot && signal != SIGHUP) {
		a->stop = true;
		return;
	}
	if (!a->pid1 || signal == SIGHUP || a->power.how)
		return;
	/* A halted machine would only stand there: it is powered off. */
	a->power.how = signal == SIGTERM || signal == SIGINT ? RB_AUTOBOOT : RB_POWER_OFF;
	sp_say(a, signal == SIGTERM || signal == SIGINT ? "reboot" : "power off");
	if (kill(-1, SIGTERM))
		finish(a->power.how); /* there is nobody */
	sp_timer_set(a, &a->power.timer, TERM_MS, on_timer);
}
