// Goal: the official Go client 3.7.1 and raw gRPC see the same server whether it is etcd or Mainstay.
// Method: every expectation runs against the server named by CONFORMANCE_ENDPOINT (host:port, plaintext). Run it on a
// real etcd 3.7.1 first: what fails there is a wrong expectation.
package conformance

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

var endpoint string

func TestMain(m *testing.M) {
	endpoint = os.Getenv("CONFORMANCE_ENDPOINT")
	if endpoint == "" && serverBinary() == "" {
		fmt.Println("neither CONFORMANCE_ENDPOINT nor CONFORMANCE_SERVER is set: nothing to test against")
		os.Exit(2)
	}
	os.Exit(m.Run())
}

func needEndpoint(t *testing.T) {
	t.Helper()
	if endpoint == "" {
		t.Skip("CONFORMANCE_ENDPOINT is not set: this test wants a running server")
	}
}

func newClient(t *testing.T) *clientv3.Client {
	t.Helper()
	needEndpoint(t)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func rawConn(t *testing.T) *grpc.ClientConn {
	t.Helper()
	needEndpoint(t)
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func ctx(t *testing.T) context.Context {
	t.Helper()
	c, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return c
}

// A prefix of its own for each test, so that tests can run on a server with other data.
func prefix(t *testing.T) string {
	return fmt.Sprintf("conf/%s/%d/", t.Name(), time.Now().UnixNano())
}

func mustPut(t *testing.T, c *clientv3.Client, k, v string, opts ...clientv3.OpOption) *clientv3.PutResponse {
	t.Helper()
	r, err := c.Put(ctx(t), k, v, opts...)
	if err != nil {
		t.Fatalf("put %q: %v", k, err)
	}
	return r
}

func mustGet(t *testing.T, c *clientv3.Client, k string, opts ...clientv3.OpOption) *clientv3.GetResponse {
	t.Helper()
	r, err := c.Get(ctx(t), k, opts...)
	if err != nil {
		t.Fatalf("get %q: %v", k, err)
	}
	return r
}

func keysOf(r *clientv3.GetResponse, p string) string {
	var out []string
	for _, kv := range r.Kvs {
		out = append(out, strings.TrimPrefix(string(kv.Key), p))
	}
	return strings.Join(out, " ")
}

func wantStatus(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	s, ok := status.FromError(err)
	if !ok || s.Code() != code || s.Message() != text {
		t.Fatalf("got %v, want %v %q", err, code, text)
	}
}

func want[T comparable](t *testing.T, what string, got, wanted T) {
	t.Helper()
	if got != wanted {
		t.Fatalf("%s: got %v, want %v", what, got, wanted)
	}
}

func kvClient(t *testing.T) pb.KVClient { return pb.NewKVClient(rawConn(t)) }
