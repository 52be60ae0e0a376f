#!/usr/bin/env bash
# Makes what a release holds below dist/, with goreleaser, and publishes
# nothing. goreleaser, and syft for the SBOMs, are built once, which takes
# minutes. The image needs docker buildx; without it, it is left out, and that is
# told.
set -euo pipefail
cd "$(dirname "$0")/.."
export GVISOR=$1
export PATH=$PWD/build/tools:$PATH
# tool NAME MODULE builds a program at its pinned version.
tool() { [ -x "build/tools/$1" ] || GOBIN=$PWD/build/tools CGO_ENABLED=0 GOFLAGS=-trimpath go install "$2"; }
tool goreleaser github.com/goreleaser/goreleaser/v2@v2.17.0
tool syft github.com/anchore/syft/cmd/syft@v1.57.1
skip=()
if ! docker buildx version >/dev/null 2>&1; then
	echo "no image: docker buildx is not installed" >&2
	skip+=(--skip=docker)
fi
goreleaser release --snapshot --clean "${skip[@]}"
