#!/usr/bin/env bash
# Compiles every package for the systems and processors that a release is for,
# and vets, tests included, what behaves differently on Windows. The first run
# compiles gVisor for arm64, which takes minutes; later ones under a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 GOEXPERIMENT=jsonv2 GOFLAGS=-trimpath
for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64; do
	echo "$target" >&2
	GOOS=${target%/*} GOARCH=${target#*/} go build ./...
done
GOOS=windows GOARCH=amd64 go vet ./internal/... ./sandbox/...
