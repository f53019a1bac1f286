# SPDX-License-Identifier: Apache-2.0
# A thin front for meson, ninja and tools/. `make` alone says what there is.

PREFIX  ?= /usr/local
DESTDIR ?=
ARGS    ?=
RELEASE ?=
BUILD   := build
# What a user runs: the last four are for cay bench.
PROGRAMS := cay cay-launch cay-init bench/floor bench/peers bench/gate bench/proxies

.PHONY: help build demo test test-long test-vm test-vm-short test-arm64 conformance test-cluster coverage bench bench-compare format lint install deb clean setup-build
.DEFAULT_GOAL := help

help:
	@echo 'make build         build/cay with the page, cay-launch and cay-init; installs missing packages first (as root)'
	@echo 'make demo          a sandbox in a few seconds, and what else Cay does; KEEP=1 leaves it running'
	@echo 'make test          everything that must pass before a change goes in'
	@echo 'make test-long     the same, with the tests that take minutes, a search by the fuzzers and planted faults'
	@echo 'make test-arm64    the unit tests of a cross build for arm64, run by qemu-user; part of test-long'
	@echo 'make conformance   runs the tests that carry numbers of cases, and says of every case whether it holds, or why nobody asks; ARGS=--gaps shows what is missing'
	@echo 'make coverage      which lines the tests reach, those in launchers and slots included; ARGS=... go to tools/coverage'
	@echo 'make test-cluster  the controllers and the router against a real kube-apiserver'
	@echo 'make test-vm       the package on stock Debian 12 and 13, booted by qemu: installed, used, limited, killed, upgraded, rebooted, purged; RELEASE=13 is one of them; ARGS=... go to tests/vm/run'
	@echo 'make test-vm-short a part of it in one boot: installation, limits, restarts, on Debian 12 or RELEASE=13'
	@echo 'make bench         claims, bursts, cold starts, exec and memory on a server of its own beside the floors of this machine; ARGS=... go to cay bench; ARGS=node measures runtimes, policies and images'
	@echo 'make bench-compare BASE=COMMIT: builds it and this tree, measures both in turn, and says which differences exceed the noise; ARGS=... as above'
	@echo 'make format        clang-format over all C files'
	@echo 'make lint          layers, format, citations, types of the page, clang-tidy over all C files; what has not changed since it was clean is not looked at again'
	@echo 'make install       to $$DESTDIR$$PREFIX (PREFIX=$(PREFIX))'
	@echo 'make deb           build/cay_VERSION_ARCH.deb, see packaging/README.md; ARCH=arm64 builds it for that, on any machine; ARGS=... go to packaging/build-deb'
	@echo 'make clean         removes $(BUILD)/'

setup-build:
	@tools/setup build

$(BUILD)/build.ninja: | setup-build
	meson setup $(BUILD) -Dlto=auto

build: setup-build $(BUILD)/build.ninja
	ninja -C $(BUILD) $(PROGRAMS)

demo:
	@tools/setup build run test
	@$(MAKE) --no-print-directory build
	@KEEP='$(KEEP)' tools/demo

test test-long:
	@tools/timed tools/setup build check run test $(if $(filter test-long,$@),package vm cross-arm64)
	@tools/timed tools/setup-venv
	@tools/timed tools/setup-root
	@tools/run-tests $(if $(filter test-long,$@),--long) $(ARGS)

test-arm64:
	@tools/setup build cross-arm64
	@tools/run-tests arm64

conformance:
	@tools/setup build run test
	@tools/setup-venv
	@tools/setup-root
	@tools/conformance $(ARGS)

coverage:
	@tools/setup build check run test
	@tools/setup-venv
	@tools/setup-root
	@tools/coverage $(ARGS)

test-cluster:
	@tools/setup build run test
	@$(MAKE) --no-print-directory build
	@tools/setup-venv
	@build/venv/bin/python tests/cluster/run

test-vm test-vm-short:
	@tools/setup build package vm
	@tests/vm/run $(if $(filter test-vm-short,$@),--short) $(if $(RELEASE),--release $(RELEASE)) $(ARGS)

bench:
	@tools/setup build run test bench
	@$(MAKE) --no-print-directory build
	tools/bench $(ARGS)

bench-compare:
	@tools/setup build run test
	@tools/bench-compare $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(BASE),$(BASE),$(error name a commit: make bench-compare BASE=HEAD~1)) -- $(ARGS)

format:
	@tools/setup check
	@tools/check-format --fix

lint:
	@tools/setup build check test
	@tools/check-layers
	@tools/check-format
	@tools/check-citations
	@tools/check-page
	@tools/check-tidy

install: build
	install -D -m 755 $(BUILD)/cay '$(DESTDIR)$(PREFIX)/bin/cay'
	install -D -m 755 $(BUILD)/cay-launch '$(DESTDIR)$(PREFIX)/libexec/cay/cay-launch'
	install -D -m 755 $(BUILD)/cay-init '$(DESTDIR)$(PREFIX)/libexec/cay/cay-init'
	for p in floor peers import; do install -D -m 755 $(BUILD)/bench/$$p '$(DESTDIR)$(PREFIX)/libexec/cay/'$$p; done
	for p in $$($(BUILD)/cay man --list); do \
		mkdir -p '$(DESTDIR)$(PREFIX)/share/man/man'$${p##*.} && \
		$(BUILD)/cay man $${p%.*} >'$(DESTDIR)$(PREFIX)/share/man/man'$${p##*.}/$$p || exit 1; \
	done

deb:
	@tools/setup build package $(if $(ARCH),$(if $(filter-out $(shell dpkg --print-architecture),$(ARCH)),cross-$(ARCH)))
	@packaging/build-deb $(if $(ARCH),--arch $(ARCH)) $(ARGS)

clean:
	rm -rf $(BUILD)
