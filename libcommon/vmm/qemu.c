/* SPDX-License-Identifier: Apache-2.0 */
/* The QEMU engine: the command line, and the conversation over QMP.
 *
 * The machine is the same from the first boot on (device set "v1"), chosen for a short start: q35
 * with everything switched off that a guest of ours does not use, modern virtio only, no graphics,
 * no option ROMs. RAM is the private mapping of an immutable file, so saving is devices only
 * (xen-save-devices-state) and loading takes the devices from a descriptor.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/fd.h"
#include "sys/proc.h"
#include "vmm/engine.h"
#include "vmm/qmp.h"

#define PROGRAM "/usr/bin/qemu-system-x86_64"
#define DEVICES "v1"
#define GREET_MS 20000 /* a start on a host that is out of breath */
#define CALL_MS 10000
#define SAVE_MS 30000

struct sp_vm {
	struct sp_qmp qmp;
};

/* "QEMU emulator version 7.2.22 (Debian …)" to "7.2.22". */
static int read_version(char *out, size_t n, struct sp_err *e)
{
	const char *const argv[] = { PROGRAM, "--version", NULL };
	sp_auto_str text = SP_STR_INIT;
	const char *p;
	size_t len;

	if (sp_proc_run(argv, -1, &text, e) < 0) {
		e->code = SP_HOST;
		return sp_wrap(e, "no QEMU here (apt-get install qemu-system-x86)");
	}
	p = strstr(text.p, "version ");
	p = p ? p + strlen("version ") : "";
	len = strspn(p, "0123456789.");
	if (!len || len >= n)
		return sp_fail(e, SP_HOST, 0, "cannot tell the version of %s", PROGRAM);
	snprintf(out, n, "%.*s", (int)len, p);
	return 0;
}

/* Major and minor as one number, 702 for "7.2.22". */
static int version_number(const char *version)
{
	char *end;
	long major = strtol(version, &end, 10);

	return (int)(major * 100 + (*end == '.' ? strtol(end + 1, NULL, 10) : 0));
}

static int qemu_probe(bool require_kvm, struct sp_machine *out, struct sp_err *e)
{
	char why[256];
	int kvm = sp_kvm_probe(why, sizeof why);

	if (require_kvm && !kvm)
		return sp_fail(e, SP_HOST, 0, "KVM does not work here: %s", why);
	memset(out, 0, sizeof *out);
	snprintf(out->engine, sizeof out->engine, "qemu");
	snprintf(out->accel, sizeof out->accel, "%s", kvm ? "kvm" : "tcg");
	snprintf(out->cpu_model, sizeof out->cpu_model, "%s", kvm ? "host" : "Nehalem-v1");
	snprintf(out->machine, sizeof out->machine, "%s", SP_MACHINE_QEMU);
	snprintf(out->devices, sizeof out->devices, "%s", DEVICES);
	return read_version(out->version, sizeof out->version, e);
}

__attribute__((format(printf, 3, 4))) static void arg(struct sp_vm_command *c, const char *option,
						      const char *fmt, ...)
{
	size_t i = 0;
	va_list ap;
	sp_auto_str value = SP_STR_INIT;

	while (c->argv[i])
		i++;
	if (i + 3 > SP_NELEM(c->argv))
		abort(); /* the list below is fixed: a wrong bound is a bug */
	c->argv[i++] = sp_xstrdup(option);
	if (!fmt)
		return;
	va_start(ap, fmt);
	sp_str_vaddf(&value, fmt, ap);
	va_end(ap);
	c->argv[i] = sp_str_take(&value);
}

static void machine_args(struct sp_vm_command *c, const struct sp_machine *m, bool load)
{
	bool old = version_number(m->version) < 802;

	arg(c, "-nodefaults", NULL);
	arg(c, "-no-user-config", NULL);
	arg(c, "-no-reboot", NULL);
	arg(c, "-display", "none");
	arg(c, "-S", NULL);
	arg(c, "-machine",
	    "%s,hpet=off,smbus=off,sata=off,usb=off,smm=off,vmport=off,graphics=off,"
	    "suppress-vmdesc=on,memory-backend=ram",
	    m->machine);
	arg(c, "-accel", strcmp(m->accel, "kvm") == 0 ? "kvm" : "tcg,tb-size=32");
	arg(c, "-cpu", "%s", m->cpu_model);
	arg(c, "-smp", "%u", m->cpus);
	arg(c, "-m", "%lluM", (unsigned long long)(m->memory >> 20));
	arg(c, "-object", "memory-backend-file,id=ram,mem-path=/mem,share=off,size=%llu%s",
	    (unsigned long long)m->memory, old ? "" : ",readonly=on,rom=off");
	if (load) {
		arg(c, "-incoming", "defer");
		arg(c, "-global", "migration.send-configuration=off");
	}
	arg(c, "-sandbox",
	    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
	if (old)
		c->envp[0] = sp_xstrdup("LD_PRELOAD=/romem.so");
}

static void device_args(struct sp_vm_command *c, const struct sp_vm_fds *fds, const char *genid)
{
	arg(c, "-chardev", "socket,id=qmp,fd=%d", fds->control);
	arg(c, "-mon", "chardev=qmp,mode=control");
	arg(c, "-add-fd", "fd=%d,set=1", fds->disk);
	arg(c, "-blockdev", "driver=file,node-name=file0,filename=/dev/fdset/1,discard=unmap");
	arg(c, "-blockdev", "driver=raw,node-name=disk0,file=file0,discard=unmap");
	arg(c, "-device",
	    "virtio-blk-pci,drive=disk0,disable-legacy=on,romfile=,werror=stop,rerror=report");
	arg(c, "-netdev", "tap,id=net0,fd=%d,vhost=off", fds->tap);
	arg(c, "-device",
	    "virtio-net-pci,netdev=net0,mac=02:53:50:00:00:01,disable-legacy=on,romfile=");
	arg(c, "-device", "virtio-serial-pci,max_ports=2,disable-legacy=on,romfile=");
	arg(c, "-chardev", "socket,id=channel,fd=%d,server=on,wait=off", fds->channel);
	arg(c, "-device", "virtserialport,chardev=channel,name=org.space.agent.0");
	arg(c, "-object", "rng-builtin,id=rng0");
	arg(c, "-device", "virtio-rng-pci,rng=rng0,disable-legacy=on,romfile=");
	arg(c, "-device", "vmgenid,guid=%s", genid);
	arg(c, "-chardev", "socket,id=console,fd=%d", fds->console);
	arg(c, "-serial", "chardev:console");
}

static void bind_file(struct sp_vm_command *c, int fd, const char *from, const char *at)
{
	c->binds[c->nbinds++] = (struct sp_jail_bind){
		.from_fd = fd, .from = from, .at = at, .exec = from != NULL
	};
}

static int qemu_command(const struct sp_machine *m, const struct sp_vm_fds *fds, bool load,
			const char *cmdline, const char *genid, struct sp_vm_command *out,
			struct sp_err *e)
{
	static char shim[4096];

	memset(out, 0, sizeof *out);
	snprintf(out->path, sizeof out->path, "%s", PROGRAM);
	arg(out, "qemu-system-x86_64", NULL);
	machine_args(out, m, load);
	device_args(out, fds, genid);
	bind_file(out, fds->mem, NULL, "/mem");
	if (version_number(m->version) < 802) {
		if (sp_proc_helper("space-romem.so", shim, sizeof shim, e) < 0)
			return -1;
		bind_file(out, -1, shim, "/romem.so");
	}
	if (!load) {
		bind_file(out, fds->kernel, NULL, "/vmlinuz");
		bind_file(out, fds->initrd, NULL, "/initrd");
		arg(out, "-kernel", "/vmlinuz");
		arg(out, "-initrd", "/initrd");
		arg(out, "-append", "%s", cmdline);
	}
	return 0;
}

static void qemu_detach(struct sp_vm **vm)
{
	if (!*vm)
		return;
	sp_buf_free(&(*vm)->qmp.in);
	sp_fd_close(&(*vm)->qmp.fd);
	free(*vm);
	*vm = NULL;
}

static struct sp_vm *qemu_attach(int control_fd, struct sp_err *e)
{
	struct sp_vm *vm = sp_xcalloc(1, sizeof *vm);

	sp_qmp_init(&vm->qmp, control_fd);
	if (sp_qmp_greet(&vm->qmp, GREET_MS, e) < 0)
		qemu_detach(&vm);
	return vm;
}

static int qemu_load(struct sp_vm *vm, int state_fd, int ms, struct sp_err *e)
{
	static const char events[] =
		"{\"capabilities\":[{\"capability\":\"events\",\"state\":true}]}";
	struct sp_qmp *q = &vm->qmp;

	if (sp_qmp_call(q, "migrate-set-capabilities", events, -1, CALL_MS, NULL, e) < 0 ||
	    sp_qmp_call(q, "getfd", "{\"fdname\":\"state\"}", state_fd, CALL_MS, NULL, e) < 0 ||
	    sp_qmp_call(q, "migrate-incoming", "{\"uri\":\"fd:state\"}", -1, CALL_MS, NULL, e) < 0)
		return -1;
	return sp_qmp_await_migration(q, ms, e);
}

static int qemu_cont(struct sp_vm *vm, struct sp_err *e)
{
	return sp_qmp_call(&vm->qmp, "cont", NULL, -1, CALL_MS, NULL, e);
}

static int qemu_stop(struct sp_vm *vm, struct sp_err *e)
{
	return sp_qmp_call(&vm->qmp, "stop", NULL, -1, SAVE_MS, NULL, e);
}

static int qemu_save(struct sp_vm *vm, int state_fd, struct sp_err *e)
{
	sp_auto_fd fd = state_fd;
	sp_auto_json *set = NULL;
	char args[128];
	int id, rc;

	if (sp_qmp_call(&vm->qmp, "add-fd", "{}", fd, CALL_MS, &set, e) < 0)
		return -1;
	id = (int)sp_json_i64(set, "fdset-id", -1);
	snprintf(args, sizeof args, "{\"filename\":\"/dev/fdset/%d\",\"live\":false}", id);
	rc = sp_qmp_call(&vm->qmp, "xen-save-devices-state", args, -1, SAVE_MS, NULL, e);
	snprintf(args, sizeof args, "{\"fdset-id\":%d}", id);
	if (rc == 0)
		rc = sp_qmp_call(&vm->qmp, "remove-fd", args, -1, CALL_MS, NULL, e);
	return rc;
}

static int qemu_state(struct sp_vm *vm, enum sp_vm_state *out, struct sp_err *e)
{
	sp_auto_json *ret = NULL;
	const char *status;

	if (sp_qmp_call(&vm->qmp, "query-status", NULL, -1, CALL_MS, &ret, e) < 0)
		return -1;
	status = sp_json_str(ret, "status");
	*out = SP_VM_PAUSED;
	if (status && strcmp(status, "running") == 0)
		*out = SP_VM_RUNNING;
	else if (status && strcmp(status, "io-error") == 0)
		*out = SP_VM_STOPPED_IO;
	else if (status &&
		 (strcmp(status, "shutdown") == 0 || strcmp(status, "guest-panicked") == 0))
		*out = SP_VM_ENDED;
	return 0;
}

static int qemu_quit(struct sp_vm *vm, struct sp_err *e)
{
	return sp_qmp_call(&vm->qmp, "quit", NULL, -1, CALL_MS, NULL, e);
}

static int qemu_fd(const struct sp_vm *vm)
{
	return vm->qmp.fd;
}

static int qemu_events(struct sp_vm *vm, enum sp_vm_state *out, struct sp_err *e)
{
	int rc;

	vm->qmp.told = SP_VM_UNKNOWN;
	rc = sp_qmp_drain(&vm->qmp, e);
	*out = vm->qmp.told;
	return rc;
}

const struct sp_engine sp_engine_qemu = {
	.name = "qemu",
	.probe = qemu_probe,
	.command = qemu_command,
	.attach = qemu_attach,
	.detach = qemu_detach,
	.load = qemu_load,
	.cont = qemu_cont,
	.stop = qemu_stop,
	.save = qemu_save,
	.state = qemu_state,
	.quit = qemu_quit,
	.fd = qemu_fd,
	.events = qemu_events,
};
