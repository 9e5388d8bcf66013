package conformance

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

// Revoking a lease without keys takes no revision; with keys it takes one, shared by all its deletions.
func TestC24_RevokeTakesAtMostOneRevision(t *testing.T) {
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
	want(t, "revoke without keys", r.Header.Revision, before)
	want(t, "and the store agrees", mustGet(t, c, p+"x").Header.Revision, before)
	l, err := c.Grant(ctx(t), 60)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"1", "2", "3"} {
		mustPut(t, c, p+k, "v", clientv3.WithLease(l.ID))
	}
	if _, err := c.Delete(ctx(t), p+"2"); err != nil {
		t.Fatal(err)
	}
	w := openWatch(t)
	w.create(rangeOf(p))
	head := w.recv().Header.Revision
	r, err = c.Revoke(ctx(t), l.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "revoke with keys", r.Header.Revision, head+1)
	m := w.recv()
	want(t, "deletions in one message", len(m.Events), 2)
	for i, k := range []string{"1", "3"} {
		want(t, "key", string(m.Events[i].Kv.Key), p+k)
		want(t, "revision", m.Events[i].Kv.ModRevision, head+1)
	}
}

func (m *member) postJSON(path, body string) map[string]any {
	m.t.Helper()
	r, err := http.Post("http://"+m.client+path, "application/json", strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil || r.StatusCode != 200 {
		m.t.Fatalf("%s: %d %s", path, r.StatusCode, text)
	}
	return out
}

// Leases with negative IDs survive a stop and a kill, and expire with their keys.
func TestC25_NegativeLeaseIDsSurviveARestart(t *testing.T) {
	m := startMember(t)
	c := m.newClient()
	lease := pb.NewLeaseClient(m.rawConn())
	ids := []int64{-1, math.MinInt64, -2, math.MinInt64 + 1}
	for i, id := range ids {
		if i < 2 {
			g, err := lease.LeaseGrant(ctx(t), &pb.LeaseGrantRequest{ID: id, TTL: 300})
			if err != nil {
				t.Fatal(err)
			}
			want(t, "granted", g.ID, id)
		} else {
			g := m.postJSON("/v3/lease/grant", fmt.Sprintf(`{"ID":"%d","TTL":"300"}`, id))
			want(t, "granted by JSON", g["ID"].(string), fmt.Sprint(id))
		}
		mustPut(t, c, fmt.Sprint("k", id), "v", clientv3.WithLease(clientv3.LeaseID(id)))
	}
	short, err := lease.LeaseGrant(ctx(t), &pb.LeaseGrantRequest{ID: -77, TTL: 4})
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, c, "short", "v", clientv3.WithLease(clientv3.LeaseID(short.ID)))
	check := func(when string) {
		t.Helper()
		t.Log(when)
		list, err := lease.LeaseLeases(ctx(t), &pb.LeaseLeasesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		listed := map[int64]bool{}
		for _, l := range list.Leases {
			listed[l.ID] = true
		}
		for _, id := range ids {
			want(t, fmt.Sprint("listed ", id), listed[id], true)
			ttl, err := lease.LeaseTimeToLive(ctx(t), &pb.LeaseTimeToLiveRequest{ID: id, Keys: true})
			if err != nil {
				t.Fatal(err)
			}
			want(t, "granted TTL", ttl.GrantedTTL, int64(300))
			if ttl.TTL < 250 || ttl.TTL > 300 {
				t.Fatalf("lease %d has %d s left", id, ttl.TTL)
			}
			want(t, "keys", fmt.Sprintf("%s", ttl.Keys), fmt.Sprintf("[k%d]", id))
			want(t, "lease of the key", mustGet(t, c, fmt.Sprint("k", id)).Kvs[0].Lease, id)
			_, err = lease.LeaseGrant(ctx(t), &pb.LeaseGrantRequest{ID: id, TTL: 300})
			wantStatus(t, err, codes.FailedPrecondition, "etcdserver: lease already exists")
			mustPut(t, c, fmt.Sprint("k", id), when, clientv3.WithLease(clientv3.LeaseID(id)))
		}
	}
	check("before")
	m.restart()
	check("after a stop")
	m.kill()
	m.start()
	check("after a kill")
	eventually(t, "the short lease expires with its key", 15*time.Second, func() bool { return mustGet(t, c, "short").Count == 0 })
	ttl, err := lease.LeaseTimeToLive(ctx(t), &pb.LeaseTimeToLiveRequest{ID: -77})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "TTL of an expired lease", ttl.TTL, int64(-1))
	for _, id := range ids {
		if _, err := lease.LeaseRevoke(ctx(t), &pb.LeaseRevokeRequest{ID: id}); err != nil {
			t.Fatal(err)
		}
		want(t, "the key goes with its lease", mustGet(t, c, fmt.Sprint("k", id)).Count, int64(0))
	}
	for _, ttl := range []int64{math.MinInt64, -5, 0, 1} {
		g, err := lease.LeaseGrant(ctx(t), &pb.LeaseGrantRequest{TTL: ttl})
		if err != nil || g.ID <= 0 {
			t.Fatalf("TTL %d: %v %v", ttl, g, err)
		}
		want(t, "raised to the least TTL", g.TTL, int64(1)) // 1.5 election timeouts of 200 ms, rounded up
	}
	if _, err = lease.LeaseGrant(ctx(t), &pb.LeaseGrantRequest{TTL: 9000000000}); err != nil {
		t.Fatal(err)
	}
	_, err = lease.LeaseGrant(ctx(t), &pb.LeaseGrantRequest{TTL: 9000000001})
	wantStatus(t, err, codes.OutOfRange, "etcdserver: too large lease TTL")
}

// Shifts the wall clock of one process by the number of seconds in a file that is mapped at first use; a lone 8-byte
// load follows every change. Only realtime clocks move. libfaketime cannot be used: it fails below an allocator that
// reads the clock while it starts.
const wallClockShim = `
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile int64_t *shift;
static int64_t seconds(void) {
  if (!shift) {
    const char *path = getenv("SHIFTED_CLOCK");
    int fd = path ? open(path, O_RDONLY) : -1;
    void *p = fd < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) _exit(99);
    shift = p;
  }
  return *shift;
}
int clock_gettime(clockid_t id, struct timespec *out) {
  int rc = (int)syscall(SYS_clock_gettime, id, out);
  if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) out->tv_sec += seconds();
  return rc;
}
int gettimeofday(struct timeval *out, void *zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
`

// The environment of a process whose wall clock the returned function shifts.
func shiftedClock(t *testing.T) (env []string, shift func(seconds int64)) {
	t.Helper()
	dir := t.TempDir()
	source, lib, clock := filepath.Join(dir, "shim.c"), filepath.Join(dir, "shim.so"), filepath.Join(dir, "clock")
	if err := os.WriteFile(source, []byte(wallClockShim), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler: this case preloads a shifted clock")
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", lib, source).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v %s", err, out)
	}
	shift = func(seconds int64) {
		t.Helper()
		f, err := os.OpenFile(clock, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var b [8]byte
		binary.NativeEndian.PutUint64(b[:], uint64(seconds))
		if _, err := f.WriteAt(b[:], 0); err != nil {
			t.Fatal(err)
		}
	}
	shift(0)
	return []string{"LD_PRELOAD=" + lib, "SHIFTED_CLOCK=" + clock}, shift
}

// Jumps of the wall clock, forwards and back, move neither leases nor elections nor periodic compaction.
// Go reads the clock without the C library, so etcd cannot be shown this way.
func TestC29_WallClockJumps(t *testing.T) {
	for name, jump := range map[string]int64{"forwards": 3600, "backwards": -3600} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, "--auto-compaction-mode", "periodic", "--auto-compaction-retention", "30m")
			if !isMainstay(t) {
				t.Skip("a Go program does not take its clock from a preloaded library")
			}
			env, shift := shiftedClock(t)
			m.env = env
			m.start()
			c := m.newClient()
			old := mustPut(t, c, "history", "v").Header.Revision
			mustPut(t, c, "history", "v")
			term := func() uint64 {
				s, err := c.Status(ctx(t), m.client)
				if err != nil {
					t.Fatal(err)
				}
				return s.RaftTerm
			}
			before := term()
			shift(jump)
			l, err := c.Grant(ctx(t), 8)
			if err != nil {
				t.Fatal(err)
			}
			granted := time.Now()
			mustPut(t, c, "k", "v", clientv3.WithLease(l.ID))
			time.Sleep(2 * time.Second) // let every timer of the server see the jump
			want(t, "the key lives", mustGet(t, c, "k").Count, int64(1))
			shift(0)
			for mustGet(t, c, "k").Count > 0 {
				r, err := c.TimeToLive(ctx(t), l.ID)
				if err != nil {
					t.Fatal(err)
				}
				if r.TTL < -1 || r.TTL > 8 {
					t.Fatalf("%d s of 8 are left", r.TTL)
				}
				if time.Since(granted) > 13*time.Second {
					t.Fatal("a lease of 8 s lives after 13 s")
				}
				time.Sleep(100 * time.Millisecond)
			}
			if lived := time.Since(granted); lived < 7500*time.Millisecond {
				t.Fatalf("a lease of 8 s lived %v", lived)
			}
			want(t, "history is not compacted", mustGet(t, c, "history", clientv3.WithRev(old)).Count, int64(1))
			want(t, "no election", term(), before)
			// The log shows that the clock did jump.
			shift(jump)
			m.stop()
			stamps := regexp.MustCompile(`"ts":"([^"]+)"`).FindAllStringSubmatch(m.log.String(), -1)
			start, err1 := time.Parse(time.RFC3339Nano, stamps[0][1])
			end, err2 := time.Parse(time.RFC3339Nano, stamps[len(stamps)-1][1])
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if d := end.Sub(start) - time.Duration(jump)*time.Second; d < 0 || d > time.Minute {
				t.Fatalf("the server's clock did not jump: its log spans %v", end.Sub(start))
			}
		})
	}
}
