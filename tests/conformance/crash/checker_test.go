package main

import (
	"strings"
	"testing"
)

func put(key, value string, create, mod, version int64) pair {
	return pair{key: key, value: value, create: create, mod: mod, version: version}
}

// Each history has one fault; the checker must name it.
func TestCheckerFindsEachFault(t *testing.T) {
	ask := func(c *checker, id int64, key, value string, revision int64) {
		o := &operation{id: id, kind: "put", puts: map[string]string{key: value}}
		c.begin(o)
		if revision > 0 {
			c.answered(o, revision, 0, true)
		}
	}
	cases := []struct {
		name, wanted string
		run          func(c *checker)
	}{
		{"good", "", func(c *checker) {
			ask(c, 1, "a", "1", 2)
			ask(c, 2, "a", "2", 0)
			c.replay([]pair{put("a", "1", 2, 2, 1)})
			c.replay([]pair{put("a", "2", 2, 3, 2)})
			c.settle(3, []pair{put("a", "2", 2, 3, 2)})
		}},
		{"a revocation, then a delete in doubt of the same key", "", func(c *checker) {
			for revision := int64(2); revision <= 4; revision += 2 {
				p := put("a", "1", revision, revision, 1)
				o := &operation{id: revision, kind: "put", puts: map[string]string{"a": "1"}}
				if revision == 2 {
					o.lease, p.lease = 7, 7
				}
				c.begin(o)
				c.replay([]pair{p})
				if revision == 2 {
					c.begin(&operation{id: 8, kind: "revoke", lease: 7, acked: true, revision: 3})
					c.begin(&operation{id: 9, kind: "delete", gone: []string{"a"}})
				}
				c.replay([]pair{{key: "a", deleted: true, mod: revision + 1}})
			}
		}},
		{"a write older than its request", "nobody asked", func(c *checker) {
			c.saw(2, 0, "grant")
			ask(c, 1, "a", "1", 0)
			c.replay([]pair{put("a", "1", 2, 2, 1)})
		}},
		{"gap", "follows", func(c *checker) {
			ask(c, 1, "a", "1", 0)
			c.replay([]pair{put("a", "1", 3, 3, 1)})
		}},
		{"duplicate", "follows", func(c *checker) {
			ask(c, 1, "a", "1", 2)
			c.replay([]pair{put("a", "1", 2, 2, 1)})
			c.replay([]pair{put("a", "1", 2, 2, 1)})
		}},
		{"lost write", "lost", func(c *checker) {
			ask(c, 1, "a", "1", 2)
			c.settle(1, nil)
		}},
		{"revision went back", "went back", func(c *checker) {
			c.saw(9, 0, "grant")
			c.settle(1, nil)
		}},
		{"resurrected", "nobody asked", func(c *checker) {
			ask(c, 1, "a", "1", 2)
			c.replay([]pair{put("a", "1", 2, 2, 1)})
			d := &operation{id: 2, kind: "delete", gone: []string{"a"}}
			c.begin(d)
			c.answered(d, 3, 0, true)
			c.replay([]pair{{key: "a", deleted: true, mod: 3}})
			c.replay([]pair{put("a", "1", 4, 4, 1)})
		}},
		{"applied twice", "nobody asked", func(c *checker) {
			ask(c, 1, "a", "1", 0)
			c.replay([]pair{put("a", "1", 2, 2, 1)})
			c.replay([]pair{put("a", "1", 2, 3, 2)})
		}},
		{"half a txn", "nobody asked", func(c *checker) {
			c.begin(&operation{id: 1, kind: "txn", puts: map[string]string{"a": "1", "b": "1"}})
			c.replay([]pair{put("a", "1", 2, 2, 1)})
		}},
		{"guard ignored", "went through", func(c *checker) {
			ask(c, 1, "a", "1", 2)
			c.replay([]pair{put("a", "1", 2, 2, 1)})
			c.begin(&operation{id: 2, kind: "txn", puts: map[string]string{"a": "2"}, guard: "a", guardMod: 7})
			c.replay([]pair{put("a", "2", 2, 3, 2)})
		}},
		{"stale read", "after 5 was known", func(c *checker) { c.sight(3, 5, sighting{reader: "get", key: "a"}) }},
		{"wrong read", "saw a", func(c *checker) {
			ask(c, 1, "a", "1", 2)
			c.sight(2, 0, sighting{reader: "get", key: "a", mod: 0})
			c.replay([]pair{put("a", "1", 2, 2, 1)})
			c.settle(2, []pair{put("a", "1", 2, 2, 1)})
		}},
		{"wrong version", "history", func(c *checker) {
			ask(c, 1, "a", "1", 2)
			c.replay([]pair{put("a", "1", 2, 2, 4)})
		}},
		{"one revision for two", "two writes", func(c *checker) {
			ask(c, 1, "a", "1", 2)
			ask(c, 2, "b", "1", 2)
		}},
		{"lease lost", "is lost", func(c *checker) {
			c.leases[7] = "long"
			c.settleLeases(map[int64]bool{})
		}},
		{"revoked lease back", "is back", func(c *checker) {
			c.revoked[7] = true
			c.settleLeases(map[int64]bool{7: true})
		}},
		{"some keys of a lease", "nobody asked", func(c *checker) {
			c.leases[7] = "short"
			for i, key := range []string{"a", "b"} {
				p := put(key, "1", int64(2+i), int64(2+i), 1)
				p.lease = 7
				c.begin(&operation{id: int64(i), kind: "put", puts: map[string]string{key: "1"}, lease: 7})
				c.replay([]pair{p})
			}
			c.replay([]pair{{key: "a", deleted: true, mod: 4}})
		}},
	}
	for _, test := range cases {
		c := newChecker()
		test.run(c)
		got := strings.Join(c.failures, "\n")
		if (test.wanted == "") != (got == "") || !strings.Contains(got, test.wanted) {
			t.Errorf("%s: the checker says %q, wanted %q", test.name, got, test.wanted)
		}
	}
}
