#!/usr/bin/env bash
# Resolves the default environment's packages anew into its hash-locked
# requirements, for all platforms. Needs uv: in the search path, or the one
# that an earlier build fetched.
set -euo pipefail
cd "$(dirname "$0")/../environment/default"
uv=$(command -v uv || ls -t "${BIOCAGE_DATA_DIR:-/var/lib/biocage}"/cache/tools/uv-* 2>/dev/null | head -n 1)
if [ -z "$uv" ]; then
	echo "no uv: install it, or run make env first" >&2
	exit 1
fi
exec "$uv" pip compile --quiet --upgrade --universal --python-version 3.13 --generate-hashes --only-binary :all: \
	--no-header --no-annotate --output-file requirements.lock pyproject.toml
