# `make demo` and `make test` do all set-up themselves on a fresh Debian 12 machine, each what it needs and no more. `cargo test` needs
# Rust alone.

CARGO ?= cargo
PREFIX ?= /usr/local
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release
WORKLOAD := $(RELEASE)/libheadstart_workload.a
PROGRAMS := build/patterns build/patterns.mpich build/latency build/ranks build/stopped build/null.so

.PHONY: help setup setup-demo setup-package build install install-lab package test-package FORCE demo test check-handshake check-protocols soak fuzz bench-client bench-carl bench-cluster bench-sim bench-volume lint clean

help:
	@echo "make demo          the main job, for real: an MPI program on emulated file servers, with and without Headstart"
	@echo "cargo test         the tests that need nothing but Rust, in minutes"
	@echo "make test          every test"
	@echo "make bench-client  what Headstart gains and costs, as one JSON object (half an hour)"
	@echo "make bench-carl    what placing regions by a traced run gains, as one JSON object (half an hour)"
	@echo "make bench-cluster what several nodes of one directory gain and cost, as one JSON object (half an hour)"
	@echo "make bench-sim     what the simulator says of the papers, and how fast it is, as one JSON object (minutes)"
	@echo "make bench-volume  what a volume gains and costs, as one JSON object (half an hour)"
	@echo "make soak          the randomised tests for longer; CASES=N multiplies them, FAULTS=N are those of a cluster (200)"
	@echo "make fuzz          every parser under cargo-fuzz; SECONDS=N for each of them (60)"
	@echo "make install       builds and installs the program and its libraries below PREFIX (/usr/local); needs cargo alone"
	@echo "make install-lab   the same of headstart-lab: the simulator, the papers' figures, emulated servers"
	@echo "make package       makes Debian packages of client, server and lab, in build/package"
	@echo "make test-package  installs them in a root of their own, uses them there and removes them"
	@echo "make setup         installs what make test lacks (make setup-demo: what the demo lacks) and says what for; the targets above do it themselves"
	@echo "make lint          documents, formatting and clippy"

setup:
	@lab/bench/setup.sh test

setup-demo:
	@lab/bench/setup.sh demo

setup-package:
	@lab/bench/setup.sh package

build: setup $(PROGRAMS)
	$(CARGO) build --release --workspace

# Manual pages and completion of a command, where man and shells look for them.
SHARE = $(DESTDIR)$(PREFIX)/share
define install_documents
	$(RELEASE)/$(1) manual $(SHARE)/man/man1
	install -d $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	$(RELEASE)/$(1) completion bash >$(SHARE)/bash-completion/completions/$(1)
	$(RELEASE)/$(1) completion zsh >$(SHARE)/zsh/site-functions/_$(1)
	$(RELEASE)/$(1) completion fish >$(SHARE)/fish/vendor_completions.d/$(1).fish
endef

# Where the libraries go, which only the program and nbdkit load: the program finds its own in ../lib/headstart.
LIBRARIES ?= $(PREFIX)/lib/headstart
NBDKIT_PLUGINS ?= $(PREFIX)/lib/headstart
# Where systemd looks.
UNITS ?= $(PREFIX)/lib/systemd/system
SYSUSERS ?= $(PREFIX)/lib/sysusers.d

# What users and servers need, without the set-up for tests.
install:
	$(CARGO) build --release --package headstart-cli --package headstart-preload --package headstart-nbdkit
	install -D -t $(DESTDIR)$(PREFIX)/bin $(RELEASE)/headstart
	install -D -m 644 -t $(DESTDIR)$(LIBRARIES) $(RELEASE)/libheadstart.so
	install -D -m 644 $(RELEASE)/libnbdkit_headstart_plugin.so $(DESTDIR)$(NBDKIT_PLUGINS)/nbdkit-headstart-plugin.so
	$(call install_documents,headstart)
	install -d $(SHARE)/doc/headstart/examples
	$(RELEASE)/headstart site example >$(SHARE)/doc/headstart/examples/site.toml
	install -m 644 -t $(SHARE)/doc/headstart/examples packaging/volume.toml
	install -D -m 644 -t $(DESTDIR)$(UNITS) packaging/headstart-volumes.target
	sed 's|@PREFIX@|$(PREFIX)|' packaging/headstart-volume@.service.in >$(DESTDIR)$(UNITS)/headstart-volume@.service
	install -D -m 644 packaging/headstart.sysusers $(DESTDIR)$(SYSUSERS)/headstart.conf

# The simulator, the papers' figures and emulated servers.
install-lab:
	$(CARGO) build --release --package headstart-lab
	install -D -t $(DESTDIR)$(PREFIX)/bin $(RELEASE)/headstart-lab
	$(call install_documents,headstart-lab)

# Packages of this tree as it is, in build/package. debhelper wants a directory of its own to work in, and a home for Cargo that it
# does not replace; Rust need not come from a package.
package: setup-package
	rm -rf build/package && mkdir -p build/package/work
	cp -R debian build/package/work/
	cd build/package/work && SOURCE=$(CURDIR) CARGO_HOME=$${CARGO_HOME:-$$HOME/.cargo} RUSTUP_HOME=$${RUSTUP_HOME:-$$HOME/.rustup} \
		dpkg-buildpackage --build=binary --unsigned-source --unsigned-changes --no-check-builddeps
	rm -rf build/package/work

# In a root with nothing else: packages in, a program and a volume, packages out.
test-package: package
	packaging/test_package.py

# The generator of requests. Cargo knows what it is made of, and leaves the file alone where nothing has changed.
$(WORKLOAD): FORCE | setup-demo
	$(CARGO) build --release --package headstart-workload

build/patterns: $(wildcard lab/bench/patterns/*.[ch]) $(WORKLOAD) | setup-demo
	@mkdir -p build
	mpicc.openmpi -O2 -Wall -Wextra -Werror -Wl,--gc-sections -o $@ $(wildcard lab/bench/patterns/*.c) $(WORKLOAD) -lm

# The same with MPICH, from where `make setup` puts it; not made where there is none.
build/patterns.mpich: $(wildcard lab/bench/patterns/*.[ch]) $(WORKLOAD) | setup
	@if [ -x build/python/bin/mpicc ]; then \
		build/python/bin/mpicc -O2 -Wall -Wextra -Werror -Wl,--gc-sections -o $@ $(wildcard lab/bench/patterns/*.c) $(WORKLOAD) -lm; \
	fi

build/latency build/ranks build/stopped: build/%: lab/bench/%.c | setup-demo
	@mkdir -p build
	cc -O2 -std=c11 -Wall -Wextra -Werror -o $@ $<

build/null.so: lab/bench/null/null.c | setup-demo
	@mkdir -p build
	cc -O2 -std=gnu11 -Wall -Wextra -Werror -fPIC -shared -o $@ $< -ldl

demo: setup-demo build/patterns
	$(CARGO) build --release --package headstart-cli --package headstart-preload --package headstart-lab
	@python3 lab/bench/demo.py

bench-client: build
	$(CARGO) build --release --package headstart-agent --example map_bytes
	@python3 lab/bench/client.py

bench-carl: build
	@python3 lab/bench/carl.py

bench-cluster: build
	$(CARGO) build --release --package headstart-sim --example member_bytes
	@python3 lab/bench/cluster.py

bench-sim: build
	$(CARGO) build --release --package headstart-sim --examples
	@python3 lab/bench/sim.py

bench-volume: build
	$(CARGO) build --release --package headstart-volume --examples
	@python3 lab/bench/volume.py

test: build
	$(CARGO) build --workspace --all-targets
	$(CARGO) test --workspace --no-fail-fast -- --show-output
	$(MAKE) check-protocols check-handshake

# The protocols of spec/ against every interleaving of small cases.
build/protocol/%: spec/%.cpp spec/explorer.hpp | setup
	@mkdir -p $(@D)
	c++ -O2 -std=c++17 -Wall -o $@ $<

check-protocols: build/protocol/client build/protocol/sizes build/protocol/volume
	build/protocol/client check
	build/protocol/sizes check
	build/protocol/volume check

# The model checker has atomics of its own, hence a target directory of its own.
check-handshake:
	RUSTFLAGS="--cfg loom" $(CARGO) test --package headstart-protocol --release --target-dir target/loom --test handshake

soak: build build/protocol/client build/protocol/sizes build/protocol/volume
	build/protocol/client check all
	build/protocol/sizes check all
	SECONDS_EACH=$${SECONDS_EACH:-100} build/protocol/volume check all
	DEEP=1 LOOM_MAX_PREEMPTIONS=$${PREEMPTIONS:-4} RUSTFLAGS="--cfg loom" $(CARGO) test --package headstart-protocol --release \
		--target-dir target/loom --test handshake a_granule_goes
	DEEP=1 $(CARGO) test --release --package headstart-cluster
	CASES=$${CASES:-50} $(CARGO) test --package headstart-parsers
	$(CARGO) build --workspace
	CASES=$${CASES:-50} $(CARGO) test --release --package headstart-overlay --package headstart-block --package headstart-agent -- --nocapture crash
	CASES=$${CASES:-50} $(CARGO) test --release --package headstart-volume --test serving -- --nocapture power_cuts
	FAULTS=$${FAULTS:-200} $(CARGO) test --release --package headstart-cli --test chaos -- --nocapture --test-threads=1 no_read
	$(MAKE) test-package

fuzz:
	@lab/fuzz/run.sh $(or $(SECONDS),60)

lint: setup
	@docs/check.py
	$(CARGO) fmt --all --check
	python3 docs/internals/constants.py
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTFLAGS="--cfg loom" $(CARGO) clippy --package headstart-protocol --release --target-dir target/loom --test handshake -- -D warnings

clean:
	rm -rf build target lab/fuzz/target
