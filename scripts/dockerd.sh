#!/bin/sh
# A private Docker daemon for tests, when none answers.
#
#   eval "$(scripts/dockerd.sh start)"   prints "export DOCKER_HOST=..."
#   scripts/dockerd.sh stop              stops the one that start made
#
# It has its own socket and data below ${BIOCAGE_DOCKERD_DIR:-/var/tmp/biocage-dockerd}
# and touches no other daemon. Its bridge, where this machine lets us make one,
# leads to this machine and no further: nothing is forwarded.
# With BIOCAGE_DOCKERD=private it starts even where another daemon answers.
set -eu

dir=${BIOCAGE_DOCKERD_DIR:-/var/tmp/biocage-dockerd}
socket=$dir/docker.sock

say() { echo "dockerd.sh: $*" >&2; }

answers() { DOCKER_HOST=$1 timeout 10 docker version >/dev/null 2>&1; }

# bridge makes a bridge and tells its name; "none" where that cannot be. That of
# a daemon that was killed is used again.
bridge() {
	if [ -f "$dir/bridge" ] && ip link show "$(cat "$dir/bridge")" >/dev/null 2>&1; then
		cat "$dir/bridge"
		return
	fi
	name=bcage$(($$ % 100000))
	if ip link add name "$name" type bridge 2>/dev/null; then
		if ip address add "172.31.$(($$ % 250)).1/24" dev "$name" 2>/dev/null && ip link set "$name" up; then
			echo "$name" >"$dir/bridge"
			echo "$name"
			return
		fi
		ip link delete "$name"
	fi
	say "no bridge can be made here; tests of the network are left out"
	echo none
}

no_bridge() {
	[ -f "$dir/bridge" ] || return 0
	ip link delete "$(cat "$dir/bridge")" || say "the bridge $(cat "$dir/bridge") stays"
	rm -f "$dir/bridge"
}

# after_kill ends what a daemon that was killed has left: the next one would wait
# for its containerd in vain. Containers have processes of their own.
after_kill() {
	left=$dir/exec/containerd/containerd.pid
	[ -f "$left" ] || return 0
	kill -9 "$(cat "$left")" 2>/dev/null || true
	i=0
	while [ -e "/proc/$(cat "$left")" ] && ! grep -q '^State:.Z' "/proc/$(cat "$left")/status" && [ "$i" -lt 50 ]; do
		i=$((i + 1))
		sleep 0.1
	done
	rm -f "$left"
}

start() {
	if [ "${BIOCAGE_DOCKERD:-}" != private ]; then
		host=${DOCKER_HOST:-unix:///var/run/docker.sock}
		if answers "$host"; then
			echo "export DOCKER_HOST=$host"
			return
		fi
	fi
	if answers "unix://$socket"; then
		echo "export DOCKER_HOST=unix://$socket"
		return
	fi
	[ "$(id -u)" = 0 ] || { say "starting a daemon needs root"; exit 1; }
	command -v dockerd >/dev/null || { say "no dockerd; install it (apt-get install docker.io)"; exit 1; }
	mkdir -p "$dir"
	rm -f "$dir/pid"
	after_kill
	# shellcheck disable=SC2086 # extra arguments are words
	setsid dockerd -H "unix://$socket" --data-root "$dir/data" --exec-root "$dir/exec" \
		--pidfile "$dir/pid" --bridge="$(bridge)" --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false \
		${BIOCAGE_DOCKERD_ARGS:-} >"$dir/log" 2>&1 </dev/null &
	i=0
	until answers "unix://$socket"; do
		i=$((i + 1))
		if [ "$i" -gt 150 ]; then
			say "the daemon did not come up; see $dir/log"
			tail -n 5 "$dir/log" >&2
			no_bridge
			exit 1
		fi
		sleep 0.2
	done
	echo "export DOCKER_HOST=unix://$socket"
}

# no_mounts unmounts what is left below the directory, the deepest first: a
# daemon that was killed leaves its data, and gVisor an empty network's name.
no_mounts() {
	awk -v below="$dir/" 'index($5, below) == 1 { print $5 }' /proc/self/mountinfo | sort -r | while read -r place; do
		umount "$place" || say "$place stays mounted"
	done
}

stop() {
	[ -f "$dir/pid" ] || return 0
	pid=$(cat "$dir/pid")
	kill "$pid" 2>/dev/null || return 0
	i=0
	while kill -0 "$pid" 2>/dev/null; do
		i=$((i + 1))
		[ "$i" -le 100 ] || { say "the daemon $pid does not stop"; exit 1; }
		sleep 0.2
	done
	no_mounts
	no_bridge
}

case ${1:-} in
start) start ;;
stop) stop ;;
*) say "usage: dockerd.sh start|stop"; exit 2 ;;
esac
