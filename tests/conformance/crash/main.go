// crash: kills a server with SIGKILL at random moments under load and checks, after each restart, that nothing
// acknowledged was lost, that revisions never went back and that a watch resumed across all restarts has no gap.
//
//	crash -server BINARY [-rounds 500] [-seed 1]
//
// Works on Mainstay and on etcd 3.7: the flags are the same.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const keys = 40

// What may stand under a key: the newest acknowledged write, and writes after it whose outcome is unknown.
type keyModel struct {
	ackedRev int64
	acked    string // "" = deleted or never written
	maybe    map[string]bool
}

type model struct {
	sync.Mutex
	byKey   map[string]*keyModel
	highest int64 // newest revision that any answer reported
	leases  map[clientv3.LeaseID]bool
	writes  int64
	compact int64
}

func (m *model) saw(rev int64) {
	if rev > m.highest {
		m.highest = rev
	}
}

func freePort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(2)
	}
}

type server struct {
	binary, dir string
	port, peer  int
	cmd         *exec.Cmd
	log         *os.File
}

func (s *server) start() {
	s.cmd = exec.Command(s.binary, "--name", "crash", "--data-dir", s.dir,
		"--listen-client-urls", fmt.Sprintf("http://127.0.0.1:%d", s.port),
		"--advertise-client-urls", fmt.Sprintf("http://127.0.0.1:%d", s.port),
		"--listen-peer-urls", fmt.Sprintf("http://127.0.0.1:%d", s.peer),
		"--initial-advertise-peer-urls", fmt.Sprintf("http://127.0.0.1:%d", s.peer),
		"--snapshot-count", "500", "--log-level", "warn")
	s.cmd.Stderr, s.cmd.Stdout = s.log, s.log
	check(s.cmd.Start())
}

func (s *server) kill() {
	s.cmd.Process.Signal(syscall.SIGKILL)
	s.cmd.Wait()
}

type run struct {
	m       *model
	seq     int64
	seqLock sync.Mutex
	failed  int
}

func (r *run) fail(format string, args ...any) {
	r.failed++
	fmt.Printf("FAILED: "+format+"\n", args...)
}

func (r *run) value() string {
	r.seqLock.Lock()
	defer r.seqLock.Unlock()
	r.seq++
	return strconv.FormatInt(r.seq, 10)
}

// One writer owns a part of the keys, so that the order of its own writes is known.
func (r *run) writer(ctx context.Context, c *clientv3.Client, id, writers int, rng *rand.Rand) {
	m := r.m
	for ctx.Err() == nil {
		key := fmt.Sprintf("k/%02d", (rng.Intn(keys)/writers)*writers%keys+id)
		m.Lock()
		km := m.byKey[key]
		if km == nil {
			km = &keyModel{maybe: map[string]bool{}}
			m.byKey[key] = km
		}
		m.Unlock()
		v := r.value()
		op := clientv3.OpPut(key, v)
		wanted := v
		var lease clientv3.LeaseID
		switch n := rng.Intn(10); {
		case n == 0:
			op, wanted = clientv3.OpDelete(key), ""
		case n == 1:
			if g, err := c.Grant(ctx, 3600); err == nil {
				lease = g.ID
				op = clientv3.OpPut(key, v, clientv3.WithLease(lease))
			}
		}
		m.Lock()
		km.maybe[wanted] = true
		m.Unlock()
		var rev int64
		var err error
		if rng.Intn(3) == 0 {
			var t *clientv3.TxnResponse
			t, err = c.Txn(ctx).If(clientv3.Compare(clientv3.Version(key), ">", -1)).Then(op).Commit()
			if err == nil {
				rev = t.Header.Revision
			}
		} else {
			var o clientv3.OpResponse
			o, err = c.Do(ctx, op)
			if err == nil {
				if p := o.Put(); p != nil {
					rev = p.Header.Revision
				} else {
					rev = o.Del().Header.Revision
				}
			}
		}
		if err != nil {
			return // unknown outcome: this writer stops here until the next round
		}
		m.Lock()
		m.saw(rev)
		m.writes++
		km.acked, km.ackedRev, km.maybe = wanted, rev, map[string]bool{}
		if lease != 0 {
			m.leases[lease] = true
		}
		m.Unlock()
		if rng.Intn(200) == 0 && rev > 50 {
			if _, err := c.Compact(ctx, rev-20); err == nil {
				m.Lock()
				if rev-20 > m.compact {
					m.compact = rev - 20
				}
				m.Unlock()
			}
		}
	}
}

// Follows all keys from where it stood; checks that no revision comes twice or backwards and keeps what it saw.
type follower struct {
	next   int64
	state  map[string]string
	events int64
}

func (f *follower) drain(r *run, c *clientv3.Client, upTo int64) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for f.next <= upTo {
		for resp := range c.Watch(ctx, "k/", clientv3.WithPrefix(), clientv3.WithRev(f.next)) {
			if resp.CompactRevision > 0 {
				// What was compacted cannot be replayed; the state at that revision is read instead.
				g, err := c.Get(ctx, "k/", clientv3.WithPrefix(), clientv3.WithRev(resp.CompactRevision))
				if err != nil {
					break
				}
				f.state = map[string]string{}
				for _, kv := range g.Kvs {
					f.state[string(kv.Key)] = string(kv.Value)
				}
				f.next = resp.CompactRevision + 1
				break
			}
			if resp.Err() != nil {
				break
			}
			for _, e := range resp.Events {
				if e.Kv.ModRevision < f.next {
					r.fail("watch: revision %d after %d", e.Kv.ModRevision, f.next-1)
				}
				if e.Type == clientv3.EventTypeDelete {
					delete(f.state, string(e.Kv.Key))
				} else {
					f.state[string(e.Kv.Key)] = string(e.Kv.Value)
				}
				f.events++
			}
			if n := len(resp.Events); n > 0 {
				f.next = resp.Events[n-1].Kv.ModRevision + 1
			}
			if f.next > upTo {
				break
			}
		}
		if ctx.Err() != nil {
			r.fail("watch: stood at %d and did not reach %d within 20 s", f.next-1, upTo)
			return
		}
	}
}

func (r *run) verify(c *clientv3.Client, f *follower) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	g, err := c.Get(ctx, "k/", clientv3.WithPrefix())
	if err != nil {
		r.fail("the server does not answer after its restart: %v", err)
		return
	}
	m := r.m
	m.Lock()
	defer m.Unlock()
	if g.Header.Revision < m.highest {
		r.fail("revision went back: %d after %d was acknowledged", g.Header.Revision, m.highest)
	}
	m.saw(g.Header.Revision)
	have, last := map[string]string{}, int64(0)
	for _, kv := range g.Kvs {
		have[string(kv.Key)] = string(kv.Value)
		if kv.ModRevision > last {
			last = kv.ModRevision
		}
	}
	for key, km := range m.byKey {
		v := have[key]
		if v != km.acked && !km.maybe[v] {
			r.fail("%s: holds %q, acknowledged was %q at revision %d", key, v, km.acked, km.ackedRev)
		}
		km.acked, km.maybe = v, map[string]bool{} // what was unknown is known now
	}
	f.drain(r, c, last)
	for key := range m.byKey {
		if f.state[key] != have[key] {
			r.fail("watch: %s ends as %q, the store holds %q", key, f.state[key], have[key])
		}
	}
	l, err := c.Leases(ctx)
	if err != nil {
		r.fail("leases: %v", err)
		return
	}
	there := map[clientv3.LeaseID]bool{}
	for _, s := range l.Leases {
		there[s.ID] = true
	}
	for id := range m.leases {
		if !there[id] {
			r.fail("lease %x is lost", int64(id))
		}
	}
	for id := range m.leases {
		if len(m.leases) > 200 {
			if _, err := c.Revoke(ctx, id); err == nil {
				delete(m.leases, id)
			}
		}
	}
	// Revoking deletes keys: the model follows.
	g, err = c.Get(ctx, "k/", clientv3.WithPrefix())
	if err == nil {
		have = map[string]string{}
		for _, kv := range g.Kvs {
			have[string(kv.Key)] = string(kv.Value)
		}
		for key, km := range m.byKey {
			km.acked = have[key]
		}
		m.saw(g.Header.Revision)
	}
}

func main() {
	binary := flag.String("server", "", "server binary")
	rounds := flag.Int("rounds", 500, "kills")
	seed := flag.Int64("seed", 1, "seed")
	keep := flag.String("dir", "", "working directory (a temporary one by default)")
	flag.Parse()
	dir := *keep
	if dir == "" {
		var err error
		dir, err = os.MkdirTemp("", "crash")
		check(err)
		defer os.RemoveAll(dir)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	check(err)
	s := &server{binary: *binary, dir: filepath.Join(dir, "data"), port: freePort(), peer: freePort(), log: log}
	r := &run{m: &model{byKey: map[string]*keyModel{}, leases: map[clientv3.LeaseID]bool{}}}
	f := &follower{next: 1, state: map[string]string{}}
	rng := rand.New(rand.NewSource(*seed))
	fmt.Printf("seed %d, %s\n", *seed, *binary)
	passed := 0
	for round := 1; round <= *rounds; round++ {
		before := r.failed
		s.start()
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{fmt.Sprintf("127.0.0.1:%d", s.port)},
			DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
		check(err)
		r.verify(c, f)
		ctx, cancel := context.WithCancel(context.Background())
		var writers sync.WaitGroup
		const n = 8
		for w := 0; w < n; w++ {
			writers.Add(1)
			go func(w int, seed int64) {
				defer writers.Done()
				r.writer(ctx, c, w, n, rand.New(rand.NewSource(seed)))
			}(w, rng.Int63())
		}
		time.Sleep(time.Duration(20+rng.Intn(300)) * time.Millisecond)
		s.kill()
		time.Sleep(20 * time.Millisecond)
		cancel()
		writers.Wait()
		c.Close()
		if r.failed == before {
			passed++
		} else {
			fmt.Printf("round %d failed\n", round)
		}
		if round%50 == 0 {
			fmt.Printf("round %d: %d writes acknowledged, revision %d, %d events followed, compacted at %d\n", round, r.m.writes,
				r.m.highest, f.events, r.m.compact)
		}
		if r.failed > 20 {
			break
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, *rounds-passed)
	if r.failed > 0 {
		os.Exit(1)
	}
}
