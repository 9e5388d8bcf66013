package main

import (
	"fmt"
	"sort"
	"strings"
	"sync"
)

// What a client asked for and, if it was answered, what the answer said.
type operation struct {
	id    int64
	kind  string            // put, delete, txn, revoke
	puts  map[string]string // key -> value
	lease int64             // of the puts; of the revoke
	gone  []string          // keys of deletes

	after    int64 // newest revision known when the request went out: what it wrote is above
	acked    bool
	revision int64 // of the answer's header
	changed  bool  // the answer says that something was written
	guard    string
	guardMod int64 // the txn's condition: mod revision of guard
}

// An event of a watch, or a pair of a range.
type pair struct {
	key, value           string
	deleted              bool
	create, mod, version int64
	lease                int64
}

func (p pair) String() string {
	if p.deleted {
		return fmt.Sprintf("delete %s at %d", p.key, p.mod)
	}
	return fmt.Sprintf("%s=%s create %d mod %d version %d lease %x", p.key, p.value, p.create, p.mod, p.version, p.lease)
}

func describe(group []pair) string {
	lines := make([]string, len(group))
	for i, p := range group {
		lines[i] = p.String()
	}
	sort.Strings(lines)
	return strings.Join(lines, "; ")
}

// What a read saw at the revision of its header.
type sighting struct {
	key    string
	mod    int64 // 0: the key was not there
	not    bool  // the mod revision was another one than mod
	reader string
}

// checker replays the store's history, revision by revision, and holds every answer against it.
type checker struct {
	sync.Mutex
	verified  int64 // every revision up to here has been replayed
	state     map[string]pair
	open      map[int64]*operation // asked for, not seen in the history yet
	acked     map[int64]*operation // by the revision that the answer named
	sightings map[int64][]sighting
	highest   int64            // newest revision of any answer
	leases    map[int64]string // granted, acknowledged: long, short, or revoking (asked, maybe done)
	revoked   map[int64]bool   // acknowledged
	history   map[int64]string // what was replayed lately, for the live watcher
	failures  []string
	checked   int64 // groups
}

func newChecker() *checker {
	return &checker{verified: 1, state: map[string]pair{}, open: map[int64]*operation{}, acked: map[int64]*operation{},
		sightings: map[int64][]sighting{}, leases: map[int64]string{}, revoked: map[int64]bool{}, history: map[int64]string{}}
}

func (c *checker) fail(format string, args ...any) {
	c.failures = append(c.failures, fmt.Sprintf(format, args...))
}

func (c *checker) begin(o *operation) {
	c.Lock()
	defer c.Unlock()
	o.after = c.highest
	c.open[o.id] = o
}

// Sent was the newest revision that anybody knew of when the request went out: an answer may not be older.
func (c *checker) saw(revision, sent int64, who string) {
	if revision < sent {
		c.fail("%s answered at revision %d, after %d was known", who, revision, sent)
	}
	if revision > c.highest {
		c.highest = revision
	}
}

func (c *checker) answered(o *operation, revision, sent int64, changed bool) {
	c.Lock()
	defer c.Unlock()
	c.saw(revision, sent, o.kind)
	o.acked, o.revision, o.changed = true, revision, changed
	if !changed {
		delete(c.open, o.id)
		return
	}
	if other := c.acked[revision]; other != nil {
		c.fail("two writes were given revision %d: %s %d and %s %d", revision, o.kind, o.id, other.kind, other.id)
	}
	if revision <= c.verified {
		c.fail("%s %d was given revision %d, which was there before", o.kind, o.id, revision)
	}
	c.acked[revision] = o
}

func (c *checker) sight(revision, sent int64, s sighting) {
	c.Lock()
	defer c.Unlock()
	c.saw(revision, sent, s.reader)
	c.sightings[revision] = append(c.sightings[revision], s)
}

func (c *checker) known() int64 {
	c.Lock()
	defer c.Unlock()
	return c.highest
}

// replay takes the next revision's events. Groups must come one by one, each revision once.
func (c *checker) replay(group []pair) {
	c.Lock()
	defer c.Unlock()
	revision := group[0].mod
	if revision != c.verified+1 {
		c.fail("history: revision %d follows %d", revision, c.verified)
	}
	c.checkSightings(c.verified)
	seen := map[string]bool{}
	for _, p := range group {
		if p.mod != revision || seen[p.key] {
			c.fail("history: revision %d holds %v twice, or of another revision", revision, p)
		}
		seen[p.key] = true
		c.checkFields(p)
	}
	o := c.explain(revision, group)
	if o != nil {
		if o.guard != "" && c.state[o.guard].mod != o.guardMod {
			c.fail("txn %d went through at revision %d: %s had mod revision %d, it asked for %d", o.id, revision, o.guard,
				c.state[o.guard].mod, o.guardMod)
		}
		delete(c.open, o.id)
	}
	for _, p := range group {
		if p.deleted {
			delete(c.state, p.key)
		} else {
			c.state[p.key] = p
		}
	}
	c.verified = revision
	c.history[revision] = describe(group)
	delete(c.history, revision-50000)
	c.checked++
}

func (c *checker) checkFields(p pair) {
	before, there := c.state[p.key]
	switch {
	case p.deleted && !there:
		c.fail("history: %v, which was not there", p)
	case p.deleted:
	case there && (p.create != before.create || p.version != before.version+1):
		c.fail("history: %v after %v", p, before)
	case !there && (p.create != p.mod || p.version != 1):
		c.fail("history: %v begins a life", p)
	}
}

// explain finds the one operation that the group is the whole of.
func (c *checker) explain(revision int64, group []pair) *operation {
	if o := c.acked[revision]; o != nil {
		delete(c.acked, revision)
		if !c.matches(o, group) {
			c.fail("revision %d was acknowledged to %s %d %v %v, but holds %s", revision, o.kind, o.id, o.puts, o.gone, describe(group))
		}
		return o
	}
	// What a lease's end explains is not held against a delete in doubt of the same key: that one may still come. A
	// revoked lease is given no more keys, so a revocation that is taken for another delete does not come again.
	if lease := c.leaseOf(group); lease != 0 {
		for _, o := range c.open {
			if o.kind == "revoke" && o.lease == lease && revision > o.after && (!o.acked || o.revision == revision) {
				return o
			}
		}
		if c.leases[lease] == "short" {
			return nil
		}
	}
	for _, o := range c.open {
		if o.kind != "revoke" && !o.acked && revision > o.after && c.matches(o, group) {
			return o
		}
	}
	c.fail("revision %d holds what nobody asked for: %s", revision, describe(group))
	return nil
}

// leaseOf returns the lease whose keys, all of them and no other, the group deletes; 0 if there is none.
func (c *checker) leaseOf(group []pair) int64 {
	lease := c.state[group[0].key].lease
	n := 0
	for _, kv := range c.state {
		if kv.lease == lease {
			n++
		}
	}
	for _, p := range group {
		if !p.deleted || c.state[p.key].lease != lease {
			return 0
		}
	}
	if n != len(group) {
		return 0
	}
	return lease
}

func (c *checker) matches(o *operation, group []pair) bool {
	gone := 0
	for _, key := range o.gone {
		if _, there := c.state[key]; there {
			gone++
		}
	}
	if len(group) != len(o.puts)+gone {
		return false
	}
	for _, p := range group {
		if p.deleted {
			found := false
			for _, key := range o.gone {
				found = found || key == p.key
			}
			if !found {
				return false
			}
		} else if value, asked := o.puts[p.key]; !asked || value != p.value || p.lease != o.lease {
			return false
		}
	}
	return true
}

func (c *checker) checkSightings(revision int64) {
	for _, s := range c.sightings[revision] {
		if mod := c.state[s.key].mod; (mod == s.mod) == s.not {
			c.fail("%s saw %s with mod revision %d (not: %v) at revision %d, it had %d", s.reader, s.key, s.mod, s.not, revision, mod)
		}
	}
	delete(c.sightings, revision)
}

// settle is called when the history has been replayed up to the store's revision, with all that the store holds.
func (c *checker) settle(revision int64, all []pair) {
	c.Lock()
	defer c.Unlock()
	if revision < c.highest {
		c.fail("the revision went back: %d after %d was known", revision, c.highest)
	}
	c.highest = max(c.highest, revision)
	if revision != c.verified {
		c.fail("the history ends at %d, the store is at %d", c.verified, revision)
	}
	c.checkSightings(c.verified)
	for at := range c.sightings {
		c.fail("a read was answered at revision %d, which is not in the history", at)
	}
	for at, o := range c.acked {
		c.fail("lost: %s %d, acknowledged at revision %d", o.kind, o.id, at)
	}
	if len(all) != len(c.state) {
		c.fail("the store holds %d keys, its history ends with %d", len(all), len(c.state))
	}
	for _, p := range all {
		if c.state[p.key] != p {
			c.fail("the store holds %v, its history ends with %v", p, c.state[p.key])
		}
	}
	// What was not answered and is not in the history never comes: the process that held it is gone.
	c.open, c.acked, c.sightings = map[int64]*operation{}, map[int64]*operation{}, map[int64][]sighting{}
}

func (c *checker) settleLeases(there map[int64]bool) {
	c.Lock()
	defer c.Unlock()
	for id, kind := range c.leases {
		if kind == "long" && !there[id] {
			c.fail("lease %x is lost", id)
		}
		// A short one that is gone may have ended behind the history that was replayed: it stays known.
		if !there[id] && kind != "short" {
			delete(c.leases, id)
		} else if kind == "revoking" {
			c.leases[id] = "long"
		}
	}
	for id := range c.revoked {
		if there[id] {
			c.fail("lease %x is back, its revocation was acknowledged", id)
		}
	}
}
