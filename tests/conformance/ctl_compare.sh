#!/usr/bin/env bash
# ctl_compare.sh CTL_A CTL_B SERVER: runs one list of commands through two etcdctl-like programs, each against a fresh
# SERVER on the same addresses (so that ids agree), and compares stdout, stderr and exit codes byte for byte.
# With a fourth argument the second program talks to that server instead: etcdctl against etcd and against Mainstay.
# Times, the server's file sizes, lease ids and the clients' own JSON log lines are normalised. Differences that are meant are listed in
# docs/cli.md and left out here. Exits 0 (equal), 1 (different), 77 (a program is missing).
set -u
ctl_a=${1:-} ctl_b=${2:-} server_a=${3:-} server_b=${4:-${3:-}}
for program in "$ctl_a" "$ctl_b" "$server_a" "$server_b"; do
  if ! [ -x "$program" ]; then
    echo "skipped: no such program: '${program}' (usage: ctl_compare.sh CTL_A CTL_B SERVER [SERVER_B])"
    exit 77
  fi
done
work=$(mktemp -d)
pid=
trap 'if [ -n "$pid" ]; then kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; fi; rm -rf "$work"' EXIT
unset "${!ETCDCTL_@}" 2>/dev/null
port() {
  local p
  while :; do
    p=$((20000 + RANDOM % 12000))
    (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || { echo "$p"; return; }
  done
}
client_port=$(port)
peer_port=$(port)

# One command: t [flags and arguments]; IN is its stdin. `n` is a sed script of its own for the output.
t() {
  printf '%s' "${IN-}" | timeout 30 "$ctl" "$@" >"$work/o" 2>"$work/e"
  local rc=$?
  {
    printf '$ %s\n' "$*" | norm
    [ -n "${IN-}" ] && printf '%s\n' "stdin: ${IN@Q}"
    echo "exit $rc"
    norm <"$work/o"
    echo "-- stderr"
    grep -v '^{"level":' "$work/e" | usage_cut | norm
  } >>"$out"
}
# Usage blocks are in words of our own; only what stands before them must agree.
usage_cut() { awk '/^Usage:/ { skip = 1 } /^Error:/ { skip = 0 } !skip'; }
norm() {
  sed -E -e "s/(took[= \":]*)[0-9.]+(ns|µs|ms|s|m[0-9.]+s)/\1T/g" -e 's/("Took" : )[0-9.]+(µs|ms|s)/\1T/' \
    -e "s/${lease:-nolease}/LEASE/g; s/${lease_decimal:-nolease}/LEASE/g" \
    -e 's/remaining\([0-9]+s\)/remaining(N)/; s/"ttl":[0-9]+/"ttl":N/; s/^"TTL" : [0-9]+/"TTL" : N/' \
    -e 's/"dbSize(InUse)?":[0-9]+/"dbSize\1":N/g; s/ +[0-9.]+ kB/ SIZE/g; s/ +[0-9]+%/ P%/g' \
    -e "s/([\"=:]|^)\/tmp\/[^ \"]*\/snap/\1SNAP/g"
}
formats="simple json fields protobuf table"

keys() {
  local w
  for w in $formats; do
    t put foo bar -w $w
    t put foo bar2 --prev-kv -w $w
    t get foo -w $w
    t get nothing -w $w
    t get foo --hex -w $w
    t del foo --prev-kv -w $w
    t del foo -w $w
    t put foo "a<b>&\"'é" --hex -w $w
  done
  for k in a b c d/1 d/2 e; do t put $k "v-$k"; done
  t get a c
  t get --prefix d/
  t get --prefix ""
  t get --from-key c
  t get --from-key ""
  t get --prefix d/ --keys-only
  t get --prefix d/ --print-value-only
  t get --prefix d/ --limit 1 -w json
  t get --prefix d/ --limit=1 --order descend
  t get --prefix "" --sort-by value --order=DESCEND
  t get --prefix "" --sort-by create
  t get --prefix "" --sort-by MODIFY --order ascend
  t get --prefix "" --sort-by version
  t get --prefix "" --count-only -w fields
  t get --prefix "" --count-only
  t get --prefix "" --keys-only --count-only
  t get --prefix --from-key a
  t get --prefix a b
  t get a --consistency s
  t get a --consistency x
  t get a --rev 3
  t get a --rev 99999
  t get a --sort-by foo
  t get a --order foo
  t get a --min-mod-rev 5 --max-mod-rev 3
  t get a --min-create-rev 5 --max-create-rev 3
  t get --prefix "" --min-mod-rev 25
  t get --prefix "" --max-create-rev 25
  t get --prefix d/ --stream
  t get a --print-value-only -w json
  t get a -w foo
  t get
  t get a --limit x
  t get a --limit
  t get a --nosuch
  t get a -x
  t get a -w
  t get a --hex=maybe
  t get a --command-timeout 5
  t get -wjson a
  t get -w=json a
  t ge a
  t pu a b
  t put a -- --dash
  t put -- -k -v
  t put
  IN=from-stdin t put fromstdin
  t put fromstdin
  t get fromstdin
  t put a --ignore-value
  t put a b --ignore-value
  t put nokey --ignore-value
  t put a b --ignore-lease
  t put "" b
  t put a b --lease zz
  t put a b --lease 1234
  t put bin $'\x01\xff\x80\t"\\' -w fields --prev-kv
  t get bin -w fields
  t get bin -w json
  t get bin --hex
  t del a b --range
  t del a b --prefix
  t del --prefix --from-key a
  t del
  t del a b c
  t del --prefix d/ --prev-kv
  t del --from-key e
  t compaction x
  t compaction
  t compaction 99999
  t compaction 5
  t compact 6 --physical
  t compaction 5
  t get a --rev 2
}

transactions() {
  local w
  t put k v
  t put cnt 1
  for w in $formats; do
    IN=$'value("k") = "v"\n\nput k w\nget k\ndel cnt\n\nget k\n\n' t txn -w $w
    IN=$'value("k") = "v"\n\nput k w\n\nget k\nput k v\n\n' t txn -w $w
  done
  local op target
  for op in = '!=' '<' '>'; do
    for target in ver version c create m mod; do
      IN="$target(\"k\") $op \"3\""$'\n\nget k\n\n\n' t txn
    done
    IN="val(\"k\") $op \"v\""$'\n\nget k\n\n\n' t txn
  done
  IN=$'mod("k")> "0"\n\n\n\n' t txn
  IN=$'mod("k") >"0"\n\n\n\n' t txn
  IN=$'mod("k") > "x"\n\n\n\n' t txn
  IN=$'mod( "k") > "0"\n\n\n\n' t txn
  IN=$'mod("k) > "0"\n\n\n\n' t txn
  IN=$'what("k") > "0"\n\n\n\n' t txn
  IN=$'mod\n\n\n\n' t txn
  IN=$'\nput q \'a b\'\nput r "c\\td"\nget q\nget r\n\n\n' t txn
  IN=$'\nput q \'a\n\n\n' t txn
  IN=$'\nget q\n\n\n' t txn
  IN=$'\nput "a\\xzz" b\n\n\n' t txn
  IN=$'\nput "a\\x01\\xff" b\nget "a\\x01\\xff"\n\n\n' t txn -w json
  IN=$'\nput q\n\n\n' t txn
  IN=$'\nput\n\n\n' t txn
  IN=$'\nfoo bar\n\n\n' t txn
  IN=$'\nget --nosuch q\n\n\n' t txn
  IN=$'\nget --prefix q -w json\n\n\n' t txn
  IN=$'\r\nput crlf 1\r\n\r\n\r\n' t txn
  IN=$'\nget q r --prefix\n\n\n' t txn
  IN=$'\nput dup 1\nput dup 2\n\n\n' t txn
  IN=$'\n\n\n' t txn -i
  IN=$'\nget q\n' t txn
  IN= t txn
  t txn arg
}

leases() {
  local w
  for w in $formats; do
    lease=$("$ctl" lease grant 1000 | sed -E 's/lease ([0-9a-f]+) .*/\1/')
    lease_decimal=$((16#$lease))
    t put leased v --lease "$lease" -w $w
    [ $w != protobuf ] && t get leased -w $w && t get leased --hex -w $w
    t lease timetolive "$lease" -w $w
    t lease timetolive "$lease" --keys -w $w
    t lease timetolive "$lease" --keys --hex -w $w
    t lease list -w $w
    t lease list --hex -w $w
    t lease keep-alive --once "$lease" -w $w
    t lease keep-alive --once "$lease" --hex -w $w
    # Go prints a pointer in the protobuf form's error.
    if [ $w = protobuf ]; then "$ctl" lease revoke "$lease" >/dev/null; else t lease revoke "$lease" -w $w; fi
    t lease list -w $w
    t lease timetolive "$lease" -w $w
    [ $w != protobuf ] && t lease keep-alive "$lease" -w $w
  done
  t lease keep-alive --once 1234
  t lease revoke 1234
  t lease revoke
  t lease revoke zz
  t lease grant
  t lease grant x
  t lease timetolive
  t lease timetolive xyz
  t lease keep-alive
  t lease grant 99999999999
  t le l
}

cluster() {
  local w
  for w in $formats; do
    [ $w != table ] && t endpoint health -w $w && t endpoint health --cluster -w $w
    [ $w != fields ] && t endpoint status -w $w
    t endpoint hashkv -w $w
    t endpoint hashkv --rev 8 -w $w
    t member list -w $w
    t member list --hex -w $w
    t alarm list -w $w
    t alarm disarm -w $w
    t member update 1234 --peer-urls http://127.0.0.1:1 -w $w
  done
  t endpoint hashkv --rev 99999
  t endpoint health --endpoints 127.0.0.1:1 --command-timeout 500ms
  t endpoint status --endpoints 127.0.0.1:1 --command-timeout 500ms
  t endpoint status --endpoints "127.0.0.1:1,$ETCDCTL_ENDPOINTS" --command-timeout 500ms
  t member list --consistency s
  t member add
  t member add n
  t member add n x
  t member add n http://x
  t member remove
  t member remove zz
  t member remove 1234
  t member promote 1234
  t member update 1234
  t defrag
  t move-leader
  t move-leader zz
  t move-leader 1234
  t downgrade validate
  t downgrade validate 3.6
  t downgrade validate 3.5
  t downgrade cancel
  t snapshot save
  t snapshot save "$work/snap.db"
  t snapshot save "$work/no/such/snap.db"
  t snapshot save "$work/snap.db" --endpoints 127.0.0.1:1,127.0.0.1:2
  t version
  t foo
  t pet
  t lease nosuch --nosuch
  t completion
  t completion nosuch
  ETCDCTL_API=3 t get a
  ETCDCTL_WRITE_OUT=json t get a
  ETCDCTL_WRITE_OUT=json t get a -w simple
  ETCDCTL_HEX=true t get a
  ETCDCTL_DIAL_TIMEOUT=nonsense t get a
  t get a --cert ""
  t get a --cert x
  t get a --cacert /no/such/file
  t put a b --endpoints 127.0.0.1:1 --command-timeout 500ms
  unset ETCDCTL_ENDPOINTS
  t get a --endpoints "http://127.0.0.1:$client_port"
  t get a --endpoints "127.0.0.1:1,127.0.0.1:$client_port"
  t get a --endpoints ""
  export ETCDCTL_ENDPOINTS=127.0.0.1:$client_port
}

watches() {
  t watch
  t watch a --
  ETCDCTL_WATCH_RANGE_END=b t watch
  ETCDCTL_WATCH_KEY=a t watch a
  t watch a b --prefix
  t watch w --rev 1
  local w
  t put w 1; t put w 2; t del w; t put w/1 $'x\n"y"'
  local from
  from=$("$ctl" get w/1 -w json | sed -E 's/.*"mod_revision":([0-9]+).*/\1/')
  for w in $formats; do
    w_run "$w" watch w --rev $((from - 3)) -w $w
    w_run "$w" watch w --prefix --prev-kv --rev $((from - 3)) -w $w
    w_run "$w" watch w w0 --rev $((from - 3)) -w $w --hex
  done
  w_run exec watch w --rev $((from - 3)) -- sh -c 'env | grep ETCD_WATCH_ | sort'
  w_run execenv watch --rev $((from - 3)) -- echo got
  w_run fail watch w --rev $((from - 3)) -- false
  IN=$'watch w --rev '$((from - 3))$'\n' w_run inter watch -i
  IN=$'foo\n\nwatch\nwatch a b --prefix\n' t watch -i
}
# A watch never ends by itself: it gets a second.
w_run() {
  shift
  { printf '%s' "${IN-}"; sleep 1; } | timeout 0.7 "$ctl" "$@" >"$work/o" 2>"$work/e"
  { rc=$?; printf '$ %s\nexit %s\n' "$*" $rc; norm <"$work/o"; echo "-- stderr"
    grep -v '^{"level":' "$work/e" | norm; } >>"$out"
}

auth() {
  local w
  t auth status
  t auth status -w json
  t user add u:p
  t user add u:p
  t user add :p
  t user add
  t user add v --new-user-password x
  t user add w --no-password
  IN=$'pw\n' t user add x --interactive=false
  t user list
  t user list -w json
  t user list -w fields
  t user get u
  t user get nosuch
  t role add r
  t role add r
  t role list
  t role list -w fields
  t role grant-permission r read a
  t role grant-permission r readwrite b c
  t role grant-permission r write --prefix d/
  t role grant-permission r write --from-key e
  t role grant-permission r READ --prefix ""
  t role grant-permission r foo a
  t role grant-permission r read
  t role grant-permission r read a b --prefix
  t role grant-permission r read a --prefix --from-key
  for w in $formats; do
    t role get r -w $w
    t user grant-role u r -w $w
    t user get u -w $w
    t user get u --detail -w $w
    t user revoke-role u r -w $w
  done
  t role revoke-permission r a
  t role revoke-permission r b c
  t role revoke-permission r --prefix d/
  t role revoke-permission r --from-key e
  t role revoke-permission r nosuch
  t user grant-role u nosuch
  t user revoke-role u r
  IN=$'pw2\n' t user passwd u --interactive=false
  t role get root
  t auth enable
  t user add root:rp
  t auth enable
  t auth status
  t get a
  t get a --user root:wrong
  t get a --user root:rp
  t get a --user root --password rp
  t get a --user u:pw2
  t endpoint health --user u:pw2
  t role get root --user root:rp
  t user list --user u:pw2
  t role delete r --user root:rp
  t user delete u --user root:rp
  t auth disable --user root:rp
  t auth status
}

run() {
  local name=$1 server=$3
  ctl=$2 out=$work/$1
  mkdir "$work/bin.$name"
  ln -s "$(readlink -f "$ctl")" "$work/bin.$name/etcdctl"
  ctl=$work/bin.$name/etcdctl
  "$server" --name default --data-dir "$work/data.$name" --logger zap --log-level error \
    --listen-client-urls "http://127.0.0.1:$client_port" --advertise-client-urls "http://127.0.0.1:$client_port" \
    --listen-peer-urls "http://127.0.0.1:$peer_port" --initial-advertise-peer-urls "http://127.0.0.1:$peer_port" \
    --initial-cluster "default=http://127.0.0.1:$peer_port" >"$work/log.$name" 2>&1 &
  pid=$!
  export ETCDCTL_ENDPOINTS=127.0.0.1:$client_port
  for _ in $(seq 100); do
    (exec 3<>"/dev/tcp/127.0.0.1/$client_port") 2>/dev/null && "$ctl" get x >/dev/null 2>&1 && break
    kill -0 "$pid" 2>/dev/null || { cat "$work/log.$name"; exit 1; }
  done
  lease= lease_decimal=
  for part in ${CTL_COMPARE_PARTS:-keys transactions cluster leases watches auth}; do
    "$part"
  done
  kill "$pid"
  wait "$pid" 2>/dev/null
  pid=
}
run a "$ctl_a" "$server_a"
run b "$ctl_b" "$server_b"
if diff -a "$work/a" "$work/b" >"$work/diff"; then
  echo "equal: $(grep -ac '^exit ' "$work/a") commands"
  exit 0
fi
diff -a -U4 "$work/a" "$work/b"
exit 1
