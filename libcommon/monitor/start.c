/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a machine: descriptors, network, jail, VMM, reader, load or boot, the agent's word. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "monitor/console.h"
#include "monitor/keeper.h"
#include "net/tap.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "sys/lock.h"
#include "sys/proc.h"

#define CMDLINE                                                                                    \
	"console=ttyS0 quiet panic=1 random.trust_cpu=on no_timer_check i8042.noaux i8042.nopnp"
#define READY_LOAD_MS 30000
#define READY_BOOT_MS 120000
#define LOAD_MS 60000

/* What start opens and only start needs. */
struct opened {
	int state; /* vmstate */
	int kernel, initrd;
	int control[2], console[2], log[2], half[2];
	int channel, clients, null;
};

static void opened_close(struct opened *o)
{
	sp_fd_close(&o->state);
	sp_fd_close(&o->kernel);
	sp_fd_close(&o->initrd);
	sp_fd_close(&o->control[0]);
	sp_fd_close(&o->control[1]);
	sp_fd_close(&o->console[0]);
	sp_fd_close(&o->console[1]);
	sp_fd_close(&o->log[0]);
	sp_fd_close(&o->log[1]);
	sp_fd_close(&o->half[0]);
	sp_fd_close(&o->half[1]);
	sp_fd_close(&o->channel);
	sp_fd_close(&o->clients);
	sp_fd_close(&o->null);
}

static int open_below(int dirfd, const char *a, const char *b, int flags, struct sp_err *e)
{
	sp_auto_fd dir = sp_fs_open_dir(dirfd, a, e);

	return dir < 0 ? -1 : sp_fs_open(dir, b, flags, 0, e);
}

/* Who undoes a start asks who lives, and may have asked before we took our life. Its starter is
 * dead
 * by then: so a machine that nobody waits for does not begin. */
static int check_starter(const struct sp_keeper *k, struct sp_err *e)
{
	struct pollfd p = { .fd = k->starter, .events = 0 };

	if (poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR)))
		return sp_fail(e, SP_FAIL, 0, "its starter is gone");
	return 0;
}

/* The lives: ours, and the one on the disk's descriptor that the VMM will hold as well. */
static int take_lives(struct sp_keeper *k, struct sp_err *e)
{
	struct sp_proc_id id;
	char text[80];

	if (sp_fs_mkdir(k->roots.run, k->spec.sandbox, 0700, e) < 0)
		return -1;
	k->run = sp_fs_open_dir(k->roots.run, k->spec.sandbox, e);
	if (k->run < 0)
		return -1;
	k->life = sp_life_take(k->run, "life", e);
	if (k->life < 0)
		return -1;
	if (sp_proc_identify(0, &id, e) < 0)
		return -1;
	snprintf(text, sizeof text, "%d %llu %s\n", (int)id.pid, (unsigned long long)id.start,
		 id.boot);
	if (ftruncate(k->life, 0) < 0 || sp_fd_pwrite(k->life, text, strlen(text), 0) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "cannot write life");
	k->disk = open_below(k->box, "vol", "rootfs.img", O_RDWR, e);
	if (k->disk < 0)
		return -1;
	if (sp_life_fd_take(k->disk) < 0)
		return sp_fail(e, SP_CONFLICT, 0, "a machine that still lives has its disk");
	return 0;
}

/* A boot without a checkpoint maps an empty file: sparse, read-only, so all alike. */
static int make_empty_memory(struct sp_keeper *k, struct sp_err *e)
{
	sp_auto_fd fd = -1;

	if (sp_fs_unlink(k->box, "mem", e) < 0)
		return -1;
	fd = sp_fs_open(k->box, "mem", O_RDWR | O_CREAT | O_EXCL, 0444, e);
	if (fd < 0)
		return -1;
	if (fchmod(fd, 0444) < 0 || ftruncate(fd, (off_t)k->spec.machine.memory) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "cannot make the memory file");
	k->mem = sp_fs_open(k->box, "mem", O_RDONLY, 0, e);
	return k->mem < 0 ? -1 : 0;
}

static int open_boot(struct sp_keeper *k, struct opened *o, struct sp_err *e)
{
	sp_auto_fd kernels = sp_fs_open_dir(k->roots.store, SP_DIR_KERNELS, e);
	sp_auto_fd dir = kernels < 0 ? -1 : sp_fs_open_dir(kernels, k->spec.kernel, e);

	if (dir < 0)
		return sp_wrap(e, "kernel '%s'", k->spec.kernel);
	o->kernel = sp_fs_open(dir, "vmlinuz", O_RDONLY, 0, e);
	o->initrd = o->kernel < 0 ? -1 : sp_fs_open(dir, "initrd", O_RDONLY, 0, e);
	return o->initrd < 0 ? -1 : make_empty_memory(k, e);
}

static int open_load(struct sp_keeper *k, struct opened *o, struct sp_err *e)
{
	sp_auto_fd all = sp_fs_open_dir(k->roots.store, SP_DIR_CHECKPOINTS, e);
	sp_auto_fd dir = all < 0 ? -1 : sp_fs_open_dir(all, k->spec.base, e);
	struct stat st;

	if (dir < 0)
		return sp_wrap(e, "checkpoint '%s'", k->spec.base);
	k->mem = sp_fs_open(dir, "mem", O_RDONLY, 0, e);
	o->state = k->mem < 0 ? -1 : sp_fs_open(dir, "vmstate", O_RDONLY, 0, e);
	if (o->state < 0)
		return -1;
	if (fstat(k->mem, &st) < 0 || (uint64_t)st.st_size != k->spec.machine.memory)
		return sp_fail(e, SP_FAIL, 0, "checkpoint '%s': its memory file has a wrong size",
			       k->spec.base);
	return 0;
}

static int pair(int type, int out[2], struct sp_err *e)
{
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, out) < 0)
		return sp_fail(e, SP_FAIL, errno, "socketpair");
	return 0;
}

static int open_sockets(struct sp_keeper *k, struct opened *o, struct sp_err *e)
{
	if (pair(SOCK_STREAM, o->control, e) < 0 || pair(SOCK_STREAM, o->console, e) < 0 ||
	    pair(SOCK_SEQPACKET, o->half, e) < 0)
		return -1;
	if (pipe2(o->log, O_CLOEXEC) < 0)
		return sp_fail(e, SP_FAIL, errno, "pipe");
	o->null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (o->null < 0)
		return sp_fail(e, SP_HOST, errno, "cannot open /dev/null");
	o->channel = sp_sock_listen(k->run, "channel", SOCK_STREAM, 0600, e);
	o->clients = o->channel < 0 ? -1 : sp_sock_listen(k->run, "guest", SOCK_STREAM, 0600, e);
	k->ctl = o->clients < 0 ? -1 : sp_sock_listen(k->run, "ctl", SOCK_SEQPACKET, 0600, e);
	return k->ctl < 0 ? -1 : 0;
}

/* The uuid of the generation id device: from the generation number, so new for every start. */
static void format_genid(const struct sp_keeper *k, char out[static 40])
{
	unsigned char r[16];

	sp_random(r, sizeof r);
	memcpy(r, &k->spec.generation, sizeof k->spec.generation);
	snprintf(out, 40, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[12],
		 r[13], r[14], r[15]);
}

/* What the VMM prints goes to the log pipe, and from there into errors. */
static int spawn_vmm(struct sp_keeper *k, struct opened *o, bool load, struct sp_err *e)
{
	struct sp_vm_fds fds = { .disk = k->disk, .mem = k->mem, .control = o->control[1],
				 .channel = o->channel, .console = o->console[1], .tap = k->tap,
				 .kernel = o->kernel, .initrd = o->initrd };
	int keep[] = { k->disk, o->control[1], o->channel, o->console[1], k->tap, k->slot.fd };
	struct stat st;
	struct sp_vm_command c;
	char genid[40];
	struct sp_jail j;
	int stdio[3] = { o->null, o->log[1], o->log[1] };

	format_genid(k, genid);
	if (fstat(k->disk, &st) < 0)
		return sp_fail(e, SP_FAIL, errno, "cannot stat the disk");
	if (k->engine->command(&k->spec.machine, &fds, load, CMDLINE, genid, &c, e) < 0)
		return -1;
	j = (struct sp_jail){ .uid = k->slot.uid[0],
			      .calls = SP_JAIL_CALLS_VMM,
			      .netns_fd = k->net,
			      .binds = c.binds,
			      .nbinds = c.nbinds,
			      .host_programs = true,
			      .dev = true,
			      .kvm = strcmp(k->spec.machine.accel, "kvm") == 0,
			      .max_file = (uint64_t)st.st_size,
			      .max_files = 128,
			      .max_procs = k->spec.machine.cpus + 64,
			      .keep = keep,
			      .nkeep = SP_NELEM(keep),
			      .cgroup = k->spec.sandbox,
			      .cgroup_memory = k->spec.machine.memory + (512u << 20),
			      .stdio = stdio };
	k->vmm = sp_jail_exec(&j, c.path, c.argv, c.envp, &k->vmm_pidfd, e);
	sp_vm_command_free(&c);
	return k->vmm < 0 ? sp_wrap(e, "cannot start the VMM") : 0;
}

static int spawn_reader(struct sp_keeper *k, struct opened *o, struct sp_err *e)
{
	sp_auto_fd ring = sp_console_create(k->box, "console", e);
	struct sp_reader r = { .engine = k->engine, .keeper = o->half[1], .control = o->control[0],
			       .console = o->console[0], .log = o->log[0], .ring = ring,
			       .clients = o->clients };
	int keep[] = { r.keeper, r.control, r.console, r.log, r.ring, r.clients, k->slot.fd };
	struct sp_jail j = { .uid = k->slot.uid[1],
			     .calls = SP_JAIL_CALLS_READER,
			     .netns_fd = k->net,
			     .max_file = SP_CONSOLE_HEADER + SP_CONSOLE_RING,
			     .max_files = 256,
			     .max_procs = 1,
			     .max_memory = 256u << 20,
			     .keep = keep,
			     .nkeep = SP_NELEM(keep) };

	if (ring < 0)
		return -1;
	k->reader = sp_jail_run(&j, sp_reader_main, &r, &k->reader_pidfd, e);
	if (k->reader < 0)
		return sp_wrap(e, "cannot start the reader");
	k->half = sp_take_fd(&o->half[0]);
	return 0;
}

/* Connects the guest channel, with what the agent is to be told. */
static int greet_agent(struct sp_keeper *k, bool load, struct sp_err *e)
{
	struct sp_half_msg m = { .type = SP_H_CHANNEL };
	struct sp_mux_welcome *w = &m.welcome;
	sp_auto_fd fd = sp_sock_connect(k->run, "channel", SOCK_STREAM, e);

	if (fd < 0 || sp_fs_unlink(k->run, "channel", e) < 0)
		return -1;
	sp_random(k->marker_next, sizeof k->marker_next);
	sp_random(w->entropy, sizeof w->entropy);
	w->generation = k->spec.generation;
	w->same = k->spec.same;
	w->cold = !load;
	memcpy(w->marker_now, k->spec.marker, sizeof w->marker_now);
	memcpy(w->marker_next, k->marker_next, sizeof w->marker_next);
	snprintf(w->hostname, sizeof w->hostname, "%s", k->spec.hostname);
	snprintf(w->id, sizeof w->id, "%s", k->spec.sandbox);
	return sp_keeper_send(k, &m, fd, 10000, NULL, e);
}

static int run_machine(struct sp_keeper *k, struct opened *o, bool load, int64_t t0,
		       struct sp_mon_report *rep, struct sp_err *e)
{
	int ms = (int)k->spec.ready_ms;

	if (sp_keeper_ask(k, SP_H_START, load, o->state, LOAD_MS, NULL, e) < 0)
		return -1;
	rep->loaded_ns = sp_clock_mono() - t0;
	if (!load && sp_fs_unlink(k->box, "mem", e) < 0)
		return -1;
	if (greet_agent(k, load, e) < 0 || sp_keeper_ask(k, SP_H_CONT, 0, -1, LOAD_MS, NULL, e) < 0)
		return -1;
	k->vm = SP_VM_RUNNING;
	rep->running_ns = sp_clock_mono() - t0;
	if (!ms)
		ms = load ? READY_LOAD_MS : READY_BOOT_MS;
	if (sp_keeper_await(k, &k->ready, ms, e) < 0)
		return sp_wrap(e, "the guest's agent");
	rep->ready_ns = sp_clock_mono() - t0;
	rep->hooks_failed = k->hooks_failed;
	return 0;
}

int sp_keeper_start(struct sp_keeper *k, struct sp_mon_report *rep, struct sp_err *e)
{
	struct opened o = {
		-1, -1, -1, { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 }, -1, -1, -1
	};
	bool load = k->spec.base[0] != '\0';
	int64_t t0 = sp_clock_mono();
	sp_auto_fd boxes = sp_fs_open_dir(k->roots.store, SP_DIR_SANDBOXES, e);
	int rc = -1;

	k->engine = sp_engine_find(k->spec.machine.engine);
	if (!k->engine)
		return sp_fail(e, SP_HOST, 0, "no engine '%s' here", k->spec.machine.engine);
	k->box = boxes < 0 ? -1 : sp_fs_open_dir(boxes, k->spec.sandbox, e);
	if (k->box < 0 || take_lives(k, e) < 0 || check_starter(k, e) < 0 ||
	    sp_jail_slot_take(&k->slot, e) < 0)
		return -1;
	if ((load ? open_load(k, &o, e) : open_boot(k, &o, e)) == 0 &&
	    open_sockets(k, &o, e) == 0 && sp_net_tap_create(&k->net, &k->tap, e) == 0 &&
	    spawn_vmm(k, &o, load, e) == 0) {
		rep->spawned_ns = sp_clock_mono() - t0;
		if (spawn_reader(k, &o, e) == 0) {
			sp_fd_close(&o.control[1]);
			sp_fd_close(&o.console[1]);
			sp_fd_close(&o.log[1]);
			sp_fd_close(&o.half[1]);
			sp_fd_close(&k->tap);
			rc = run_machine(k, &o, load, t0, rep, e);
		}
	}
	opened_close(&o);
	return rc;
}
