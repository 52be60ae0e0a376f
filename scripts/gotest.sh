#!/usr/bin/env bash
# Runs a part of the Go tests.
#
#   gotest.sh fast      everything short, without engines
#   gotest.sh race      packages that do not link gVisor, with the race detector
#   gotest.sh engines   the engine suites and the end-to-end tests
#   gotest.sh bench     benchmarks
#
# The race detector needs cgo, and gVisor must be linked without it. The race
# run uses Go's standard encoding/json, all others the one that the binary is
# built with, so both are tested.
set -euo pipefail
cd "$(dirname "$0")/.."

# packages lists our packages of which the test binary does (yes) or does not
# (no) link gVisor.
packages() {
	go list -test -f '{{$p := .ImportPath}}{{if .ForTest}}{{.ForTest}} {{join .Deps ","}}{{end}}' ./... |
		awk -v want="$1" 'NF { links[$1] = links[$1] || $2 ~ /gvisor\.dev\// } END { for (p in links) if ((want == "yes") == links[p]) print p }' | sort
}

plain() { CGO_ENABLED=0 GOEXPERIMENT=jsonv2 go test "$@"; }

case ${1:-} in
fast) plain -short ./... ;;
race)
	mapfile -t list < <(packages no)
	CGO_ENABLED=1 go test -race -timeout 20m "${list[@]}"
	;;
engines)
	mapfile -t list < <(packages yes)
	plain -timeout 30m -p 1 "${list[@]}"
	;;
bench) plain -run '^$' -bench . -benchmem -timeout 30m ./... ;;
*)
	echo "usage: gotest.sh fast|race|engines|bench" >&2
	exit 2
	;;
esac
