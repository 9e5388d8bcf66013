package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// CONFORMANCE_CTL names the command line under test: etcdctl or mainstayctl.
func needCtl(t *testing.T) string {
	t.Helper()
	path := os.Getenv("CONFORMANCE_CTL")
	if path == "" {
		t.Skip("CONFORMANCE_CTL is not set: this case runs a command line")
	}
	return path
}

func ctlIsMainstay(t *testing.T) bool {
	t.Helper()
	out, err := exec.Command(needCtl(t), "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	return !strings.HasPrefix(string(out), "etcdctl version")
}

type ctlResult struct {
	out, err string
	code     int
}

func (m *member) ctl(input string, args ...string) ctlResult {
	m.t.Helper()
	cmd := exec.Command(needCtl(m.t), append([]string{"--endpoints", m.client}, args...)...)
	var out, failure bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &failure
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Fatal(err)
	}
	// The client library of etcdctl logs its retries as JSON lines, which is no part of an answer.
	var lines []string
	for _, line := range strings.SplitAfter(failure.String(), "\n") {
		if !strings.Contains(line, `"logger":"etcd-client"`) {
			lines = append(lines, line)
		}
	}
	return ctlResult{out.String(), strings.Join(lines, ""), cmd.ProcessState.ExitCode()}
}

var hexID = regexp.MustCompile(`^[0-9a-f]{1,16}$`)

// Every field with that name anywhere in a decoded JSON value.
func fieldsNamed(v any, name string) (out []any) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if k == name {
				out = append(out, inner)
			}
			out = append(out, fieldsNamed(inner, name)...)
		}
	case []any:
		for _, inner := range v {
			out = append(out, fieldsNamed(inner, name)...)
		}
	}
	return out
}

// With a term of ten or more every format of --hex is well formed: identities may be hexadecimal, the term is decimal.
func TestC58_HexOutput(t *testing.T) {
	needCtl(t)
	m := startMember(t)
	c := m.newClient()
	term := func() uint64 {
		s, err := c.Status(ctx(t), m.client)
		if err != nil {
			t.Fatal(err)
		}
		return s.RaftTerm
	}
	for i := 0; i < 20 && term() < 10; i++ {
		m.kill()
		m.start()
	}
	now := term()
	if now < 10 {
		t.Fatalf("term %d after 20 restarts", now)
	}
	members, err := c.MemberList(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	id := members.Members[0].ID
	hex := fmt.Sprintf("%x", id)
	commands := [][]string{{"member", "list"}, {"endpoint", "status"}, {"endpoint", "hashkv"}, {"move-leader", hex}}
	for _, command := range commands {
		name := command[0] + " " + command[1]
		if command[0] == "move-leader" {
			name = command[0]
		}
		for _, format := range []string{"simple", "json", "fields", "table", "protobuf"} {
			for _, asHex := range []bool{false, true} {
				args := append(append([]string{}, command...), "-w", format)
				if asHex {
					args = append(args, "--hex")
				}
				t.Run(strings.Join(args[:len(args)-1], " ")+fmt.Sprint(" hex=", asHex), func(t *testing.T) {
					r := m.ctl("", args...)
					if strings.Contains(r.out+r.err, "panic") || strings.Contains(r.err, "goroutine") {
						t.Fatal(r.out + r.err)
					}
					unsupported := format == "protobuf" && command[0] == "endpoint" ||
						(format == "fields" || format == "table") && name == "move-leader"
					if unsupported {
						want(t, "text", r.err, "Error: "+format+" not supported as output format\n")
						return
					}
					want(t, "exit", r.code, 0)
					switch format {
					case "json":
						checkHexJSON(t, r.out, name, asHex, now, id)
					case "fields":
						checkFields(t, r.out, now, ctlIsMainstay(t))
					case "simple", "table":
						if name != "endpoint hashkv" && !strings.Contains(r.out, hex) {
							t.Fatalf("no %s in %q", hex, r.out)
						}
						if name == "endpoint status" && !regexp.MustCompile(fmt.Sprintf(`[ ,]%d[ ,]`, now)).MatchString(r.out) {
							t.Fatalf("no term %d in %q", now, r.out)
						}
					}
				})
			}
		}
	}
}

func checkHexJSON(t *testing.T, text, name string, asHex bool, term, id uint64) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	if d.More() {
		t.Fatalf("more than one value in %q", text)
	}
	if name == "move-leader" {
		return
	}
	for _, field := range []string{"raft_term", "raftTerm"} {
		for _, got := range fieldsNamed(v, field) {
			n, ok := got.(json.Number)
			if !ok {
				t.Fatalf("%s is %v in %q", field, got, text)
			}
			want(t, field, n.String(), fmt.Sprint(term))
		}
	}
	ids := append(fieldsNamed(v, "member_id"), fieldsNamed(v, "ID")...)
	if len(ids) == 0 {
		t.Fatalf("no identity in %q", text)
	}
	for _, got := range append(ids, fieldsNamed(v, "cluster_id")...) {
		// etcdctl 3.7.1 prints identities in hexadecimal in `member list` alone; the others ignore --hex in JSON.
		if asHex && name == "member list" {
			s, ok := got.(string)
			if !ok || !hexID.MatchString(s) {
				t.Fatalf("%v is no hexadecimal string in %q", got, text)
			}
		} else if _, ok := got.(json.Number); !ok {
			t.Fatalf("%v is no number in %q", got, text)
		}
	}
	wanted := fmt.Sprint(id)
	if asHex && name == "member list" {
		wanted = fmt.Sprintf("%x", id)
	}
	for _, got := range ids {
		want(t, "identity", fmt.Sprint(got), wanted)
	}
	// A field given twice would be lost in the decoded value, so it is looked for in the text.
	for _, field := range []string{`"raftTerm"`, `"raft_term"`, `"dbSize"`, `"members"`, `"hash"`} {
		if strings.Count(text, field+":") > 1 {
			t.Fatalf("%s twice in %q", field, text)
		}
	}
}

func checkFields(t *testing.T, text string, term uint64, once bool) {
	t.Helper()
	seen := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		name, value, ok := strings.Cut(line, " : ")
		if !ok {
			t.Fatalf("no field: %q", line)
		}
		seen[name]++
		if name == `"RaftTerm"` {
			want(t, "term", value, fmt.Sprint(term))
		}
	}
	for name, n := range seen {
		if n > 1 && (once || name != `"RaftTerm"`) { // etcdctl 3.7.1 prints the term of a status twice
			t.Fatalf("%s %d times in %q", name, n, text)
		}
	}
}

// txn on standard input: every compare target, empty sections, quotes, CRLF and errors that are messages.
func TestC60_TxnInput(t *testing.T) {
	needCtl(t)
	m := startMember(t)
	c := m.newClient()
	l, err := c.Grant(ctx(t), 600)
	if err != nil {
		t.Fatal(err)
	}
	lease := fmt.Sprintf("%x", int64(l.ID))
	mustPut(t, c, "k", "v")
	mustPut(t, c, "k", "v")
	mustPut(t, c, "leased", "v", clientv3.WithLease(l.ID))
	const branches = "\n\nget k\n\nput f x\n\n"
	const success, failure = "SUCCESS\n\nk\nv\n", "FAILURE\n\nOK\n"
	good := []struct{ in, out string }{
		{`create("k") = "2"` + branches, success}, {`create("k") != "2"` + branches, failure},
		{`c("k") > "1"` + branches, success}, {`c("k") < "2"` + branches, failure},
		{`mod("k") = "3"` + branches, success}, {`m("k") < "3"` + branches, failure}, {`mod("k") != "0"` + branches, success},
		{`version("k") = "2"` + branches, success}, {`ver("k") > "1"` + branches, success}, {`ver("k") > "2"` + branches, failure},
		{`value("k") = "v"` + branches, success}, {`val("k") < "v"` + branches, failure}, {`val("k") != "w"` + branches, success},
		{`value("missing") = ""` + branches, failure}, {`create("missing") = "0"` + branches, success},
		{"mod(\"k\") = \"3\"\nver(\"k\") = \"2\"" + branches, success},
		{"\n\n\n", "SUCCESS\n"}, {"mod(\"k\") = \"9\"\n\n\n\n", "FAILURE\n"},
		{"\nput a 'a b'\nget a\n\n\n", "SUCCESS\n\nOK\n\na\na b\n"},
		{"\nput a \"x  y\"\nget a\n\n\n", "SUCCESS\n\nOK\n\na\nx  y\n"},
		{"\nput a 'unbalanced\nget a\n\n\n", "SUCCESS\n\nOK\n\na\nunbalanced\n"},
		{"\nput a \"unbalanced\nget a\n\n\n", "SUCCESS\n\nOK\n\na\nunbalanced\n"},
		{"\nput a \"\\x00\\xff\\n\"\nget a\n\n\n", "SUCCESS\n\nOK\n\na\n\x00\xff\n\n"},
		{"\nput a '\\x00'\nget a\n\n\n", "SUCCESS\n\nOK\n\na\n\\x00\n"},
		{"\nput a \"\\x00\\xff\"\nput b 'it''s'\n\n\n", "SUCCESS\n\nOK\n\nOK\n"},
		{"value(\"a\") = \"\\x00\\xff\"" + branches, success},
		{"\r\nput a crlf\r\nget a\r\n\r\n\r\n", "SUCCESS\n\nOK\n\na\ncrlf\n"},
		{"\ndel a\nget a\n\n\n", "SUCCESS\n\n1\n\n"},
	}
	for _, g := range good {
		r := m.ctl(g.in, "txn")
		if r.out != g.out || r.code != 0 || r.err != "" {
			t.Errorf("%q: %q %q, exit %d; want %q", g.in, r.out, r.err, r.code, g.out)
		}
	}
	leases := []struct{ in, out string }{
		{`lease("k") > "0"` + branches, failure}, {`lease("k") = "0"` + branches, success},
		{`lease("leased") > "0"` + branches, success}, {`lease("leased") = "` + lease + `"` + branches, success},
		{`lease("leased") != "` + lease + `"` + branches, failure}, {`lease("leased") < "` + lease + `"` + branches, failure},
	}
	bad := []struct{ in, err string }{
		{"", "Error: EOF\n"}, {"\n\n", "Error: EOF\n"},
		{"garbage\n\n\n\n", "Error: malformed comparison: garbage\n"},
		{"mod(k) = \"1\"\n\n\n\n", "Error: malformed comparison: mod(k) = \"1\"; got mod(\"\")  \"\"\n"},
		{"nope(\"k\") = \"1\"\n\n\n\n", "Error: malformed comparison: nope(\"k\") = \"1\" (unknown target nope)\n"},
		{"mod(\"k\") = \"zz\"\n\n\n\n", "Error: invalid txn compare request: mod(\"k\") = \"zz\"\n"},
		{"\nnope k\n\n\n", "Error: invalid txn request: nope k\n"},
		{"\nput\n\n\n", "Error: invalid txn compare request: put\n"},
	}
	if ctlIsMainstay(t) { // etcdctl 3.7.1 panics on all of these
		for _, g := range leases {
			r := m.ctl(g.in, "txn")
			if r.out != g.out || r.code != 0 || r.err != "" {
				t.Errorf("%q: %q %q, exit %d; want %q", g.in, r.out, r.err, r.code, g.out)
			}
		}
		bad = append(bad, []struct{ in, err string }{
			{"lease(\"k\") = \"zz\"\n\n\n\n", "Error: invalid txn compare request: lease(\"k\") = \"zz\"\n"},
			{"lease(\"k\") = \"\"\n\n\n\n", "Error: invalid txn compare request: lease(\"k\") = \"\"\n"},
			{"mod(\"k\") ~ \"1\"\n\n\n\n", "Error: malformed comparison: mod(\"k\") ~ \"1\" (unknown operator ~)\n"},
		}...)
	}
	for _, b := range bad {
		r := m.ctl(b.in, "txn")
		if r.out != "" || r.err != b.err || r.code == 0 {
			t.Errorf("%q: %q %q, exit %d; want %q", b.in, r.out, r.err, r.code, b.err)
		}
	}
	want(t, "the server lives", m.alive(), true)
}
