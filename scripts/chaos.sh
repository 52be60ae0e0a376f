#!/usr/bin/env bash
# `make chaos` and `make soak`: a Docker daemon of their own, in which
# environments are loaded before anything is measured, and the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
export CI=true

part=${1:?chaos or soak}
data=/var/lib/biocage
[ "$(id -u)" = 0 ] || data=${XDG_DATA_HOME:-$HOME/.local/share}/biocage
bin/biocage env build
BIOCAGE_TEST_ROOTFS=$(readlink -f "${BIOCAGE_DATA_DIR:-$data}/environments/default/current/rootfs")
export BIOCAGE_TEST_ROOTFS

finish() {
	local status=$?
	if [ -n "${BIOCAGE_DOCKERD_DIR:-}" ]; then
		scripts/dockerd.sh stop || status=1
		rm -rf "$BIOCAGE_DOCKERD_DIR"
	fi
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Who is not root uses the daemon that answers.
if [ "$(id -u)" = 0 ]; then
	BIOCAGE_DOCKERD_DIR=$(mktemp -d /var/tmp/biocage-dockerd.XXXXXX)
	export BIOCAGE_DOCKERD_DIR BIOCAGE_DOCKERD=private
fi
started=$(scripts/dockerd.sh start)
eval "$started"
bin/biocage run --engine docker - <<<'print("the environment runs in Docker")'
scripts/gotest.sh "$part"
