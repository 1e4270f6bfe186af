/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up modules, kernels and packages. */
#ifndef SP_TESTS_KERNEL_RIG_H
#define SP_TESTS_KERNEL_RIG_H

#include <archive.h>
#include <archive_entry.h>
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

#define RELEASE "6.1.0-1-test-amd64"

/* A module with just the sections that say what it is. */
__attribute__((unused)) static void make_module(struct sp_str *out, const char *release,
						 const char *depends)
{
	static const char names[] = "\0.shstrtab\0.modinfo";
	Elf64_Ehdr h = { .e_type = ET_REL,
			 .e_machine = EM_X86_64,
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = 3,
			 .e_shstrndx = 1 };
	Elf64_Shdr s[3] = { { 0 } };
	sp_auto_str info = SP_STR_INIT;

	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	h.e_shoff = sizeof h;
	sp_str_addf(&info, "license=GPL%cdepends=%s%cvermagic=%s SMP preempt%c", 0, depends, 0,
		    release, 0);
	s[1] = (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_STRTAB, .sh_size = sizeof names,
			     .sh_offset = sizeof h + sizeof s };
	s[2] = (Elf64_Shdr){ .sh_name = 11, .sh_type = SHT_PROGBITS, .sh_size = info.len,
			     .sh_offset = sizeof h + sizeof s + sizeof names };
	sp_str_clear(out);
	sp_str_addn(out, &h, sizeof h);
	sp_str_addn(out, s, sizeof s);
	sp_str_addn(out, names, sizeof names);
	sp_str_addn(out, info.p, info.len);
}

/* The head of a bzImage. */
__attribute__((unused)) static void make_kernel(struct sp_str *out, const char *release)
{
	unsigned char head[1024] = { 0 };

	memcpy(head + 0x202, "HdrS", 4);
	head[0x20e] = 0x80; /* text at 0x280 */
	snprintf((char *)head + 0x280, 256, "%s (someone@somewhere) #1 SMP", release);
	sp_str_clear(out);
	sp_str_addn(out, head, sizeof head);
}

struct rig_file {
	const char *path;
	const void *data;
	size_t n;
	const char *link; /* symbolic, instead of data */
};

__attribute__((unused)) static la_ssize_t rig_write(struct archive *a, void *arg, const void *data,
						     size_t n)
{
	(void)a;
	sp_str_addn(arg, data, n);
	return (la_ssize_t)n;
}

__attribute__((unused)) static void make_tar(struct sp_str *out, const struct rig_file *files,
					      size_t n)
{
	struct archive *a = archive_write_new();
	struct archive_entry *e = archive_entry_new();

	archive_write_set_format_pax_restricted(a);
	archive_write_add_filter_xz(a);
	archive_write_set_bytes_in_last_block(a, 1);
	archive_write_open(a, out, NULL, rig_write, NULL);
	for (size_t i = 0; i < n; i++) {
		archive_entry_clear(e);
		archive_entry_set_pathname(e, files[i].path);
		archive_entry_set_mode(e, files[i].link ? S_IFLNK | 0777 : S_IFREG | 0644);
		if (files[i].link)
			archive_entry_set_symlink(e, files[i].link);
		archive_entry_set_size(e, files[i].link ? 0 : (la_int64_t)files[i].n);
		archive_write_header(a, e);
		if (!files[i].link)
			archive_write_data(a, files[i].data, files[i].n);
	}
	archive_write_close(a);
	archive_write_free(a);
	archive_entry_free(e);
}

/* A descriptor of a package that holds the files. */
__attribute__((unused)) static int make_deb(const struct rig_file *files, size_t n)
{
	sp_auto_str tar = SP_STR_INIT, deb = SP_STR_INIT;
	struct archive *a = archive_write_new();
	struct archive_entry *e = archive_entry_new();
	struct rig_file parts[2] = { { "debian-binary", "2.0\n", 4, NULL },
				     { "data.tar.xz", NULL, 0, NULL } };
	int fd = memfd_create("deb", MFD_CLOEXEC);

	make_tar(&tar, files, n);
	parts[1].data = tar.p;
	parts[1].n = tar.len;
	archive_write_set_format_ar_svr4(a);
	archive_write_set_bytes_in_last_block(a, 1);
	archive_write_open(a, &deb, NULL, rig_write, NULL);
	for (size_t i = 0; i < 2; i++) {
		archive_entry_clear(e);
		archive_entry_set_pathname(e, parts[i].path);
		archive_entry_set_mode(e, S_IFREG | 0644);
		archive_entry_set_size(e, (la_int64_t)parts[i].n);
		archive_write_header(a, e);
		archive_write_data(a, parts[i].data, parts[i].n);
	}
	archive_write_close(a);
	archive_write_free(a);
	archive_entry_free(e);
	if (write(fd, deb.p, deb.len) != (ssize_t)deb.len || lseek(fd, 0, SEEK_SET) < 0)
		abort();
	return fd;
}

#endif
