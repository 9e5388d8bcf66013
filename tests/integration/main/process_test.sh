#!/usr/bin/env bash
# process_test.sh BIN_DIR: the built programs as an operator meets them: exit codes, readiness, an orderly stop, a kill, a
# second start on the same data, a foreign data directory.
set -u
bin=$1
work=$(mktemp -d)
pid=
second=
trap 'for p in $pid $second; do kill -9 "$p" 2>/dev/null; done; rm -rf "$work"' EXIT
port=$((20000 + RANDOM % 20000))
failed=0
check() { # check WHAT GOT WANTED
  if [ "$2" = "$3" ]; then echo "ok: $1"; else echo "FAILED: $1: got '$2', want '$3'"; failed=1; fi
}
ctl() { "$bin/mainstayctl" --endpoints "127.0.0.1:$port" "$@"; }
start() {
  "$bin/mainstay" --name t --data-dir "$work/data" --listen-client-urls "http://127.0.0.1:$port" \
    --advertise-client-urls "http://127.0.0.1:$port" --listen-metrics-urls "http://127.0.0.1:$((port + 1))" >"$work/log" 2>&1 &
  pid=$!
  for _ in $(seq 600); do
    grep -q 'ready to serve client requests' "$work/log" && return
    kill -0 "$pid" 2>/dev/null || break
    read -rt 0.05 <> <(:) || true
  done
  echo "FAILED: not ready"; cat "$work/log"; exit 1
}
get() { # get PORT PATH
  exec 3<>"/dev/tcp/127.0.0.1/$1"; printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3; tail -n 1 <&3; exec 3>&-
}
"$bin/mainstay" --no-such-flag >/dev/null 2>&1; check "an unknown flag ends with 2" $? 2
ETCD_NAME=x "$bin/mainstay" --name x >/dev/null 2>&1; check "flag and variable together end with 1" $? 1
check "--version" "$("$bin/mainstay" --version | head -1)" "etcd Version: 3.7.1"
start
check "a put" "$(ctl put k v1)" OK
check "health on the client port" "$(get "$port" /health)" '{"health":"true","reason":""}'
check "readyz on the metrics port" "$(get $((port + 1)) /readyz)" ok
# metric_names.txt: what a member of etcd 3.7.1 shows after a put, a get, a watch, a lease, a compaction and a snapshot,
# Go's own runtime left out.
exec 3<>"/dev/tcp/127.0.0.1/$port"; printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
sed -E '/^#/d; s/[{ ].*//; s/_(bucket|sum|count)$//' <&3 | sort -u >"$work/names"; exec 3>&-
missing=$(sort -u "$(dirname "$0")/metric_names.txt" | comm -23 - "$work/names" | tr '\n' ' ')
check "every metric that etcd shows" "$missing" ""
"$bin/mainstay" --name u --data-dir "$work/other" --listen-client-urls "http://127.0.0.1:$port" \
  --advertise-client-urls "http://127.0.0.1:$port" >"$work/log4" 2>&1; check "a port in use ends with 1" $? 1
grep -q "\"error\":\"listen tcp 127.0.0.1:$port: bind: address already in use\"" "$work/log4"; check "and is named" $? 0
"$bin/mainstay" --name u --data-dir "$work/other" --listen-client-urls "http://127.0.0.1:$((port + 3))" \
  --advertise-client-urls "http://127.0.0.1:$port" --listen-metrics-urls "http://127.0.0.1:$port" >"$work/log4" 2>&1
check "a metrics port in use ends with 1" $? 1
"$bin/mainstay" --name u --data-dir "$work/other" --listen-client-urls "http://127.0.0.1:99999" \
  --advertise-client-urls "http://127.0.0.1:99999" >"$work/log4" 2>&1
check "a port beyond 65535 ends with 1" "$? $(grep -o 'listen tcp: address 99999: invalid port' "$work/log4")" \
  "1 listen tcp: address 99999: invalid port"
"$bin/mainstay" --name t --data-dir "$work/data" --listen-client-urls "http://127.0.0.1:$((port + 2))" \
  --advertise-client-urls "http://127.0.0.1:$((port + 2))" >"$work/log2" 2>&1 &
second=$!
await() { # await FILE TEXT
  for _ in $(seq 600); do grep -q "$2" "$1" && return 0; read -rt 0.05 <> <(:) || true; done
  return 1
}
await "$work/log2" 'another process holds the data directory'; check "a second process on the same data waits" $? 0
kill -TERM "$pid"; wait "$pid"; check "SIGTERM ends it by that signal" $? 143
await "$work/log2" 'ready to serve client requests'; check "and serves once the first has ended" $? 0
check "the next process has the put" "$("$bin/mainstayctl" --endpoints "127.0.0.1:$((port + 2))" get k --print-value-only)" v1
kill -TERM "$second"; wait "$second" 2>/dev/null; pid=
grep -q 'closed etcd server' "$work/log"; check "after an orderly stop" $? 0
start
check "the put is there" "$(ctl get k --print-value-only)" v1
check "another put" "$(ctl put k v2)" OK
kill -KILL "$pid"; wait "$pid" 2>/dev/null
start
check "an acknowledged put survives SIGKILL" "$(ctl get k --print-value-only)" v2
kill -TERM "$pid"; wait "$pid" 2>/dev/null; pid=
mkdir -p "$work/foreign/member/snap"; : >"$work/foreign/member/snap/db"
"$bin/mainstay" --name t --data-dir "$work/foreign" --listen-client-urls "http://127.0.0.1:$port" \
  --advertise-client-urls "http://127.0.0.1:$port" >"$work/log3" 2>&1; check "a stock etcd data directory is refused" $? 1
exit $failed
