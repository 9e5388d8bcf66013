package conformance

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A certificate for 127.0.0.1 that signs itself; the files of the certificate and its key.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "m"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func dialMany(t *testing.T, n int, addresses ...string) []net.Conn {
	t.Helper()
	var out []net.Conn
	for i := 0; i < n; i++ {
		c, err := net.DialTimeout("tcp", addresses[i%len(addresses)], 10*time.Second)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { c.Close() })
		out = append(out, c)
	}
	return out
}

// How many of the connections the server has not ended within the limit.
func stillOpen(conns []net.Conn, limit time.Duration) int {
	deadline := time.Now().Add(limit)
	var open int
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, c := range conns {
		group.Add(1)
		go func() {
			defer group.Done()
			c.SetReadDeadline(deadline)
			buffer := make([]byte, 512)
			for {
				if _, err := c.Read(buffer); err != nil {
					if errors.Is(err, os.ErrDeadlineExceeded) {
						mu.Lock()
						open++
						mu.Unlock()
					}
					return
				}
			}
		}()
	}
	group.Wait()
	return open
}

// TLS handshakes that never go on are ended, on the client and on the peer port; others are served meanwhile.
func TestC36_HalfOpenHandshakes(t *testing.T) {
	cert, key := selfSigned(t)
	m := newMember(t, "--cert-file", cert, "--key-file", key, "--peer-cert-file", cert, "--peer-key-file", key)
	m.scheme = "https"
	m.start()
	c := m.newClient()
	mustPut(t, c, "k", "v")
	files := m.openFiles()
	ports := []string{m.client}
	if c, err := net.Dial("tcp", m.peer); err == nil {
		c.Close()
		ports = append(ports, m.peer)
	} else {
		t.Logf("the peer port is left out, the server does not listen there: %v", err)
	}
	var memory []int
	for round := 0; round < 3; round++ {
		conns := dialMany(t, 5000, ports...)
		for i, c := range conns {
			if i/2%2 == 1 { // half of them on either port
				c.Write([]byte{0x16}) // the first byte of a TLS record
			}
		}
		served := time.Now()
		mustPut(t, m.newClient(), "k", "a new client while they wait")
		mustPut(t, c, "k", "an old client while they wait")
		if took := time.Since(served); took > 5*time.Second {
			t.Fatalf("clients waited %v", took)
		}
		want(t, "open after 30 s", stillOpen(conns, 30*time.Second), 0)
		for _, c := range conns {
			c.Close()
		}
		eventually(t, "files are closed", 10*time.Second, func() bool { return m.openFiles() <= files+20 })
		memory = append(memory, m.residentMiB())
	}
	t.Logf("MiB after each round: %v", memory)
	if memory[2] > memory[0]+50 {
		t.Fatalf("memory grows: %v MiB", memory)
	}
}

// Connections that say nothing, or dribble their request, on a port without TLS.
func TestC36_SlowPlaintext(t *testing.T) {
	m := startMember(t)
	mainstay := isMainstay(t)
	c := m.newClient()
	mustPut(t, c, "k", "v")
	files := m.openFiles()
	silent := dialMany(t, 2000, m.client)
	first := dialMany(t, 1000, m.client)
	for _, c := range first {
		c.Write([]byte("P"))
	}
	head := dialMany(t, 500, m.client)
	for _, c := range head {
		c.Write([]byte("GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: "))
	}
	preface := dialMany(t, 500, m.client)
	for _, c := range preface {
		c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	}
	all := append(append(append(append([]net.Conn{}, silent...), first...), head...), preface...)
	quit := make(chan struct{})
	defer close(quit)
	go func() { // a byte now and then must not count as life
		for {
			select {
			case <-quit:
				return
			case <-time.After(5 * time.Second):
			}
			for _, c := range head {
				c.Write([]byte("x"))
			}
		}
	}()
	mustPut(t, m.newClient(), "k", "a new client while they wait")
	// etcd 3.7.1 gives a request head 5 minutes, and a silent connection for ever.
	limit := 45 * time.Second
	if !mainstay {
		limit = time.Second
	}
	n := stillOpen(all, limit)
	t.Logf("%d of %d are open after %v", n, len(all), limit)
	if mainstay {
		want(t, "open connections", n, 0)
	}
	mustPut(t, m.newClient(), "k", "a new client afterwards")
	for _, c := range all {
		c.Close()
	}
	eventually(t, "files are closed", 10*time.Second, func() bool { return m.openFiles() <= files+20 })
}

// Any Authorization header is answered with a status and JSON, on a connection that lives on. Auth is off here.
func TestC37_AuthorizationHeaders(t *testing.T) {
	c, p := newClient(t), prefix(t)
	mustPut(t, c, p, "v")
	transport := &http.Transport{MaxConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	key := base64.StdEncoding.EncodeToString([]byte(p))
	ask := func(header, body string) (status int, answer map[string]any, reused bool) {
		t.Helper()
		r, err := http.NewRequest("POST", "http://"+endpoint+"/v3/kv/range", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }}
		got, err := transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(ctx(t), trace)))
		if err != nil {
			t.Fatalf("%q: %v", header, err)
		}
		defer got.Body.Close()
		text, _ := io.ReadAll(got.Body)
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Fatalf("%q: %s", header, text)
		}
		want(t, "content type", got.Header.Get("Content-Type"), "application/json")
		return got.StatusCode, answer, reused
	}
	for i, header := range []string{"", "none", "Bearer abc.1", "abc.1", "Basic cm9vdDpyb290", "Bearer ", "Bearer a b c"} {
		status, answer, reused := ask(header, fmt.Sprintf(`{"key":"%s"}`, key))
		t.Logf("%q: %d", header, status)
		want(t, "status", status, 200)
		want(t, "count", answer["count"].(string), "1")
		want(t, "the connection stays", reused, i > 0)
		status, answer, reused = ask(header, `{}`)
		want(t, "status of an error", status, 400)
		want(t, "code", answer["code"].(float64), float64(3))
		want(t, "message", answer["message"].(string), "etcdserver: key is not provided")
		want(t, "the connection stays after an error", reused, true)
	}
}

// Answers above 4 MiB come through the gateway and gRPC when the request limit was raised.
func TestC39_LargeAnswers(t *testing.T) {
	m := startMember(t, "--max-request-bytes", "10485760")
	c := m.newClient()
	value := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for i := 0; i < 5; i++ {
		mustPut(t, c, fmt.Sprint("big", i), string(value))
	}
	mustPut(t, c, "one", strings.Repeat("x", 8<<20))
	r := mustGet(t, c, "big", clientv3.WithPrefix())
	want(t, "keys by gRPC", len(r.Kvs), 5)
	for _, kv := range r.Kvs {
		want(t, "same bytes by gRPC", bytes.Equal(kv.Value, value), true)
	}
	b64 := base64.StdEncoding.EncodeToString
	answer := m.postJSON("/v3/kv/range", fmt.Sprintf(`{"key":"%s","range_end":"%s"}`, b64([]byte("big")), b64([]byte("bih"))))
	kvs := answer["kvs"].([]any)
	want(t, "keys by JSON", len(kvs), 5)
	for i, kv := range kvs {
		kv := kv.(map[string]any)
		want(t, "key", kv["key"].(string), b64([]byte(fmt.Sprint("big", i))))
		want(t, "same bytes by JSON", kv["value"].(string) == b64(value), true)
		want(t, "revisions are strings", kv["mod_revision"].(string), fmt.Sprint(i+2))
		_, there := kv["lease"]
		want(t, "a zero lease is left out", there, false)
	}
	want(t, "count", answer["count"].(string), "5")
	_, there := answer["more"]
	want(t, "false is left out", there, false)
	m.postJSON("/v3/kv/put", fmt.Sprintf(`{"key":"%s","value":"%s"}`, b64([]byte("json")), b64(bytes.Repeat([]byte("y"), 6<<20))))
	want(t, "a large put by JSON", len(mustGet(t, c, "json").Kvs[0].Value), 6<<20)
	_, err := c.Put(ctx(t), "k", strings.Repeat("x", 10485760))
	if err == nil || err.Error() != "etcdserver: request is too large" {
		t.Fatalf("a request above the limit: %v", err)
	}
	watch, err := http.Post("http://"+m.client+"/v3/watch", "application/json",
		strings.NewReader(fmt.Sprintf(`{"create_request":{"key":"%s","range_end":"%s","start_revision":"2"}}`,
			b64([]byte("big")), b64([]byte("bih")))))
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	d := json.NewDecoder(watch.Body)
	seen := 0
	for first := true; seen < 5; first = false {
		var message map[string]map[string]any
		if err := d.Decode(&message); err != nil {
			t.Fatal(err)
		}
		result := message["result"]
		if first {
			want(t, "created", fmt.Sprint(result["created"]), "true")
		}
		_, there := result["watch_id"]
		want(t, "watch_id 0 is left out", there, false)
		events, _ := result["events"].([]any)
		for _, e := range events {
			_, there := e.(map[string]any)["type"]
			want(t, "PUT is 0 and left out", there, false)
			seen++
		}
	}
}
