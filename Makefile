# Targets are listed by `make help`. Everything that is made goes to bin/ and
# build/, except the Python environments (`biocage env` tells where).

GVISOR := $(shell sed -n 's/^\tgvisor.dev\/gvisor v[^-]*-[^-]*-\([0-9a-f]*\).*/\1/p' go.mod)

# A gVisor snapshot is refused by a build with another version; upstream's own
# version string is only set by its build system.
LDFLAGS := -s -w -X gvisor.dev/gvisor/runsc/version.version=$(GVISOR)

# Large messages are decoded three to six times faster with the new encoding/json.
# The same flags everywhere, so that nothing is compiled twice.
GO := CGO_ENABLED=0 GOEXPERIMENT=jsonv2 GOFLAGS=-trimpath go

LINT := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

PREFIX := /usr/local

.DEFAULT_GOAL := build
.PHONY: build install test test-all check fmt lint cross unit race attacks conformance chaos soak agent env demo bench docs mcpb release-snapshot lock clean help

build: ## build bin/biocage
	$(GO) build -buildvcs=auto -ldflags '$(LDFLAGS)' -o bin/biocage .

install: build ## put the binary into $(DESTDIR)$(PREFIX)/bin
	install -D -m 0755 bin/biocage $(DESTDIR)$(PREFIX)/bin/biocage

test: ## install what is needed, then run the tests on every engine
	scripts/test.sh

test-all: ## the same, and the attacks, cases, chaos and soak that take long
	scripts/test.sh --all

check: lint unit ## lint and the tests that need no engine

fmt: ## format the Go and Python sources
	$(LINT) fmt ./...
	scripts/agent.sh format

lint: ## golangci-lint, which vets too
	$(LINT) run --allow-parallel-runners ./...

cross: ## compile for every system and processor of a release
	scripts/cross.sh

unit: ## the tests that need no engine
	scripts/gotest.sh fast

race: ## the tests of all packages without gVisor, with the race detector
	scripts/gotest.sh race

attacks: build ## run the attacks against the real server, on each engine
	BIOCAGE_TEST_BINARY=$(CURDIR)/bin/biocage scripts/gotest.sh attacks

conformance: ## the protocol's own conformance suite, against the HTTP front end
	test/interop/setup.sh
	$(GO) test -count=1 -v ./test/conformance

chaos: build ## harm the server and what it stands on; KILLS=200 for more kills
	BIOCAGE_TEST_BINARY=$(CURDIR)/bin/biocage scripts/chaos.sh chaos

soak: build ## honest and hostile clients against one server; SOAK=10m for how long
	BIOCAGE_TEST_BINARY=$(CURDIR)/bin/biocage scripts/chaos.sh soak

agent: ## test, lint and type-check the Python agent, in a venv below build/
	scripts/agent.sh check

env: build ## build the default Python environment, or do nothing when it is there
	scripts/bootstrap-engines.sh
	bin/biocage env build

demo: env ## play a model's conversation with the server on real data
	$(GO) run ./examples/demo bin/biocage

bench: env ## measure: round trips, starts, large outputs
	scripts/gotest.sh bench

docs: ## write docs/configuration.md anew
	$(GO) test ./internal/config -run TestReferenceIsFresh -update

mcpb: build ## the bundle for Claude Desktop, and the MCP registry's entry
	scripts/mcpb.sh

release-snapshot: ## what a release holds, in dist/; publishes nothing
	scripts/release-snapshot.sh $(GVISOR)

lock: ## resolve the default environment's packages anew
	scripts/lock.sh

clean: ## remove bin/, build/ and dist/
	rm -rf bin build dist

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18
