/* SPDX-License-Identifier: Apache-2.0 */
/* Is KVM real? Some nested hypervisors offer a /dev/kvm that answers every ioctl and runs a BIOS,
 * while an ordinary 64-bit kernel hangs in it for ever. So a small guest does here what such a
 * kernel does in its first milliseconds: it runs in the upper half of long mode in ring 0, asks
 * cpuid, sets model-specific registers, control registers, descriptor tables, takes a page fault
 * and mends the page table, drops to ring 3 and comes back by a system call, and sleeps until the
 * timer of its local APIC wakes it. It counts its steps in memory that it shares with us, so a hang
 * has a place.
 *
 * The guest runs in a child that is killed at a deadline. The verdict is kept in /run/space-kvm
 * beside the boot id and the inode of /dev/kvm, which is another when the module was reloaded.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "sys/proc.h"
#include "vmm/engine.h"

#define DEADLINE_MS 2000
#define CACHE_DIR "/run"
#define CACHE "space-kvm"

/* The guest's memory. */
#define RAM (2u << 20)
#define HIGH 0xffffffff80000000ull /* where the kernel of Linux lives; maps the RAM from 0 */
enum place {
	PML4 = 0x1000,
	PDPT_LOW = 0x2000,
	PD_RAM = 0x3000,
	PT_RAM = 0x4000,
	PD_APIC = 0x5000,
	PDPT_HIGH = 0x6000,
	GDT = 0x7000,
	IDT = 0x8000,
	TSS = 0x9000,
	NOTES = 0xa000, /* u32: step reached; u32: what went wrong there */
	STACK = 0xf000,
	CODE = 0x10000,
	HOLE = 0x1f0000, /* the page that is absent at first */
};
#define DONE 11u

/* clang-format off */
__asm__(
"	.pushsection .rodata\n"
"	.balign 16\n"
"	.globl sp_kvm_guest, sp_kvm_guest_end\n"
"	.globl sp_kvm_guest_fault, sp_kvm_guest_tick, sp_kvm_guest_bad\n"
"	.hidden sp_kvm_guest, sp_kvm_guest_end\n"
"	.hidden sp_kvm_guest_fault, sp_kvm_guest_tick, sp_kvm_guest_bad\n"
"	.macro step n\n"
"	movl $\\n, (%rbx)\n"			/* rbx: NOTES */
"	.endm\n"
"sp_kvm_guest:\n"
"	movq $0xffffffff8000a000, %rbx\n"
"	step 1\n"				/* ring 0 */
"	movl %cs, %eax\n"
"	testl $3, %eax\n"
"	jnz 9f\n"
"	step 2\n"				/* cpuid: long mode */
"	pushq %rbx\n"
"	movl $0x80000001, %eax\n"
"	cpuid\n"
"	popq %rbx\n"
"	btl $29, %edx\n"
"	jnc 9f\n"
"	step 3\n"				/* EFER: system calls */
"	movl $0xc0000080, %ecx\n"
"	rdmsr\n"
"	movl %eax, %esi\n"
"	orl $1, %eax\n"
"	wrmsr\n"
"	rdmsr\n"
"	orl $1, %esi\n"
"	cmpl %esi, %eax\n"
"	jne 9f\n"
"	step 4\n"				/* CR4.PGE, CR0.WP, a new CR3 */
"	movq %cr4, %rax\n"
"	orq $0x80, %rax\n"
"	movq %rax, %cr4\n"
"	movq %cr4, %rcx\n"
"	cmpq %rax, %rcx\n"
"	jne 9f\n"
"	movq %cr0, %rax\n"
"	orq $0x10000, %rax\n"
"	movq %rax, %cr0\n"
"	movq %cr0, %rcx\n"
"	cmpq %rax, %rcx\n"
"	jne 9f\n"
"	movq %cr3, %rax\n"
"	movq %rax, %cr3\n"
"	step 5\n"				/* descriptor tables of its own */
"	subq $16, %rsp\n"
"	movw $0x3f, (%rsp)\n"
"	movq $0xffffffff80007000, %rax\n"
"	movq %rax, 2(%rsp)\n"
"	lgdt (%rsp)\n"
"	movw $0xfff, (%rsp)\n"
"	movq $0xffffffff80008000, %rax\n"
"	movq %rax, 2(%rsp)\n"
"	lidt (%rsp)\n"
"	addq $16, %rsp\n"
"	movl $0x28, %eax\n"
"	ltr %ax\n"
"	pushq $0x08\n"
"	leaq 1f(%rip), %rax\n"
"	pushq %rax\n"
"	lretq\n"
"1:	movl $0x10, %eax\n"
"	movl %eax, %ds\n"
"	movl %eax, %ss\n"
"	step 6\n"				/* per-CPU data the way kernels keep it */
"	movl $0xc0000101, %ecx\n"
"	xorl %edx, %edx\n"
"	movl $0x1234000, %eax\n"
"	wrmsr\n"
"	movl $0xc0000102, %ecx\n"
"	movl $-1, %edx\n"
"	movl $0x8000a000, %eax\n"
"	wrmsr\n"
"	swapgs\n"
"	cmpl $6, %gs:0\n"
"	jne 9f\n"
"	rdmsr\n"
"	cmpl $0x1234000, %eax\n"
"	jne 9f\n"
"	step 7\n"				/* a page fault, mended */
"	movq $0xffffffff801f0000, %rdi\n"
"	movl $0x600d, (%rdi)\n"
"	cmpl $0x600d, (%rdi)\n"
"	jne 9f\n"
"	cmpl $1, 8(%rbx)\n"
"	jne 9f\n"
"	step 8\n"				/* ring 3 and back */
"	movl $0xc0000081, %ecx\n"		/* STAR */
"	xorl %eax, %eax\n"
"	movl $0x00130008, %edx\n"
"	wrmsr\n"
"	movl $0xc0000082, %ecx\n"		/* LSTAR */
"	leaq 2f(%rip), %rax\n"
"	movl $-1, %edx\n"
"	wrmsr\n"
"	movl $0xc0000084, %ecx\n"		/* SFMASK */
"	movl $0x200, %eax\n"
"	xorl %edx, %edx\n"
"	wrmsr\n"
"	movq %rsp, %rbp\n"
"	leaq 3f(%rip), %rcx\n"			/* where ring 3 goes on: the lower half */
"	subq $-0x80000000, %rcx\n"
"	movl $0x2, %r11d\n"
"	sysretq\n"
"3:	movl %cs, %eax\n"
"	movl %eax, %r8d\n"
"	syscall\n"
"2:	movq %rbp, %rsp\n"
"	andl $3, %r8d\n"
"	cmpl $3, %r8d\n"
"	jne 9f\n"
"	movl %cs, %eax\n"
"	testl $3, %eax\n"
"	jnz 9f\n"
"	step 9\n"				/* the APIC's timer */
"	movl $0xfee00000, %edi\n"
"	movl $0x1ff, 0xf0(%rdi)\n"
"	movl $0x40, 0x320(%rdi)\n"
"	movl $0xb, 0x3e0(%rdi)\n"
"	movl $100000, 0x380(%rdi)\n"
"4:	sti\n"
"	hlt\n"
"	cli\n"
"	cmpl $1, 12(%rbx)\n"
"	jne 4b\n"
"	step 10\n"				/* an old-style interrupt controller's port */
"	inb $0x21, %al\n"
"	step 11\n"
"	movb $0x5a, %al\n"
"	outb %al, $0xf4\n"
"5:	hlt\n"
"	jmp 5b\n"
"9:	movb $1, %al\n"				/* a wrong answer */
"	outb %al, $0xf4\n"
"	jmp 5b\n"

"sp_kvm_guest_fault:\n"				/* error code on the stack */
"	pushq %rax\n"
"	movq %cr2, %rax\n"
"	cmpq %rdi, %rax\n"
"	jne 9b\n"
"	incl 8(%rbx)\n"
"	orl $1, 0xffffffff80004f80\n"		/* the hole's entry in PT_RAM */
"	invlpg (%rdi)\n"
"	popq %rax\n"
"	addq $8, %rsp\n"
"	iretq\n"
"sp_kvm_guest_tick:\n"
"	incl 12(%rbx)\n"
"	movl $0, 0xb0(%rdi)\n"
"	iretq\n"
"sp_kvm_guest_bad:\n"
"	movb $2, %al\n"
"	outb %al, $0xf4\n"
"	jmp 5b\n"
"sp_kvm_guest_end:\n"
"	.popsection\n"
);
/* clang-format on */

extern const unsigned char sp_kvm_guest[], sp_kvm_guest_end[];
extern const unsigned char sp_kvm_guest_fault[], sp_kvm_guest_tick[], sp_kvm_guest_bad[];

static const char *const steps[DONE + 1] = {
	"entering long mode",
	"ring 0",
	"cpuid",
	"writing EFER",
	"control registers",
	"descriptor tables",
	"per-CPU data",
	"a page fault",
	"a system call",
	"the timer",
	"a port",
	"the end",
};

static void put64(unsigned char *ram, uint64_t at, uint64_t v)
{
	memcpy(ram + at, &v, sizeof v);
}

static void put_gate(unsigned char *ram, unsigned int n, const unsigned char *handler)
{
	uint64_t at = HIGH + CODE + (uint64_t)(handler - sp_kvm_guest);

	put64(ram, IDT + 16 * n, (at & 0xffff) | 0x08ull << 16 | 0x8eull << 40 |
				 (at >> 16 & 0xffff) << 48);
	put64(ram, IDT + 16 * n + 8, at >> 32);
}

static void fill_ram(unsigned char *ram)
{
	uint64_t tss = HIGH + TSS;

	/* present, writable, for ring 3 too; the upper half's RAM is the lower half's */
	put64(ram, PML4, PDPT_LOW | 7);
	put64(ram, PML4 + 8 * 511, PDPT_HIGH | 7);
	put64(ram, PDPT_LOW, PD_RAM | 7);
	put64(ram, PDPT_LOW + 8 * 3, PD_APIC | 7);
	put64(ram, PDPT_HIGH + 8 * 510, PD_RAM | 7);
	put64(ram, PD_RAM, PT_RAM | 7);
	put64(ram, PD_APIC + 8 * 503, 0xfee00000ull | 0x93); /* one large page, not cached */
	for (uint64_t i = 0; i < 512; i++)
		put64(ram, PT_RAM + 8 * i, i << 12 | (i << 12 == HOLE ? 6 : 7));
	put64(ram, GDT + 8, 0x00af9b000000ffff);  /* 08 code */
	put64(ram, GDT + 16, 0x00cf93000000ffff); /* 10 data */
	put64(ram, GDT + 24, 0x00cff3000000ffff); /* 18 data of ring 3 */
	put64(ram, GDT + 32, 0x00affb000000ffff); /* 20 code of ring 3 */
	put64(ram, GDT + 40,
	      0x67 | (tss & 0xffffff) << 16 | 0x89ull << 40 | (tss >> 24 & 0xff) << 56);
	put64(ram, GDT + 48, tss >> 32);
	put64(ram, TSS + 4, HIGH + STACK);
	for (unsigned int n = 0; n < 32; n++)
		put_gate(ram, n, sp_kvm_guest_bad);
	put_gate(ram, 14, sp_kvm_guest_fault);
	put_gate(ram, 0x40, sp_kvm_guest_tick);
	/* cppcheck-suppress comparePointers ; two labels of one piece of code */
	memcpy(ram + CODE, sp_kvm_guest, (size_t)(sp_kvm_guest_end - sp_kvm_guest));
}

static struct kvm_segment segment(uint16_t selector, uint8_t type, uint8_t s)
{
	return (struct kvm_segment){ .limit = 0xffffffff, .selector = selector, .type = type,
				     .present = 1, .s = s, .g = s, .l = type == 11 && s,
				     .db = s && type != 11 };
}

static int set_registers(int vcpu)
{
	struct kvm_regs regs = { .rip = HIGH + CODE, .rsp = HIGH + STACK, .rflags = 2 };
	struct kvm_sregs s;

	if (ioctl(vcpu, KVM_GET_SREGS, &s) < 0)
		return -1;
	s.cs = segment(0x08, 11, 1);
	s.ds = s.es = s.fs = s.gs = s.ss = segment(0x10, 3, 1);
	s.tr = segment(0x28, 11, 0);
	s.tr.base = HIGH + TSS;
	s.tr.limit = 0x67;
	s.gdt = (struct kvm_dtable){ .base = HIGH + GDT, .limit = 0x3f };
	s.idt = (struct kvm_dtable){ .base = HIGH + IDT, .limit = 0xfff };
	s.cr0 = 0x80000033; /* PG NE ET MP PE */
	s.cr3 = PML4;
	s.cr4 = 0x20;   /* PAE */
	s.efer = 0x500; /* LMA LME */
	if (ioctl(vcpu, KVM_SET_SREGS, &s) < 0)
		return -1;
	return ioctl(vcpu, KVM_SET_REGS, &regs);
}

static int set_cpuid(int kvm, int vcpu)
{
	enum { ENTRIES = 256 };
	size_t n = sizeof(struct kvm_cpuid2) + ENTRIES * sizeof(struct kvm_cpuid_entry2);
	sp_auto_free struct kvm_cpuid2 *c = sp_xcalloc(1, n);

	c->nent = ENTRIES;
	if (ioctl(kvm, KVM_GET_SUPPORTED_CPUID, c) < 0)
		return -1;
	return ioctl(vcpu, KVM_SET_CPUID2, c);
}

/* Runs until the guest has spoken. */
static int run_guest(int vcpu, const struct kvm_run *run, char *why, size_t n)
{
	for (;;) {
		if (ioctl(vcpu, KVM_RUN, 0) < 0) {
			if (errno == EINTR || errno == EAGAIN)
				continue;
			snprintf(why, n, "running: %s", strerror(errno));
			return 0;
		}
		if (run->exit_reason == KVM_EXIT_IO && run->io.port == 0xf4) {
			unsigned char v = *((const unsigned char *)run + run->io.data_offset);

			if (v == 0x5a)
				return 1;
			snprintf(why, n, "%s", v == 1 ? "wrong answer" : "unexpected exception");
			return 0;
		}
		if (run->exit_reason == KVM_EXIT_IO)
			continue;
		snprintf(why, n, "exit reason %u", run->exit_reason);
		return 0;
	}
}

static int make_and_run(unsigned char *ram, char *why, size_t n)
{
	struct kvm_userspace_memory_region region = { .memory_size = RAM,
						      .userspace_addr = (uintptr_t)ram };
	sp_auto_fd kvm = -1, vm = -1, vcpu = -1;
	struct kvm_run *run;
	int size;

	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0 || ioctl(kvm, KVM_GET_API_VERSION, 0) != KVM_API_VERSION) {
		snprintf(why, n, "open: %s", strerror(errno));
		return 0;
	}
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	/* the pages that processors without "unrestricted guest" need, out of the way */
	if (vm < 0 || size <= 0 || ioctl(vm, KVM_SET_TSS_ADDR, 0xfffbd000) < 0 ||
	    ioctl(vm, KVM_CREATE_IRQCHIP, 0) < 0 ||
	    ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) < 0) {
		snprintf(why, n, "making a machine: %s", strerror(errno));
		return 0;
	}
	vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	run = vcpu < 0 ? MAP_FAILED :
			 mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (run == MAP_FAILED || set_cpuid(kvm, vcpu) < 0 || set_registers(vcpu) < 0) {
		snprintf(why, n, "making a processor: %s", strerror(errno));
		return 0;
	}
	return run_guest(vcpu, run, why, n);
}

/* What parent and child share; ram comes after it. */
struct shared {
	int done, yes;
	char why[128];
};

static int run_with_deadline(char *why, size_t n)
{
	size_t size = 4096 + RAM;
	struct shared *sh =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned char *ram = (unsigned char *)sh + 4096;
	sp_auto_fd pidfd = -1;
	uint32_t step;
	pid_t pid;
	int yes = 0;

	if (sh == MAP_FAILED) {
		snprintf(why, n, "no memory");
		return -1;
	}
	fill_ram(ram);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		sh->yes = make_and_run(ram, sh->why, sizeof sh->why);
		sh->done = 1;
		_exit(0);
	}
	pidfd = pid < 0 ? -1 : pidfd_open(pid, 0);
	if (pidfd < 0) {
		snprintf(why, n, "no process: %s", strerror(errno));
		yes = -1;
	} else if (sp_proc_await(pidfd, DEADLINE_MS) <= 0) {
		pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	}
	if (pid > 0 && (pidfd < 0 || sp_proc_await(pidfd, DEADLINE_MS) > 0))
		waitpid(pid, NULL, 0);
	memcpy(&step, ram + NOTES, sizeof step);
	if (yes == 0 && sh->done && sh->yes && step == DONE)
		yes = 1;
	else if (yes == 0)
		snprintf(why, n, "a 64-bit guest %s at %s%s%s", sh->done ? "fails" : "hangs",
			 steps[step <= DONE ? step : 0], sh->done ? ": " : "",
			 sh->done ? sh->why : "");
	munmap(sh, size);
	return yes;
}

/* 1 yes, 0 no, -1 not known. */
static int read_cache(int run, ino_t ino, char *why, size_t n)
{
	sp_auto_str text = SP_STR_INIT;
	char boot[40], verdict[4], reason[200];
	unsigned long long inode;
	struct stat st;
	struct sp_err e;

	if (run < 0 || fstatat(run, CACHE, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid != 0 ||
	    (st.st_mode & 022) || sp_fs_read(run, CACHE, 1024, &text, &e) < 0)
		return -1;
	if (sscanf(text.p, "%39s %llu %3s %199[^\n]", boot, &inode, verdict, reason) != 4 ||
	    strcmp(boot, sp_clock_boot_id()) != 0 || inode != ino)
		return -1;
	snprintf(why, n, "%s", reason);
	return strcmp(verdict, "yes") == 0;
}

static void write_cache(int run, ino_t ino, int yes, const char *why)
{
	sp_auto_str text = SP_STR_INIT;
	struct sp_err e;

	sp_str_addf(&text, "%s %llu %s %s\n", sp_clock_boot_id(), (unsigned long long)ino,
		    yes ? "yes" : "no", why);
	/* without it the next one finds out again */
	if (run >= 0)
		(void)sp_fs_replace(run, CACHE, text.p, text.len, 0644, &e);
}

int sp_kvm_probe(char *why, size_t n)
{
	sp_auto_fd kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	sp_auto_fd run = -1;
	struct stat st;
	int yes;

	if (kvm < 0 || fstat(kvm, &st) < 0) {
		snprintf(why, n, errno == ENOENT ? "there is no /dev/kvm" : "/dev/kvm: %s",
			 strerror(errno));
		return 0;
	}
	sp_fd_close(&kvm);
	run = open(CACHE_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	yes = read_cache(run, st.st_ino, why, n);
	if (yes >= 0)
		return yes;
	/* a host that is out of breath gets a second chance: the verdict is for long */
	yes = run_with_deadline(why, n);
	if (yes == 0)
		yes = run_with_deadline(why, n);
	if (yes == 1)
		snprintf(why, n, "a 64-bit guest runs");
	if (yes >= 0)
		write_cache(run, st.st_ino, yes, why);
	return yes == 1;
}
