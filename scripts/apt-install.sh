#!/usr/bin/env bash
# Installs Debian packages, or tells why not and what to do: apt-install.sh PACKAGE...
set -euo pipefail

if ! command -v apt-get >/dev/null; then
	echo "these are missing, and there is no apt-get to install them with: $*" >&2
	exit 1
fi
if [ "$(id -u)" != 0 ]; then
	echo "these are missing; install them as root: apt-get install $*" >&2
	exit 1
fi
echo "installing: $*" >&2
export DEBIAN_FRONTEND=noninteractive
# No daemon is started by a package on its way in: tests start their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
fi
install() { apt-get install --yes --no-install-recommends -qq -o Dpkg::Use-Pty=0 "$@" >/dev/null; }
install "$@" 2>/dev/null || { apt-get update -qq && install "$@"; }
