# Runs a command inside a root file system: enter.sh ROOT USER SUPPORT CACHE COMMAND...
#
# It is started in new mount, pid, ipc and uts namespaces, so every mount made
# here ends with it and nothing of the build touches the tree itself. SUPPORT
# and CACHE are host directories that the command finds at /run/build and
# /run/cache; SUPPORT's resolv.conf, when there, serves as /etc/resolv.conf. USER is "root" or "nobody"; nobody
# runs packages' own code.
set -eu
root=$1 user=$2 support=$3 cache=$4
shift 4

# The command has a search path of its own.
path=$PATH
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

mount --make-rprivate /
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -t tmpfs -o nosuid,mode=0755 tmpfs "$root/dev"
for device in null zero full random urandom; do
	: >"$root/dev/$device"
	mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir -m 1777 "$root/dev/shm"
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o nosuid,nodev,mode=0755 tmpfs "$root/run"
mkdir "$root/run/build" "$root/run/cache"
mount --bind "$support" "$root/run/build"
mount --bind "$cache" "$root/run/cache"
if [ -e "$support/resolv.conf" ]; then
	mount --bind "$support/resolv.conf" "$root/etc/resolv.conf"
fi

cd "$root"
chroot=$(command -v chroot)
PATH=$path
if [ "$user" = nobody ]; then
	exec "$chroot" --userspec=65534:65534 --groups= "$root" "$@"
fi
exec "$chroot" "$root" "$@"
