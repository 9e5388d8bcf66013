#!/usr/bin/env python3
"""What a Python user of etcd does, on the client etcd3 and on the JSON gateway. Usage: conformance.py HOST:PORT

Every expectation holds on etcd 3.7.1; run it there first.
"""
import base64
import json
import sys
import threading
import urllib.error
import urllib.request

import etcd3

failed = 0


def check(what, got, wanted):
    global failed
    if got == wanted:
        print("ok:", what)
    else:
        failed += 1
        print(f"FAILED: {what}: got {got!r}, wanted {wanted!r}")


def keys(pairs):
    return [meta.key.decode() for _, meta in pairs]


def key_value(c):
    c.delete_prefix("py/")
    c.put("py/a", "1")
    value, meta = c.get("py/a")
    check("get", (value, meta.version), (b"1", 1))
    check("get of nothing", c.get("py/none"), (None, None))
    check("prev_kv of a put", c.put("py/a", "2", prev_kv=True).prev_kv.value, b"1")
    for name in "cbd":
        c.put("py/" + name, name)
    check("prefix, ascending", keys(c.get_prefix("py/", sort_order="ascend", sort_target="key")), ["py/a", "py/b", "py/c", "py/d"])
    check("prefix, descending", keys(c.get_prefix("py/", sort_order="descend", sort_target="key")), ["py/d", "py/c", "py/b", "py/a"])
    check("range", keys(c.get_range("py/b", "py/d")), ["py/b", "py/c"])
    check("keys only", [v for v, _ in c.get_prefix("py/", keys_only=True)], [b""] * 4)
    check("delete", (c.delete("py/d"), c.delete("py/d")), (True, False))
    check("delete by prefix", c.delete_prefix("py/").deleted, 3)
    check("binary keys and values", (c.put(b"py/\x00\xff", b"\x00\xfe"), c.get(b"py/\x00\xff")[0])[1], b"\x00\xfe")


def transactions(c):
    c.put("py/t", "1")
    t = c.transactions
    ok, answers = c.transaction(compare=[t.value("py/t") == "1", t.version("py/t") > 0, t.create("py/none") == 0],
                                success=[t.put("py/t", "2"), t.get("py/t")], failure=[t.delete("py/t")])
    check("txn taken", (ok, answers[1][0][0]), (True, b"2"))
    ok, answers = c.transaction(compare=[t.value("py/t") == "1"], success=[t.put("py/t", "3")], failure=[t.get("py/t")])
    check("txn not taken", (ok, answers[0][0][0]), (False, b"2"))
    check("replace", (c.replace("py/t", "2", "4"), c.replace("py/t", "2", "5"), c.get("py/t")[0]), (True, False, b"4"))
    check("put if absent", (c.put_if_not_exists("py/t", "6"), c.put_if_not_exists("py/u", "6")), (False, True))


def collect(c, count, **options):
    """The first events of a watch that starts in the past."""
    done, events = threading.Event(), []

    def take(response):
        events.extend(getattr(response, "events", []))
        if len(events) >= count or isinstance(response, Exception):
            done.set()

    watch = c.add_watch_callback("py/w", take, range_end="py/x", **options)
    done.wait(20)
    c.cancel_watch(watch)
    return events[:count]


def watches(c):
    first = c.put("py/w1", "1").header.revision
    c.put("py/w1", "2")
    c.put("py/w2", "3")
    c.delete("py/w1")
    events = collect(c, 4, start_revision=first)
    check("history of a watch", [(type(e).__name__, e.key, e.value) for e in events],
          [("PutEvent", b"py/w1", b"1"), ("PutEvent", b"py/w1", b"2"), ("PutEvent", b"py/w2", b"3"), ("DeleteEvent", b"py/w1", b"")])
    events = collect(c, 2, start_revision=first + 1, prev_kv=True)
    check("prev_kv of events", [e.prev_value for e in events], [b"1", b""])
    live, cancel = c.watch("py/live")
    threading.Thread(target=lambda: c.put("py/live", "now")).start()
    check("a live event", next(live).value, b"now")
    cancel()
    # Compacted before its start: the client raises.
    newest = c.put("py/w3", "x").header.revision
    c.compact(newest)
    iterator, cancel = c.watch("py/w1", start_revision=first)
    try:
        check("watch of what is compacted", repr(next(iterator)), "an error")
    except etcd3.exceptions.RevisionCompactedError as e:
        check("watch of what is compacted", e.compacted_revision, newest)


def leases(c):
    lease = c.lease(60)
    c.put("py/l", "1", lease=lease)
    info = c.get_lease_info(lease.id)
    check("time to live", (info.grantedTTL, 0 < info.TTL <= 60, list(info.keys)), (60, True, [b"py/l"]))
    check("keep-alive", [r.TTL for r in lease.refresh()], [60])
    lease.revoke()
    check("revoked with its key", c.get("py/l"), (None, None))
    short = c.lease(2)
    c.put("py/s", "1", lease=short)
    events, cancel = c.watch("py/s")
    check("expires with its key", type(next(events)).__name__, "DeleteEvent")
    cancel()


def maintenance(c):
    status = c.status()
    check("status", (status.version, status.leader is not None, status.raft_term > 0), ("3.7.1", True, True))
    check("members", len(list(c.members)), 1)
    check("alarms", list(c.list_alarms()), [])
    check("hash", c.hash() == c.hash(), True)
    c.defragment()


def gateway(endpoint):
    def call(path, body):
        request = urllib.request.Request(f"http://{endpoint}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as e:
            return e.code, json.load(e)

    def b64(text):
        return base64.b64encode(text.encode()).decode()

    status, put = call("/v3/kv/put", {"key": b64("py/g"), "value": b64("1")})
    check("gateway: int64 are strings", (status, isinstance(put["header"]["revision"], str)), (200, True))
    status, got = call("/v3/kv/range", {"key": b64("py/g")})
    check("gateway: range", (status, got["kvs"][0]["value"], got["count"]), (200, b64("1"), "1"))
    status, error = call("/v3/kv/range", {})
    check("gateway: empty key", (status, error["code"], error["message"]), (400, 3, "etcdserver: key is not provided"))
    status, txn = call("/v3/kv/txn", {"compare": [{"target": "VALUE", "key": b64("py/g"), "value": b64("1")}],
                                      "success": [{"requestDeleteRange": {"key": b64("py/g")}}]})
    check("gateway: txn", (status, txn["succeeded"], txn["responses"][0]["response_delete_range"]["deleted"]), (200, True, "1"))
    status, lease = call("/v3/lease/grant", {"TTL": 60})
    check("gateway: lease", (status, lease["TTL"]), (200, "60"))


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    c = etcd3.client(host=host, port=int(port), timeout=20)
    key_value(c)
    transactions(c)
    watches(c)
    leases(c)
    maintenance(c)
    gateway(sys.argv[1])
    c.delete_prefix("py/")
    print("FAILED" if failed else "passed")
    sys.exit(1 if failed else 0)


main()
