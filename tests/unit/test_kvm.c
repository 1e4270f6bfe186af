/* SPDX-License-Identifier: Apache-2.0 */
/* The KVM probe comes to a verdict, gives a reason, keeps it, and does not believe a stale file. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/fs.h"
#include "tap.h"
#include "vmm/engine.h"

#define CACHE "/run/space-kvm"

static void read_cache(struct sp_str *out)
{
	struct sp_err e;

	sp_str_clear(out);
	if (sp_fs_read(AT_FDCWD, CACHE, 4096, out, &e) < 0)
		sp_str_clear(out);
}

static void write_cache(const char *text)
{
	int fd = open(CACHE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	ok(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text),
	   "another cache: %.20s", text);
	close(fd);
}

int main(void)
{
	sp_auto_str first = SP_STR_INIT, now = SP_STR_INIT;
	char why[256] = "", again[256] = "";
	int verdict, fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		verdict = sp_kvm_probe(why, sizeof why);
		ok(verdict == 0 && strstr(why, "/dev/kvm"), "no /dev/kvm, no KVM: %s", why);
		return tap_done();
	}
	close(fd);
	verdict = sp_kvm_probe(why, sizeof why);
	ok(verdict == 0 || verdict == 1, "a verdict: %s", verdict ? "yes" : "no");
	ok(why[0] && !strchr(why, '\n'), "a reason: %s", why);
	read_cache(&first);
	ok(strncmp(first.p, sp_clock_boot_id(), 36) == 0 && strstr(first.p, why), "they are kept");
	ok(sp_kvm_probe(again, sizeof again) == verdict, "the same verdict again");
	is_str(again, why, "for the same reason");
	write_cache("nonsense\n");
	ok(sp_kvm_probe(again, sizeof again) == verdict, "nonsense is not believed");
	write_cache(verdict ? "00000000-0000-0000-0000-000000000000 1 no because\n" :
			      "00000000-0000-0000-0000-000000000000 1 yes because\n");
	ok(sp_kvm_probe(again, sizeof again) == verdict, "nor is what another boot found");
	read_cache(&now);
	is_str(now.p, first.p, "and both are replaced");
	return tap_done();
}
