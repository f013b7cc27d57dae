#!/bin/sh
# First process of a guest: modules, NICs by their MAC, the shared folder, a soft RoCE device; then the agent in its place.
# What it says on the console the host reads: "FAILED ..." here, "READY" by the agent.
export PATH=/usr/bin:/usr/sbin:/bin:/sbin
fail() { echo "FAILED $*"; sleep 1; poweroff -f; }

mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t devtmpfs dev /dev || fail "mount"
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm && mount -t devpts devpts /dev/pts && mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /run || fail "mount"
for word in $(cat /proc/cmdline); do
	case $word in guest=*) guest=${word#guest=} ;; esac
done
hostname "g$guest"
ulimit -l unlimited
for module in $(cat /etc/modules); do
	modprobe "$module" || fail "modprobe $module"
done

# The kernel may number NICs in any order.
nic() {
	for device in /sys/class/net/eth*; do
		read -r mac < "$device/address"
		[ "$mac" = "52:54:00:0$1:00:0$guest" ] && { ip link set "${device##*/}" name "$2" || fail "ip link $2"; return; }
	done
	fail "no NIC for $2"
}
nic a rdma0
nic b tcp0
nic c cmd0
ip link set lo up
ip link set rdma0 mtu "$(cat /etc/rdma-mtu)" || fail "the MTU of rdma0"
ip addr add "10.9.0.$guest/24" dev rdma0
ip addr add "10.8.0.$guest/24" dev tcp0
ip addr add 10.0.2.15/24 dev cmd0
for device in rdma0 tcp0 cmd0; do
	ip link set "$device" up || fail "ip link set $device up"
done
ip route add default via 10.0.2.2

mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none share /share || fail "the shared folder"
rdma link add rxe0 type rxe netdev rdma0 || fail "rdma link add rxe0"
exec agent
