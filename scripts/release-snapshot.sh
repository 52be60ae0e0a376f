#!/usr/bin/env bash
# Makes what a release holds below dist/, with goreleaser, and publishes
# nothing. goreleaser is built once, which takes minutes. What needs a tool that
# is not there, SBOMs and the image, is left out, and that is told.
set -euo pipefail
cd "$(dirname "$0")/.."
export GVISOR=$1
if [ ! -x build/tools/goreleaser ]; then
	GOBIN=$PWD/build/tools CGO_ENABLED=0 go install github.com/goreleaser/goreleaser/v2@v2.17.0
fi
skip=()
if ! command -v syft >/dev/null; then
	echo "no SBOM: syft is not installed" >&2
	skip+=(--skip=sbom)
fi
if ! docker buildx version >/dev/null 2>&1; then
	echo "no image: docker buildx is not installed" >&2
	skip+=(--skip=docker)
fi
build/tools/goreleaser release --snapshot --clean "${skip[@]}"
