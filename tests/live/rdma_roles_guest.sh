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

# await PATTERN FILE WHAT: until the file has such a line.
await() {
  tries=0
  until grep -q "$1" "$2"; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || fail "$3"
    sleep 0.1
  done
}

# listen NAME WORDS...: a prefill role in the background; its process in $prefill, its address in $address.
listen() {
  name=$1
  shift
  : >/tmp/prefill.err
  $kvlane run $scenario --role prefill --listen 10.9.0.1:0 --compute modeled --verify "$@" 2>/tmp/prefill.err &
  prefill=$!
  await '^listening ' /tmp/prefill.err "$name: the prefill role does not listen"
  address=$(sed -n 's/^listening //p' /tmp/prefill.err)
}

# roles NAME ONLY WORDS...: both roles with these words, the strategies ONLY (empty: all); leaves the decode role's output in /tmp/NAME.out and /tmp/NAME.err.
roles() {
  name=$1
  only=$2
  shift 2
  listen "$name" "$@"
  $kvlane run $scenario --role decode --peer "$address" ${only:+--only "$only"} --compute modeled --verify "$@" \
    >"/tmp/$name.out" 2>"/tmp/$name.err" || fail "$name: the decode role ended with $?"
  wait $prefill || fail "$name: the prefill role ended with $?"
}

# hit SIGNAL WHO: a role is killed or stopped in the middle of a run over RDMA; the other ends by itself, with one line
# and status 1, within its lease and the time-out of what is in flight.
hit() {
  signal=$1
  who=$2
  set -- --transport rdma --set 'workload.prompts=[{count: 2, tokens: 512}]' --set workload.output_tokens=400 \
    --lease '3 s' --timeout '3 s'
  listen "$signal $who" "$@"
  $kvlane run $scenario --role decode --peer "$address" --only smartgen --compute modeled --verify "$@" \
    >/tmp/hit.out 2>/tmp/hit.err &
  decode=$!
  await 'transport rdma, compute modeled' /tmp/hit.err "$signal $who: no connection"
  sleep 0.7
  if [ "$who" = prefill ]; then victim=$prefill other=$decode said=/tmp/hit.err; else victim=$decode other=$prefill said=/tmp/prefill.err; fi
  kill -s "$signal" $victim || fail "$signal $who: over before it was hit"
  tries=0
  while kill -0 $other 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || fail "$signal $who: the other role still runs after 20 s"
    sleep 0.1
  done
  wait $other
  status=$?
  [ $status -eq 1 ] || fail "$signal $who: the other role ended with $status"
  [ "$(grep -c '^kvlane: .\{30\}' $said)" -eq 1 ] || fail "$signal $who: not one line"
  [ ! -s /tmp/hit.out ] || fail "$signal $who: output of a run that failed"
  echo "$signal $who: after $((tries / 10)).$((tries % 10)) s: $(grep '^kvlane: ' $said)"
  kill -s KILL $victim 2>/dev/null
  wait $victim
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
for signal in KILL STOP; do
  for who in prefill decode; do hit $signal $who; done
done
echo "two roles over RDMA: as expected"
