#!/usr/bin/env bash
# The Python agent's tests and checks, in a virtual environment below build/.
#
#   agent.sh check    pytest, ruff, mypy
#   agent.sh format   ruff format
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/agent-venv
wanted=pyagent/tests/requirements.txt

if ! cmp -s "$wanted" "$venv/installed.txt"; then
	if ! python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
		scripts/apt-install.sh python3 python3-venv
	fi
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
	cp "$wanted" "$venv/installed.txt"
fi
bin=$PWD/$venv/bin
cd pyagent
case ${1:-check} in
check)
	"$bin/ruff" check .
	"$bin/ruff" format --check .
	"$bin/mypy"
	exec "$bin/pytest" -q --junit-xml=../build/results/agent.xml
	;;
format) exec "$bin/ruff" format . ;;
*)
	echo "usage: agent.sh check|format" >&2
	exit 2
	;;
esac
