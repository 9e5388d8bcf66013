package conformance

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// A member of its own for the cases that need a fresh store, flags, a restart or a kill. CONFORMANCE_SERVER names the
// binary, etcd's or Mainstay's: both take the same flags.
type member struct {
	t      *testing.T
	dir    string
	client string // host:port
	peer   string
	scheme string // of both
	flags  []string
	env    []string
	cmd    *exec.Cmd
	exited chan error
	log    lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func serverBinary() string { return os.Getenv("CONFORMANCE_SERVER") }

// The cases say where the right value is not etcd's; only those tests ask who is under test.
func isMainstay(t *testing.T) bool {
	t.Helper()
	out, err := exec.Command(serverBinary(), "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("--version: %v %s", err, out)
	}
	return strings.Contains(string(out), "Git SHA: mainstay")
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func newMember(t *testing.T, flags ...string) *member {
	t.Helper()
	if serverBinary() == "" {
		t.Skip("CONFORMANCE_SERVER is not set: this case starts a server of its own")
	}
	return &member{t: t, dir: filepath.Join(t.TempDir(), "data"), client: freeAddress(t), peer: freeAddress(t),
		scheme: "http", flags: flags}
}

func startMember(t *testing.T, flags ...string) *member {
	t.Helper()
	m := newMember(t, flags...)
	m.start()
	return m
}

// Flags given to a test come last, so that they win over the ones set here.
func (m *member) start() {
	m.t.Helper()
	args := append([]string{"--name", "m", "--data-dir", m.dir,
		"--listen-client-urls", m.scheme + "://" + m.client, "--advertise-client-urls", m.scheme + "://" + m.client,
		"--listen-peer-urls", m.scheme + "://" + m.peer, "--initial-advertise-peer-urls", m.scheme + "://" + m.peer,
		"--initial-cluster", "m=" + m.scheme + "://" + m.peer, "--heartbeat-interval", "20", "--election-timeout", "200"}, m.flags...)
	m.cmd = exec.Command(serverBinary(), args...)
	m.cmd.Env = append(os.Environ(), m.env...)
	m.cmd.Stdout, m.cmd.Stderr = &m.log, &m.log
	// The member dies with the test program, however that ends.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	cmd, exited := m.cmd, make(chan error, 1)
	m.exited = exited
	go func() { exited <- cmd.Wait() }()
	m.t.Cleanup(m.kill)
	m.awaitReady()
}

func (m *member) awaitReady() {
	m.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		if code, _ := m.tryGet("/readyz"); code == 200 {
			return
		}
		select {
		case err := <-m.exited:
			m.exited <- err
			m.t.Fatalf("the server ended at start: %v\n%s", err, tail(m.log.String()))
		default:
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("not ready within 30 s\n%s", tail(m.log.String()))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func tail(s string) string {
	if len(s) > 4000 {
		return s[len(s)-4000:]
	}
	return s
}

func (m *member) end(s syscall.Signal) {
	m.t.Helper()
	if m.cmd == nil {
		return
	}
	m.cmd.Process.Signal(s)
	select {
	case <-m.exited:
	case <-time.After(20 * time.Second):
		m.cmd.Process.Kill()
		<-m.exited
		m.t.Errorf("did not end within 20 s of %v", s)
	}
	m.cmd = nil
}

func (m *member) kill() { m.end(syscall.SIGKILL) }
func (m *member) stop() { m.end(syscall.SIGTERM) }

func (m *member) restart() {
	m.t.Helper()
	m.stop()
	m.start()
}

func (m *member) alive() bool {
	select {
	case err := <-m.exited:
		m.exited <- err
		return false
	default:
		return true
	}
}

func (m *member) newClient() *clientv3.Client {
	m.t.Helper()
	config := clientv3.Config{Endpoints: []string{m.client}, DialTimeout: 5 * time.Second,
		MaxCallRecvMsgSize: 1 << 30, MaxCallSendMsgSize: 1 << 30}
	if m.scheme == "https" {
		config.TLS = anyServer()
	}
	c, err := clientv3.New(config)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { c.Close() })
	return c
}

func (m *member) rawConn() *grpc.ClientConn {
	m.t.Helper()
	conn, err := grpc.NewClient(m.client, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { conn.Close() })
	return conn
}

func (m *member) tryGet(path string) (int, string) {
	c := http.Client{Timeout: 5 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: anyServer()}}
	r, err := c.Get(m.scheme + "://" + m.client + path)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(text)
}

func anyServer() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// The value of a metric without labels; false when it is not there.
func (m *member) metric(name string) (float64, bool) {
	m.t.Helper()
	code, text := m.tryGet("/metrics")
	if code != 200 {
		m.t.Fatalf("metrics: %d %s", code, text)
	}
	for _, line := range strings.Split(text, "\n") {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			var v float64
			if _, err := fmt.Sscan(rest, &v); err != nil {
				m.t.Fatalf("%q: %v", line, err)
			}
			return v, true
		}
	}
	return 0, false
}

func (m *member) openFiles() int {
	m.t.Helper()
	e, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.cmd.Process.Pid))
	if err != nil {
		m.t.Fatal(err)
	}
	return len(e)
}

// Resident memory in MiB.
func (m *member) residentMiB() int {
	m.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	if err != nil {
		m.t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		var kb int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			return kb >> 10
		}
	}
	m.t.Fatal("no VmRSS")
	return 0
}

// Fails the test unless the condition comes true in time.
func eventually(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
