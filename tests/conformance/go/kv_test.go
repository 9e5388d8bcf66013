package conformance

import (
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

func TestPutGetDelete(t *testing.T) {
	c, p := newClient(t), prefix(t)
	first := mustPut(t, c, p+"a", "1")
	second := mustPut(t, c, p+"a", "2", clientv3.WithPrevKV())
	want(t, "revision step", second.Header.Revision, first.Header.Revision+1)
	want(t, "prev value", string(second.PrevKv.Value), "1")
	got := mustGet(t, c, p+"a")
	kv := got.Kvs[0]
	want(t, "value", string(kv.Value), "2")
	want(t, "version", kv.Version, int64(2))
	want(t, "create", kv.CreateRevision, first.Header.Revision)
	want(t, "mod", kv.ModRevision, second.Header.Revision)
	old := mustGet(t, c, p+"a", clientv3.WithRev(first.Header.Revision))
	want(t, "old value", string(old.Kvs[0].Value), "1")
	want(t, "header of an old read", old.Header.Revision, second.Header.Revision)
	del, err := c.Delete(ctx(t), p+"a", clientv3.WithPrevKV())
	if err != nil {
		t.Fatal(err)
	}
	want(t, "deleted", del.Deleted, int64(1))
	want(t, "prev of delete", string(del.PrevKvs[0].Value), "2")
	again, err := c.Delete(ctx(t), p+"a")
	if err != nil {
		t.Fatal(err)
	}
	want(t, "deleting nothing takes no revision", again.Header.Revision, del.Header.Revision)
	mustPut(t, c, p+"a", "3")
	want(t, "a new life starts at version 1", mustGet(t, c, p+"a").Kvs[0].Version, int64(1))
}

func TestRangeEdgesC20(t *testing.T) {
	c, p := newClient(t), prefix(t)
	for _, k := range []string{"a", "a\xff", "b", "\xff", "\xff\xff"} {
		mustPut(t, c, p+k, k)
	}
	get := func(from, end string) string {
		return keysOf(mustGet(t, c, p+from, clientv3.WithRange(p+end)), p)
	}
	want(t, "[a\\xff, b)", get("a\xff", "b"), "a\xff")
	want(t, "[b, a)", get("b", "a"), "")
	want(t, "[a, a)", get("a", "a"), "")
	want(t, "prefix", keysOf(mustGet(t, c, p, clientv3.WithPrefix()), p), "a a\xff b \xff \xff\xff")
	all := mustGet(t, c, p+"\xff", clientv3.WithFromKey(), clientv3.WithCountOnly())
	if all.Count < 2 {
		t.Fatalf("from key: %d", all.Count)
	}
	kv := kvClient(t)
	_, err := kv.Range(ctx(t), &pb.RangeRequest{})
	wantStatus(t, err, codes.InvalidArgument, "etcdserver: key is not provided")
	_, err = kv.Put(ctx(t), &pb.PutRequest{})
	wantStatus(t, err, codes.InvalidArgument, "etcdserver: key is not provided")
	_, err = kv.DeleteRange(ctx(t), &pb.DeleteRangeRequest{})
	wantStatus(t, err, codes.InvalidArgument, "etcdserver: key is not provided")
	_, err = kv.Txn(ctx(t), &pb.TxnRequest{Compare: []*pb.Compare{{}}})
	wantStatus(t, err, codes.InvalidArgument, "etcdserver: key is not provided")
	whole, err := kv.Range(ctx(t), &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, CountOnly: true})
	if err != nil || whole.Count < 5 {
		t.Fatalf("whole key space: %v %v", whole, err)
	}
	none, err := kv.Range(ctx(t), &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0, 1}})
	if err != nil || none.Count != 0 {
		t.Fatalf("[\\0, \\0\\1): %v %v", none, err)
	}
}

func TestRangeOptions(t *testing.T) {
	c, p := newClient(t), prefix(t)
	var revs []int64
	for _, k := range []string{"c", "a", "b", "d"} {
		revs = append(revs, mustPut(t, c, p+k, "v"+k).Header.Revision)
	}
	mustPut(t, c, p+"a", "va2")
	get := func(opts ...clientv3.OpOption) *clientv3.GetResponse {
		return mustGet(t, c, p, append([]clientv3.OpOption{clientv3.WithPrefix()}, opts...)...)
	}
	r := get(clientv3.WithLimit(2))
	want(t, "limit", keysOf(r, p), "a b")
	want(t, "more", r.More, true)
	want(t, "count is not limited", r.Count, int64(4))
	want(t, "descend", keysOf(get(clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend)), p), "d c b a")
	want(t, "by create", keysOf(get(clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)), p), "c a b d")
	want(t, "by mod", keysOf(get(clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend)), p), "a d b c")
	want(t, "by version, descending, limit 1",
		keysOf(get(clientv3.WithSort(clientv3.SortByVersion, clientv3.SortDescend), clientv3.WithLimit(1)), p), "a")
	want(t, "by value", keysOf(get(clientv3.WithSort(clientv3.SortByValue, clientv3.SortDescend)), p), "d c b a")
	filtered := get(clientv3.WithMinModRev(revs[2]))
	want(t, "min mod", keysOf(filtered, p), "a b d")
	want(t, "count ignores filters (C17)", filtered.Count, int64(4))
	want(t, "max create", keysOf(get(clientv3.WithMaxCreateRev(revs[1])), p), "a c")
	keys := get(clientv3.WithKeysOnly())
	want(t, "keys only", len(keys.Kvs[0].Value), 0)
	want(t, "keys only keeps revisions", keys.Kvs[2].ModRevision, revs[0])
	count := get(clientv3.WithCountOnly(), clientv3.WithLimit(1))
	want(t, "count only", count.Count, int64(4))
	want(t, "count only has no kvs", len(count.Kvs), 0)
	want(t, "serializable", keysOf(get(clientv3.WithSerializable()), p), "a b c d")
	kv := kvClient(t)
	_, err := kv.Range(ctx(t), &pb.RangeRequest{Key: []byte("a"), SortOrder: 7})
	wantStatus(t, err, codes.InvalidArgument, "etcdserver: invalid sort option")
	_, err = kv.Range(ctx(t), &pb.RangeRequest{Key: []byte("a"), Revision: 1 << 60})
	wantStatus(t, err, codes.OutOfRange, "etcdserver: mvcc: required revision is a future revision")
}

func TestPutOptions(t *testing.T) {
	c, p := newClient(t), prefix(t)
	kv := kvClient(t)
	_, err := kv.Put(ctx(t), &pb.PutRequest{Key: []byte(p), IgnoreValue: true})
	wantStatus(t, err, codes.InvalidArgument, "etcdserver: key not found")
	_, err = kv.Put(ctx(t), &pb.PutRequest{Key: []byte(p), Value: []byte("x"), IgnoreValue: true})
	wantStatus(t, err, codes.InvalidArgument, "etcdserver: value is provided")
	_, err = kv.Put(ctx(t), &pb.PutRequest{Key: []byte(p), Lease: 5, IgnoreLease: true})
	wantStatus(t, err, codes.InvalidArgument, "etcdserver: lease is provided")
	_, err = kv.Put(ctx(t), &pb.PutRequest{Key: []byte(p), Lease: 12345})
	wantStatus(t, err, codes.NotFound, "etcdserver: requested lease not found")
	mustPut(t, c, p, "v")
	if _, err = kv.Put(ctx(t), &pb.PutRequest{Key: []byte(p), IgnoreValue: true}); err != nil {
		t.Fatal(err)
	}
	got := mustGet(t, c, p).Kvs[0]
	want(t, "ignore_value keeps the value", string(got.Value), "v")
	want(t, "and is a put", got.Version, int64(2))
	_, err = kv.Put(ctx(t), &pb.PutRequest{Key: []byte(p), Value: make([]byte, 1600000)})
	wantStatus(t, err, codes.InvalidArgument, "etcdserver: request is too large")
}

func put(k, v string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(k), Value: []byte(v)}}}
}
func del(k, end string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(k), RangeEnd: []byte(end)}}}
}
func rng(k string, rev int64) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(k), Revision: rev}}}
}
func txn(success ...*pb.RequestOp) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: success}}}
}

func TestTxnBranchesAndHeaders(t *testing.T) {
	c, p := newClient(t), prefix(t)
	k := p + "k"
	r, err := c.Txn(ctx(t)).If(clientv3.Compare(clientv3.CreateRevision(k), "=", 0)).
		Then(clientv3.OpPut(k, "2"), clientv3.OpGet(k), clientv3.OpPut(p+"l", "x")).
		Else(clientv3.OpGet(k)).Commit()
	if err != nil {
		t.Fatal(err)
	}
	want(t, "succeeded", r.Succeeded, true)
	want(t, "later ops see earlier ones", string(r.Responses[1].GetResponseRange().Kvs[0].Value), "2")
	want(t, "op header has the revision", r.Responses[0].GetResponsePut().Header.Revision, r.Header.Revision)
	want(t, "op header has no cluster id", r.Responses[0].GetResponsePut().Header.ClusterId, uint64(0))
	got := mustGet(t, c, k).Kvs[0]
	want(t, "created once", got.Version, int64(1))
	failed, err := c.Txn(ctx(t)).If(clientv3.Compare(clientv3.Version(k), ">", 5)).
		Then(clientv3.OpPut(k, "no")).Else(clientv3.OpGet(k)).Commit()
	if err != nil {
		t.Fatal(err)
	}
	want(t, "failed", failed.Succeeded, false)
	want(t, "a failed txn takes no revision", failed.Header.Revision, r.Header.Revision)
	want(t, "failure branch ran", string(failed.Responses[0].GetResponseRange().Kvs[0].Value), "2")
}

func TestTxnDuplicatesC13(t *testing.T) {
	p := prefix(t)
	kv := kvClient(t)
	a, b, z := p+"a", p+"b", p+"c"
	dup := "etcdserver: duplicate key given in txn request"
	bad := map[string][]*pb.RequestOp{
		"put twice":                {put(a, "1"), put(a, "2")},
		"range over put":           {del(a, z), put(b, "1")},
		"same key":                 {del(b, ""), put(b, "1")},
		"nested":                   {txn(put(a, "1")), put(a, "2")},
		"nested delete before put": {txn(del(a, "")), txn(put(a, "1"))},
	}
	for name, ops := range bad {
		_, err := kv.Txn(ctx(t), &pb.TxnRequest{Success: ops})
		t.Log(name)
		wantStatus(t, err, codes.InvalidArgument, dup)
	}
	good := map[string][]*pb.RequestOp{
		"open-ended delete":        {del(a, "\x00"), put(b, "1")},
		"deletes may overlap":      {del(a, z), del(a, z)},
		"nested put before delete": {txn(put(a, "1")), txn(del(a, ""))},
	}
	for name, ops := range good {
		if _, err := kv.Txn(ctx(t), &pb.TxnRequest{Success: ops}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	_, err := kv.Txn(ctx(t), &pb.TxnRequest{Success: []*pb.RequestOp{{}}})
	wantStatus(t, err, codes.InvalidArgument, "etcdserver: key not found")
	var many []*pb.RequestOp
	for i := 0; i < 129; i++ {
		many = append(many, rng(a, 0))
	}
	_, err = kv.Txn(ctx(t), &pb.TxnRequest{Success: many})
	wantStatus(t, err, codes.InvalidArgument, "etcdserver: too many operations in txn request")
}

func TestTxnIsAtomicC15(t *testing.T) {
	c, p := newClient(t), prefix(t)
	kv := kvClient(t)
	before := mustPut(t, c, p+"k", "1").Header.Revision
	for _, rev := range []int64{before + 100, 1 << 40} {
		_, err := kv.Txn(ctx(t), &pb.TxnRequest{Success: []*pb.RequestOp{put(p+"m", "x"), rng(p+"k", rev)}})
		wantStatus(t, err, codes.OutOfRange, "etcdserver: mvcc: required revision is a future revision")
	}
	want(t, "nothing written", mustGet(t, c, p+"m").Count, int64(0))
}

func TestTxnNestedSeesThePreState(t *testing.T) {
	c, p := newClient(t), prefix(t)
	kv := kvClient(t)
	nested := &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: []byte(p + "a"), Target: pb.Compare_VERSION, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_Version{Version: 0}}},
		Success: []*pb.RequestOp{put(p+"b", "pre")},
		Failure: []*pb.RequestOp{put(p+"b", "post")},
	}}}
	r, err := kv.Txn(ctx(t), &pb.TxnRequest{Success: []*pb.RequestOp{put(p+"a", "1"), nested}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "compare ran before the outer put", string(mustGet(t, c, p+"b").Kvs[0].Value), "pre")
	want(t, "nested header is zero", r.Responses[1].GetResponseTxn().Header.Revision, int64(0))
	a, b := mustGet(t, c, p+"a").Kvs[0], mustGet(t, c, p+"b").Kvs[0]
	want(t, "one revision", a.ModRevision, b.ModRevision)
}

func TestTxnCompareRules(t *testing.T) {
	c, p := newClient(t), prefix(t)
	kv := kvClient(t)
	mustPut(t, c, p+"1", "x")
	mustPut(t, c, p+"2", "y")
	holds := func(cmp *pb.Compare) bool {
		r, err := kv.Txn(ctx(t), &pb.TxnRequest{Compare: []*pb.Compare{cmp}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Succeeded
	}
	missing := []byte(p + "none")
	want(t, "value of a missing key is never equal",
		holds(&pb.Compare{Key: missing, Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{}}), false)
	want(t, "nor different",
		holds(&pb.Compare{Key: missing, Target: pb.Compare_VALUE, Result: pb.Compare_NOT_EQUAL,
			TargetUnion: &pb.Compare_Value{Value: []byte("q")}}), false)
	want(t, "version of a missing key is 0",
		holds(&pb.Compare{Key: missing, Target: pb.Compare_VERSION, TargetUnion: &pb.Compare_Version{}}), true)
	end := []byte(clientv3.GetPrefixRangeEnd(p))
	want(t, "every key of a range must hold",
		holds(&pb.Compare{Key: []byte(p), RangeEnd: end, Target: pb.Compare_VALUE, Result: pb.Compare_LESS,
			TargetUnion: &pb.Compare_Value{Value: []byte("y")}}), false)
	want(t, "and does here",
		holds(&pb.Compare{Key: []byte(p), RangeEnd: end, Target: pb.Compare_VALUE, Result: pb.Compare_LESS,
			TargetUnion: &pb.Compare_Value{Value: []byte("z")}}), true)
	want(t, "missing operand is 0", holds(&pb.Compare{Key: missing, Target: pb.Compare_LEASE}), true)
}

func TestPagingC19(t *testing.T) {
	c, p := newClient(t), prefix(t)
	for _, k := range strings.Split("0123456789", "") {
		mustPut(t, c, p+k, "v")
	}
	first := mustGet(t, c, p, clientv3.WithRange(clientv3.GetPrefixRangeEnd(p)), clientv3.WithLimit(3))
	rev := first.Header.Revision
	seen := keysOf(first, p)
	last := first
	for last.More {
		mustPut(t, c, p+"9x", "later")
		c.Delete(ctx(t), p+"7")
		next := string(last.Kvs[len(last.Kvs)-1].Key) + "\x00"
		last = mustGet(t, c, next, clientv3.WithRange(clientv3.GetPrefixRangeEnd(p)), clientv3.WithLimit(3),
			clientv3.WithRev(rev))
		if last.Header.Revision <= rev {
			t.Fatal("the header carries the current revision")
		}
		seen += " " + keysOf(last, p)
	}
	want(t, "pages", seen, "0 1 2 3 4 5 6 7 8 9")
	from := mustGet(t, c, p+"4", clientv3.WithRange(clientv3.GetPrefixRangeEnd(p)), clientv3.WithLimit(1), clientv3.WithRev(rev))
	want(t, "count from the start key at that revision", from.Count, int64(6))
}

func TestCompaction(t *testing.T) {
	c, p := newClient(t), prefix(t)
	var rev int64
	for i := 0; i < 5; i++ {
		rev = mustPut(t, c, p+"k", "v").Header.Revision
	}
	if _, err := c.Compact(ctx(t), rev-1, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	want(t, "reading at the compact revision works", mustGet(t, c, p+"k", clientv3.WithRev(rev-1)).Count, int64(1))
	kv := kvClient(t)
	compacted := "etcdserver: mvcc: required revision has been compacted"
	_, err := kv.Range(ctx(t), &pb.RangeRequest{Key: []byte(p + "k"), Revision: rev - 2})
	wantStatus(t, err, codes.OutOfRange, compacted)
	_, err = kv.Compact(ctx(t), &pb.CompactionRequest{Revision: rev - 1})
	wantStatus(t, err, codes.OutOfRange, compacted)
	_, err = kv.Compact(ctx(t), &pb.CompactionRequest{Revision: rev + 1000})
	wantStatus(t, err, codes.OutOfRange, "etcdserver: mvcc: required revision is a future revision")
	_, err = kv.Txn(ctx(t), &pb.TxnRequest{Success: []*pb.RequestOp{put(p+"m", "x"), rng(p+"k", rev-2)}})
	wantStatus(t, err, codes.OutOfRange, compacted)
	want(t, "nothing written", mustGet(t, c, p+"m").Count, int64(0))
}

func TestRangeStream(t *testing.T) {
	c, p := newClient(t), prefix(t)
	for i := 0; i < 300; i++ {
		mustPut(t, c, p+string(rune('a'+i%26))+string(rune('0'+i/26)), strings.Repeat("v", 100))
	}
	kv := kvClient(t)
	req := &pb.RangeRequest{Key: []byte(p), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(p))}
	whole, err := kv.Range(ctx(t), req)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := kv.RangeStream(ctx(t), req)
	if err != nil {
		t.Fatal(err)
	}
	var kvs []*mvccpb.KeyValue
	var last *pb.RangeResponse
	for {
		m, err := stream.Recv()
		if err != nil {
			break
		}
		if last != nil && last.Header != nil {
			t.Fatal("only the last chunk has a header")
		}
		last = m.RangeResponse
		kvs = append(kvs, last.Kvs...)
	}
	want(t, "keys", len(kvs), len(whole.Kvs))
	want(t, "count", last.Count, whole.Count)
	want(t, "first", string(kvs[0].Key), string(whole.Kvs[0].Key))
	if last.Header.GetRevision() == 0 {
		t.Fatal("header on the last chunk")
	}
	bad, _ := kv.RangeStream(ctx(t), &pb.RangeRequest{Key: []byte(p), SortOrder: pb.RangeRequest_DESCEND})
	_, err = bad.Recv()
	wantStatus(t, err, codes.Unimplemented, "RangeStream does not support custom sort orders")
	bad, _ = kv.RangeStream(ctx(t), &pb.RangeRequest{Key: []byte(p), MinModRevision: 1})
	_, err = bad.Recv()
	wantStatus(t, err, codes.Unimplemented, "RangeStream does not support revision filters")
}
