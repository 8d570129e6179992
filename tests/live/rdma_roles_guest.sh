#!/bin/sh
# In the guest: prefill at 10.9.0.1 (rxe0), decode at 10.9.0.2 (rxe1). The device is found by the session's address.
kvlane=build/guest/bin/kvlane
scenario=scenarios/smoke/loopback.yaml
export KVLANE_SECRET=of-the-guest-only

fail() {
  echo "FAILED: $*"
  tail -n 20 /tmp/*.out /tmp/*.err
  exit 1
}

# roles NAME ONLY WORDS...: both roles with these words, the strategies ONLY (empty: all); leaves the decode role's output in /tmp/NAME.out and /tmp/NAME.err.
roles() {
  name=$1
  only=$2
  shift 2
  $kvlane run $scenario --role prefill --listen 10.9.0.1:0 --compute modeled --verify "$@" 2>/tmp/prefill.err &
  prefill=$!
  tries=0
  until grep -q '^listening ' /tmp/prefill.err; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || fail "$name: the prefill role does not listen"
    sleep 0.1
  done
  address=$(sed -n 's/^listening //p' /tmp/prefill.err)
  $kvlane run $scenario --role decode --peer "$address" ${only:+--only "$only"} --compute modeled --verify "$@" \
    >"/tmp/$name.out" 2>"/tmp/$name.err" || fail "$name: the decode role ended with $?"
  wait $prefill || fail "$name: the prefill role ended with $?"
}

# Every byte verified where it arrived; the table has all four strategies.
roles rdma "" --transport rdma
cat /tmp/rdma.out
grep -q 'transport rdma, compute modeled' /tmp/rdma.err || fail "not over RDMA"
for strategy in full sequential hack smartgen; do
  grep -q "^$strategy " /tmp/rdma.out || fail "no $strategy in the table"
done
roles checksum sequential --transport rdma --checksum
grep -q 'transport rdma, compute modeled' /tmp/checksum.err || fail "not over RDMA"

# On one host shared memory comes first.
roles auto full
grep -q 'transport shm, compute modeled' /tmp/auto.err || fail "auto took another than shm on one host"

# What is not there is said before anything starts.
$kvlane run $scenario --live --compute modeled --transport rdma --rdma-device mlx5_0 >/tmp/none.out 2>/tmp/none.err
status=$?
[ $status -eq 1 ] || fail "status $status without the device"
grep -q "^kvlane: --transport rdma: no RDMA device: .*expected .mlx5_0. with an active port\$" /tmp/none.err || fail "no device"
[ "$(grep -c . /tmp/none.err)" -eq 1 ] || fail "more than a line"
[ ! -s /tmp/none.out ] || fail "output without a run"
echo "two roles over RDMA: as expected"
