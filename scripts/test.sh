#!/usr/bin/env bash
# Every test: `make test`. Installs what is missing (where apt and root allow),
# builds the binary and the default environment, and starts a private Docker
# daemon when none answers. A suite that cannot run fails.
set -euo pipefail
cd "$(dirname "$0")/.."
export CI=true

say() { printf '\n== %s\n' "$*"; }

rm -rf build/results

say "what the tests need"
scripts/bootstrap-engines.sh --test

say "build"
make --no-print-directory build

say "lint"
make --no-print-directory lint

say "the Python agent"
make --no-print-directory agent

say "the Python environment"
bin/biocage env build
data=/var/lib/biocage
[ "$(id -u)" = 0 ] || data=${XDG_DATA_HOME:-$HOME/.local/share}/biocage
BIOCAGE_TEST_ROOTFS=$(readlink -f "${BIOCAGE_DATA_DIR:-$data}/environments/default/current/rootfs")
export BIOCAGE_TEST_ROOTFS
export BIOCAGE_TEST_BINARY=$PWD/bin/biocage

say "clients that others wrote"
test/interop/setup.sh

say "the Docker daemon"
BIOCAGE_DOCKERD_DIR=$(mktemp -d /var/tmp/biocage-dockerd.XXXXXX)
export BIOCAGE_DOCKERD_DIR
finish() {
	scripts/dockerd.sh stop
	rm -rf "$BIOCAGE_DOCKERD_DIR"
}
trap finish EXIT
started=$(scripts/dockerd.sh start)
eval "$started"
export BIOCAGE_TEST_IMAGE=biocage/test:latest
tar --create --numeric-owner --directory "$BIOCAGE_TEST_ROOTFS" . | docker import - "$BIOCAGE_TEST_IMAGE" >/dev/null

say "tests with the race detector"
scripts/gotest.sh race

say "the gVisor engine and the binary"
scripts/gotest.sh engines

say "the real server, driven by clients"
scripts/gotest.sh system

say "attacks"
scripts/gotest.sh attacks

say "docs/FEATURES.md against the results"
go run ./scripts/features check build/results docs/FEATURES.md
