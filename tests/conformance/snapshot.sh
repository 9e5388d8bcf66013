#!/usr/bin/env bash
# snapshot.sh MAINSTAY ETCD_BIN_DIR: a snapshot saved from Mainstay is accepted by the real etcdutl (status with its full
# check, restore), and the restored real etcd serves the same keys with the same HashKV at the newest and at older kept
# revisions. ETCD_BIN_DIR holds etcd, etcdctl and etcdutl 3.7. Exit 77: skipped.
set -eu
server=${1:-} bin=${2:-}
[ -x "$server" ] || { echo "skipped: no server binary given"; exit 77; }
for tool in etcd etcdctl etcdutl; do
  [ -x "$bin/$tool" ] || { echo "skipped: no $tool in '$bin'"; exit 77; }
done
work=$(mktemp -d)
pids=()
stop() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; wait 2>/dev/null || true; rm -rf "$work"; }
trap stop EXIT
base=$((20000 + RANDOM % 20000))
start() { # start BINARY DATA PORT
  "$1" --data-dir "$2" --listen-client-urls "http://127.0.0.1:$3" --advertise-client-urls "http://127.0.0.1:$3" \
    --listen-peer-urls "http://127.0.0.1:$(($3 + 1))" >"$2.log" 2>&1 &
  pids+=($!)
  for _ in $(seq 200); do
    "$bin/etcdctl" --endpoints "127.0.0.1:$3" get x >/dev/null 2>&1 && return 0
  done
  echo "FAILED: $1 does not answer"; tail -5 "$2.log"; exit 1
}
ctl() { "$bin/etcdctl" --endpoints "127.0.0.1:$base" "$@"; }
start "$server" "$work/a" "$base"
lease=$(ctl lease grant 1000 | awk '{print $2}')
for i in $(seq 60); do ctl put "key$((i % 20))" "value $i" >/dev/null; done
ctl put big "$(head -c 100000 /dev/zero | tr '\0' x)" >/dev/null
ctl put leased v --lease="$lease" >/dev/null
ctl del key3 >/dev/null
ctl compaction 30 >/dev/null
for i in $(seq 20); do ctl put "key$((i % 7))" "again $i" >/dev/null; done
ctl snapshot save "$work/s.db" >/dev/null 2>&1
"$bin/etcdutl" snapshot status "$work/s.db"
"$bin/etcdutl" snapshot restore "$work/s.db" --data-dir "$work/b" --initial-cluster "default=http://localhost:2380" >/dev/null 2>&1
start "$bin/etcd" "$work/b" $((base + 10))
hash() { "$bin/etcdctl" --endpoints "127.0.0.1:$1" endpoint hashkv --rev "$2" -w json | grep -o '"hash":[0-9]*'; }
revision=$(ctl get x -w json | grep -o '"revision":[0-9]*' | head -1 | cut -d: -f2)
passed=0 failed=0
for at in 0 "$revision" $((revision - 5)) $((revision - 25)) 31; do
  ours=$(hash "$base" "$at") theirs=$(hash $((base + 10)) "$at")
  if [ "$ours" = "$theirs" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: HashKV at $at: $ours, restored etcd $theirs"; fi
done
if [ "$(ctl get '' --prefix)" = "$("$bin/etcdctl" --endpoints "127.0.0.1:$((base + 10))" get '' --prefix)" ]; then
  passed=$((passed + 1))
else
  failed=$((failed + 1)); echo "FAILED: the keys differ"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
