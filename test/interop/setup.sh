#!/usr/bin/env bash
# Installs the MCP clients that the interoperability tests drive, below
# build/interop: the official Python SDK in its versions 1 and 2, each in a
# virtual environment of its own, the latter with FastMCP; and the official
# TypeScript SDK in its versions 1 and 2, the Inspector and the conformance
# suite, with a Node.js that is new enough for them. Everything is pinned, the
# Python packages by hashes, the Node.js packages by the integrity values of
# package-lock.json. Does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/../.."
from=test/interop
to=build/interop
mkdir -p "$to"

python_sdk() {
	local venv=$to/mcp$1 wanted=$from/requirements-mcp$1.txt
	if cmp -s "$wanted" "$venv/installed.txt"; then return; fi
	if ! python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
		scripts/apt-install.sh python3 python3-venv
	fi
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --requirement "$wanted"
	cp "$wanted" "$venv/installed.txt"
}

inspector() {
	local dir=$to/node
	if cmp -s "$from/node/package-lock.json" "$dir/installed.json"; then return; fi
	command -v npm >/dev/null || scripts/apt-install.sh npm
	rm -rf "$dir"
	mkdir -p "$dir"
	cp "$from/node/package.json" "$from/node/package-lock.json" "$dir/"
	# Not `npm ci`: it refuses a lock without the optional packages of other
	# platforms. The lock is obeyed all the same. What npm warns of is the
	# system's Node.js, which only runs npm.
	npm --prefix "$dir" install --no-save --no-audit --no-fund --loglevel=error
	"$dir/node_modules/.bin/node" --version >/dev/null
	cp "$from/node/package-lock.json" "$dir/installed.json"
}

python_sdk 1
python_sdk 2
inspector
