#!/usr/bin/env bash
# `make test`, and with --all `make test-all`, which adds what takes long: the
# cases by kind, the attacks, chaos, a short soak, and docs/FEATURES.md against
# all results. Installs
# what is missing (where apt and root allow), builds the binary and the default
# environment, and starts a Docker daemon of its own. A suite that cannot run
# fails. What is needed for the rest ends the run when it fails; after a suite
# that fails the others still run. The times of all stages are printed at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
export CI=true

all=${1:-}
stages=()
failed=0

# stage NAME COMMAND... runs a part and notes its time and end.
stage() {
	local name=$1 begin=$SECONDS end=passed
	shift
	printf '\n== %s\n' "$name"
	"$@" || end=FAILED
	stages+=("$(printf '%6d s  %s  %s' $((SECONDS - begin)) "$end" "$name")")
	[ "$end" = passed ]
}
needed() { stage "$@" || exit 1; }
suite() { stage "$@" || failed=1; }

finish() {
	local status=$?
	if [ -n "${BIOCAGE_DOCKERD_DIR:-}" ]; then
		scripts/dockerd.sh stop || status=1
		rm -rf "$BIOCAGE_DOCKERD_DIR"
	fi
	printf '\n== stages\n'
	printf '%s\n' "${stages[@]}" "$(printf '%6d s  together' "$SECONDS")"
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

# runsc builds gVisor's own program, from the module that BioCage is built
# with, as a runtime for a Docker daemon of the tests' own, which takes root.
# Who is not root tests with the daemon that answers, which needs a runsc.
runsc() {
	[ "$(id -u)" = 0 ] || return 0
	CGO_ENABLED=0 GOEXPERIMENT=jsonv2 GOFLAGS=-trimpath go build -o build/tools/runsc gvisor.dev/gvisor/runsc || return
	export BIOCAGE_DOCKERD=private BIOCAGE_DOCKERD_ARGS="--add-runtime runsc=$PWD/build/tools/runsc"
}

# docker_daemon starts the daemon. It gives it an image for the engine's tests,
# which is to bring no variables of its own, and lets biocage load the
# environment, so that no test waits for that.
docker_daemon() {
	local started
	started=$(scripts/dockerd.sh start) || return
	eval "$started"
	export BIOCAGE_TEST_IMAGE=biocage/test:latest
	tar --create --numeric-owner --directory "$BIOCAGE_TEST_ROOTFS" . | docker import - "$BIOCAGE_TEST_IMAGE" >/dev/null || return
	bin/biocage run --engine docker - <<<'print("the environment runs in Docker")'
}

rm -rf build/results

needed "what the tests need" scripts/bootstrap-engines.sh --test
needed "build" make --no-print-directory build
suite "lint" make --no-print-directory lint
suite "the Python agent" make --no-print-directory agent
needed "the Python environment" bin/biocage env build
needed "clients that others wrote" test/interop/setup.sh
suite "the MCPB bundle" scripts/mcpb.sh

data=/var/lib/biocage
[ "$(id -u)" = 0 ] || data=${XDG_DATA_HOME:-$HOME/.local/share}/biocage
BIOCAGE_TEST_ROOTFS=$(readlink -f "${BIOCAGE_DATA_DIR:-$data}/environments/default/current/rootfs")
export BIOCAGE_TEST_ROOTFS
export BIOCAGE_TEST_BINARY=$PWD/bin/biocage

BIOCAGE_DOCKERD_DIR=$(mktemp -d /var/tmp/biocage-dockerd.XXXXXX)
export BIOCAGE_DOCKERD_DIR
needed "gVisor as a runtime of Docker" runsc
needed "the Docker daemon" docker_daemon

suite "tests with the race detector" scripts/gotest.sh race
suite "the gVisor engine and the binary" scripts/gotest.sh engines
suite "the real server, driven by clients" scripts/gotest.sh system
if [ "$all" = --all ]; then
	suite "cases by kind" scripts/gotest.sh kinds
	suite "attacks" scripts/gotest.sh attacks
	suite "attacks from outside" scripts/gotest.sh web
	suite "chaos" scripts/gotest.sh chaos
	suite "soak" scripts/gotest.sh soak
	suite "docs/FEATURES.md against the results" scripts/gotest.sh features
fi
exit "$failed"
