package conformance

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

const (
	duplicateKey = "etcdserver: duplicate key given in txn request"
	notProvided  = "etcdserver: key is not provided"
	compacted    = "etcdserver: mvcc: required revision has been compacted"
	future       = "etcdserver: mvcc: required revision is a future revision"
)

// Overlaps of deletes and puts in one txn; the open-ended forms are accepted and applied in order (docs/compatibility.md).
func TestC13_OverlapsInATxn(t *testing.T) {
	c, p := newClient(t), prefix(t)
	kv := kvClient(t)
	a, b := p+"a", p+"b"
	// Open-ended deletes take every later key of the server with them, which no other test needs.
	forms := []struct {
		name    string
		ops     []*pb.RequestOp
		refused bool
		stays   string
	}{
		{"open-ended delete, then put", []*pb.RequestOp{del(a, "\x00"), put(b, "new")}, false, "b"},
		{"finite delete over put", []*pb.RequestOp{del(a, p+"c"), put(b, "new")}, true, "a b"},
		{"delete of the put key", []*pb.RequestOp{del(b, ""), put(b, "new")}, true, "a b"},
		{"open-ended delete from the put key", []*pb.RequestOp{del(a, "\x00"), put(a, "new")}, false, "a"},
		{"put, then finite delete", []*pb.RequestOp{put(b, "new"), del(a, p+"c")}, true, "a b"},
		{"put, then open-ended delete", []*pb.RequestOp{put(b, "new"), del(a, "\x00")}, false, ""},
		{"put twice", []*pb.RequestOp{put(b, "1"), put(b, "2")}, true, "a b"},
	}
	for _, f := range forms {
		for _, nested := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, nested %v", f.name, nested), func(t *testing.T) {
				mustPut(t, c, a, "old")
				before := mustPut(t, c, b, "old").Header.Revision
				ops := f.ops
				if nested {
					ops = []*pb.RequestOp{txn(f.ops...)}
				}
				r, err := kv.Txn(ctx(t), &pb.TxnRequest{Success: ops})
				after := mustGet(t, c, p, clientv3.WithPrefix())
				if f.refused {
					wantStatus(t, err, codes.InvalidArgument, duplicateKey)
					want(t, "revision", after.Header.Revision, before)
				} else {
					if err != nil {
						t.Fatal(err)
					}
					want(t, "one revision", r.Header.Revision, before+1)
					want(t, "and no more", after.Header.Revision, before+1)
				}
				want(t, "keys", keysOf(after, p), f.stays)
			})
		}
	}
	// Across the branches of one level and between a level and its nested txn the finite rule holds as well.
	for name, ops := range map[string][]*pb.RequestOp{
		"outer put, nested put":    {put(b, "1"), txn(put(b, "2"))},
		"outer delete, nested put": {del(a, p+"c"), txn(put(b, "2"))},
		"nested delete, outer put": {txn(del(a, p+"c")), put(b, "2")},
	} {
		_, err := kv.Txn(ctx(t), &pb.TxnRequest{Success: ops})
		t.Log(name)
		wantStatus(t, err, codes.InvalidArgument, duplicateKey)
	}
}

// A txn with one operation that must fail writes nothing, wherever that operation stands.
func TestC15_FailedTxnWritesNothing(t *testing.T) {
	m := startMember(t)
	c := m.newClient()
	kv := pb.NewKVClient(m.rawConn())
	for i := 0; i < 20; i++ {
		mustPut(t, c, "k", "v")
	}
	if _, err := c.Compact(ctx(t), 10); err != nil {
		t.Fatal(err)
	}
	head := mustGet(t, c, "k").Header.Revision
	hash, err := c.HashKV(ctx(t), m.client, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct {
		rev  int64
		text string
	}{{-1, compacted}, {5, compacted}, {head + 1, future}, {head + 100, future}} {
		for name, ops := range map[string][]*pb.RequestOp{
			"range first":  {rng("k", bad.rev), put("m", "x")},
			"put first":    {put("m", "x"), rng("k", bad.rev)},
			"nested range": {put("m", "x"), txn(rng("k", bad.rev))},
			"nested put":   {txn(put("m", "x")), rng("k", bad.rev)},
			"after delete": {del("k", ""), put("m", "x"), rng("k", bad.rev)},
		} {
			_, err := kv.Txn(ctx(t), &pb.TxnRequest{Success: ops})
			t.Log(name, bad.rev)
			wantStatus(t, err, codes.OutOfRange, bad.text)
			r := mustGet(t, c, "m")
			want(t, "m", r.Count, int64(0))
			want(t, "revision", r.Header.Revision, head)
		}
	}
	after, err := c.HashKV(ctx(t), m.client, 0)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "hash", after.Hash, hash.Hash)
	m.restart()
	c = m.newClient()
	want(t, "after a restart", mustGet(t, c, "m").Header.Revision, head)
}

// The count of a range ignores its revision filters.
func TestC17_CountIgnoresRevisionFilters(t *testing.T) {
	c, p := newClient(t), prefix(t)
	r1 := mustPut(t, c, p+"k1", "v").Header.Revision
	r2 := mustPut(t, c, p+"k2", "v").Header.Revision
	for name, o := range map[string]struct {
		opt  clientv3.OpOption
		keys string
	}{
		"min mod": {clientv3.WithMinModRev(r2), "k2"}, "max mod": {clientv3.WithMaxModRev(r1), "k1"},
		"min create": {clientv3.WithMinCreateRev(r2), "k2"}, "max create": {clientv3.WithMaxCreateRev(r1), "k1"},
		"none left": {clientv3.WithMinModRev(r2 + 1), ""},
	} {
		r := mustGet(t, c, p, clientv3.WithPrefix(), o.opt)
		t.Log(name)
		want(t, "keys", keysOf(r, p), o.keys)
		want(t, "count", r.Count, int64(2))
		r = mustGet(t, c, p, clientv3.WithPrefix(), o.opt, clientv3.WithCountOnly())
		want(t, "count only has no keys", len(r.Kvs), 0)
		want(t, "count only", r.Count, int64(2))
	}
}

// Pages at one revision hold every key once, whatever others write meanwhile.
func TestC19_PagesAtOneRevision(t *testing.T) {
	c, p := newClient(t), prefix(t)
	for i := 0; i < 10; i++ {
		mustPut(t, c, fmt.Sprintf("%s%02d", p, i), "v")
	}
	end := clientv3.WithRange(clientv3.GetPrefixRangeEnd(p))
	page := mustGet(t, c, p, end, clientv3.WithLimit(3))
	rev := page.Header.Revision
	want(t, "count of all", page.Count, int64(10))
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-quit:
				return
			default:
			}
			c.Put(context.Background(), fmt.Sprintf("%s%02dx", p, i%10), "later")
			c.Delete(context.Background(), fmt.Sprintf("%s%02d", p, i%10))
			c.Put(context.Background(), fmt.Sprintf("%s%02d", p, (i+5)%10), "changed")
		}
	}()
	eventually(t, "another writer is at work", 5*time.Second, func() bool { return mustGet(t, c, p).Header.Revision > rev+5 })
	seen, left := len(page.Kvs), page.Count
	var keys []string
	for {
		for _, kv := range page.Kvs {
			keys = append(keys, strings.TrimPrefix(string(kv.Key), p))
			if kv.ModRevision > rev {
				t.Errorf("%q was written at %d, read at %d", kv.Key, kv.ModRevision, rev)
			}
		}
		want(t, "count from the start key", page.Count, left)
		if !page.More {
			break
		}
		left -= int64(len(page.Kvs))
		page = mustGet(t, c, string(page.Kvs[len(page.Kvs)-1].Key)+"\x00", end, clientv3.WithLimit(3), clientv3.WithRev(rev))
		seen += len(page.Kvs)
		if page.Header.Revision <= rev {
			t.Errorf("the header has revision %d, which is not the current one", page.Header.Revision)
		}
	}
	close(quit)
	<-done
	want(t, "keys", strings.Join(keys, " "), "00 01 02 03 04 05 06 07 08 09")
	from := mustGet(t, c, p+"04", end, clientv3.WithLimit(1), clientv3.WithRev(rev))
	want(t, "a start key without a zero byte is included", keysOf(from, p), "04")
	want(t, "count from it", from.Count, int64(6))
	want(t, "count only at that revision", mustGet(t, c, p+"04", end, clientv3.WithCountOnly(), clientv3.WithRev(rev)).Count, int64(6))
}

// Half-open ranges, open ends, inverted ranges and empty keys on a store that holds nothing else.
func TestC20_RangeEdges(t *testing.T) {
	m := startMember(t)
	c := m.newClient()
	kv := pb.NewKVClient(m.rawConn())
	for _, k := range []string{"a", "a\xff", "b", "\xff", "\xff\xff"} {
		mustPut(t, c, k, "v")
	}
	for _, r := range []struct{ from, end, keys string }{
		{"a\xff", "b", "a\xff"}, {"\xff", "\x00", "\xff \xff\xff"}, {"\x00", "\x00", "a a\xff b \xff \xff\xff"},
		{"b", "a", ""}, {"a", "a", ""}, {"a", "b", "a a\xff"}, {"a", "", "a"}, {"\xff\xff", "\x00", "\xff\xff"},
		{"\xff", "\xff\xff", "\xff"}, {"a", "\x00\x01", ""}, {"\x00", "\x00\x01", ""}, {"a", "\x00\x00", ""},
	} {
		var out []string
		got, err := kv.Range(ctx(t), &pb.RangeRequest{Key: []byte(r.from), RangeEnd: []byte(r.end)})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range got.Kvs {
			out = append(out, string(k.Key))
		}
		what := fmt.Sprintf("[%q, %q)", r.from, r.end)
		want(t, what, strings.Join(out, " "), r.keys)
		want(t, "count of "+what, got.Count, int64(len(out)))
		got, err = kv.Range(ctx(t), &pb.RangeRequest{Key: []byte(r.from), RangeEnd: []byte(r.end), CountOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		want(t, "count only of "+what, got.Count, int64(len(out)))
		if r.keys == "" {
			d, err := kv.DeleteRange(ctx(t), &pb.DeleteRangeRequest{Key: []byte(r.from), RangeEnd: []byte(r.end)})
			if err != nil {
				t.Fatal(err)
			}
			want(t, "deleted from "+what, d.Deleted, int64(0))
			want(t, "revision", d.Header.Revision, int64(6))
		}
	}
	for name, call := range map[string]func() error{
		"range": func() error { _, err := kv.Range(ctx(t), &pb.RangeRequest{}); return err },
		"range with end": func() error {
			_, err := kv.Range(ctx(t), &pb.RangeRequest{RangeEnd: []byte("z")})
			return err
		},
		"put": func() error { _, err := kv.Put(ctx(t), &pb.PutRequest{Value: []byte("v")}); return err },
		"delete": func() error {
			_, err := kv.DeleteRange(ctx(t), &pb.DeleteRangeRequest{RangeEnd: []byte{0}})
			return err
		},
		"compare": func() error {
			_, err := kv.Txn(ctx(t), &pb.TxnRequest{Compare: []*pb.Compare{{RangeEnd: []byte("z")}}})
			return err
		},
		"txn put": func() error {
			_, err := kv.Txn(ctx(t), &pb.TxnRequest{Success: []*pb.RequestOp{put("", "v")}})
			return err
		},
		"nested": func() error {
			_, err := kv.Txn(ctx(t), &pb.TxnRequest{Failure: []*pb.RequestOp{txn(rng("", 0))}})
			return err
		},
	} {
		t.Log(name)
		wantStatus(t, call(), codes.InvalidArgument, notProvided)
	}
	w := openWatchOn(t, m.rawConn())
	w.create(&pb.WatchCreateRequest{StartRevision: 2, WatchId: 1}) // the one key "\0"
	w.create(&pb.WatchCreateRequest{StartRevision: 2, WatchId: 2, RangeEnd: []byte{0}})
	w.create(&pb.WatchCreateRequest{StartRevision: 2, WatchId: 3, Key: []byte("b"), RangeEnd: []byte{0, 1}})
	mustPut(t, c, "\x00", "zero")
	var one, all string
	refused := false
	for !strings.HasSuffix(all, "|\x00") || one == "" || !refused {
		r := w.recv()
		if r.Canceled {
			want(t, "reason of an empty range", r.CancelReason, "mvcc: watcher range is empty")
			refused = true
		}
		for _, e := range r.Events {
			if r.WatchId == 1 {
				one += string(e.Kv.Key)
			} else {
				all += "|" + string(e.Kv.Key)
			}
		}
	}
	want(t, "an empty key is the first key", one, "\x00")
	want(t, "an open end is all of it", all, "|a|a\xff|b|\xff|\xff\xff|\x00")
}

// Every successful change has a revision of its own, and what it wrote has that revision.
func TestC21_EveryChangeHasItsOwnRevision(t *testing.T) {
	c, p := newClient(t), prefix(t)
	each := 1500
	if os.Getenv("CONFORMANCE_FULL") != "" {
		each = 10000
	}
	const writers = 6
	type change struct {
		rev int64
		key string
	}
	changes := make([][]change, writers)
	var group sync.WaitGroup
	for n := 0; n < writers; n++ {
		group.Add(1)
		go func() {
			defer group.Done()
			own := newClient(t)
			random := rand.New(rand.NewSource(int64(n)))
			ask := func(what string, r interface{ GetRevision() int64 }, err error) int64 {
				if err != nil {
					t.Errorf("writer %d, %s: %v", n, what, err)
					return 0
				}
				return r.GetRevision()
			}
			last := int64(0)
			for i := 0; i < each && !t.Failed(); i++ {
				key := fmt.Sprintf("%s%d/%d", p, n, i)
				var rev int64
				switch random.Intn(10) {
				case 0: // a delete of nothing and a read-only txn see a revision and take none
					r, err := own.Delete(context.Background(), key+"/none")
					if ask("delete", r.OpResponse().Del().Header, err) < last {
						t.Errorf("a revision went back")
					}
					x, err := own.Txn(context.Background()).Then(clientv3.OpGet(key)).Commit()
					if ask("read", x.OpResponse().Txn().Header, err) < last {
						t.Errorf("a revision went back")
					}
					continue
				case 1:
					x, err := own.Txn(context.Background()).Then(clientv3.OpPut(key, "t"), clientv3.OpPut(key+"/2", "t")).Commit()
					rev = ask("txn", x.OpResponse().Txn().Header, err)
				default:
					r, err := own.Put(context.Background(), key, "v")
					rev = ask("put", r.OpResponse().Put().Header, err)
				}
				if rev <= last {
					t.Errorf("writer %d: revision %d after %d", n, rev, last)
				}
				last = rev
				changes[n] = append(changes[n], change{rev, key})
			}
		}()
	}
	group.Wait()
	if t.Failed() {
		return
	}
	var all []change
	for _, list := range changes {
		all = append(all, list...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].rev < all[j].rev })
	got := map[string]int64{}
	for _, kv := range mustGet(t, c, p, clientv3.WithPrefix(), clientv3.WithKeysOnly()).Kvs {
		got[string(kv.Key)] = kv.ModRevision
	}
	for i, a := range all {
		if i > 0 {
			want(t, "revisions follow one another without repeat or gap", a.rev, all[i-1].rev+1)
		}
		want(t, "mod_revision of "+a.key, got[a.key], a.rev)
	}
}
