# Diorama's verbs. `make demo` is where to start; `make test` is what has to pass.

CARGO := scripts/cargo
# Arguments of the benchmark: `make bench BENCH='--triples 1 web-busy'` is a quick look.
BENCH :=

# A kernel, and options of scripts/stock: `make test-stock STOCK='6.12 --systemd'` is one of the guests. And words: with
# CHECKS='killed service' only the checks whose names contain one of them.
STOCK :=
CHECKS :=

# Cases from outside: a directory of folders, each with a test.sh that ends with 0 where Diorama is right.
# `make cases CASES=dir` runs all; with CHECKS='mtu link' only those whose names contain one of these words.
CASES :=

.PHONY: all root machine setup setup-tests setup-lint fmt lint doc build check test cases test-stock test-stock-quick stock-ready attack fuzz promises \
	conformance conformance-compose demo bench deb tarball image test-packages test-browser python clean
.NOTPARALLEL:

all: build

setup:
	scripts/setup

setup-tests:
	scripts/setup --tests

setup-lint:
	scripts/setup --lint

build:
	$(CARGO) build --locked --release --workspace --bins

fmt:
	$(CARGO) fmt --all

lint: setup-lint
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) test --locked --quiet --package diorama-rules
	$(MAKE) --no-print-directory doc

doc:
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --locked --workspace --no-deps

# Cargo builds the programs that the tests run, and tells them where they are. Some tests interrupt them, which would be
# ignored if whoever called make ignores it, as a script's `&` does.
test: machine setup-tests
	env --default-signal=INT,HUP $(CARGO) test --locked --workspace --no-fail-fast

# No root, no services, no experiment: style, lints, and all tests of what is pure. Tests beside the code that need root are
# in modules called `as_root`; of the programs in crates/*/tests these need none.
PURE := pure mutated layering pages queue tree
check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) test --locked --quiet --workspace --no-fail-fast --lib --bins $(PURE:%=--test %) -- --skip as_root::

cases: machine setup build
	@scripts/cases '$(CASES)' $(CHECKS)

# On the distributions' own kernels, in emulated machines that boot as these do, and as they did with control groups of
# version 1. Of what experiments need this machine itself may lack everything but root.
# 6.8 is Ubuntu's: `make test-stock UBUNTU=URL` says where its packages are, where apt does not know.
GUESTS := '6.1' '6.1 --systemd' '6.1 --groups 1' '6.1 --groups hybrid --systemd' '6.12 --smp 4' '6.12 --systemd'
UBUNTU :=
export UBUNTU
ifneq ($(UBUNTU)$(shell grep -sq '^ID=ubuntu' /etc/os-release && echo here),)
GUESTS += '6.8 --systemd'
endif
test-stock: stock-ready
	@$(call in-guests,$(if $(STOCK),'$(STOCK)',$(GUESTS)),$(CHECKS),5400)

# The same for whoever cannot wait: what fails first where something is wrong, and nothing that depends on
# how fast the guests are. All of it has a quarter of an hour, of which a machine at rest takes half; on one that is too
# busy for that nothing is judged, and said so (4).
test-stock-quick: PATIENCE := 240
test-stock-quick: stock-ready
	@end=$$(($$(date +%s) + 840)); $(call in-guests,'6.1' '6.12 --systemd',$(QUICK),$$((end - $$(date +%s))),4)
QUICK := machine 'doctor prints' 'doctor finds' dilate: run: 'killed in the'

# Of the programs only the one that guests run: those of the trials are not for them.
stock-ready: root
	scripts/setup --stock
	$(CARGO) build --locked --release --package diorama --bins

# in-guests GUESTS,WORDS,SECONDS[,CODE]: the checks of these words in each of the guests, which has so many seconds. What
# fails makes all fail, but for this code, which is no judgement. A guest in which something fails, or that ends by itself
# (125), is booted once more, and has to pass then: emulated processors now and then execute what the kernel has just
# replaced in its own code, as each run has it do that attaches its programs. What hangs fails after PATIENCE seconds.
PATIENCE := 600
in-guests = status=0; for guest in $(1); do for again in once ''; do \
		echo "== $$guest"; code=0; scripts/stock $$guest --bare --limit $(3) -- \
			env STOCK_PATIENCE=$(PATIENCE) scripts/stock-checks $(2) || code=$$?; \
		case $$code in 0$(if $(4), | $(4))) break ;; esac; \
	done; if [ $$code = "$(4)" ]; then echo "$$guest: not judged: this machine is too busy"; \
	elif [ $$code != 0 ]; then status=1; fi; done; exit $$status

# The promises of SPECIFICATION.md, each by its command: twenty minutes, on a machine that does nothing else.
promises: machine setup build
	@scripts/promises

# Attacks, in guests in which one that succeeds hurts nobody, one for each file of scripts/attacks.d: an hour on a machine at
# rest. `make attack CHECKS='image root'` are those whose names contain one of the words, in one guest. One that ends by
# itself is booted once more, as those of test-stock are. `scripts/attack --here` has what is harmless on this machine itself.
attack: stock-ready
	@status=0; for part in $(if $(CHECKS),any,$$(scripts/attack --parts)); do for again in once ''; do \
		[ $$part = any ] || echo "== $$part"; code=0; scripts/stock 6.12 --systemd --bare --limit 5400 -- \
			scripts/attack $(if $(CHECKS),$(CHECKS),--part $$part) || code=$$?; \
		[ $$code = 125 ] || break; \
	done; [ $$code = 0 ] || status=$$code; done; exit $$status

# Each reader of what others wrote, guided by what its inputs reach, for so many minutes, at low priority:
# `make fuzz MINUTES=1 READERS='yaml site'`.
MINUTES := 10
READERS :=
fuzz: root
	scripts/setup --fuzz
	scripts/fuzz $(MINUTES) $(READERS)

# Other people's programs and tests, natively and dilated: half an hour, and a gigabyte of packages. No registry has LTP and
# Shadow: `make conformance LTP=/opt/ltp SHADOW=~/shadow` runs their tests, too, which takes another half hour.
conformance: root setup build
	SHADOW='$(SHADOW)' scripts/setup --conformance
	target/release/diorama-trials conformance --into docs/compatibility.md
	target/release/diorama-trials behaviours --into docs/compatibility.md
	target/release/diorama-trials cpython --into docs/compatibility.md
ifdef LTP
	target/release/diorama-trials ltp --path '$(LTP)' --into docs/compatibility.md
else
	@echo "conformance: LTP's time tests were left out: give the directory of its 'make install', LTP=/opt/ltp"
endif
ifdef SHADOW
	target/release/diorama-trials shadow --path '$(SHADOW)' --into docs/compatibility.md
else
	@echo "conformance: Shadow's tests were left out: give its source tree, SHADOW=/path/to/shadow"
endif

# Compose files as Compose's own reader has them: asks it anew, which takes Go and its modules. `make test` compares with
# what is kept of its answers, which KEEP=1 renews. CASES=DIR is a folder of folders with further files compose.yaml.
conformance-compose:
	cd crates/compose/tests/reference && go build -o ../../../../target/compose-reference .
	COMPOSE_REFERENCE='$(CURDIR)/target/compose-reference' COMPOSE_KEEP='$(KEEP)' \
		$(if $(CASES),COMPOSE_CASES='$(abspath $(CASES))') \
		$(CARGO) test --locked --package diorama-compose --test pure reference:: -- --nocapture $(if $(CASES),--include-ignored)

# For machines on which nobody builds: dist/*.deb, for Debian and Ubuntu, and dist/*.tar.xz, for others.
deb tarball: build
	scripts/package $@

# The package in the smallest Debian 12, for container engines: dist/*-oci.tar.
image: root deb
	scripts/setup --packages
	scripts/image

# Installed in fresh roots of Debian 12, 13 and Ubuntu 24.04, and tried there: `make test-packages ROOTS=trixie`.
# Ubuntu's packages are where apt has them, or `UBUNTU=URL` says.
ROOTS :=
test-packages: machine deb
	scripts/setup --packages
	@scripts/test-packages $(ROOTS)

# The package for notebooks: its tests, and its wheel in dist. Fetches pandas and pyarrow into target/python.
python:
	python3 -m venv target/python
	target/python/bin/pip --quiet install 'pandas>=1.5' 'pyarrow>=10' pytest build
	cd python && PYTHONPATH=src PYTHONDONTWRITEBYTECODE=1 ../target/python/bin/python -m pytest -p no:cacheprovider
	target/python/bin/python -m build --wheel --outdir dist python

# The page of `diorama serve` in a real browser, with pictures in target/browser/pictures. Fetches playwright, and Chromium.
test-browser: machine setup build
	scripts/setup --browser
	python3 -m venv target/browser
	target/browser/bin/pip --quiet install 'playwright>=1.40'
	target/browser/bin/python scripts/browser.py target/release/diorama target/browser/pictures

# `make demo DEMO=--quick` is its first pair alone: a minute.
DEMO :=
demo: machine setup build
	target/release/diorama-trials demo $(DEMO)

# About an hour.
bench: machine setup build
	target/release/diorama-trials bench $(BENCH)
	target/release/diorama-trials scale-up

clean:
	$(CARGO) clean

root:
	@[ "$$(id -u)" = 0 ] || { echo "make: this needs root: it makes namespaces and control groups (sudo make ...)" >&2; \
		exit 3; }

# Before apt and the build, so that nobody waits for what cannot run.
machine: root
	@scripts/machine
