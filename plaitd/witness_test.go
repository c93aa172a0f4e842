package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/plaitd/pgtest"
)

// A rolled is a record that an older copy of itself takes the place of: the database, and all that PLAIT_HOME keeps.
type rolled struct {
	*host
	server *pgtest.Server
	db     string // "": SQLite
}

// newRolled makes a record with one task, on SQLite or Postgres.
func newRolled(t *testing.T, server *pgtest.Server) *rolled {
	r := &rolled{server: server}
	if server != nil {
		r.db = server.Database(t)
	}
	r.host = newHost(t, r.db)
	r.env = append(r.env, "XDG_CONFIG_HOME=", "GIT_CONFIG_NOSYSTEM=1")
	r.write("short.yaml", short)
	if r.db != "" {
		r.run(0, "migrate")
	}
	return r
}

func (r *rolled) task() {
	args := []string{"run", "short.yaml", "-p", "go", "-q"}
	if r.db != "" {
		args = append(args, "--unsafe-agents")
	}
	r.run(0, args...)
}

// saved copies the record and what this machine keeps of it, and returns what puts the copy back.
func (r *rolled) saved() (restore func()) {
	r.t.Helper()
	old := filepath.Join(r.t.TempDir(), "old")
	sh(r.t, `cp -a "$1" "$2"`, r.home, old)
	back := func() { sh(r.t, `rm -rf "$1" && cp -a "$2" "$1"`, r.home, old) }
	if r.db == "" {
		return back
	}
	data := dump(r.t, r.server, r.db)
	return func() {
		back()
		restoreInto(r.t, r.server, r.db, data)
	}
}

// restoreInto puts a dump in the place of what a database has.
func restoreInto(t *testing.T, s *pgtest.Server, db string, data []byte) {
	t.Helper()
	s.Tool(t, nil, "psql", "--quiet", "--command=DROP SCHEMA plait CASCADE", withoutPassword(t, db))
	s.Tool(t, bytes.NewReader(data), "pg_restore", "--exit-on-error", "--single-transaction",
		"--dbname="+withoutPassword(t, db))
}

// sql runs a script on the database, and returns what it selects.
func (r *rolled) sql(script string) string {
	r.t.Helper()
	return strings.TrimSpace(string(r.server.Tool(r.t, nil, "psql", "-At", "--single-transaction", "--set=ON_ERROR_STOP=1",
		"--command="+script, withoutPassword(r.t, r.db))))
}

// A before is a state of a database that it is brought back to.
type before struct {
	data      []byte // a dump
	pos, tree string // the last position, and the tree over the log in hexadecimal
}

// configure writes the user's configuration.
func (r *rolled) configure(text string) {
	r.t.Helper()
	dir := filepath.Join(filepath.Dir(r.home), ".config", "plait")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// TestWitnesses puts an older copy of a record back, with the older checkpoint of this machine. Nothing on this machine
// shows it; each of the witnesses alone does.
func TestWitnesses(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	for _, x := range []struct {
		name    string
		prepare func(r *rolled)
		seen    func(r *rolled) // what the witness does when there are two tasks; nil: what each end of a task does
		ask     func(r *rolled) // nil: verify is asked
		says    string          // by verify; "": that all is well
		away    func(r *rolled) // puts the witness out of reach
	}{
		{name: "none"},
		{name: "a file", says: "but the file ",
			prepare: func(r *rolled) { r.configure("witnesses: [file:" + r.elsewhere("checkpoint") + "]\n") },
			away:    func(r *rolled) { sh(r.t, `rm -r "$1" && touch "$1"`, filepath.Dir(r.elsewhere("checkpoint"))) }},
		{name: "a repository", says: "but the Git repository ",
			prepare: func(r *rolled) {
				sh(r.t, `git init -q "$1"`, r.work)
				r.configure("witnesses: [git]\n")
			}},
		{name: "a remote", says: "but the Git remote origin ",
			prepare: func(r *rolled) {
				sh(r.t, `git init -q "$1" && git init -q --bare "$2" && git -C "$1" remote add origin "$2"`, r.work,
					r.elsewhere("remote"))
				r.configure("witnesses: ['git:origin']\n")
			},
			away: func(r *rolled) { sh(r.t, `rm -r "$1"`, r.elsewhere("remote")) }},
		{name: "a checkpoint elsewhere",
			seen: func(r *rolled) {
				kept, _ := filepath.Glob(filepath.Join(r.home, "records", "*", "checkpoint"))
				sh(r.t, `cp "$1" "$2"`, append(kept, filepath.Join(r.home, "checkpoint"))[0], r.elsewhere("kept"))
			},
			ask: func(r *rolled) {
				if said := r.run(6, "proof", "check", r.elsewhere("kept")); !strings.Contains(said, "are gone") {
					r.t.Errorf("it says %s", said)
				}
			}},
		{name: "a peer",
			seen: func(r *rolled) { r.run(0, "export", r.elsewhere("peer")) },
			ask: func(r *rolled) {
				if said := r.run(6, "export", r.elsewhere("peer")); !strings.Contains(said, "nothing was copied") ||
					!strings.Contains(said, "shorter than seen") {
					r.t.Errorf("it says %s", said)
				}
			}},
	} {
		for kind, server := range map[string]*pgtest.Server{"sqlite": nil, "postgres": server} {
			t.Run(x.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				r := newRolled(t, server)
				if x.prepare != nil {
					x.prepare(r)
				}
				r.task()
				restore := r.saved()
				r.task()
				if x.seen != nil {
					x.seen(r)
				}
				r.run(0, "verify")
				restore()
				switch {
				case x.ask != nil:
					r.run(0, "verify")
					x.ask(r)
				case x.says == "":
					r.run(0, "verify")
				default:
					if said := r.run(6, "verify"); !strings.Contains(said, x.says) {
						t.Errorf("verify says %s", said)
					}
					r.task() // nothing that it does later hides that
					if said := r.run(6, "verify"); !strings.Contains(said, strings.TrimPrefix(x.says, "but ")) {
						t.Errorf("verify says later: %s", said)
					}
				}
				if x.away != nil {
					x.away(r)
					r.task()
					if said := r.run(0, "verify"); !strings.Contains(said, "warning: the ") {
						t.Errorf("of a witness out of reach it says %s", said)
					}
				}
			})
		}
	}
}

// elsewhere returns the path of a file that belongs to no record.
func (r *rolled) elsewhere(name string) string {
	dir := filepath.Join(filepath.Dir(r.home), "elsewhere")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// A seeing is a worker in a process.
type seeing struct {
	t    *testing.T
	cmd  *exec.Cmd
	at   string // where it serves
	mu   sync.Mutex
	said strings.Builder
}

// witnessing starts a worker on a host.
func (h *host) witnessing(name string) *seeing {
	h.t.Helper()
	w := &seeing{t: h.t, cmd: h.command("worker", "--unsafe-agents", "--name", name, "--listen", "127.0.0.1:0",
		"--engine", engineLocal)}
	w.cmd.Env = append(w.cmd.Env, be+"=hasty")
	stderr, err := w.cmd.StderrPipe()
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { w.cmd.Process.Kill() })
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			w.mu.Lock()
			w.said.WriteString(lines.Text() + "\n")
			w.mu.Unlock()
		}
	}()
	w.hears("/metrics")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = regexp.MustCompile(`http://[^/]+`).FindString(w.said.String())
	return w
}

// hears waits until the worker has said something.
func (w *seeing) hears(what string) {
	w.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		w.mu.Lock()
		said := w.said.String()
		w.mu.Unlock()
		if strings.Contains(said, what) {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("the worker does not say %q, but\n%s", what, said)
		}
	}
}

// keeps waits until a host keeps a checkpoint, and returns its file.
func (h *host) keeps() string {
	h.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if kept, _ := filepath.Glob(filepath.Join(h.home, "records", "*", "checkpoint")); len(kept) > 0 {
			return kept[0]
		}
		if time.Now().After(end) {
			h.t.Fatal("it keeps no checkpoint")
		}
	}
}

// stop ends the worker.
func (w *seeing) stop() {
	w.t.Helper()
	w.cmd.Process.Signal(syscall.SIGTERM)
	w.hears("stopped; no work is left here")
	w.cmd.Process.Wait()
}

// TestWorkerAsWitness puts an older database in the place of one that a worker has seen, while the worker is away and
// while it is there, in the same database and in another, and removes rows: it takes no work until a person whose word
// counts has accepted that.
func TestWorkerAsWitness(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	for _, x := range []struct {
		name  string
		there bool // while it changes
		harm  func(r *rolled, was before) (db string)
	}{
		{"restored while it is away", false, func(r *rolled, was before) string {
			restoreInto(r.t, r.server, r.db, was.data)
			return r.db
		}},
		{"restored elsewhere", false, func(r *rolled, was before) string { return restored(r.t, r.server, was.data) }},
		{"rows deleted while it is there", true, func(r *rolled, was before) string {
			r.sql(fmt.Sprintf("DELETE FROM plait.events WHERE pos > %[1]s; UPDATE plait.counters SET value = %[1]s, "+
				`log = '\x%[2]s' WHERE name = 'pos'`, was.pos, was.tree))
			return r.db
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			r := newRolled(t, server)
			sh(t, `ssh-keygen -q -t ed25519 -N "" -f "$1/key"`, r.work)
			w := newHost(t, r.db)
			signers := filepath.Join(w.work, "signers")
			sh(t, `echo "ann $(cut -d" " -f1,2 "$1")" > "$2"
				for home in "$3" "$4"; do git config -f "$home/.gitconfig" gpg.ssh.allowedSignersFile "$2"; done`,
				filepath.Join(r.work, "key.pub"), signers, filepath.Dir(w.home), filepath.Dir(r.home))
			r.task()
			was := before{dump(t, server, r.db), r.sql("SELECT value FROM plait.counters WHERE name = 'pos'"),
				r.sql("SELECT encode(log, 'hex') FROM plait.counters WHERE name = 'pos'")}
			r.task()
			seen := w.witnessing("ann")
			waitHealth(t, seen.at, "ok")
			kept := w.keeps()
			if !x.there {
				seen.stop()
			}
			db := x.harm(r, was)
			for _, h := range []*host{r.host, w} {
				h.env = append(h.env, "PLAIT_STORE="+db)
			}
			if !x.there {
				seen = w.witnessing("ann")
			}
			seen.hears("worker ann: out of service: shorter than seen: ")
			waitHealth(t, seen.at, "shorter than seen")
			if said := r.run(0, "ls"); !strings.Contains(said, "shorter than seen") {
				t.Errorf("ls says %s", said)
			}
			if said := get(t, seen.at+"/metrics"); !strings.Contains(said, "\nplait_worker_unable 1\n") {
				t.Errorf("the metrics say %s", said)
			}
			r.run(0, "proof", "accept", kept, "--key", "key", "--reason", "restored")
			seen.hears("worker ann: in service again")
			waitHealth(t, seen.at, "ok")
			r.vouches(seen, w)
			r.run(0, "run", "short.yaml", "-p", "go", "--on", "team", "-q")
		})
	}
}

// vouches has a person vouch for the log key of a worker, as its log says.
func (r *rolled) vouches(seen *seeing, w *host) {
	r.t.Helper()
	seen.hears("nobody vouches for its log key")
	seen.mu.Lock()
	key := regexp.MustCompile(`its log key: \S+ proof sign (\S+) --host ann`).FindStringSubmatch(seen.said.String())
	seen.mu.Unlock()
	if key == nil {
		r.t.Fatal("the worker does not say how to vouch for its log key")
	}
	r.run(0, "proof", "sign", key[1], "--host", "ann", "--key", "key")
	if said := w.run(0, "proof", "show"); !strings.Contains(said, ", as the key of ann") {
		r.t.Errorf("the worker's proof show says %s", said)
	}
}

// waitHealth waits until a worker says of its health what it should.
func waitHealth(t *testing.T, at, want string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		said := ""
		if r, err := http.Get(at + "/healthz"); err == nil {
			data, _ := io.ReadAll(r.Body)
			r.Body.Close()
			said = fmt.Sprint(r.StatusCode, " ", string(data))
		}
		if strings.Contains(said, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("its health is %q, want %q", said, want)
		}
	}
}
