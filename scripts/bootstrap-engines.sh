#!/usr/bin/env bash
# Installs what building an environment and the engines need, where apt and
# root allow; else tells what is missing. Does nothing when all is there.
#
#   bootstrap-engines.sh          what `make env` and `make demo` need
#   bootstrap-engines.sh --test   also what the engine tests need (Docker, gcc)
set -euo pipefail

missing=()
need() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || missing+=("$2"); }

need debootstrap debootstrap
need newuidmap uidmap
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
# client is the package of the docker command, which Debian has split off.
client() (
	. /etc/os-release || true
	if [ "${ID:-}" = debian ] && [ "${VERSION_ID:-13}" -ge 13 ]; then echo docker-cli; else echo docker.io; fi
)

if [ "${1:-}" = --test ]; then
	need docker "$(client)"
	need dockerd docker.io
	need ip iproute2
	need curl curl
	need gcc gcc
	need gcc libc6-dev
fi
[ ${#missing[@]} -gt 0 ] || exit 0

exec "$(dirname "$0")/apt-install.sh" "${missing[@]}"
