package conformance

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

func TestMaintenance(t *testing.T) {
	c, p := newClient(t), prefix(t)
	mustPut(t, c, p, "v")
	s, err := c.Status(ctx(t), endpoint)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "version", s.Version, "3.7.1")
	want(t, "storage version", s.StorageVersion, "3.7.0")
	if s.DbSize < s.DbSizeInUse || s.DbSizeInUse <= 0 || s.Leader == 0 || s.RaftTerm == 0 || s.RaftAppliedIndex == 0 {
		t.Fatalf("status: %v", s)
	}
	if s.DowngradeInfo == nil {
		t.Fatal("downgradeInfo is always there")
	}
	h, err := c.HashKV(ctx(t), endpoint, 0)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "hash revision", h.HashRevision, h.Header.Revision)
	m := pb.NewMaintenanceClient(rawConn(t))
	_, err = m.HashKV(ctx(t), &pb.HashKVRequest{Revision: 1 << 50})
	wantStatus(t, err, codes.OutOfRange, "etcdserver: mvcc: required revision is a future revision")
	if _, err = m.Hash(ctx(t), &pb.HashRequest{}); err != nil {
		t.Fatal(err)
	}
	d, err := m.Defragment(ctx(t), &pb.DefragmentRequest{})
	if err != nil || d.Header != nil {
		t.Fatalf("defragment: %v %v", d, err)
	}
	a, err := c.AlarmList(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "alarms", len(a.Alarms), 0)
	members, err := c.MemberList(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "members", len(members.Members), 1)
	want(t, "cluster replies have no revision", members.Header.Revision, int64(0))
	want(t, "own id", members.Members[0].ID, members.Header.MemberId)
}

func TestSnapshotStream(t *testing.T) {
	c, p := newClient(t), prefix(t)
	for i := 0; i < 50; i++ {
		mustPut(t, c, p+fmt.Sprint(i), strings.Repeat("x", 1000))
	}
	stream, err := pb.NewMaintenanceClient(rawConn(t)).Snapshot(ctx(t), &pb.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	var blobs [][]byte
	size := 0
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		want(t, "version", m.Version, "3.7.0")
		if m.Header != nil {
			t.Fatal("snapshot messages have no header")
		}
		if len(m.Blob) > 32<<10 {
			t.Fatalf("chunk of %d", len(m.Blob))
		}
		blobs = append(blobs, m.Blob)
		size += len(m.Blob)
	}
	want(t, "size", size%512, 32)
	for _, b := range blobs[:len(blobs)-1] {
		sum.Write(b)
	}
	want(t, "digest", string(sum.Sum(nil)), string(blobs[len(blobs)-1]))
}

func TestHealthService(t *testing.T) {
	h := healthpb.NewHealthClient(rawConn(t))
	r, err := h.Check(ctx(t), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "serving", r.Status, healthpb.HealthCheckResponse_SERVING)
	_, err = h.Check(ctx(t), &healthpb.HealthCheckRequest{Service: "x"})
	wantStatus(t, err, codes.NotFound, "unknown service")
}

func TestUnknownMethod(t *testing.T) {
	err := rawConn(t).Invoke(ctx(t), "/etcdserverpb.KV/Nope", &pb.RangeRequest{}, &pb.RangeResponse{})
	wantStatus(t, err, codes.Unimplemented, "unknown method Nope for service etcdserverpb.KV")
	err = rawConn(t).Invoke(ctx(t), "/no.Such/Thing", &pb.RangeRequest{}, &pb.RangeResponse{})
	wantStatus(t, err, codes.Unimplemented, "unknown service no.Such")
}

func TestReceiveLimit(t *testing.T) {
	_, err := kvClient(t).Put(ctx(t), &pb.PutRequest{Key: []byte("a"), Value: make([]byte, 3<<20)})
	if err == nil || !strings.Contains(err.Error(), "grpc: received message larger than max (") {
		t.Fatal(err)
	}
}

func TestMetadata(t *testing.T) {
	c := metadata.AppendToOutgoingContext(ctx(t), "hasleader", "true", "client-api-version", "3.7", "x-unknown", "1")
	if _, err := kvClient(t).Range(c, &pb.RangeRequest{Key: []byte("a")}); err != nil {
		t.Fatal(err)
	}
}

func TestKubernetesInterface(t *testing.T) {
	c, err := kubernetes.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := prefix(t)
	k := p + "pod"
	created, err := c.Kubernetes.OptimisticPut(ctx(t), k, []byte("1"), 0, kubernetes.PutOptions{})
	if err != nil || !created.Succeeded {
		t.Fatalf("create: %v %v", created, err)
	}
	again, err := c.Kubernetes.OptimisticPut(ctx(t), k, []byte("2"), 0, kubernetes.PutOptions{GetOnFailure: true})
	if err != nil || again.Succeeded || string(again.KV.Value) != "1" {
		t.Fatalf("second create: %v %v", again, err)
	}
	updated, err := c.Kubernetes.OptimisticPut(ctx(t), k, []byte("2"), created.Revision, kubernetes.PutOptions{GetOnFailure: true})
	if err != nil || !updated.Succeeded {
		t.Fatalf("update: %v %v", updated, err)
	}
	got, err := c.Kubernetes.Get(ctx(t), k, kubernetes.GetOptions{})
	if err != nil || got.KV.ModRevision != updated.Revision {
		t.Fatalf("get: %v %v", got, err)
	}
	for i := 0; i < 9; i++ {
		c.Kubernetes.OptimisticPut(ctx(t), fmt.Sprintf("%sx%d", p, i), []byte("v"), 0, kubernetes.PutOptions{})
	}
	list, err := c.Kubernetes.List(ctx(t), p, kubernetes.ListOptions{Limit: 4})
	if err != nil || len(list.Kvs) != 4 || list.Count != 10 {
		t.Fatalf("list: %v %v", list, err)
	}
	next, err := c.Kubernetes.List(ctx(t), p, kubernetes.ListOptions{Revision: list.Revision, Limit: 100,
		Continue: string(list.Kvs[3].Key) + "\x00"})
	if err != nil || len(next.Kvs) != 6 || next.Count != 6 {
		t.Fatalf("continue: %v %v", next, err)
	}
	stale, err := c.Kubernetes.OptimisticDelete(ctx(t), k, created.Revision, kubernetes.DeleteOptions{GetOnFailure: true})
	if err != nil || stale.Succeeded || string(stale.KV.Value) != "2" {
		t.Fatalf("stale delete: %v %v", stale, err)
	}
	gone, err := c.Kubernetes.OptimisticDelete(ctx(t), k, updated.Revision, kubernetes.DeleteOptions{})
	if err != nil || !gone.Succeeded {
		t.Fatalf("delete: %v %v", gone, err)
	}
	n, err := c.Kubernetes.Count(ctx(t), p, kubernetes.CountOptions{})
	if err != nil || n != 9 {
		t.Fatalf("count: %d %v", n, err)
	}
}

func post(t *testing.T, path, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.Post("http://"+endpoint+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%s: %q", path, text)
	}
	return r.StatusCode, out
}

func TestGateway(t *testing.T) {
	p := prefix(t)
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	code, m := post(t, "/v3/kv/put", fmt.Sprintf(`{"key":"%s","value":"%s","unknown":1}`, b64(p), b64("v")))
	want(t, "put", code, 200)
	if _, ok := m["header"].(map[string]any)["revision"].(string); !ok {
		t.Fatalf("64-bit numbers are strings: %v", m)
	}
	code, m = post(t, "/v3/kv/range", fmt.Sprintf(`{"key":"%s","limit":1,"keysOnly":false}`, b64(p)))
	want(t, "range", code, 200)
	kv := m["kvs"].([]any)[0].(map[string]any)
	want(t, "value", kv["value"].(string), b64("v"))
	want(t, "count", m["count"].(string), "1")
	if _, there := m["more"]; there {
		t.Fatal("defaults are left out")
	}
	code, m = post(t, "/v3/kv/range", `{}`)
	want(t, "empty key", code, 400)
	want(t, "text", m["message"].(string), "etcdserver: key is not provided")
	want(t, "code", m["code"].(float64), float64(3))
	code, m = post(t, "/v3/lease/grant", `{"TTL":"60","ID":0}`)
	want(t, "grant", code, 200)
	code, m = post(t, "/v3/kv/lease/timetolive", fmt.Sprintf(`{"ID":"%s"}`, m["ID"].(string)))
	want(t, "ttl", code, 200)
	want(t, "granted", m["grantedTTL"].(string), "60")
	code, m = post(t, "/v3/maintenance/status", `{}`)
	want(t, "status", code, 200)
	want(t, "version", m["version"].(string), "3.7.1")
	code, m = post(t, "/v3/kv/put", `{"key":`)
	want(t, "bad JSON", code, 400)
	code, m = post(t, "/v3/nope", `{}`)
	want(t, "unknown path", code, 404)
	want(t, "unknown path code", m["code"].(float64), float64(5))
	r, err := http.Get("http://" + endpoint + "/v3/kv/range")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	want(t, "wrong method", r.StatusCode, 501)
}

func TestGatewayWatch(t *testing.T) {
	c, p := newClient(t), prefix(t)
	b64 := base64.StdEncoding.EncodeToString([]byte(p))
	r, err := http.Post("http://"+endpoint+"/v3/watch", "application/json",
		strings.NewReader(fmt.Sprintf(`{"create_request":{"key":"%s"}}`, b64)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	d := json.NewDecoder(r.Body)
	var m map[string]map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	want(t, "created", m["result"]["created"].(bool), true)
	mustPut(t, c, p, "v")
	m = nil
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	event := m["result"]["events"].([]any)[0].(map[string]any)
	want(t, "key", event["kv"].(map[string]any)["key"].(string), b64)
}

func TestHTTP(t *testing.T) {
	get := func(path string) (int, string) {
		r, err := http.Get("http://" + endpoint + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(text)
	}
	check := func(path string, code int, text string) {
		t.Helper()
		c, b := get(path)
		if c != code || b != text {
			t.Fatalf("%s: %d %q", path, c, b)
		}
	}
	check("/health", 200, `{"health":"true","reason":""}`)
	check("/health?serializable=true", 200, `{"health":"true","reason":""}`)
	check("/livez", 200, "ok\n")
	check("/readyz", 200, "ok\n")
	check("/readyz/linearizable_read", 200, "ok\n")
	check("/version", 200, `{"etcdserver":"3.7.1","etcdcluster":"3.7.0","storage":"3.7.0"}`)
	check("/nope", 404, "404 page not found\n")
	_, verbose := get("/readyz?verbose")
	for _, line := range []string{"[+]data_corruption ok\n", "[+]serializable_read ok\n", "[+]linearizable_read ok\n", "[+]non_learner ok\n"} {
		if !strings.Contains(verbose, line) {
			t.Fatalf("verbose: %q", verbose)
		}
	}
	code, metrics := get("/metrics")
	want(t, "metrics", code, 200)
	for _, line := range []string{
		"etcd_server_has_leader 1\n", "etcd_server_is_leader 1\n", "# TYPE etcd_server_proposals_committed_total gauge\n",
		"# TYPE etcd_disk_wal_fsync_duration_seconds histogram\n", "# TYPE etcd_disk_backend_commit_duration_seconds histogram\n",
		"etcd_server_quota_backend_bytes 2.147483648e+09\n", "# TYPE etcd_mvcc_db_total_size_in_bytes gauge\n",
		"# TYPE etcd_debugging_mvcc_watcher_total gauge\n", "# TYPE etcd_network_client_grpc_sent_bytes_total counter\n",
		`grpc_server_handled_total{grpc_code="OK",grpc_method="Put",grpc_service="etcdserverpb.KV",grpc_type="unary"}`,
		"process_resident_memory_bytes", `etcd_cluster_version{cluster_version="3.7"} 1`, `etcd_server_version{server_version="3.7.1"} 1`} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %q", line)
		}
	}
}
