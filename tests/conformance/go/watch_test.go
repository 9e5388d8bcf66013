package conformance

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

type rawWatch struct {
	t      *testing.T
	stream pb.Watch_WatchClient
	in     chan *pb.WatchResponse
	fail   chan error
}

func openWatch(t *testing.T, md ...string) *rawWatch {
	t.Helper()
	c, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	stream, err := pb.NewWatchClient(rawConn(t)).Watch(metadata.AppendToOutgoingContext(c, md...))
	if err != nil {
		t.Fatal(err)
	}
	w := &rawWatch{t, stream, make(chan *pb.WatchResponse, 100000), make(chan error, 1)}
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				w.fail <- err
				return
			}
			w.in <- m
		}
	}()
	return w
}

func (w *rawWatch) send(r *pb.WatchRequest) {
	w.t.Helper()
	if err := w.stream.Send(r); err != nil {
		w.t.Fatal(err)
	}
}
func (w *rawWatch) create(r *pb.WatchCreateRequest) {
	w.t.Helper()
	w.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}})
}
func (w *rawWatch) cancel(id int64) {
	w.t.Helper()
	w.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: id}}})
}
func (w *rawWatch) progress() {
	w.t.Helper()
	w.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
}
func (w *rawWatch) recv() *pb.WatchResponse {
	w.t.Helper()
	select {
	case m := <-w.in:
		return m
	case err := <-w.fail:
		w.t.Fatal(err)
	case <-time.After(10 * time.Second):
		w.t.Fatal("no message within 10 s")
	}
	return nil
}

// Nothing else arrives before the answer to a request sent now: cancelling a fresh watch is that request.
func (w *rawWatch) quiet(fence int64) {
	w.t.Helper()
	w.create(&pb.WatchCreateRequest{Key: []byte("fence"), WatchId: fence})
	m := w.recv()
	if !m.Created || m.WatchId != fence {
		w.t.Fatalf("unexpected %v", m)
	}
}

func TestWatchLive(t *testing.T) {
	c, p := newClient(t), prefix(t)
	w := openWatch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte(p), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(p)), PrevKv: true})
	created := w.recv()
	want(t, "created", created.Created, true)
	want(t, "first id", created.WatchId, int64(0))
	r1 := mustPut(t, c, p+"a", "1").Header.Revision
	m := w.recv()
	want(t, "revision of a live message", m.Header.Revision, r1)
	want(t, "type", m.Events[0].Type, mvccpb.Event_PUT)
	if m.Events[0].PrevKv != nil {
		t.Fatal("a creation has no prev_kv")
	}
	mustPut(t, c, p+"a", "2")
	want(t, "prev", string(w.recv().Events[0].PrevKv.Value), "1")
	d, _ := c.Delete(ctx(t), p+"a")
	e := w.recv().Events[0]
	want(t, "delete", e.Type, mvccpb.Event_DELETE)
	want(t, "delete revision", e.Kv.ModRevision, d.Header.Revision)
	want(t, "delete has only key and revision", e.Kv.Version+e.Kv.CreateRevision, int64(0))
	want(t, "delete prev", string(e.PrevKv.Value), "2")
	w.cancel(0)
	m = w.recv()
	want(t, "cancel answer", m.Canceled, true)
	want(t, "cancel has no reason", m.CancelReason, "")
	mustPut(t, c, p+"a", "3")
	w.quiet(77)
}

func TestWatchIdsAndRefusals(t *testing.T) {
	w := openWatch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte("x")})
	want(t, "id 0", w.recv().WatchId, int64(0))
	w.create(&pb.WatchCreateRequest{Key: []byte("x"), WatchId: 1})
	want(t, "client's id", w.recv().WatchId, int64(1))
	w.create(&pb.WatchCreateRequest{Key: []byte("x")})
	want(t, "server skips used ids", w.recv().WatchId, int64(2))
	refused := func(r *pb.WatchCreateRequest, reason string) {
		t.Helper()
		w.create(r)
		m := w.recv()
		if !m.Created || !m.Canceled || m.WatchId != -1 || m.CancelReason != reason || m.CompactRevision != 0 {
			t.Fatalf("refusal: %v", m)
		}
	}
	refused(&pb.WatchCreateRequest{Key: []byte("x"), WatchId: 1}, "mvcc: duplicate watch ID provided on the WatchStream")
	refused(&pb.WatchCreateRequest{Key: []byte("b"), RangeEnd: []byte("a")}, "mvcc: watcher range is empty")
	refused(&pb.WatchCreateRequest{Key: []byte("x"), StartRevision: -1},
		"etcdserver: mvcc: required revision has been compacted")
	w.cancel(999)
	w.quiet(5)
	w.create(&pb.WatchCreateRequest{}) // an empty key is the first key
	want(t, "empty key", w.recv().Canceled, false)
}

func TestWatchHistoryC04(t *testing.T) {
	c, p := newClient(t), prefix(t)
	k := p + "k"
	for i := 0; i < 3; i++ {
		mustPut(t, c, k, "v")
	}
	d, _ := c.Delete(ctx(t), k)
	r5 := d.Header.Revision
	mustPut(t, c, k, "again")
	if _, err := c.Compact(ctx(t), r5, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	w := openWatch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte(k), StartRevision: r5})
	w.recv()
	var events []*mvccpb.Event
	for len(events) < 2 {
		events = append(events, w.recv().Events...)
	}
	want(t, "delete first", events[0].Type, mvccpb.Event_DELETE)
	want(t, "at its revision", events[0].Kv.ModRevision, r5)
	want(t, "then put", string(events[1].Kv.Value), "again")
}

func TestWatchCompactedC11(t *testing.T) {
	c, p := newClient(t), prefix(t)
	var rev int64
	for i := 0; i < 20; i++ {
		rev = mustPut(t, c, p+"k", "v").Header.Revision
	}
	if _, err := c.Compact(ctx(t), rev-5); err != nil {
		t.Fatal(err)
	}
	w := openWatch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte(p + "k"), StartRevision: rev - 10})
	m := w.recv()
	want(t, "created first", m.Created, true)
	want(t, "not canceled yet", m.Canceled, false)
	m = w.recv()
	want(t, "then canceled", m.Canceled, true)
	want(t, "compact revision", m.CompactRevision, rev-5)
	want(t, "no events", len(m.Events), 0)
	want(t, "header revision 0", m.Header.Revision, int64(0))
	want(t, "empty reason", m.CancelReason, "")
	w.create(&pb.WatchCreateRequest{Key: []byte(p + "k"), WatchId: 9})
	want(t, "the stream lives on", w.recv().Created, true)
	mustPut(t, c, p+"k", "live")
	want(t, "and delivers", string(w.recv().Events[0].Kv.Value), "live")
}

func TestWatchFilters(t *testing.T) {
	c, p := newClient(t), prefix(t)
	w := openWatch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte(p + "k"), Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}})
	w.recv()
	w.create(&pb.WatchCreateRequest{Key: []byte(p + "k"), WatchId: 8,
		Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NODELETE}})
	w.recv()
	mustPut(t, c, p+"k", "v")
	m := w.recv()
	want(t, "puts go to the second", m.WatchId, int64(8))
	c.Delete(ctx(t), p+"k")
	m = w.recv()
	want(t, "deletes go to the first", m.WatchId, int64(0))
	w.quiet(50)
}

func TestWatchFuture(t *testing.T) {
	c, p := newClient(t), prefix(t)
	now := mustPut(t, c, p+"k", "v").Header.Revision
	w := openWatch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte(p + "k"), StartRevision: now + 3})
	w.recv()
	for i := 0; i < 4; i++ {
		mustPut(t, c, p+"k", fmt.Sprint(i))
	}
	m := w.recv()
	want(t, "first event at the start revision", m.Events[0].Kv.ModRevision, now+3)
}

func TestManualProgressC01(t *testing.T) {
	c, p := newClient(t), prefix(t)
	const n = 3000
	first := int64(0)
	for i := 0; i < n; i++ {
		r := mustPut(t, c, p+fmt.Sprint(i%50), "v").Header.Revision
		if first == 0 {
			first = r
		}
	}
	w := openWatch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte(p), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(p)), StartRevision: first})
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Add(1)
	go func() {
		defer writer.Done()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				c.Put(context.Background(), p+fmt.Sprint(i%50), "w")
			}
		}
	}()
	for i := 0; i < 50; i++ {
		w.progress()
	}
	last, answered := int64(0), false
	asked := time.Now()
	deadline := time.After(20 * time.Second)
	for !answered {
		if time.Since(asked) > 200*time.Millisecond {
			w.progress() // etcd drops requests while a watcher catches up; ask again
			asked = time.Now()
		}
		select {
		case m := <-w.in:
			for _, e := range m.Events {
				if e.Kv.ModRevision < last {
					t.Fatalf("event %d after %d", e.Kv.ModRevision, last)
				}
				last = e.Kv.ModRevision
			}
			if !m.Created && len(m.Events) == 0 {
				want(t, "progress id", m.WatchId, int64(-1))
				if m.Header.Revision == 0 {
					t.Fatal("progress with revision 0")
				}
				if m.Header.Revision > last+1000000 || m.Header.Revision < first+n-1 {
					t.Fatalf("progress %d overtakes events (last %d)", m.Header.Revision, last)
				}
				answered = true
				bookmark := m.Header.Revision
				close(stop)
				writer.Wait()
				if bookmark < last {
					t.Fatalf("bookmark %d below a delivered event %d", bookmark, last)
				}
				for drained := false; !drained; {
					select {
					case m := <-w.in:
						for _, e := range m.Events {
							if e.Kv.ModRevision <= bookmark {
								t.Fatalf("event %d after bookmark %d", e.Kv.ModRevision, bookmark)
							}
						}
					case <-time.After(300 * time.Millisecond):
						drained = true
					}
				}
			}
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Fatal("no progress answer")
		}
	}
}

func TestManualProgressC02(t *testing.T) {
	c, p := newClient(t), prefix(t)
	now := mustPut(t, c, p+"other", "v").Header.Revision
	w := openWatch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte(p + "idle"), StartRevision: now})
	w.recv()
	for tries := 0; tries < 50; tries++ {
		w.progress()
		mustPut(t, c, p+"other", "w")
		select {
		case m := <-w.in:
			want(t, "answer", m.WatchId, int64(-1))
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Fatal("no answer on an idle watch")
}

func TestWatchNegativeStartC06(t *testing.T) {
	c, p := newClient(t), prefix(t)
	var first int64
	for i := 0; i < 500; i++ {
		r := mustPut(t, c, p+"k", "v").Header.Revision
		if first == 0 {
			first = r
		}
	}
	w := openWatch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte(p + "k"), StartRevision: first})
	w.create(&pb.WatchCreateRequest{Key: []byte(p + "k"), StartRevision: -1})
	w.create(&pb.WatchCreateRequest{Key: []byte(p + "k"), StartRevision: -2})
	next, refusals := first, 0
	for next < first+500 || refusals < 2 {
		m := w.recv()
		if m.Canceled {
			refusals++
		}
		for _, e := range m.Events {
			want(t, "gap-free", e.Kv.ModRevision, next)
			next++
		}
	}
}

func TestWatchFragments(t *testing.T) {
	c, p := newClient(t), prefix(t)
	w := openWatch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte(p), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(p)), Fragment: true, PrevKv: true})
	w.recv()
	big := make([]byte, 300<<10)
	for round := 0; round < 2; round++ {
		var ops []clientv3.Op
		for i := 0; i < 4; i++ {
			ops = append(ops, clientv3.OpPut(p+fmt.Sprint(i), string(big)))
		}
		if _, err := c.Txn(ctx(t)).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	total, fragments := 0, 0
	for total < 8 {
		m := w.recv()
		total += len(m.Events)
		if m.Fragment {
			fragments++
		}
	}
	if fragments == 0 {
		t.Fatal("a message above 2 MiB was not split")
	}
}

func TestWatchEndsCancelled(t *testing.T) {
	c, cancel := context.WithCancel(context.Background())
	stream, err := pb.NewWatchClient(rawConn(t)).Watch(c)
	if err != nil {
		t.Fatal(err)
	}
	stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("x")}}})
	stream.Recv()
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	cl := newClient(t)
	mustPut(t, cl, "x", "after half-close")
	m, err := stream.Recv()
	if err != nil || len(m.Events) == 0 {
		t.Fatalf("half-close ends the watch: %v %v", m, err)
	}
	cancel()
	for err == nil {
		_, err = stream.Recv()
	}
	wantStatus(t, err, codes.Canceled, "context canceled")
}

func TestWatchProgressNotifyByClient(t *testing.T) {
	c, p := newClient(t), prefix(t)
	ch := c.Watch(clientv3.WithRequireLeader(ctx(t)), p, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-ch
	rev := mustPut(t, c, p+"a", "1").Header.Revision
	<-ch
	for tries := 0; tries < 50; tries++ {
		if err := c.RequestProgress(clientv3.WithRequireLeader(ctx(t))); err != nil {
			t.Fatal(err)
		}
		select {
		case r := <-ch:
			want(t, "progress", r.IsProgressNotify(), true)
			if r.Header.Revision < rev {
				t.Fatal("progress below an event")
			}
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
	t.Fatal("no progress")
}
