package main

import (
	"context"
	"fmt"
	"math/rand"
	"strconv"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const keys = 40

// load makes requests until its client's server is gone; each goroutine ends at its first error.
type load struct {
	c        *clientv3.Client
	check    *checker
	ids      *atomic.Int64
	acked    *atomic.Int64
	liveNext *atomic.Int64 // where the live watcher stands: compaction stays below it
}

func keyName(n int) string { return fmt.Sprintf("k/%02d", n) }

func (l *load) run(ctx context.Context, rng *rand.Rand) {
	var lease int64
	for ctx.Err() == nil {
		var err error
		switch n := rng.Intn(100); {
		case n < 45:
			err = l.put(ctx, rng, lease*int64(rng.Intn(2)))
		case n < 55:
			err = l.remove(ctx, keyName(rng.Intn(keys)))
		case n < 75:
			err = l.guarded(ctx, rng)
		case n < 90:
			err = l.get(ctx, keyName(rng.Intn(keys)))
		case n < 95:
			lease, err = l.grant(ctx, rng)
		case n < 98:
			if lease != 0 {
				err = l.revoke(ctx, lease)
				lease = 0
			}
		default:
			err = l.compact(ctx, rng)
		}
		if err != nil {
			return
		}
	}
}

func (l *load) next() int64 { return l.ids.Add(1) }

func (l *load) put(ctx context.Context, rng *rand.Rand, lease int64) error {
	o := &operation{id: l.next(), kind: "put", lease: lease}
	key, value := keyName(rng.Intn(keys)), strconv.FormatInt(o.id, 10)
	o.puts = map[string]string{key: value}
	sent := l.check.known()
	l.check.begin(o)
	r, err := l.c.Put(ctx, key, value, clientv3.WithLease(clientv3.LeaseID(lease)))
	if err != nil {
		return l.unlessLeaseGone(o, lease, err)
	}
	l.acked.Add(1)
	l.check.answered(o, r.Header.Revision, sent, true)
	return nil
}

// A lease with a short life may end before it is used; that refusal writes nothing.
func (l *load) unlessLeaseGone(o *operation, lease int64, err error) error {
	if lease == 0 || err.Error() != "etcdserver: requested lease not found" {
		return err
	}
	l.check.Lock()
	defer l.check.Unlock()
	delete(l.check.open, o.id)
	if l.check.leases[lease] == "long" {
		l.check.fail("lease %x is gone", lease)
	}
	return nil
}

func (l *load) remove(ctx context.Context, key string) error {
	o := &operation{id: l.next(), kind: "delete", gone: []string{key}}
	sent := l.check.known()
	l.check.begin(o)
	r, err := l.c.Delete(ctx, key)
	if err != nil {
		return err
	}
	l.acked.Add(1)
	l.check.answered(o, r.Header.Revision, sent, r.Deleted > 0)
	if r.Deleted == 0 {
		l.check.sight(r.Header.Revision, sent, sighting{reader: "delete", key: key})
	}
	return nil
}

// As the API server writes: read, then write if nobody else did; two keys and a delete in one revision.
func (l *load) guarded(ctx context.Context, rng *rand.Rand) error {
	a, b, d := rng.Intn(keys), rng.Intn(keys), rng.Intn(keys)
	if a == b || b == d || a == d {
		return nil
	}
	guard := keyName(a)
	sent := l.check.known()
	g, err := l.c.Get(ctx, guard)
	if err != nil {
		return err
	}
	var mod int64
	if len(g.Kvs) > 0 {
		mod = g.Kvs[0].ModRevision
	}
	l.check.sight(g.Header.Revision, sent, sighting{reader: "get", key: guard, mod: mod})
	if rng.Intn(10) == 0 {
		mod++ // a guess that is nearly always wrong
	}
	o := &operation{id: l.next(), kind: "txn", gone: []string{keyName(d)}, guard: guard, guardMod: mod}
	value := strconv.FormatInt(o.id, 10)
	o.puts = map[string]string{guard: value, keyName(b): value}
	sent = l.check.known()
	l.check.begin(o)
	r, err := l.c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(guard), "=", mod)).
		Then(clientv3.OpPut(guard, value), clientv3.OpPut(keyName(b), value), clientv3.OpDelete(keyName(d))).
		Else(clientv3.OpGet(guard)).Commit()
	if err != nil {
		return err
	}
	l.acked.Add(1)
	l.check.answered(o, r.Header.Revision, sent, r.Succeeded)
	if !r.Succeeded {
		l.check.sight(r.Header.Revision, sent, sighting{reader: "txn", key: guard, mod: mod, not: true})
	}
	return nil
}

func (l *load) get(ctx context.Context, key string) error {
	sent := l.check.known()
	r, err := l.c.Get(ctx, key)
	if err != nil {
		return err
	}
	var mod int64
	if len(r.Kvs) > 0 {
		mod = r.Kvs[0].ModRevision
	}
	l.check.sight(r.Header.Revision, sent, sighting{reader: "get", key: key, mod: mod})
	return nil
}

func (l *load) grant(ctx context.Context, rng *rand.Rand) (int64, error) {
	kind, ttl := "long", int64(3600)
	if rng.Intn(4) == 0 {
		kind, ttl = "short", 2
	}
	sent := l.check.known()
	r, err := l.c.Grant(ctx, ttl)
	if err != nil {
		return 0, err
	}
	l.check.Lock()
	defer l.check.Unlock()
	l.check.saw(r.ResponseHeader.Revision, sent, "grant")
	l.check.leases[int64(r.ID)] = kind
	return int64(r.ID), nil
}

func (l *load) revoke(ctx context.Context, lease int64) error {
	o := &operation{id: l.next(), kind: "revoke", lease: lease}
	sent := l.check.known()
	l.check.begin(o)
	l.check.Lock()
	if l.check.leases[lease] == "long" {
		l.check.leases[lease] = "revoking"
	}
	l.check.Unlock()
	r, err := l.c.Revoke(ctx, clientv3.LeaseID(lease))
	if err != nil {
		return l.unlessLeaseGone(o, lease, err)
	}
	l.check.Lock()
	defer l.check.Unlock()
	// Whether it had keys, and so a revision of its own, only the history knows: it stays open.
	l.check.saw(r.Header.Revision, sent, "revoke")
	o.acked, o.revision = true, r.Header.Revision
	l.check.revoked[lease] = true
	delete(l.check.leases, lease)
	return nil
}

// Never beyond what was replayed and what the live watcher has seen: the history must stay readable.
func (l *load) compact(ctx context.Context, rng *rand.Rand) error {
	l.check.Lock()
	at := min(l.check.verified, l.liveNext.Load()-1) - int64(rng.Intn(3))
	sent := l.check.highest
	l.check.Unlock()
	if at < 1 {
		return nil
	}
	r, err := l.c.Compact(ctx, at)
	if err != nil {
		if err.Error() == "etcdserver: mvcc: required revision has been compacted" {
			return nil
		}
		return err
	}
	l.check.Lock()
	defer l.check.Unlock()
	l.check.saw(r.Header.Revision, sent, "compact")
	return nil
}
