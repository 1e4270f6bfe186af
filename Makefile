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
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null)
LIBS := $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null)

ALL_CFLAGS = $(BASE) $(WARN) $(HARDEN) $(SAN) $(PKG_CFLAGS) $(CFLAGS)
ALL_LDFLAGS = $(LINK) $(SAN) $(LDFLAGS)

# What goes where. Tools are bin/space*.c; those listed in HELPERS are installed in libexec.
HELPERS  := space-monitor
SRCS     := $(filter-out libcommon/agent/% libcommon/vmm/romem.c,$(sort $(wildcard libcommon/*/*.c)))
OBJS     := $(SRCS:%.c=$(B)/obj/%.o)
TOOLS    := $(filter-out space-guest $(HELPERS),$(patsubst bin/%.c,%,$(sort $(wildcard bin/*.c))))
PROGRAMS := $(TOOLS) $(filter $(HELPERS),$(patsubst bin/%.c,%,$(wildcard bin/*.c)))

# The guest agent: static, musl, its own sources and the few shared ones.
GUEST_SRCS := bin/space-guest.c $(sort $(wildcard libcommon/agent/*.c)) libcommon/guest/frame.c \
	libcommon/guest/tree.c libcommon/base/buf.c libcommon/base/str.c libcommon/base/err.c
GUEST_OBJS := $(GUEST_SRCS:%.c=$(B)/guest/%.o)
GUEST_CFLAGS := $(BASE) $(WARN) -Os -ffunction-sections -fdata-sections -fstack-protector-strong \
	-idirafter /usr/include -idirafter /usr/include/$(shell $(CC) -dumpmachine)

.PHONY: all
all: ## build every program into build/bin (the default)
all: $(B)/libcommon.a $(PROGRAMS:%=$(B)/bin/%) $(if $(wildcard bin/space-guest.c),$(B)/bin/space-guest) \
	$(if $(wildcard libcommon/vmm/romem.c),$(B)/bin/space-romem.so)

$(B)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(B)/guest/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(if $(Q),@echo "  GUESTCC $<")
	$(Q)$(GUEST_CC) $(GUEST_CFLAGS) -c -o $@ $<

$(B)/libcommon.a: $(OBJS)
	$(if $(Q),@echo "  AR      $@")
	$(Q)rm -f $@ && $(AR) rcsD $@ $^

$(B)/bin/space-guest: $(GUEST_OBJS)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  GUESTLD $@")
	$(Q)$(GUEST_CC) -static -Wl,--gc-sections -Wl,--build-id=none -s -o $@ $^

$(B)/bin/%: $(B)/obj/bin/%.o $(B)/libcommon.a
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $< $(B)/libcommon.a $(LIBS)

# The preloaded shim that opens a machine's memory file read-only (see its source for why).
$(B)/bin/space-romem.so: libcommon/vmm/romem.c Makefile
	@mkdir -p $(@D)
	$(if $(Q),@echo "  SO      $@")
	$(Q)$(CC) $(BASE) -U_FILE_OFFSET_BITS $(WARN) -O2 -fPIC -shared -fvisibility=hidden -Wl,--build-id=none \
		-Wl,-z,relro,-z,now -o $@ $<

# Unit tests: each tests/unit/test_*.c is a program that prints TAP.
UNITS := $(patsubst tests/unit/%.c,$(B)/unit/%,$(sort $(wildcard tests/unit/test_*.c)))
$(B)/unit/%: tests/unit/%.c $(B)/libcommon.a Makefile
	@mkdir -p $(@D)
	$(if $(Q),@echo "  UNIT    $@")
	$(Q)$(CC) $(ALL_CFLAGS) -Itests/unit $(ALL_LDFLAGS) -o $@ $< $(B)/libcommon.a $(LIBS)

.PHONY: units
units: $(UNITS) ## build the unit tests

.PHONY: clean
clean: ## remove build/
	rm -rf $(B)

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | sort | expand -t 14

-include $(OBJS:.o=.d) $(GUEST_OBJS:.o=.d) $(wildcard $(B)/obj/bin/*.d) $(wildcard $(B)/unit/*.d)
.SECONDARY:
