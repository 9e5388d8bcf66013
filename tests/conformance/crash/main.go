// crash: kills a server with SIGKILL at random moments under load and checks, after each restart, every revision of its
// history: that each acknowledged write is there with its values, versions and revisions, that each write in doubt is
// there once, whole, or not at all, that nothing else is, that reads saw what the history held, that leases and
// revocations stayed, and that a watcher which lives through all of it misses and repeats nothing.
//
//	crash -server BINARY [-rounds 500] [-seed 1] [-round-ms 300] [-dir DIR]
//
// Works on Mainstay and on etcd 3.7: the flags are the same. A failure keeps the directory with data and log, and prints
// the command that repeats the run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

type server struct {
	binary, dir string
	port, peer  int
	cmd         *exec.Cmd
	log         *os.File
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (s *server) start() error {
	url := func(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }
	s.cmd = exec.Command(s.binary, "--name", "crash", "--data-dir", s.dir,
		"--listen-client-urls", url(s.port), "--advertise-client-urls", url(s.port),
		"--listen-peer-urls", url(s.peer), "--initial-advertise-peer-urls", url(s.peer),
		"--initial-cluster", "crash="+url(s.peer), "--snapshot-count", "500", "--log-level", "warn")
	s.cmd.Stderr, s.cmd.Stdout = s.log, s.log
	// Whatever ends this program ends the server.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return s.cmd.Start()
}

func (s *server) kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	}
}

func toPair(e *clientv3.Event) pair {
	kv := e.Kv
	return pair{key: string(kv.Key), value: string(kv.Value), deleted: e.Type == clientv3.EventTypeDelete,
		create: kv.CreateRevision, mod: kv.ModRevision, version: kv.Version, lease: kv.Lease}
}

// history hands over the events of each revision from `from` on, whole, until take returns false.
func history(ctx context.Context, c *clientv3.Client, from int64, take func(group []pair) bool) error {
	var group []pair
	for r := range c.Watch(ctx, "k/", clientv3.WithPrefix(), clientv3.WithRev(from)) {
		if r.CompactRevision > 0 {
			return fmt.Errorf("watch from %d: compacted at %d", from, r.CompactRevision)
		}
		if err := r.Err(); err != nil {
			return err
		}
		for _, e := range r.Events {
			p := toPair(e)
			if len(group) > 0 && group[0].mod != p.mod {
				if !take(group) {
					return nil
				}
				group = nil
			}
			group = append(group, p)
		}
		// Without fragments a response ends with a whole revision.
		if len(group) > 0 {
			if !take(group) {
				return nil
			}
			group = nil
		}
	}
	return ctx.Err()
}

// verify replays what the store says happened since the last time, and holds the end against its content.
func verify(c *clientv3.Client, check *checker) error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	g, err := c.Get(ctx, "k/", clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("the server does not answer after its restart: %w", err)
	}
	end := g.Header.Revision
	if check.verified < end {
		err = history(ctx, c, check.verified+1, func(group []pair) bool {
			if len(check.failures) > 0 {
				return false
			}
			check.replay(group)
			return check.verified < end
		})
		if err != nil {
			return fmt.Errorf("history from %d to %d stands at %d: %w", check.verified, end, check.verified, err)
		}
	}
	// Leases may end while this runs: read what the end of the history is the end of.
	g, err = c.Get(ctx, "k/", clientv3.WithPrefix(), clientv3.WithRev(check.verified))
	if err != nil {
		return err
	}
	var all []pair
	for _, kv := range g.Kvs {
		all = append(all, pair{key: string(kv.Key), value: string(kv.Value), create: kv.CreateRevision, mod: kv.ModRevision,
			version: kv.Version, lease: kv.Lease})
	}
	check.settle(max(end, check.verified), all)
	l, err := c.Leases(ctx)
	if err != nil {
		return err
	}
	there := map[int64]bool{}
	for _, s := range l.Leases {
		there[int64(s.ID)] = true
	}
	check.settleLeases(there)
	return nil
}

// watcher follows the history while it is made, across kills; what it saw must be what is replayed later.
type watcher struct {
	next atomic.Int64
	mu   sync.Mutex
	seen map[int64]string
}

func (w *watcher) follow(ctx context.Context, c *clientv3.Client, check *checker) {
	// The error is the server's end; what matters is what came before it.
	_ = history(ctx, c, w.next.Load(), func(group []pair) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if got := group[0].mod; got != w.next.Load() {
			check.Lock()
			check.fail("live watch: revision %d came where %d was due", got, w.next.Load())
			check.Unlock()
			return false
		}
		w.seen[group[0].mod] = describe(group)
		w.next.Store(group[0].mod + 1)
		return true
	})
}

func (w *watcher) compare(check *checker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	check.Lock()
	defer check.Unlock()
	for revision, saw := range w.seen {
		if held, there := check.history[revision]; !there || held != saw {
			check.fail("the live watch saw at revision %d: %s; the history holds: %s", revision, saw, held)
		}
	}
	w.seen = map[int64]string{}
}

type program struct {
	s        *server
	check    *checker
	live     *watcher
	rng      *rand.Rand
	ids      atomic.Int64
	acked    atomic.Int64
	roundMs  int
	restarts []time.Duration
}

// round starts the server, verifies what it holds and, unless it is the last, loads it and kills it.
func (p *program) round(last bool) error {
	began := time.Now()
	if err := p.s.start(); err != nil {
		return err
	}
	// The client would wait a second after a refused connection.
	for deadline := began.Add(60 * time.Second); time.Now().Before(deadline); {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.s.port))
		if err == nil {
			conn.Close()
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{fmt.Sprintf("127.0.0.1:%d", p.s.port)},
		DialTimeout: 30 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer c.Close()
	ready, cancelReady := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancelReady()
	for {
		if _, err = c.Get(ready, "ready"); err == nil {
			break
		}
		if ready.Err() != nil {
			return fmt.Errorf("not ready after 30 s: %w", err)
		}
	}
	p.restarts = append(p.restarts, time.Since(began))
	if err := verify(c, p.check); err != nil {
		return err
	}
	p.live.compare(p.check)
	if len(p.check.failures) > 0 {
		return errors.New("the history does not hold")
	}
	if last {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var group sync.WaitGroup
	spawn := func(f func()) {
		group.Add(1)
		go func() { defer group.Done(); f() }()
	}
	spawn(func() { p.live.follow(ctx, c, p.check) })
	l := &load{c: c, check: p.check, ids: &p.ids, acked: &p.acked, liveNext: &p.live.next}
	for i := 0; i < 8; i++ {
		rng := rand.New(rand.NewSource(p.rng.Int63()))
		spawn(func() { l.run(ctx, rng) })
	}
	time.Sleep(time.Duration(20+p.rng.Intn(2*p.roundMs)) * time.Millisecond)
	p.s.kill()
	time.Sleep(20 * time.Millisecond) // answers that were on their way
	cancel()
	group.Wait()
	return nil
}

func spread(times []time.Duration) string {
	sorted := append([]time.Duration(nil), times...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i] < sorted[j] })
	return fmt.Sprintf("p50 %.2f s, max %.2f s", sorted[len(sorted)/2].Seconds(), sorted[len(sorted)-1].Seconds())
}

func run() error {
	binary := flag.String("server", "", "server binary")
	rounds := flag.Int("rounds", 500, "kills")
	seed := flag.Int64("seed", 1, "seed")
	roundMs := flag.Int("round-ms", 170, "mean time of load before a kill")
	dir := flag.String("dir", "", "working directory (a temporary one by default)")
	flag.Parse()
	if *dir == "" {
		made, err := os.MkdirTemp("", "crash")
		if err != nil {
			return err
		}
		*dir = made
	}
	log, err := os.Create(filepath.Join(*dir, "log"))
	if err != nil {
		return err
	}
	p := &program{s: &server{binary: *binary, dir: filepath.Join(*dir, "data"), log: log}, check: newChecker(),
		live: &watcher{seen: map[int64]string{}}, rng: rand.New(rand.NewSource(*seed)), roundMs: *roundMs}
	p.live.next.Store(2)
	defer p.s.kill()
	for _, port := range []*int{&p.s.port, &p.s.peer} {
		if *port, err = freePort(); err != nil {
			return err
		}
	}
	fmt.Printf("seed %d, %s\n", *seed, *binary)
	for round := 1; round <= *rounds+1; round++ {
		if err := p.round(round > *rounds); err != nil {
			for i, failure := range p.check.failures {
				if i < 20 {
					fmt.Println("FAILED:", failure)
				}
			}
			return fmt.Errorf("round %d: %w\nkept: %s (data, log)\nagain: run.sh %s %d %d", round, err, *dir, *binary, *rounds, *seed)
		}
		if round%50 == 0 {
			fmt.Printf("%d kills: %d writes acknowledged, %d revisions replayed; ready after %s\n", round, p.acked.Load(),
				p.check.checked, spread(p.restarts[max(0, len(p.restarts)-50):]))
		}
	}
	fmt.Printf("%d kills passed: %d writes acknowledged, %d revisions replayed\n", *rounds, p.acked.Load(), p.check.checked)
	n := min(50, len(p.restarts))
	fmt.Printf("ready after a restart: first %d: %s; last %d: %s\n", n, spread(p.restarts[:n]), n, spread(p.restarts[len(p.restarts)-n:]))
	p.s.kill()
	return os.RemoveAll(*dir)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
}
