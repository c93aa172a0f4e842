package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/ui/cli"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/river"
)

// be names the program that the test binary should be.
const be = "PLAITD_TEST_BE"

func TestMain(m *testing.M) {
	as := os.Getenv(be)
	if len(os.Args) > 1 && os.Args[1] == "gateway-forward" { // around an agent, which does not get that variable
		as = "plaitd"
	}
	switch as {
	case "plaitd":
		main()
	case "hasty":
		os.Exit(hasty().Main(os.Args[1:]))
	case "careless": // asks for anything, as whoever writes to the record can
		p := program(os.Getenv)
		p.Withheld = nil
		os.Exit(p.Main(os.Args[1:]))
	case "plait":
		os.Exit(cli.Program{Name: "plait", Open: sqlite.OpenHome, OpenHome: sqlite.OpenHome}.Main(os.Args[1:]))
	}
	housetest.OwnMounts()
	os.Exit(m.Run())
}

// silence names how long a process of a hasty program may be silent before it is taken for dead, if not the default.
const silence = "PLAITD_TEST_SILENCE"

// hasty returns plaitd with workers that try again soon.
func hasty() cli.Program {
	p := program(os.Getenv)
	p.Team.Backoff = engine.Backoff{First: 200 * time.Millisecond, Most: time.Second}
	p.Team.RetryUnable = 200 * time.Millisecond
	ttl, err := time.ParseDuration(os.Getenv(silence))
	if err != nil {
		return p
	}
	at := place{getenv: os.Getenv}
	p.Open = func(ctx context.Context, _ string) (store.Store, error) {
		cfg, err := at.config(ctx)
		if err != nil {
			return nil, err
		}
		cfg.TTL, cfg.Lost, cfg.Beat = ttl, 2*ttl/3, ttl/6
		return newMetered().open(ctx, cfg)
	}
	p.Team.Look = ttl
	p.Team.Open = func(ctx context.Context, o cli.EngineOptions) (cli.Engine, error) {
		cfg, err := at.config(ctx)
		if err != nil {
			return nil, err
		}
		queue := queueOf(cfg)
		queue.Tasks, queue.Log, queue.Sweep, queue.Prefer = o.Tasks, o.Log, 2*time.Second, time.Second
		return river.Open(ctx, queue)
	}
	return p
}

// A host is a machine as far as plaitd can tell: it has its own home and workspace.
type host struct {
	t    *testing.T
	be   string
	home string
	work string
	env  []string
}

// newHost makes a host whose record is the database at url, or a file if there is none.
func newHost(t *testing.T, url string) *host {
	t.Helper()
	dir := t.TempDir()
	h := &host{t: t, be: "plaitd", home: filepath.Join(dir, "home"), work: filepath.Join(dir, "work")}
	if err := os.MkdirAll(filepath.Join(h.work, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if url == "" {
		h.be = "plait"
	}
	h.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "PLAIT_HOME=" + h.home, "PLAIT_STORE=" + url, "TZ=UTC", "LC_ALL=C.UTF-8",
	}
	return h
}

func (h *host) command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir, cmd.Env = h.work, append([]string{be + "=" + h.be}, h.env...)
	return cmd
}

// run runs a verb that must exit with a code, and returns what it prints.
func (h *host) run(want int, args ...string) string {
	h.t.Helper()
	cmd := h.command(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != want {
		h.t.Fatalf("%s %s: exit code %d, want %d: %v\n%s%s", h.be, strings.Join(args, " "), code, want, err, out, &stderr)
	}
	return string(out) + stderr.String()
}

// data runs a verb with --json and returns its data.
func (h *host) data(want int, args ...string) map[string]any {
	h.t.Helper()
	out := h.run(want, append(args, "--json", "-q")...)
	var last struct{ Data map[string]any }
	for line := range strings.Lines(out) {
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			h.t.Fatalf("%v in %q", err, line)
		}
	}
	return last.Data
}

func (h *host) write(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.work, name), []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// slowly has a step that never ends the first time.
const slowly = `version: 1
name: slowly
roles:
  first: {description: says, agent: {kind: command, command: [echo, one]}}
  second: {description: waits, agent: {kind: command, command: [sh, -c, 'test -e %[1]s || { touch %[1]s; sleep 600; }; echo two']}}
gates:
  ask: {kind: input, question: "Which?"}
graph:
  $START: {new: {role: first, prompt: "{{ prompt }}"}}
  first: {done: {role: second, prompt: go on}}
  second: {done: {role: ask}}
  ask: {answered: {role: $END, prompt: "it is {{ answer }}"}}
`

// digest returns the outcome digest of a task.
func (h *host) digest(task string) string {
	h.t.Helper()
	return strings.TrimSpace(h.run(0, "thread", "show", task, "--digest"))
}

// TestElsewhere has a host die in the middle of a step. Another, with its own home and workspace, continues the
// task, a third answers; the outcome is that of a run on one machine.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t).Database(t)
	a, b, c, alone := newHost(t, url), newHost(t, url), newHost(t, url), newHost(t, "")
	a.run(0, "migrate")
	if again := a.run(0, "migrate"); !strings.Contains(again, "nothing to do") {
		t.Errorf("a second migrate said %q", again)
	}
	begun := filepath.Join(t.TempDir(), "begun")
	for _, h := range []*host{a, b, alone} {
		h.write("slowly.yaml", fmt.Sprintf(slowly, begun))
	}
	refused := a.run(2, "run", "slowly.yaml", "-p", "go")
	if !strings.Contains(refused, "password of the shared record") || !strings.Contains(refused, "--unsafe-agents") {
		t.Errorf("without --unsafe-agents it says %q", refused)
	}
	first := a.command("run", "slowly.yaml", "-p", "go", "--unsafe-agents", "-q")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(begun); err == nil {
			break
		}
		if time.Now().After(end) {
			first.Process.Kill()
			t.Fatal("the step does not begin")
		}
	}
	first.Process.Kill()
	first.Wait()

	tasks, _ := c.data(0, "ls", "--all")["tasks"].([]any)
	if len(tasks) != 1 {
		t.Fatalf("a third host sees %d tasks, want 1", len(tasks))
	}
	id, _ := tasks[0].(map[string]any)["id"].(string)
	if err := os.Rename(a.work, a.work+"-gone"); err != nil {
		t.Fatal(err)
	}
	if said := b.run(2, "resume", id, "--unsafe-agents"); !strings.Contains(said, "not on this machine") {
		t.Errorf("resume where the workspace is not says %q", said)
	}
	b.run(4, "resume", id, "--unsafe-agents", "--workspace", b.work, "-q")
	gates, _ := c.data(0, "gate", "list", "--all")["gates"].([]any)
	if len(gates) != 1 {
		t.Fatalf("a third host sees %d gates, want 1", len(gates))
	}
	gate, _ := gates[0].(map[string]any)["id"].(string)
	c.run(0, "answer", gate, "-m", "blue")
	b.run(0, "resume", id, "--unsafe-agents", "-q")
	b.run(0, "verify")

	done := alone.data(4, "run", "slowly.yaml", "-p", "go")
	task, _ := done["thread"].(string)
	alone.run(0, "resume", task, "-p", "blue", "-q")
	if got, want := c.digest(id), alone.digest(task); got != want {
		t.Errorf("the outcome is %s, on one machine %s", got, want)
	}
}

// TestCarry imports the record of one machine, twice, and exports it again: heads and outcomes stay the same.
func TestCarry(t *testing.T) {
	t.Parallel()
	alone, d := newHost(t, ""), newHost(t, pgtest.Shared(t).Database(t))
	d.run(0, "migrate")
	alone.write("slowly.yaml", fmt.Sprintf(slowly, filepath.Join(alone.work, "slowly.yaml")))
	ended := alone.data(4, "run", "slowly.yaml", "-p", "go")
	task, _ := ended["thread"].(string)
	alone.run(0, "flow", "add", "slowly.yaml")
	item := func(got map[string]any, state string) {
		t.Helper()
		tasks, _ := got["tasks"].([]any)
		if len(tasks) != 1 {
			t.Fatalf("%d tasks, want 1", len(tasks))
		}
		it, _ := tasks[0].(map[string]any)
		if it["state"] != state || it["head"] != ended["head"] {
			t.Errorf("it is %v at %v, want %s at %v", it["state"], it["head"], state, ended["head"])
		}
	}
	item(d.carry("import", alone.home), "imported")
	item(d.carry("import", alone.home), "there")
	d.run(0, "verify")
	if got, want := d.digest(task), alone.digest(task); got != want {
		t.Errorf("the outcome is %s, was %s", got, want)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	item(d.carry("export", copied), "imported")
	alone.run(0, "--home", copied, "verify")
	if got, want := strings.TrimSpace(alone.run(0, "--home", copied, "thread", "show", task, "--digest")),
		alone.digest(task); got != want {
		t.Errorf("the outcome of the copy is %s, was %s", got, want)
	}
}

// carry imports, exports or pulls, and returns the data.
func (h *host) carry(args ...string) map[string]any {
	h.t.Helper()
	var v struct{ Data map[string]any }
	if err := json.Unmarshal([]byte(h.run(0, append(args, "--json")...)), &v); err != nil {
		h.t.Fatal(err)
	}
	return v.Data
}

// TestSecrets looks for a password in what is printed about a record that cannot be opened.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const canary = "canary-4711"
	file := filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(file, []byte("postgres://ada:"+canary+"@127.0.0.1:1/none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, env := range map[string][]string{
		"nobody answers": {"PLAIT_STORE=postgres://ada:" + canary + "@127.0.0.1:1/none"},
		"a file":         {"PLAIT_STORE=", "PLAIT_STORE_FILE=" + file},
		"no port":        {"PLAIT_STORE=postgres://ada:" + canary + "@127.0.0.1:x/none"},
		"no scheme":      {"PLAIT_STORE=ada:" + canary + "@127.0.0.1"},
		"no bucket":      {"PLAIT_STORE=postgres://ada@127.0.0.1:1/none", "PLAIT_S3=s3://ada:" + canary + "@b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, "postgres://")
			h.env = append(h.env, env...)
			for _, verb := range [][]string{{"ls"}, {"doctor"}, {"migrate", "--dry-run"}} {
				cmd := h.command(append(verb, "--verbose")...)
				out, err := cmd.CombinedOutput()
				if err == nil {
					t.Errorf("%v succeeds", verb)
				}
				if strings.Contains(string(out), canary) {
					t.Errorf("%v says the password: %s", verb, out)
				}
			}
		})
	}
}

// TestConns checks that a number of connections is used as given, or refused.
func TestConns(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "5": -1, "6": 6, "20": 20, "-1": -1, "x": -1} {
		p := place{getenv: func(name string) string {
			return map[string]string{"PLAIT_STORE": "postgres://ada@127.0.0.1:1/none", "PLAIT_STORE_CONNS": text}[name]
		}}
		cfg, err := p.config(t.Context())
		if (err != nil) != (want < 0) || err == nil && cfg.Conns != want {
			t.Errorf("%q: %d connections, %v", text, cfg.Conns, err)
		}
		if err != nil && !strings.Contains(err.Error(), "6 or more") {
			t.Error(err)
		}
	}
}
