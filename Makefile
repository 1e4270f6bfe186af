# SPDX-License-Identifier: Apache-2.0
# SPACE. `make help` lists the targets. No configure, no recursion; every variable below can be set.

PREFIX     ?= /usr/local
DESTDIR    ?=
CC         ?= gcc
GUEST_CC   ?= musl-gcc
PKG_CONFIG ?= pkg-config
AR         ?= ar
CFLAGS     ?= -O2 -g
B          ?= build
V          ?= 0
DEV        ?= 0

export LC_ALL = C
VERSION := $(shell cat VERSION)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH

# Asked when first used, not when this file is read: some targets install packages first.
lazy = $(eval $(1) := $(2))$($(1))

Q := $(if $(filter 1,$(V)),,@)

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
	-Wwrite-strings -Wformat=2 -Wno-format-nonliteral -Wswitch-enum -Wconversion \
	-Wno-sign-conversion $(if $(filter 1,$(DEV)),-Werror)
HARDEN := -fstack-protector-strong -fstack-clash-protection -fcf-protection -fPIE \
	-D_FORTIFY_SOURCE=2
BASE := -std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DSP_VERSION='"$(VERSION)"' \
	-DSP_LIBEXEC='"$(PREFIX)/libexec/space"' -Ilibcommon -ffile-prefix-map=$(CURDIR)=. -MMD -MP
LINK := -pie -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--as-needed -Wl,--build-id=none

PKGS := libcurl libcjson libbtrfsutil libarchive libseccomp ext2fs com_err libcrypto
PKG_CFLAGS = $(call lazy,PKG_CFLAGS,$(shell $(PKG_CONFIG) --cflags $(PKGS)))
LIBS = $(call lazy,LIBS,$(shell $(PKG_CONFIG) --libs $(PKGS)))

ALL_CFLAGS = $(BASE) $(WARN) $(HARDEN) $(PKG_CFLAGS) $(CFLAGS)
ALL_LDFLAGS = $(LINK) $(LDFLAGS)

# The one list of Debian packages: to build and run, then to test as well.
DEPS_BUILD := build-essential pkg-config musl-tools linux-libc-dev libcurl4-openssl-dev \
	libcjson-dev libbtrfsutil-dev libarchive-dev libseccomp-dev libext2fs-dev comerr-dev \
	libssl-dev qemu-system-x86 seabios btrfs-progs e2fsprogs util-linux iproute2 mmdebstrap \
	busybox-static ca-certificates kmod
DEPS_TEST := bats docker-registry skopeo umoci mandoc clang \
	clang-tidy clang-format libclang-rt-14-dev cppcheck shellcheck gcovr python3 zsh fish \
	bash-completion git curl xz-utils zstd systemd
# Targets that install packages before anything is built.
DEPS_FIRST := $(if $(filter check,$(MAKECMDGOALS)),deps)$(if $(filter demo,$(MAKECMDGOALS)),deps-build)

# What goes where. Tools are bin/space*.c; those listed in HELPERS are installed in libexec.
HELPERS  := space-monitor
SRCS     := $(filter-out libcommon/agent/% libcommon/vmm/romem.c,$(sort $(wildcard libcommon/*/*.c)))
NAMES    := $(patsubst bin/%.c,%,$(sort $(wildcard bin/*.c)))
TOOLS    := $(filter-out space-guest $(HELPERS),$(NAMES))
PROGRAMS := $(TOOLS) $(filter $(HELPERS),$(NAMES))
UNITS    := $(patsubst tests/unit/%.c,%,$(sort $(wildcard tests/unit/test_*.c)))
FUZZERS  := $(patsubst tests/fuzz/%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
GUEST    := $(if $(wildcard bin/space-guest.c),$(B)/bin/space-guest)
ROMEM    := $(if $(wildcard libcommon/vmm/romem.c),$(B)/bin/space-romem.so)

.PHONY: all
all: ## build every program into build/bin (the default)
all: $(B)/libcommon.a $(PROGRAMS:%=$(B)/bin/%) $(GUEST) $(ROMEM)

# One build tree: variant(folder, compiler, flags, word for the log). The plain one is build itself;
# sanitizers, coverage and analysis have theirs below it.
define variant
$(1)/obj/%.o: %.c Makefile | $(DEPS_FIRST)
	@mkdir -p $$(@D)
	$$(if $$(Q),@echo "  CC$(4)      $$<")
	$$(Q)$(2) $$(ALL_CFLAGS) $(3) -c -o $$@ $$<

$(1)/libcommon.a: $(SRCS:%.c=$(1)/obj/%.o)
	$$(if $$(Q),@echo "  AR$(4)      $$@")
	$$(Q)rm -f $$@ && $$(AR) rcsD $$@ $$^

$(1)/bin/%: $(1)/obj/bin/%.o $(1)/libcommon.a
	@mkdir -p $$(@D)
	$$(if $$(Q),@echo "  LD$(4)      $$@")
	$$(Q)$(2) $(3) $$(ALL_LDFLAGS) -o $$@ $$< $(1)/libcommon.a $$(LIBS)

$(1)/unit/%: tests/unit/%.c $(1)/libcommon.a Makefile
	@mkdir -p $$(@D)
	$$(if $$(Q),@echo "  UNIT$(4)    $$@")
	$$(Q)$(2) $$(ALL_CFLAGS) -Itests/unit $(3) $$(ALL_LDFLAGS) -o $$@ $$< $(1)/libcommon.a $$(LIBS)

-include $(SRCS:%.c=$(1)/obj/%.d) $(NAMES:%=$(1)/obj/bin/%.d) $(UNITS:%=$(1)/unit/%.d)
endef

SAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined -U_FORTIFY_SOURCE \
	-fno-omit-frame-pointer
$(eval $(call variant,$(B),$(CC),))
$(eval $(call variant,$(B)/asan,$(CC),$(SAN),-ASAN))
$(eval $(call variant,$(B)/cov,$(CC),--coverage -O0 -U_FORTIFY_SOURCE,-COV))
$(eval $(call variant,$(B)/fuzz,clang,$(SAN) -fsanitize=fuzzer-no-link,-FUZZ))
$(eval $(call variant,$(B)/clang,clang,-Werror,-CLANG))

# The guest agent: static, musl, its own sources and the few shared ones.
GUEST_SRCS := bin/space-guest.c $(sort $(wildcard libcommon/agent/*.c)) libcommon/guest/frame.c \
	libcommon/guest/tree.c libcommon/base/buf.c libcommon/base/str.c libcommon/base/err.c
GUEST_OBJS := $(GUEST_SRCS:%.c=$(B)/guest/%.o)
MACHINE = $(call lazy,MACHINE,$(shell $(CC) -dumpmachine))
GUEST_CFLAGS = $(BASE) $(WARN) -Os -ffunction-sections -fdata-sections -fstack-protector-strong \
	-idirafter /usr/include -idirafter /usr/include/$(MACHINE)

$(B)/guest/%.o: %.c Makefile | $(DEPS_FIRST)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  GUESTCC $<")
	$(Q)$(GUEST_CC) $(GUEST_CFLAGS) -c -o $@ $<

$(B)/bin/space-guest: $(GUEST_OBJS)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  GUESTLD $@")
	$(Q)$(GUEST_CC) -static -Wl,--gc-sections -Wl,--build-id=none -s -o $@ $^
-include $(GUEST_OBJS:.o=.d)

# The preloaded shim that opens a machine's memory file read-only (see its source for why).
$(B)/bin/space-romem.so: libcommon/vmm/romem.c Makefile | $(DEPS_FIRST)
	@mkdir -p $(@D) $(B)/obj
	$(if $(Q),@echo "  SO      $@")
	$(Q)$(CC) $(BASE) -U_FILE_OFFSET_BITS $(WARN) -O2 -fPIC -shared \
		-fvisibility=hidden -Wl,--build-id=none -Wl,-z,relro,-z,now \
		-MF $(B)/obj/romem.d -o $@ $<
-include $(B)/obj/romem.d

# Programs that stand in for real ones in tests; static, so that they run in an empty root.
FAKES := $(patsubst tests/fakes/%.c,$(B)/fakes/%,$(sort $(wildcard tests/fakes/*.c)))
$(B)/fakes/%: tests/fakes/%.c Makefile | $(DEPS_FIRST)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  FAKE    $@")
	$(Q)$(CC) $(BASE) $(WARN) -O1 -static -o $@ $<
-include $(FAKES:%=%.d)

.PHONY: units
units: $(UNITS:%=$(B)/unit/%) $(FAKES) ## build the unit tests, each a program that prints TAP

# Some drive the agent itself, in its test mode.
units asan coverage: | $(B)/bin/space-guest

.PHONY: unit
unit: units ## run the unit tests
	@tests/run unit

.PHONY: check
check: deps all units ## install what tests need, and run every test
	@tests/run

# The baselines that bench compares with: the bare engine, the agent without the tool.
BENCHES := $(patsubst tests/bench/%.c,$(B)/bench/%,$(sort $(wildcard tests/bench/*.c)))
$(B)/bench/%: tests/bench/%.c $(B)/libcommon.a Makefile
	@mkdir -p $(@D)
	$(if $(Q),@echo "  BENCH   $@")
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(B)/libcommon.a $(LIBS)

$(B)/bench/space-romem.so: $(B)/bin/space-romem.so
	@mkdir -p $(@D)
	$(Q)cp $< $@

.PHONY: bench
bench: all $(BENCHES) $(B)/bench/space-romem.so ## the promised numbers, as ratios against the bare engine in one run
	@tests/bench/run

.PHONY: demo
demo: deps-build all ## a sandbox's life on a Debian guest, step by step, from nothing
	@tests/demo.sh

.PHONY: asan
asan: $(PROGRAMS:%=$(B)/asan/bin/%) $(UNITS:%=$(B)/asan/unit/%) $(FAKES) ## unit tests under ASan and UBSan
	@B=$(B)/asan tests/run unit

.PHONY: coverage
coverage: $(UNITS:%=$(B)/cov/unit/%) $(FAKES) ## what the unit tests reach, by gcovr
	@find $(B)/cov -name '*.gcda' -delete
	@B=$(B)/cov tests/run unit
	@gcovr --root . --filter libcommon/ --object-directory $(B)/cov $(B)/cov | \
		tee $(B)/cov/report.txt

# Fuzzers: seeds are committed, what is found new stays in the build folder.
FUZZ_SECONDS ?= 10
$(B)/fuzz/run/%: tests/fuzz/%.c $(B)/fuzz/libcommon.a Makefile
	@mkdir -p $(@D)
	$(if $(Q),@echo "  FUZZER  $@")
	$(Q)clang $(ALL_CFLAGS) $(SAN) -fsanitize=fuzzer $(ALL_LDFLAGS) -o $@ $< \
		$(B)/fuzz/libcommon.a $(LIBS)
-include $(FUZZERS:%=$(B)/fuzz/run/%.d)

.PHONY: fuzz $(FUZZERS)
fuzz: $(FUZZERS) ## run each fuzzer for FUZZ_SECONDS (10)
$(FUZZERS): fuzz_%: $(B)/fuzz/run/fuzz_%
	@tests/run-fuzzer $* $(B)/fuzz $(FUZZ_SECONDS)

# Analysis. A stamp is as old as the object of its source, which knows its headers.
CHECKED := $(sort $(wildcard libcommon/*/*.c bin/*.c))
object = $(if $(filter libcommon/agent/% bin/space-guest,$(1)),$(B)/guest/$(1).o,$(if \
	$(filter libcommon/vmm/romem,$(1)),$(ROMEM),$(B)/obj/$(1).o))

.PHONY: lint lint-clang lint-tidy lint-analyzer lint-cppcheck lint-checks
lint: lint-checks lint-clang lint-cppcheck lint-tidy lint-analyzer ## every analyser and drift guard
lint-clang: $(B)/clang/libcommon.a $(PROGRAMS:%=$(B)/clang/bin/%) $(UNITS:%=$(B)/clang/unit/%)
lint-tidy: $(CHECKED:%.c=$(B)/lint/tidy/%.ok)
lint-analyzer: $(CHECKED:%.c=$(B)/lint/analyzer/%.ok)

.SECONDEXPANSION:
$(B)/lint/tidy/%.ok: %.c $$(call object,$$*) .clang-tidy
	@mkdir -p $(@D)
	$(if $(Q),@echo "  TIDY    $<")
	$(Q)clang-tidy --quiet $< -- $(filter-out -MMD -MP,$(BASE)) $(PKG_CFLAGS) \
		>$(@:.ok=.log) 2>/dev/null || { cat $(@:.ok=.log); exit 1; }
	@touch $@

# gcc 12's analyzer does not know the cleanup attribute, so every owned pointer and descriptor
# "leaks": the leak checker of `make asan` looks for those. Assigning a compound literal it takes
# for reading it; the compiler and clang's analyzer do that check better.
ANALYZER := -fanalyzer -fanalyzer-verbosity=1 -Wno-analyzer-malloc-leak -Wno-analyzer-fd-leak \
	-Wno-analyzer-use-of-uninitialized-value
$(B)/lint/analyzer/%.ok: %.c $$(call object,$$*)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  ANALYZE $<")
	$(Q)$(CC) $(filter-out -MMD -MP,$(BASE)) $(PKG_CFLAGS) -O1 -g $(ANALYZER) -Werror -S \
		-o /dev/null $<
	@touch $@

lint-cppcheck:
	$(if $(Q),@echo "  CPPCHECK")
	$(Q)cppcheck -q -j2 --std=c11 --enable=warning,performance,portability --inline-suppr \
		--error-exitcode=1 -D_GNU_SOURCE -Ilibcommon -DSP_VERSION='""' \
		-DSP_LIBEXEC='""' libcommon bin

lint-checks: all
	@tests/run checks

.PHONY: completions
completions: all ## generate completions/ from every tool's --describe
	@completions/generate $(B)/bin completions

.PHONY: repro
repro: ## build twice, in two folders, and compare every byte
	@tests/checks/repro

.PHONY: dist
dist: ## a tar of the commit, the same bytes every time
	git archive --format=tar --prefix=space-$(VERSION)/ HEAD | gzip -n >$(B)/space-$(VERSION).tar.gz

.PHONY: deps deps-build
deps: DEPS := $(DEPS_BUILD) $(DEPS_TEST)
deps: ## install the Debian packages for building and testing
	@tests/lib/deps $(DEPS)
deps-build: ## install only those for building and running
	@tests/lib/deps $(DEPS_BUILD)

# What is installed, by folder below PREFIX. uninstall takes away the same files.
files-bin := $(TOOLS:%=$(B)/bin/%)
files-libexec/space := $(filter-out $(files-bin),$(PROGRAMS:%=$(B)/bin/%)) $(GUEST) $(ROMEM)
files-share/bash-completion/completions := $(sort $(wildcard completions/bash/*))
files-share/zsh/site-functions := $(sort $(wildcard completions/zsh/*))
files-share/fish/vendor_completions.d := $(sort $(wildcard completions/fish/*))
files-share/doc/space := $(wildcard README.md LICENSE)
$(foreach n,1 5 7 8,$(eval files-share/man/man$(n) := $(sort $(wildcard man/*.$(n)))))
files-lib/systemd/system := $(sort $(wildcard systemd/*.service systemd/*.socket systemd/*.slice))
files-lib/sysusers.d := $(sort $(wildcard systemd/sysusers.d/*.conf))
files-lib/tmpfiles.d := $(sort $(wildcard systemd/tmpfiles.d/*.conf))
FOLDERS := bin libexec/space share/bash-completion/completions share/zsh/site-functions \
	share/fish/vendor_completions.d share/doc/space $(foreach n,1 5 7 8,share/man/man$(n)) \
	lib/systemd/system lib/sysusers.d lib/tmpfiles.d
TO := $(DESTDIR)$(PREFIX)

# put(folder): units name programs below /usr/local, which PREFIX replaces.
define put
	@install -d '$(TO)/$(1)'
	install -m $(if $(filter bin libexec/space,$(1)),755,644) $(files-$(1)) '$(TO)/$(1)/'
	$(if $(filter lib/%,$(1)),@sed -i 's|/usr/local/|$(PREFIX)/|g' \
		$(patsubst %,'$(TO)/$(1)/%',$(notdir $(files-$(1)))))

endef

define take
	@rm -f $(patsubst %,'$(TO)/$(1)/%',$(notdir $(files-$(1))))

endef

.PHONY: install uninstall
install: all ## install below DESTDIR and PREFIX (/usr/local)
	$(foreach d,$(FOLDERS),$(if $(files-$(d)),$(call put,$(d))))
uninstall: ## remove what install put there
	$(foreach d,$(FOLDERS),$(if $(files-$(d)),$(call take,$(d))))
	@rmdir '$(TO)/libexec/space' '$(TO)/share/doc/space' 2>/dev/null || true

.PHONY: clean
clean: ## remove build/
	rm -rf $(B)

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | sort | expand -t 14

.SECONDARY:
