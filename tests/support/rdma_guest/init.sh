#!/bin/busybox sh
# The guest's first process: two Soft-RoCE devices on the ends of one cable, then the command, whose exit code goes to
# the second serial port. rxe0 on veth0 is 10.9.0.1, rxe1 on veth1 is 10.9.0.2.
# Programs that busybox has too (ip) are called by path: its shell prefers its own.
export PATH=/bin HOME=/ LC_ALL=C
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
for fd in 0:stdin 1:stdout 2:stderr; do ln -sf /proc/self/fd/${fd%:*} /dev/${fd#*:}; done
stty -F /dev/ttyS0 -onlcr
stty -F /dev/ttyS1 raw -echo
echo up >/dev/ttyS1

end() {
  dmesg | grep -E 'BUG:|WARNING:|Oops|segfault|Out of memory' | head -n 5
  echo "exit $1" >/dev/ttyS1
  sync
  sleep 0.2
  poweroff -f
}
need() { "$@" || { echo "guest: $* failed"; end 125; }; }

for module in $(cat /modules/order); do need insmod "/modules/$module"; done
ulimit -c 0
ulimit -l unlimited

ip=/guest/ip
sys=/proc/sys/net/ipv4/conf
# Both ends are addresses of this machine: what leaves for one of them goes out through the other's device and not
# through lo, and is local once it comes in there. Soft-RoCE looks its routes up like any socket.
need $ip link set lo up
need $ip link add veth0 address 02:00:00:00:00:01 mtu 4400 type veth peer name veth1 address 02:00:00:00:00:02 mtu 4400
echo 0 >$sys/all/rp_filter
need $ip rule add pref 10 iif veth0 lookup local
need $ip rule add pref 11 iif veth1 lookup local
need $ip rule add pref 20 to 10.9.0.1 lookup 101
need $ip rule add pref 21 to 10.9.0.2 lookup 102
need $ip rule add pref 30 lookup local
need $ip rule del pref 0
for i in 0 1; do
  other=$((1 - i))
  echo 0 >$sys/veth$i/rp_filter
  echo 1 >$sys/veth$i/accept_local
  echo 1 >/proc/sys/net/ipv6/conf/veth$i/disable_ipv6
  need $ip address add 10.9.0.$((i + 1))/24 dev veth$i
  need $ip link set veth$i up
  need $ip neigh replace 10.9.0.$((other + 1)) lladdr 02:00:00:00:00:0$((other + 1)) dev veth$i nud permanent
  need $ip route add 10.9.0.$((other + 1)) dev veth$i src 10.9.0.$((i + 1)) table 10$((other + 1))
done
for i in 0 1; do
  need /guest/rdma link add rxe$i type rxe netdev veth$i
  # The GID of the address appears a moment later.
  gid=0000:0000:0000:0000:0000:ffff:0a09:000$((i + 1))
  tries=0
  until [ -e /dev/infiniband/uverbs$i ] && cat /sys/class/infiniband/rxe$i/ports/1/gids/* 2>/dev/null | grep -q $gid; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || need false "no GID $gid"
    sleep 0.1
  done
done

cd /test
. /command # sets the command and its arguments, and the seconds that it may take
(
  sleep "$limit_s"
  echo "guest: not finished after $limit_s s"
  ps
  touch /tmp/late
  kill -9 -1
) &
"$@" </dev/null
code=$?
[ ! -e /tmp/late ] || code=124
end $code
