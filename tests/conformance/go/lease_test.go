package conformance

import (
	"fmt"
	"math"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

func TestLeaseLifeC24(t *testing.T) {
	c, p := newClient(t), prefix(t)
	before := mustPut(t, c, p+"x", "v").Header.Revision
	empty, err := c.Grant(ctx(t), 60)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Revoke(ctx(t), empty.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "revoking an empty lease takes no revision", r.Header.Revision, before)
	l, _ := c.Grant(ctx(t), 60)
	for _, k := range []string{"c", "a", "b"} {
		mustPut(t, c, p+k, "v", clientv3.WithLease(l.ID))
	}
	c.Delete(ctx(t), p+"b")
	ttl, err := c.TimeToLive(ctx(t), l.ID, clientv3.WithAttachedKeys())
	if err != nil {
		t.Fatal(err)
	}
	want(t, "attached", len(ttl.Keys), 2)
	want(t, "granted", ttl.GrantedTTL, int64(60))
	if ttl.TTL < 55 || ttl.TTL > 60 {
		t.Fatalf("remaining %d", ttl.TTL)
	}
	w := openWatch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte(p), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(p))})
	at := w.recv().Header.Revision
	r, err = c.Revoke(ctx(t), l.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "one revision", r.Header.Revision, at+1)
	m := w.recv()
	want(t, "two deletes in one message", len(m.Events), 2)
	want(t, "in key order", string(m.Events[0].Kv.Key), p+"a")
}

func TestLeaseRulesC25(t *testing.T) {
	c, p := newClient(t), prefix(t)
	lease := pb.NewLeaseClient(rawConn(t))
	for _, id := range []int64{-1, math.MinInt64} {
		lease.LeaseRevoke(ctx(t), &pb.LeaseRevokeRequest{ID: id})
		g, err := lease.LeaseGrant(ctx(t), &pb.LeaseGrantRequest{ID: id, TTL: 100})
		if err != nil {
			t.Fatal(err)
		}
		want(t, "negative id", g.ID, id)
		mustPut(t, c, p+fmt.Sprint(id), "v", clientv3.WithLease(clientv3.LeaseID(id)))
		want(t, "on the key", mustGet(t, c, p+fmt.Sprint(id)).Kvs[0].Lease, id)
		_, err = lease.LeaseGrant(ctx(t), &pb.LeaseGrantRequest{ID: id, TTL: 100})
		wantStatus(t, err, codes.FailedPrecondition, "etcdserver: lease already exists")
		lease.LeaseRevoke(ctx(t), &pb.LeaseRevokeRequest{ID: id})
	}
	g, err := lease.LeaseGrant(ctx(t), &pb.LeaseGrantRequest{TTL: 0})
	if err != nil || g.ID <= 0 {
		t.Fatalf("server's id: %v %v", g, err)
	}
	want(t, "raised to the minimum", g.TTL, int64(2))
	_, err = lease.LeaseGrant(ctx(t), &pb.LeaseGrantRequest{TTL: 9000000001})
	wantStatus(t, err, codes.OutOfRange, "etcdserver: too large lease TTL")
	_, err = lease.LeaseRevoke(ctx(t), &pb.LeaseRevokeRequest{ID: 424242})
	wantStatus(t, err, codes.NotFound, "etcdserver: requested lease not found")
	ttl, err := lease.LeaseTimeToLive(ctx(t), &pb.LeaseTimeToLiveRequest{ID: 424242})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "unknown lease has TTL -1", ttl.TTL, int64(-1))
}

func TestLeaseKeepAliveAndExpiry(t *testing.T) {
	c, p := newClient(t), prefix(t)
	lease := pb.NewLeaseClient(rawConn(t))
	stream, err := lease.LeaseKeepAlive(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	stream.Send(&pb.LeaseKeepAliveRequest{ID: 987654})
	m, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	want(t, "lost lease", m.TTL, int64(0))
	g, _ := c.Grant(ctx(t), 2)
	mustPut(t, c, p+"k", "v", clientv3.WithLease(g.ID))
	for i := 0; i < 8; i++ {
		stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(g.ID)})
		m, err = stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		want(t, "granted TTL", m.TTL, int64(2))
		time.Sleep(500 * time.Millisecond)
	}
	want(t, "kept alive beyond its TTL", mustGet(t, c, p+"k").Count, int64(1))
	deadline := time.Now().Add(8 * time.Second)
	for mustGet(t, c, p+"k").Count > 0 {
		if time.Now().After(deadline) {
			t.Fatal("did not expire")
		}
		time.Sleep(100 * time.Millisecond)
	}
	stream.CloseSend()
	if _, err := stream.Recv(); err == nil || err.Error() != "EOF" {
		t.Fatalf("half-close ends with OK, got %v", err)
	}
	mustPut(t, c, p+"plain", "v")
	l2, _ := c.Grant(ctx(t), 60)
	mustPut(t, c, p+"moved", "v", clientv3.WithLease(l2.ID))
	mustPut(t, c, p+"moved", "v")
	c.Revoke(ctx(t), l2.ID)
	want(t, "a put without lease detaches", mustGet(t, c, p+"moved").Count, int64(1))
}
