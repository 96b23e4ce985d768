# SPDX-License-Identifier: GPL-2.0-or-later
# kpemu: `make demo` and `make check` are all one needs; docs/HACKING.md has the rest.
#
# V=1 shows the commands, WERROR=-Werror makes warnings errors, DEPS= skips the look for packages.

# Places. (CC and AR have values of make's own, cc and ar, unless the environment gives others.)
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
bindir ?= $(PREFIX)/bin
libdir ?= $(PREFIX)/lib
libexecdir ?= $(PREFIX)/libexec
includedir ?= $(PREFIX)/include
mandir ?= $(PREFIX)/share/man

# Tools.
CC ?= cc
AR ?= ar
NM ?= nm
OBJDUMP ?= objdump
GCOV ?= gcov
INSTALL ?= install
PYTHON ?= python3
CLANG_FORMAT ?= clang-format
DEPS ?= .ci/deps

# Flags: CFLAGS, CPPFLAGS, LDFLAGS and LDLIBS are the user's, the kp_ ones what kpemu needs.
CFLAGS ?= -O2 -g
WERROR ?=
# What tells one variant of the build from another: sanitizers, coverage, the kill build.
VARIANT ?=

kp_warnings := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wformat=2
kp_cppflags := -D_GNU_SOURCE -Iinclude -I.
kp_cflags := -std=gnu11 $(kp_warnings) -fvisibility=hidden
# (The last keeps loops of emu/lib/text.h from being made calls of strlen().)
kp_pic := -fPIC -ftls-model=initial-exec -ffunction-sections -fno-tree-loop-distribute-patterns
# Two segments instead of four, and no page that is written and then protected: every segment of the
# library is mapped, faulted in and unmapped again by every program that starts.
kp_preload_ldflags := -shared -nostartfiles -Wl,-z,now -Wl,-z,defs -Wl,-Bsymbolic \
	-Wl,-z,noseparate-code -Wl,-z,norelro

kp_explore := -Iemu/sim/explore/seam -ffunction-sections
kp_explore_ldflags := -Wl,--gc-sections
# So that plain accesses are seen too: emu/sim/explore/vcpu.c has the functions that are called then.
kp_plain_calls := -fsanitize=thread

compile = $(CC) $(kp_cppflags) $(CPPFLAGS) $(kp_cflags) $(CFLAGS) $(WERROR) $(VARIANT) -MMD -MP
compile_explore = $(CC) $(kp_explore) $(kp_cppflags) $(CPPFLAGS) $(kp_cflags) $(CFLAGS) $(WERROR) -MMD -MP
link = $(CC) $(CFLAGS) $(VARIANT) $(LDFLAGS)

# Sources. The model is what knows nothing of libc interposition; see tests/check-layers.sh.
model_dirs := emu/lib emu/world emu/kernel emu/ipc emu/mm emu/fs
model_src := $(wildcard $(addsuffix /*.c,$(model_dirs)))
preload_src := $(wildcard preload/*.c preload/*.S)
sim_src := $(wildcard emu/sim/*.c)
cmd_src := $(wildcard emu/cmd/*.c)
# The explorer: sources of the model compiled once more, with stand-ins for the seam's headers.
explore_model_src := $(wildcard emu/lib/percpu*.c emu/kernel/ucount*.c) emu/lib/split_counter.c \
	emu/world/world.c emu/kernel/exit.c emu/kernel/user_namespace.c
explore_src := $(wildcard emu/sim/explore/*.c emu/sim/explore/tests/*.c)
unit_src := $(wildcard tests/unit/*.c)
demo_src := $(wildcard demo/*.c)
program_src := $(wildcard tests/preload/*.c)
bench_lib_src := tests/bench/empty.c tests/bench/passthrough.c
bench_lines_src := tests/bench/ucounts-lines.c
bench_src := $(filter-out $(bench_lib_src) $(bench_lines_src),$(wildcard tests/bench/*.c))
# What is compiled once more to see which cache lines it touches; the rest comes from the library.
bench_seen_src := $(wildcard emu/lib/percpu*.c emu/kernel/ucount*.c) emu/lib/split_counter.c emu/kernel/user_namespace.c
tsan_src := $(wildcard tests/tsan/*.c)

obj = $(patsubst %.S,$(BUILD)/obj/%.S.o,$(patsubst %.c,$(BUILD)/obj/%.o,$(1)))
model_obj := $(call obj,$(model_src))
preload_obj := $(call obj,$(preload_src))
sim_obj := $(call obj,$(sim_src))
cmd_obj := $(call obj,$(cmd_src))
unit_obj := $(call obj,$(unit_src))
explore_obj := $(patsubst %.c,$(BUILD)/obj/explore/%.o,$(explore_src) $(explore_model_src))
bench_lines_obj := $(patsubst %.c,$(BUILD)/obj/lines/%.o,$(bench_lines_src) $(bench_seen_src))
lone_obj := $(call obj,$(demo_src) $(program_src) $(bench_src) $(tsan_src) $(bench_lib_src))

kpemu := $(BUILD)/kpemu
explore := $(BUILD)/kpemu-explore
library := $(BUILD)/libkpemu.a
preload := $(BUILD)/libkpemu-preload.so
unit := $(BUILD)/tests/unit
demos := $(demo_src:%.c=$(BUILD)/%)
programs := $(program_src:tests/preload/%.c=$(BUILD)/tests/%)
benches := $(bench_src:%.c=$(BUILD)/%)
counters := $(BUILD)/tests/bench/counters
ucounts := $(BUILD)/tests/bench/ucounts $(BUILD)/tests/bench/ucounts-lines
tsans := $(tsan_src:%.c=$(BUILD)/%)
bench_libs := $(bench_lib_src:tests/bench/%.c=$(BUILD)/tests/lib%.so)

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all demo check suites bench bench-counters bench-ucounts torture install uninstall deps \
	deps-extra asan ubsan tsan coverage format check-layers clean products kill-build tests \
	find-deps force

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-7s %s\n' $(1) $(2)
endif

all: products $(demos)

products: $(kpemu) $(explore) $(preload) $(library)

tests: $(unit) $(programs) $(counters) $(ucounts)

# Packages. Everything that is compiled waits for this look, which costs a few milliseconds.
find-deps:
	@$(if $(DEPS),$(DEPS) --quiet)

deps:
	@.ci/deps

deps-extra:
	@.ci/deps --extra

# Stamps: objects depend on the commands that make them, links on the set of objects too, so that
# other flags or a deleted source file are noticed.
define stamp
$(1): force
	@mkdir -p $$(@D)
	@printf '%s\n' '$$(subst ','\'',$(2))' | cmp -s - $$@ || \
		printf '%s\n' '$$(subst ','\'',$(2))' >$$@
endef
$(eval $(call stamp,$(BUILD)/flags,$(compile) | $(link) | $(kp_pic) | $(kp_preload_ldflags) | $(LDLIBS)))
$(eval $(call stamp,$(BUILD)/explore-flags,$(compile_explore) $(kp_plain_calls) | $(CC) $(CFLAGS) $(LDFLAGS) | $(kp_explore_ldflags) | $(LDLIBS)))
$(eval $(call stamp,$(BUILD)/objects,$(explore_obj) | $(model_obj) | $(preload_obj) | $(sim_obj) | $(cmd_obj) | $(unit_obj)))

$(BUILD)/obj/%.o: %.c $(BUILD)/flags | find-deps
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(compile) $(pic) -c -o $@ $<

$(BUILD)/obj/%.S.o: %.S $(BUILD)/flags | find-deps
	$(call say,AS,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(compile) $(pic) -c -o $@ $<

$(model_obj) $(preload_obj): pic := $(kp_pic)
$(filter-out $(BUILD)/obj/explore/emu/sim/explore/%,$(explore_obj)) \
$(filter $(BUILD)/obj/explore/emu/sim/explore/tests/%,$(explore_obj)): kp_plain := $(kp_plain_calls)

$(library): $(model_obj) $(BUILD)/objects
	$(call say,AR,$@)
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $(model_obj)

$(kpemu): $(cmd_obj) $(sim_obj) $(library) $(BUILD)/objects
	$(call say,LD,$@)
	$(Q)$(link) -o $@ $(cmd_obj) $(sim_obj) $(library) -ljansson -pthread $(LDLIBS)

$(BUILD)/obj/explore/%.o: %.c $(BUILD)/explore-flags | find-deps
	$(call say,CC,'$< (explorer)')
	$(Q)mkdir -p $(@D)
	$(Q)$(compile_explore) $(kp_plain) -c -o $@ $<

# Functions that need what the explorer has not are never called there, and are left out.
$(explore): $(explore_obj) $(BUILD)/objects
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(kp_explore_ldflags) -o $@ $(explore_obj) $(LDLIBS)

# The exported names are those of the table and nothing else.
$(BUILD)/preload.map: preload/names.def Makefile
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q){ echo '{ global:'; \
		sed -nE 's/^(SYS|FUN|HAND|ALIAS)\([[:space:]]*([A-Za-z0-9_]+)[[:space:]]*[,)].*/\t\2;/p' $< | \
		LC_ALL=C sort -u; echo 'local: *; };'; } >$@

$(preload): preload/process.ld $(preload_obj) $(library) $(BUILD)/preload.map $(BUILD)/objects
	$(call say,LD,$@)
	$(Q)$(link) $(kp_preload_ldflags) -Wl,-T,preload/process.ld \
		-Wl,--version-script=$(BUILD)/preload.map \
		-o $@ $(preload_obj) $(library)

# Programs of one source file. One whose name ends in -static is linked statically.
$(demos): $(BUILD)/demo/%: $(BUILD)/obj/demo/%.o
$(programs): $(BUILD)/tests/%: $(BUILD)/obj/tests/preload/%.o
$(benches): $(BUILD)/tests/bench/%: $(BUILD)/obj/tests/bench/%.o
$(demos) $(programs) $(benches):
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(link) $(if $(filter %-static,$@),-static) -o $@ $^ -lrt -pthread $(LDLIBS)
$(BUILD)/tests/bench/model $(BUILD)/tests/bench/ucounts $(counters) \
$(BUILD)/demo/rfc_defects: $(library)

$(BUILD)/obj/lines/%.o: %.c $(BUILD)/flags | find-deps
	$(call say,CC,'$< (lines)')
	$(Q)mkdir -p $(@D)
	$(Q)$(compile) -c -o $@ $<

$(bench_lines_obj): kp_cppflags := -Itests/bench/seam $(kp_cppflags)

# The objects stand in for those of the library.
$(BUILD)/tests/bench/ucounts-lines: $(bench_lines_obj) $(library) $(BUILD)/objects
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(link) -o $@ $(bench_lines_obj) $(library) -lrt -pthread $(LDLIBS)

$(bench_libs): pic := -fPIC
$(bench_libs): $(BUILD)/tests/lib%.so: $(BUILD)/obj/tests/bench/%.o
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(link) $(kp_preload_ldflags) -o $@ $<

$(unit): $(unit_obj) $(sim_obj) $(library) $(BUILD)/objects
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(link) -o $@ $(unit_obj) $(sim_obj) $(library) -lcriterion -lrt -pthread $(LDLIBS)

$(tsans): $(BUILD)/tests/tsan/%: $(BUILD)/obj/tests/tsan/%.o $(library)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(link) -o $@ $^ -lrt -pthread $(LDLIBS)

# Running things. Scripts find what was built in $BUILD and the interpreter in $PYTHON.
in_env = BUILD='$(abspath $(BUILD))' PYTHON='$(PYTHON)' CC='$(CC)' NM='$(NM)' OBJDUMP='$(OBJDUMP)'

demo: all
	$(Q)$(in_env) bash demo/demo.sh

check: all kill-build tests
	$(Q)$(in_env) tests/run-all

check-layers:
	$(Q)$(in_env) tests/check-layers.sh

# Long tests, by the same driver.
suites torture: all kill-build tests
	$(Q)$(in_env) tests/run-all --dir tests/$@

bench: all $(bench_libs) $(benches)
	$(Q)$(in_env) $(PYTHON) tests/bench/bench.py --build $(BUILD) $(BENCH_FLAGS)
	$(Q)for t in $(wildcard tests/bench/*.sh); do $(in_env) bash $$t || exit 1; done

bench-counters: $(counters)
	$(Q)$(PYTHON) tests/bench/counters.py --build $(BUILD) $(BENCH_FLAGS)

bench-ucounts: $(ucounts)
	$(Q)$(PYTHON) tests/bench/ucounts.py --build $(BUILD) $(BENCH_FLAGS)

# Variants: the same rules with another build directory.
variant = $(Q)+$(MAKE) --no-print-directory DEPS= BUILD=$(BUILD)/$(1) VARIANT='$(2)' \
	$(patsubst %,$(BUILD)/$(1)/%,$(3))

kill-build: | find-deps
	$(call variant,kill,-DKPEMU_KILL_STEPS,kpemu libkpemu-preload.so)

asan: | find-deps
	$(call variant,asan,-fsanitize=address -fno-omit-frame-pointer,tests/unit)
	$(Q)ASAN_OPTIONS=detect_leaks=0:$$ASAN_OPTIONS $(BUILD)/asan/tests/unit

ubsan: | find-deps
	$(call variant,ubsan,-fsanitize=undefined -fno-sanitize-recover=all,tests/unit)
	$(Q)$(BUILD)/ubsan/tests/unit

# Criterion aborts under TSan, so these are programs with a main of their own.
tsan: | find-deps
ifeq ($(tsan_src),)
	@echo 'tsan: there is no program in tests/tsan, nothing was tested'
else
	$(call variant,tsan,-fsanitize=thread,$(tsan_src:%.c=%))
	$(Q)for t in $(tsan_src:%.c=$(BUILD)/tsan/%); do echo "$$t"; $$t || exit 1; done
endif

coverage: | find-deps
	$(call variant,coverage,--coverage -fprofile-update=atomic,tests/unit)
	$(Q)find $(BUILD)/coverage -name '*.gcda' -delete
	$(Q)$(BUILD)/coverage/tests/unit
	$(Q)GCOV='$(GCOV)' tests/coverage.sh $(BUILD)/coverage/obj emu

format:
	$(Q)find emu include preload demo tests -name '*.[ch]' -exec $(CLANG_FORMAT) -i {} +

headers := $(wildcard include/kpemu/*.h)
manuals := $(wildcard docs/*.1)

install: products
	$(Q)$(INSTALL) -d $(DESTDIR)$(bindir) $(DESTDIR)$(libdir) $(DESTDIR)$(libexecdir) \
		$(DESTDIR)$(includedir)/kpemu
	$(Q)$(INSTALL) -m 755 $(kpemu) $(DESTDIR)$(bindir)/kpemu
	$(Q)$(INSTALL) -m 755 $(explore) $(DESTDIR)$(libexecdir)/kpemu-explore
	$(Q)$(INSTALL) -m 755 $(preload) $(DESTDIR)$(libdir)/libkpemu-preload.so
	$(Q)$(INSTALL) -m 644 $(library) $(DESTDIR)$(libdir)/libkpemu.a
ifneq ($(headers),)
	$(Q)$(INSTALL) -m 644 $(headers) $(DESTDIR)$(includedir)/kpemu
endif
ifneq ($(manuals),)
	$(Q)$(INSTALL) -d $(DESTDIR)$(mandir)/man1
	$(Q)$(INSTALL) -m 644 $(manuals) $(DESTDIR)$(mandir)/man1
endif

uninstall:
	$(Q)rm -f $(DESTDIR)$(bindir)/kpemu $(DESTDIR)$(libexecdir)/kpemu-explore \
		$(DESTDIR)$(libdir)/libkpemu-preload.so \
		$(DESTDIR)$(libdir)/libkpemu.a \
		$(headers:include/%=$(DESTDIR)$(includedir)/%) \
		$(manuals:docs/%=$(DESTDIR)$(mandir)/man1/%)
	$(Q)rmdir $(DESTDIR)$(includedir)/kpemu 2>/dev/null || true

clean:
	$(Q)rm -rf $(BUILD)

all_obj := $(explore_obj) $(model_obj) $(preload_obj) $(sim_obj) $(cmd_obj) $(unit_obj) $(lone_obj) \
	$(bench_lines_obj)
-include $(all_obj:.o=.d)
