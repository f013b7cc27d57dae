#!/bin/sh
# Pretended hosts h1 to hN with an sshd each, in namespaces of this process's own: hosts.sh DIR N [slurm]. Says `ready`, and stays
# until somebody ends it. DIR/on HOST CMD... runs a command on one; DIR/ssh_config is for ssh between them. With slurm they are nodes
# of a cluster with the settings in DIR/slurm.settings, and DIR/slurm.conf is its configuration.
set -eu
dir=$1 n=$2 slurm=${3:-}
mount -t tmpfs tmpfs /run
mkdir /run/netns /run/sshd
ip link set lo up
ip link add br0 type bridge
ip link set br0 up
ssh-keygen -q -t ed25519 -N '' -f "$dir/id"
ssh-keygen -q -t ed25519 -N '' -f "$dir/hostkey"
cp "$dir/id.pub" "$dir/authorized_keys"
# A home and a shell of their own: what the user's start-up files do must not be waited for, nor be killed half-way.
mkdir "$dir/home"
sed "s|^root:.*|root:x:0:0:root:$dir/home:/bin/sh|" /etc/passwd > "$dir/passwd"
echo "127.0.0.1 localhost" > "$dir/hosts"
: > "$dir/known_hosts"
i=1
while [ "$i" -le "$n" ]; do
  echo "10.77.0.$i h$i" >> "$dir/hosts"
  echo "h$i,10.77.0.$i $(cat "$dir/hostkey.pub")" >> "$dir/known_hosts"
  i=$((i + 1))
done
# A host with an address and a name on which nobody answers.
echo "10.77.0.99 silent" >> "$dir/hosts"
cat > "$dir/ssh_config" <<END
Host *
 User root
 IdentityFile $dir/id
 IdentitiesOnly yes
 UserKnownHostsFile $dir/known_hosts
 GlobalKnownHostsFile /dev/null
END
cat > "$dir/on" <<END
#!/bin/sh
host=\$1
shift
exec nsenter -t "\$(cat "$dir/\$host.pid")" -n -u -m -- "\$@"
END
chmod 755 "$dir/on"
i=1
while [ "$i" -le "$n" ]; do
  h=h$i
  ip netns add $h
  ip -n $h link set lo up
  ip link add eth0 netns $h type veth peer name p$i
  ip link set p$i master br0 up
  ip -n $h addr add 10.77.0.$i/24 dev eth0
  ip -n $h link set eth0 up
  nsenter --net=/run/netns/$h unshare --uts --mount --propagation private sh -c "
    echo $h > /proc/sys/kernel/hostname
    mount --bind '$dir/hosts' /etc/hosts
    mount --bind '$dir/passwd' /etc/passwd
    mount -t tmpfs -o mode=1777,size=256m shm /dev/shm
    echo \$\$ > '$dir/$h.part' && mv '$dir/$h.part' '$dir/$h.pid'
    exec sleep infinity" &
  until [ -s "$dir/$h.pid" ]; do sleep 0.01; done
  "$dir/on" $h /usr/sbin/sshd -f /dev/null -h "$dir/hostkey" -o AuthorizedKeysFile="$dir/authorized_keys" \
    -o PidFile="$dir/sshd-$h.pid" -o StrictModes=no -o UsePAM=no -o PasswordAuthentication=no \
    -o KbdInteractiveAuthentication=no -o UseDNS=no -E "$dir/sshd-$h.log"
  until [ -s "$dir/sshd-$h.pid" ]; do sleep 0.01; done
  i=$((i + 1))
done
if [ -n "$slurm" ]; then
  mkdir -p "$dir/state" "$dir/munge"
  chmod 755 "$dir" "$dir/state" "$dir/munge"
  head -c 128 /dev/urandom > "$dir/munge/key"
  chmod 400 "$dir/munge/key"
  "$dir/on" h1 munged --force --key-file="$dir/munge/key" --socket="$dir/munge/s" --pid-file="$dir/munge/pid" \
    --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" --num-threads=2
  cat > "$dir/slurm.conf" <<END
ClusterName=launch
SlurmctldHost=h1(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthInfo=socket=$dir/munge/s
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
$(cat "$dir/slurm.settings")
NodeName=h[1-$n] CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP
END
  export SLURM_CONF="$dir/slurm.conf"
  "$dir/on" h1 slurmctld -f "$SLURM_CONF"
  i=1
  while [ "$i" -le "$n" ]; do
    mkdir -p "$dir/spool-h$i"
    "$dir/on" "h$i" slurmd -f "$SLURM_CONF" -N "h$i"
    i=$((i + 1))
  done
  until [ "$("$dir/on" h1 sinfo -h -N -o %t | grep -cx idle)" = "$n" ]; do sleep 0.1; done
fi
echo ready
exec sleep infinity
