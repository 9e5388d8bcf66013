#!/usr/bin/env python3
"""A real kube-apiserver against an etcd-compatible server: what Kubernetes does to its store, end to end.

kube.py --apiserver-dir DIR --etcd URL --work DIR [--port N] [--scale F]

DIR holds run-apiserver.sh (or APISERVER_RUN names it) and the apiserver binary. TLS to the store: ETCD_CA, ETCD_CERT,
ETCD_KEY, as run-apiserver.sh takes them. Prints a line a check and "N passed, N failed"; exit 1 if any failed.
Standard library only. --scale 0.1 makes a tenth of the objects, for a quick run.
"""
import argparse
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse


class Api:
    """One API server: JSON over HTTPS with the admin token."""

    def __init__(self, work, port):
        self.port = port
        self.token = open(os.path.join(work, "tokens.csv")).read().split(",")[0]
        self.context = ssl.create_default_context(cafile=os.path.join(work, "certs/apiserver.crt"))
        self.local = threading.local()

    def connect(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=120)

    def call(self, method, path, body=None, query=None, content="application/json"):
        if query:
            path += "?" + urllib.parse.urlencode(query)
        headers = {"Authorization": "Bearer " + self.token, "Content-Type": content, "Accept": "application/json"}
        data = json.dumps(body) if body is not None else None
        for attempt in (0, 1):
            if getattr(self.local, "connection", None) is None:
                self.local.connection = self.connect()
            try:
                self.local.connection.request(method, path, data, headers)
                reply = self.local.connection.getresponse()
                text = reply.read()
                return reply.status, json.loads(text) if text[:1] == b"{" else text.decode()
            except (http.client.HTTPException, OSError):
                self.local.connection = None
                if attempt or method != "GET":
                    raise

    def watch(self, path, query):
        """Yields events until the server ends the watch."""
        connection = self.connect()
        connection.request("GET", path + "?" + urllib.parse.urlencode(dict(query, watch="1")),
                           headers={"Authorization": "Bearer " + self.token, "Accept": "application/json"})
        reply = connection.getresponse()
        if reply.status != 200:
            yield {"type": "ERROR", "object": json.loads(reply.read())}
            return
        while True:
            line = reply.readline()
            if not line:
                return
            yield json.loads(line)


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, what, ok, detail=""):
        if ok:
            self.passed += 1
            print("ok     ", what, flush=True)
        else:
            self.failed += 1
            print("FAILED ", what, detail, flush=True)
        return ok


def parallel(count, workers, work):
    """Runs work(i) for i in range(count) on some threads; returns the results that are true."""
    results, lock, next_index = [], threading.Lock(), [0]

    def run():
        while True:
            with lock:
                i = next_index[0]
                next_index[0] += 1
            if i >= count:
                return
            out = work(i)
            if out:
                with lock:
                    results.append(out)

    threads = [threading.Thread(target=run) for _ in range(workers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def config_map(name, value):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}


def create_objects(api, c, namespaces, maps):
    bad = parallel(namespaces, 8, lambda i: (lambda s: s[0] != 201 and s)(
        api.call("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns-%d" % i}})))
    c.check("%d namespaces" % namespaces, not bad, bad[:1])
    started = time.time()
    bad = parallel(maps, 16, lambda i: (lambda s: s[0] != 201 and s)(
        api.call("POST", "/api/v1/namespaces/ns-%d/configmaps" % (i % namespaces), config_map("map-%d" % i, "x" * 200))))
    c.check("%d ConfigMaps (%.0f/s)" % (maps, maps / (time.time() - started)), not bad, bad[:1])
    status, listed = api.call("GET", "/api/v1/configmaps", query={"resourceVersion": ""})
    c.check("a whole list has them all", status == 200 and
            len([m for m in listed["items"] if m["metadata"]["name"].startswith("map-")]) == maps, status)


def paging(api, c, maps, etcd_compact):
    names, token, pages, counts = [], None, 0, []
    while True:
        query = {"limit": 500}
        if token:
            query["continue"] = token
        status, page = api.call("GET", "/api/v1/configmaps", query=query)
        if not c.check("page %d" % pages, status == 200, page) if status != 200 else False:
            return
        names += [m["metadata"]["namespace"] + "/" + m["metadata"]["name"] for m in page["items"]]
        counts.append(page["metadata"].get("remainingItemCount", 0) + len(names))
        token = page["metadata"].get("continue")
        pages += 1
        if not token:
            break
    c.check("pages: nothing skipped or repeated", len(names) == len(set(names)) and
            len([n for n in names if "/map-" in n]) == maps)
    c.check("pages: remainingItemCount is right", set(counts) == {len(names)}, set(counts))
    status, page = api.call("GET", "/api/v1/configmaps", query={"limit": 10})
    token = page["metadata"]["continue"]
    for i in range(20):
        api.call("PATCH", "/api/v1/namespaces/ns-0/configmaps/map-0", {"data": {"touch": str(i)}},
                 content="application/merge-patch+json")
    etcd_compact()
    status, expired = api.call("GET", "/api/v1/configmaps", query={"limit": 10, "continue": token})
    fresh = expired.get("metadata", {}).get("continue") if isinstance(expired, dict) else None
    if c.check("a page across a compaction is 410", status == 410, (status, expired)):
        c.check("with a fresh token", bool(fresh), expired)
        status, page = api.call("GET", "/api/v1/configmaps", query={"limit": 10, "continue": fresh})
        c.check("which goes on", status == 200 and len(page["items"]) == 10, status)


def watching(api, c, updates):
    status, created = api.call("POST", "/api/v1/namespaces/ns-0/configmaps", config_map("watched", "0"))
    version = created["metadata"]["resourceVersion"]
    seen, bookmarks, done = [], [], threading.Event()

    def follow():
        for event in api.watch("/api/v1/namespaces/ns-0/configmaps",
                               {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": 120}):
            if event["type"] == "BOOKMARK":
                bookmarks.append(int(event["object"]["metadata"]["resourceVersion"]))
            elif event["type"] == "MODIFIED" and event["object"]["metadata"]["name"] == "watched":
                seen.append(event["object"]["data"]["value"])
            if len(seen) >= updates and bookmarks:
                done.set()
                return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    failures = 0
    for i in range(1, updates + 1):
        status, reply = api.call("PATCH", "/api/v1/namespaces/ns-0/configmaps/watched", {"data": {"value": str(i)}},
                                 content="application/merge-patch+json")
        failures += status != 200
    c.check("%d updates" % updates, failures == 0)
    done.wait(100)
    c.check("watch: every update once, in order", seen == [str(i) for i in range(1, updates + 1)], seen[-3:])
    c.check("watch: bookmarks", bool(bookmarks))


def watch_list(api, c, maps):
    names, ended = set(), False
    for event in api.watch("/api/v1/configmaps", {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan",
                                                  "allowWatchBookmarks": "true", "timeoutSeconds": 60}):
        if event["type"] == "ADDED":
            names.add(event["object"]["metadata"]["namespace"] + "/" + event["object"]["metadata"]["name"])
        elif event["type"] == "BOOKMARK":
            ended = "k8s.io/initial-events-end" in event["object"]["metadata"].get("annotations", {})
            if ended:
                break
        elif event["type"] == "ERROR":
            c.check("WatchList", False, event)
            return
    c.check("WatchList: all initial events and their end", ended and len([n for n in names if "/map-" in n]) == maps, len(names))


def custom_resources(api, c, count):
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced",
                 "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                 "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                     "type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}}}]}}
    status, reply = api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    c.check("a CRD", status in (201, 409), reply)
    path = "/apis/example.org/v1/namespaces/ns-1/widgets"
    deadline = time.time() + 60
    while api.call("GET", path)[0] != 200 and time.time() < deadline:
        time.sleep(0.2)
    bad = parallel(count, 8, lambda i: (lambda s: s[0] != 201 and s)(
        api.call("POST", path, {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w-%d" % i},
                                "spec": {"size": i}})))
    c.check("%d custom resources" % count, not bad, bad[:1])
    status, listed = api.call("GET", path)
    c.check("listed", status == 200 and len(listed["items"]) == count, status)


def leases(api, c, count, seconds):
    path = "/apis/coordination.k8s.io/v1/namespaces/ns-2/leases"
    made = {}

    def make(i):
        status, reply = api.call("POST", path, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                                                "metadata": {"name": "node-%d" % i}, "spec": {"holderIdentity": "node-%d" % i}})
        if status != 201:
            return reply
        made[i] = reply

    bad = parallel(count, 8, make)
    c.check("%d Leases" % count, not bad, bad[:1])
    end, rounds, errors, slowest = time.time() + seconds, 0, [], [0.0]

    def renew(i):
        lease = made[i]
        lease["spec"]["renewTime"] = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        started = time.time()
        status, reply = api.call("PUT", path + "/node-%d" % i, lease)
        slowest[0] = max(slowest[0], time.time() - started)
        if status != 200:
            errors.append(reply)
            return
        made[i] = reply

    while time.time() < end:
        started = time.time()
        parallel(count, 8, renew)
        rounds += 1
        time.sleep(max(0.0, 2 - (time.time() - started)))
    c.check("Leases renewed every 2 s for %d rounds, slowest %.0f ms" % (rounds, slowest[0] * 1000), not errors, errors[:1])


def events(api, c, count, ttl):
    path = "/api/v1/namespaces/ns-3/events"
    bad = parallel(count, 8, lambda i: (lambda s: s[0] != 201 and s)(api.call("POST", path, {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "event-%d" % i}, "reason": "Test", "message": "m", "type": "Normal",
        "involvedObject": {"kind": "Pod", "namespace": "ns-3", "name": "p"}})))
    c.check("%d Events" % count, not bad, bad[:1])
    deadline = time.time() + ttl + 90
    left = count
    while left and time.time() < deadline:
        time.sleep(1)
        left = len(api.call("GET", path)[1]["items"])
    c.check("Events disappear after their TTL", left == 0, left)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--apiserver-dir", required=True)
    parser.add_argument("--etcd", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--port", type=int, default=16443)
    parser.add_argument("--scale", type=float, default=1.0)
    args = parser.parse_args()
    script = os.environ.get("APISERVER_RUN", os.path.join(args.apiserver_dir, "run-apiserver.sh"))
    c = Checks()
    ttl = 10

    def start():
        out = subprocess.run([script, args.apiserver_dir, args.work, args.etcd, str(args.port), "--event-ttl=%ds" % ttl,
                              "--feature-gates=ListFromCacheSnapshot=false"],
                             stdout=subprocess.PIPE, check=False, text=True)
        return int(out.stdout.strip()) if out.returncode == 0 else None

    def etcd_compact():
        """Compacts at the present revision through the store's JSON API or, with TLS, with the client certificate."""
        url = urllib.parse.urlsplit(args.etcd.split(",")[0])
        if url.scheme == "https":
            context = ssl.create_default_context(cafile=os.environ["ETCD_CA"])
            if os.environ.get("ETCD_CERT"):
                context.load_cert_chain(os.environ["ETCD_CERT"], os.environ["ETCD_KEY"])
            connection = http.client.HTTPSConnection(url.hostname, url.port, context=context)
        else:
            connection = http.client.HTTPConnection(url.hostname, url.port)
        connection.request("POST", "/v3/kv/range", '{"key":"eA=="}', {"Content-Type": "application/json"})
        revision = json.loads(connection.getresponse().read())["header"]["revision"]
        connection.request("POST", "/v3/kv/compaction", json.dumps({"revision": revision}), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        c.check("the store compacts", reply.status == 200, reply.read())

    pid = start()
    if not c.check("the API server starts", pid is not None):
        print("%d passed, %d failed" % (c.passed, c.failed))
        return 1
    try:
        api = Api(args.work, args.port)
        namespaces, maps = max(4, int(200 * args.scale)), int(10000 * args.scale)
        widgets, lease_count, updates = int(1000 * args.scale), int(500 * args.scale), int(1000 * args.scale)
        create_objects(api, c, namespaces, maps)
        paging(api, c, maps, etcd_compact)
        watching(api, c, updates)
        watch_list(api, c, maps + 0)
        custom_resources(api, c, widgets)
        leases(api, c, lease_count, 20)
        events(api, c, int(200 * args.scale), ttl)
        os.kill(pid, signal.SIGTERM)
        for _ in range(600):
            try:
                os.kill(pid, 0)
                time.sleep(0.1)
            except ProcessLookupError:
                break
        pid = start()
        if c.check("the API server starts again", pid is not None):
            api = Api(args.work, args.port)
            status, listed = api.call("GET", "/api/v1/configmaps")
            c.check("all ConfigMaps are there after the restart",
                    len([m for m in listed["items"] if m["metadata"]["name"].startswith("map-")]) == maps)
            deadline = time.time() + 60  # the API server answers 429 while it sets up a definition's storage
            while True:
                status, listed = api.call("GET", "/apis/example.org/v1/namespaces/ns-1/widgets")
                if status == 200 or time.time() > deadline:
                    break
                time.sleep(0.5)
            c.check("all custom resources too", status == 200 and len(listed["items"]) == widgets, status)
            status, listed = api.call("GET", "/apis/coordination.k8s.io/v1/namespaces/ns-2/leases")
            c.check("all Leases too", status == 200 and len(listed["items"]) == lease_count, status)
    finally:
        if pid:
            os.kill(pid, signal.SIGTERM)
    print("%d passed, %d failed" % (c.passed, c.failed))
    return 1 if c.failed else 0


if __name__ == "__main__":
    sys.exit(main())
