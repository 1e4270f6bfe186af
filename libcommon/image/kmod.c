/* SPDX-License-Identifier: Apache-2.0 */
#include "image/kmod.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static bool is_inside(uint64_t at, uint64_t len, size_t n)
{
	return at <= n && len <= n - at;
}

/* Fills dst from "key=value" when s (len bytes) begins with key; a value too long is cut to
 * nothing, which then fails where it is needed. */
static void take_value(const char *s, size_t len, const char *key, char *dst, size_t cap)
{
	size_t k = strlen(key);

	if (len < k || memcmp(s, key, k) != 0)
		return;
	len -= k;
	if (len >= cap)
		len = 0;
	memcpy(dst, s + k, len);
	dst[len] = '\0';
}

static void read_modinfo(const char *p, size_t n, struct sp_kmod_info *out)
{
	const char *end = p + n;

	while (p < end) {
		size_t len = strnlen(p, (size_t)(end - p));

		take_value(p, len, "depends=", out->depends, sizeof out->depends);
		take_value(p, len, "vermagic=", out->release, sizeof out->release);
		p += len + 1;
	}
	out->release[strcspn(out->release, " ")] = '\0';
}

int sp_kmod_parse(const unsigned char *elf, size_t n, struct sp_kmod_info *out)
{
	Elf64_Ehdr h;
	Elf64_Shdr names, s;
	const char *name;

	memset(out, 0, sizeof *out);
	if (n < sizeof h)
		return -1;
	memcpy(&h, elf, sizeof h);
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
	    h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_type != ET_REL ||
	    h.e_shentsize != sizeof s || h.e_shstrndx >= h.e_shnum ||
	    !is_inside(h.e_shoff, (uint64_t)h.e_shnum * sizeof s, n))
		return -1;
	memcpy(&names, elf + h.e_shoff + (size_t)h.e_shstrndx * sizeof s, sizeof names);
	if (!is_inside(names.sh_offset, names.sh_size, n))
		return -1;
	for (unsigned int i = 0; i < h.e_shnum; i++) {
		memcpy(&s, elf + h.e_shoff + (size_t)i * sizeof s, sizeof s);
		if (!is_inside(s.sh_name, sizeof ".modinfo", names.sh_size) ||
		    s.sh_type != SHT_PROGBITS || !is_inside(s.sh_offset, s.sh_size, n))
			continue;
		name = (const char *)elf + names.sh_offset + s.sh_name;
		if (memcmp(name, ".modinfo", sizeof ".modinfo") != 0)
			continue;
		read_modinfo((const char *)elf + s.sh_offset, s.sh_size, out);
		return out->release[0] ? 0 : -1;
	}
	return -1;
}

int sp_kmod_name(const char *path, char out[static SP_KMOD_NAME])
{
	const char *base = strrchr(path, '/');
	const char *end;
	size_t n;

	base = base ? base + 1 : path;
	end = strstr(base, ".ko");
	if (!end || (end[3] && strcmp(end, ".ko.gz") != 0 && strcmp(end, ".ko.xz") != 0 &&
		     strcmp(end, ".ko.zst") != 0))
		return -1;
	n = (size_t)(end - base);
	if (!n || n >= SP_KMOD_NAME)
		return -1;
	for (size_t i = 0; i < n; i++) {
		char c = base[i] == '-' ? '_' : base[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '_'))
			return -1;
		out[i] = c;
	}
	out[n] = '\0';
	return 0;
}

/* The boot protocol (Documentation/arch/x86/boot.rst): "HdrS" at 0x202, and at 0x20e where, less
 * 0x200, the text is that begins with the release. */
int sp_kernel_release(const unsigned char *head, size_t n, char out[static 64])
{
	size_t at, len;

	if (n < 0x210 || memcmp(head + 0x202, "HdrS", 4) != 0)
		return -1;
	at = (size_t)(head[0x20e] | head[0x20f] << 8) + 0x200;
	if (at == 0x200 || at >= n)
		return -1;
	for (len = 0; len < 63 && at + len < n; len++) {
		char c = (char)head[at + len];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      (len && (c == '.' || c == '_' || c == '+' || c == '-' || c == '~'))))
			break;
		out[len] = c;
	}
	out[len] = '\0';
	return len && at + len < n && (head[at + len] == ' ' || !head[at + len]) ? 0 : -1;
}

void sp_kmods_free(struct sp_kmods *set)
{
	for (size_t i = 0; i < set->n; i++)
		free(set->mod[i].depends);
	free(set->mod);
	free(set->builtin);
	*set = (struct sp_kmods){ 0 };
}

static struct sp_kmod *find(const struct sp_kmods *set, const char *name)
{
	for (size_t i = 0; i < set->n; i++)
		if (strcmp(set->mod[i].name, name) == 0)
			return &set->mod[i];
	return NULL;
}

int sp_kmods_add(struct sp_kmods *set, const char *name, const char *depends, off_t at, size_t size,
		 struct sp_err *e)
{
	struct sp_kmod *m;

	if (find(set, name))
		return 0;
	if (set->n == SP_KMOD_MAX)
		return sp_fail(e, SP_FAIL, 0, "more than %d kernel modules", SP_KMOD_MAX);
	if (set->n == set->cap) {
		size_t cap = set->cap ? set->cap * 2 : 1024;

		m = sp_xcalloc(cap, sizeof *m);
		if (set->n)
			memcpy(m, set->mod, set->n * sizeof *m);
		free(set->mod);
		set->mod = m;
		set->cap = cap;
	}
	m = &set->mod[set->n++];
	snprintf(m->name, sizeof m->name, "%s", name);
	m->depends = sp_xstrdup(depends);
	m->at = at;
	m->size = size;
	return 0;
}

bool sp_kmods_is_builtin(const struct sp_kmods *set, const char *name)
{
	const char *p = set->builtin, *end;
	char line[256], found[SP_KMOD_NAME];

	for (; p && *p; p = *end ? end + 1 : end) {
		end = p + strcspn(p, "\n");
		if ((size_t)(end - p) >= sizeof line)
			continue;
		memcpy(line, p, (size_t)(end - p));
		line[end - p] = '\0';
		if (sp_kmod_name(line, found) == 0 && strcmp(found, name) == 0)
			return true;
	}
	return false;
}

int sp_kmods_order(struct sp_kmods *set, const char *name, bool optional,
		   size_t order[static SP_KMOD_ORDER], size_t *n, struct sp_err *e)
{
	struct sp_kmod *m = find(set, name);
	char need[SP_KMOD_NAME];
	const char *p;
	size_t len;

	if (!m && (optional || sp_kmods_is_builtin(set, name)))
		return 0;
	if (!m)
		return sp_fail(e, SP_FAIL, 0, "the kernel has no module '%s'", name);
	if (m->taken)
		return 0;
	if (m->visiting)
		return sp_fail(e, SP_FAIL, 0, "module '%s' needs itself", name);
	m->visiting = true;
	for (p = m->depends; *p; p += len + (p[len] == ',')) {
		len = strcspn(p, ",");
		if (len >= sizeof need)
			return sp_fail(e, SP_FAIL, 0, "module '%s' needs something without a name",
				       name);
		memcpy(need, p, len);
		need[len] = '\0';
		for (char *c = need; *c; c++)
			if (*c == '-')
				*c = '_';
		if (len && sp_kmods_order(set, need, false, order, n, e) < 0)
			return -1;
	}
	m->visiting = false;
	if (*n == SP_KMOD_ORDER)
		return sp_fail(e, SP_FAIL, 0, "more than %d modules for one guest", SP_KMOD_ORDER);
	m->taken = true;
	order[(*n)++] = (size_t)(m - set->mod);
	return 0;
}
