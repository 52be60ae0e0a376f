#!/bin/sh
# A step of a CI pipeline: run checks that nobody has reviewed, such as those
# of a pull request, without giving them the build machine.
#
#   examples/ci/check.sh [CHECKS [PROJECT [ARTIFACTS]]]
#
# Every CHECKS/*.py runs in a fresh sandbox that sees PROJECT read-only at
# /data/project. What a check writes into its working directory is put below
# ARTIFACTS/NAME. The exit code is 1 when a check failed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
checks=${1:-$here/checks}
project=${2:-$here/..}
artifacts=${3:-build/ci}
biocage=${BIOCAGE:-bin/biocage}

failed=0
for check in "$checks"/*.py; do
	name=$(basename "$check" .py)
	mkdir -p "$artifacts/$name"
	code=0
	"$biocage" run --timeout "${CHECK_TIMEOUT:-60s}" --memory 1g --cpus 1 --pids 64 --disk 64m \
		--expose "$project:/data/project" --out "$artifacts/$name" "$check" || code=$?
	case $code in
	0) echo "ok      $name" ;;
	124) echo "FAILED  $name: time limit" ;;
	137) echo "FAILED  $name: memory limit" ;;
	*) echo "FAILED  $name: exit code $code" ;;
	esac
	[ "$code" = 0 ] || failed=1
done
exit "$failed"
