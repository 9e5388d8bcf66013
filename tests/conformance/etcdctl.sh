#!/usr/bin/env bash
# etcdctl.sh ETCDCTL HOST:PORT: what scripts do with etcdctl, 3.4 or 3.7 (where the commands differ), and what they read
# from its output. Every expectation holds on etcd 3.7.1; run it there first. Exit 77: skipped.
set -u
ctl=$1
endpoint=$2
command -v "$ctl" >/dev/null || { echo "skipped: no $ctl"; exit 77; }
export ETCDCTL_API=3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
e() { "$ctl" --endpoints "$endpoint" "$@" 2>"$work/err"; }
check() { # check WHAT GOT WANTED
  if [ "$2" = "$3" ]; then echo "ok: $1"; else echo "FAILED: $1: got '$2', want '$3'"; failed=1; fi
}
like() { # like WHAT GOT PATTERN
  if [[ $2 =~ $3 ]]; then echo "ok: $1"; else echo "FAILED: $1: got '$2', want /$3/"; failed=1; fi
}
old=; "$ctl" version | head -1 | grep -q ' 3\.4\.' && old=yes
e del ctl/ --prefix >/dev/null
check "put" "$(e put ctl/a 1)" OK
check "put --prev-kv" "$(e put ctl/a 2 --prev-kv)" $'OK\nctl/a\n1'
check "put from standard input" "$(echo -n 3 | e put ctl/b)" OK
check "get" "$(e get ctl/a)" $'ctl/a\n2'
check "get --print-value-only" "$(e get ctl/a --print-value-only)" 2
check "get --prefix --keys-only" "$(e get ctl/ --prefix --keys-only | tr -d '\n')" ctl/actl/b
check "get --from-key --limit" "$(e get ctl/a --from-key --limit 1)" $'ctl/a\n2'
check "get --order" "$(e get ctl/ --prefix --order DESCEND --print-value-only)" $'3\n2'
like "get -w json" "$(e get ctl/a -w json)" '"key":"Y3RsL2E=".*"version":2,"value":"Mg==".*"count":1'
check "txn taken" "$(printf 'value("ctl/a") = "2"\n\nput ctl/a 4\nget ctl/b\n\nput ctl/a 5\n\n' | e txn)" $'SUCCESS\n\nOK\n\nctl/b\n3'
check "txn not taken" "$(printf 'mod("ctl/a") = "1"\n\nput ctl/a 6\n\nget ctl/a\n\n' | e txn)" $'FAILURE\n\nctl/a\n4'
check "del" "$(e del ctl/b)" 1
check "del of nothing" "$(e del ctl/b)" 0
check "del --prev-kv" "$(e put ctl/c 7 >/dev/null; e del ctl/c --prev-kv)" $'1\nctl/c\n7'
revision=$(e put ctl/w 1 -w json | sed -E 's/.*"revision":([0-9]+).*/\1/')
e put ctl/w 2 >/dev/null; e del ctl/w >/dev/null
check "watch --rev" "$(timeout 2 "$ctl" --endpoints "$endpoint" watch ctl/w --rev "$revision" --prev-kv 2>/dev/null)" \
  $'PUT\nctl/w\n1\nPUT\nctl/w\n1\nctl/w\n2\nDELETE\nctl/w\n2\nctl/w'
lease=$(e lease grant 100 | sed -E 's/lease ([0-9a-f]+) granted with TTL\(100s\)/\1/')
like "lease grant" "$lease" '^[0-9a-f]{16}$'
check "put --lease" "$(e put ctl/l 1 --lease "$lease")" OK
like "lease timetolive --keys" "$(e lease timetolive "$lease" --keys)" "^lease $lease granted with TTL\(100s\), remaining\([0-9]+s\), attached keys\(\[ctl/l\]\)$"
like "lease list" "$(e lease list)" "$lease"
like "lease keep-alive --once" "$(e lease keep-alive --once "$lease")" "^lease $lease keepalived with TTL\(100\)$"
check "lease revoke" "$(e lease revoke "$lease")" "lease $lease revoked"
check "its key is gone" "$(e get ctl/l)" ""
now=$(e put ctl/z 1 -w json | sed -E 's/.*"revision":([0-9]+).*/\1/')
check "compaction" "$(e compaction "$now")" "compacted revision $now"
e compaction "$now" >/dev/null; check "compaction again fails" $? 1
like "and says why" "$(cat "$work/err")" 'required revision has been compacted'
like "endpoint health" "$(e endpoint health 2>&1; cat "$work/err")" "$endpoint is healthy"
like "endpoint status" "$(e endpoint status)" "^$endpoint, [0-9a-f]+, 3\.7\.1, "
like "endpoint hashkv" "$(e endpoint hashkv)" "^$endpoint, [0-9]+"
like "member list" "$(e member list)" '^[0-9a-f]+, started, [^,]+, http'
check "alarm list" "$(e alarm list)" ""
like "defrag" "$(e defrag 2>&1; cat "$work/err")" 'Finished defragmenting etcd member'
like "snapshot save" "$(e snapshot save "$work/snap" 2>&1)" "Snapshot saved at $work/snap"
if [ -n "$old" ]; then
  like "snapshot status" "$("$ctl" snapshot status "$work/snap" 2>/dev/null)" "^[0-9a-f]+, $now, [0-9]+, "
fi
check "get of an unknown flag" "$(e get --no-such-flag >/dev/null; echo $?)" 1
"$ctl" --endpoints 127.0.0.1:1 --dial-timeout 1s --command-timeout 1s get a >/dev/null 2>&1; check "no server" $? 1
e del ctl/ --prefix >/dev/null
[ "$failed" = 0 ] && echo passed
exit $failed
