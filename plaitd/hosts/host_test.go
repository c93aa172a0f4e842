package hosts

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/dispatch/local"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/ui/cli"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
	"github.com/plait-run/plait/plaitd/river"
	"github.com/plait-run/plait/plaitd/s3"
	"github.com/plait-run/plait/plaitd/s3/s3test"
	"github.com/plait-run/plait/plaitd/temporal"
)

// The environment of a process that is a host.
const (
	asPlait   = "PLAIT_TEST_HOST"
	recordAt  = "PLAIT_TEST_RECORD" // URL of a database, or nothing: SQLite
	bucketAt  = "PLAIT_TEST_BUCKET" // and of a bucket
	impatient = "PLAIT_TEST_TTL"    // how long before a silent process is taken for dead
)

// TestMain makes the test binary the program, if a test starts it as a host.
func TestMain(m *testing.M) {
	if os.Getenv(asPlait) != "" {
		os.Exit(cli.Program{Name: "plait", Open: openRecord, Team: teamOf(os.Getenv(impatient))}.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// Engines that the workers of a test share.
const (
	inMemory = "local"
	onRiver  = "river"
	onServer = "temporal" // at TEMPORAL_ADDRESS
)

// teamOf returns what workers need that take a silent process for dead after ttl.
func teamOf(ttl string) *cli.Team {
	look, _ := time.ParseDuration(ttl)
	team := &cli.Team{Engines: []string{inMemory, onRiver, onServer}, Look: look, Open: openEngine}
	if ttl != "" {
		team.Backoff = engine.Backoff{First: 200 * time.Millisecond, Most: time.Second}
		team.RetryUnable = 200 * time.Millisecond
	}
	return team
}

func openEngine(ctx context.Context, o cli.EngineOptions) (cli.Engine, error) {
	switch o.Name {
	case inMemory:
		return unheld{local.New(local.Config{Prefer: time.Second})}, nil
	case onServer:
		cfg, err := temporal.Environment()
		if err != nil {
			return nil, err
		}
		at, err := url.Parse(os.Getenv(recordAt))
		if err != nil {
			return nil, err
		}
		cfg.Prefix = path.Base(at.Path) // each record has its own
		if cfg.Log = o.Log; os.Getenv(impatient) != "" {
			cfg.Look, cfg.Prefer = 2*time.Second, time.Second
		}
		return temporal.New(cfg)
	}
	cfg := river.Config{URL: os.Getenv(recordAt), Tasks: o.Tasks, Log: o.Log}
	if os.Getenv(impatient) != "" {
		cfg.Sweep, cfg.Prefer = 2*time.Second, time.Second
	}
	return river.Open(ctx, cfg)
}

type unheld struct{ *local.Engine }

func (unheld) Close() error               { return nil }
func (unheld) Ping(context.Context) error { return nil }

func openRecord(ctx context.Context, home string) (store.Store, error) {
	url := os.Getenv(recordAt)
	if url == "" {
		return sqlite.OpenHome(ctx, home)
	}
	c := postgres.Config{URL: url, Look: 200 * time.Millisecond, Try: 2 * time.Second}
	if at := os.Getenv(bucketAt); at != "" {
		named, err := s3.Parse(at)
		if err != nil {
			return nil, err
		}
		if c.Bucket, err = s3.Open(ctx, named); err != nil {
			return nil, err
		}
	}
	if text := os.Getenv(impatient); text != "" {
		ttl, err := time.ParseDuration(text)
		if err != nil {
			return nil, err
		}
		c.TTL, c.Lost, c.Beat = ttl, 2*ttl/3, ttl/6
	}
	s, err := postgres.Open(ctx, c)
	if err != nil {
		return nil, err // not s: it would be a non-nil interface
	}
	return s, nil
}

// A team is hosts that share a record, and the log of their agents.
type team struct {
	t    testing.TB
	work string
	env  []string // of all hosts
}

func newTeam(t testing.TB, record ...string) *team {
	m := &team{t: t, work: t.TempDir(), env: append([]string{asPlait + "=1"}, record...)}
	for _, name := range []string{"PATH", "TEMPORAL_ADDRESS", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
		"AWS_EC2_METADATA_DISABLED"} {
		if value, ok := os.LookupEnv(name); ok {
			m.env = append(m.env, name+"="+value)
		}
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} { // hosts' homes have none
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		m.env = append(m.env, name+"="+strings.TrimSpace(string(out)))
	}
	if err := os.Mkdir(m.path("ws"), 0o755); err != nil { // where each host has its own
		t.Fatal(err)
	}
	return m
}

func (m *team) path(names ...string) string {
	return filepath.Join(append([]string{m.work}, names...)...)
}

// A host has its own home, workspace and name. All see their workspace at the same path.
type host struct {
	*team
	name   string
	own    []string // environment in addition to the team's
	mortal bool     // its agents die with the process that started them
}

// host makes a host.
func (m *team) host(name string) *host {
	h := &host{team: m, name: name}
	for _, dir := range []string{"ws/.git", "user", "home"} {
		if err := os.MkdirAll(m.path(name, dir), 0o755); err != nil {
			m.t.Fatal(err)
		}
	}
	return h
}

// workspace returns the directory of its files.
func (h *host) workspace() string {
	return h.path(h.name, "ws")
}

func (h *host) write(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.workspace(), name), []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// settle mounts a host's workspace where all have theirs, gives it its name and becomes plait.
const settle = `set -e
mount --bind "$1" "$2"
echo "$3" >/proc/sys/kernel/hostname
cd "$2"
shift 3
exec "$@"`

// command returns a command that runs plait on the host.
func (h *host) command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	spaces := []string{"--mount", "--uts"}
	if h.mortal {
		spaces = append(spaces, "--pid", "--fork", "--kill-child", "--mount-proc")
	}
	all := append(spaces, "sh", "-c", settle, "sh", h.workspace(), h.path("ws"), h.name, self)
	cmd := exec.Command("unshare", append(all, args...)...)
	user := h.path(h.name, "user")
	cmd.Env = append(h.env[:len(h.env):len(h.env)],
		"PLAIT_HOME="+h.path(h.name, "home"), "HOME="+user, "XDG_CONFIG_HOME="+user+"/config", "XDG_DATA_HOME="+user+"/data",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada",
		"GIT_COMMITTER_EMAIL=ada@example.com", "TZ=UTC", "LC_ALL=C.UTF-8", "TERM=dumb", "GOPROXY=off", "GOTOOLCHAIN=local",
		"GOWORK=off")
	cmd.Env = append(cmd.Env, h.own...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// run runs plait to its end, and returns what it printed and its exit code.
func (h *host) run(args ...string) (string, int) {
	h.t.Helper()
	cmd := h.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		h.t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		return out.String() + errs.String(), code
	}
	return out.String(), 0
}

// must runs plait, which must succeed, and returns what it printed.
func (h *host) must(args ...string) string {
	h.t.Helper()
	out, code := h.run(args...)
	if code != 0 {
		h.t.Fatalf("%s: plait %s: exit code %d:\n%s", h.name, strings.Join(args, " "), code, out)
	}
	return out
}

// A process is plait running on a host.
type process struct {
	cmd   *exec.Cmd
	said  *said
	ended chan struct{} // closed when it has ended
}

// said is the output of a process, readable while it runs.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// begin starts plait and leaves it running.
func (h *host) begin(args ...string) *process {
	h.t.Helper()
	p := &process{h.command(args...), new(said), make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	if err := p.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	h.t.Cleanup(func() {
		if p.kill(); h.t.Failed() {
			h.t.Logf("%s: plait %s said:\n%s", h.name, strings.Join(args, " "), p.said)
		}
	})
	return p
}

// kill kills the process, and waits until it is gone.
func (p *process) kill() {
	select {
	case <-p.ended: // its pid may be another process's by now
	default:
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
}

// signal signals the process and its group, which agents are not in.
func (p *process) signal(s syscall.Signal) { syscall.Kill(-p.cmd.Process.Pid, s) }

// log returns the roles that agents were started for, on any host.
func (m *team) log() []string {
	data, err := os.ReadFile(m.path("log"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

// until waits for something to happen, but not forever.
func (m *team) until(what string, f func() bool) {
	m.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// newRecord creates a record in a database, and returns the environment by which hosts find it.
func newRecord(t testing.TB, s *pgtest.Server) string {
	t.Helper()
	needHosts(t)
	url := s.Database(t)
	if _, _, err := postgres.Migrate(t.Context(), postgres.Config{URL: url}); err != nil {
		t.Fatal(err)
	}
	if _, err := river.Migrate(t.Context(), river.Config{URL: url}); err != nil {
		t.Fatal(err)
	}
	return recordAt + "=" + url
}

func newBucket(t *testing.T) (*s3test.Server, string) {
	s3test.Login()
	s := s3test.Start(t)
	return s, bucketAt + "=" + s.Name("")
}

// needHosts skips a test if namespaces cannot be created.
func needHosts(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("unshare", "--mount", "--uts", "sh", "-c", settle, "sh", dir, dir, "try",
		"true").CombinedOutput()
	if err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("hosts of a test: %v: %s", err, out)
	}
	t.Skipf("NOT TESTED: hosts of a test take root and name spaces: %v: %s", err, out)
}

const taskID = "01JZZZZZZZZZZZZZZZZZZZZZZZ"

// role is a command that logs its role, does something, and prints its name.
func role(name, does string) string {
	return fmt.Sprintf(`{description: %s, agent: {kind: command, command: [sh, -ec, "echo %s >> ../log; %s; echo from `+
		`%s"]}}`, name, name, does, name)
}
