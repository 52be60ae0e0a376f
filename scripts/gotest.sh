#!/usr/bin/env bash
# Runs a part of the Go tests.
#
#   gotest.sh fast      everything short, without engines
#   gotest.sh race      packages that do not link gVisor, with the race detector
#   gotest.sh engines   packages that link gVisor: the engine, and the binary
#   gotest.sh system    the real binary, driven by clients: cases, others' clients, conformance, examples
#   gotest.sh kinds     cases like those that are known, guessed by their kind
#   gotest.sh attacks   the attacks, on each engine
#   gotest.sh web       attacks over HTTP and stdio from outside, with the numbers of real floods
#   gotest.sh chaos     harm to the server and to what it stands on
#   gotest.sh soak      honest and hostile clients for ${SOAK:-2m} on each engine
#   gotest.sh features  docs/FEATURES.md against the results of the others
#   gotest.sh bench     benchmarks
#
# The race detector needs cgo, and gVisor must be linked without it. The race
# run uses Go's standard encoding/json, all others the one that the binary is
# built with, so both are tested. How each test ended is kept below
# build/results, for scripts/features.
set -euo pipefail
cd "$(dirname "$0")/.."

# packages lists our packages of which the test binary does (yes) or does not
# (no) link gVisor; those below test/ and the examples drive the binary and are
# listed by neither.
packages() {
	local all
	all=$(go list -test -f '{{if .ForTest}}{{.ForTest}} {{join .Deps ","}}{{end}}' ./...)
	awk -v want="$1" '
		NF && $1 !~ /\/test\/|\/examples$/ { links[$1] = links[$1] || $2 ~ /gvisor\.dev\// }
		END { for (p in links) if ((want == "yes") == links[p]) print p }' <<<"$all" | sort
}

# ours runs a command with the flags of the Makefile, so that nothing is
# compiled twice.
ours() { CGO_ENABLED=0 GOEXPERIMENT=jsonv2 GOFLAGS=-trimpath "$@"; }

# tests NAME ARGUMENT... runs go test and keeps the results as NAME. Lint vets.
tests() {
	local name=$1
	shift
	go test -json -vet=off "$@" | ours go run ./scripts/features record "build/results/$name.json" ${CI:+--no-skips}
}

plain() { ours tests "$@"; }

case ${1:-} in
fast) CI='' plain fast -short ./... ;; # short means that much is left out
race)
	list=$(packages no)
	# shellcheck disable=SC2086 # a word for each package
	CGO_ENABLED=1 tests race -race -count=1 -timeout 20m $list
	;;
engines)
	list=$(packages yes)
	# shellcheck disable=SC2086 # a word for each package
	plain engines -count=1 -timeout 30m -p 1 $list
	;;
system)
	# Both at once: most of either is waiting.
	failed=0
	plain cases -count=1 -timeout 40m ./test/cases -corpus testdata/cases.jsonl,testdata/abilities.jsonl &
	cases=$!
	plain system -count=1 -timeout 40m -p 1 ./test/interop ./test/conformance ./test/web ./examples || failed=1
	wait "$cases" || failed=1
	exit "$failed"
	;;
kinds) plain kinds -count=1 -timeout 40m ./test/cases -corpus testdata/kinds.jsonl ;;
attacks)
	failed=0
	for engine in gvisor docker; do
		plain "attacks-$engine" -count=1 -timeout 30m ./test/attacks -engine "$engine" || failed=1
	done
	exit "$failed"
	;;
web) plain web -count=1 -timeout 20m ./test/web -heavy ;;
chaos) plain chaos -count=1 -timeout 60m ./test/chaos -kills "${KILLS:-8}" ;;
soak) plain soak -v -count=1 -timeout 24h -run TestSoak ./test/chaos -soak "${SOAK:-2m}" ;;
features) ours go run ./scripts/features check build/results docs/FEATURES.md ;;
bench) ours go test -run '^$' -bench . -benchmem -timeout 30m ./... ;;
*)
	echo "usage: gotest.sh fast|race|engines|system|kinds|attacks|web|chaos|soak|features|bench" >&2
	exit 2
	;;
esac
