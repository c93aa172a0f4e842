package scripted_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent/scripted"
)

// codexBinary returns the path of the real Codex.
func codexBinary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("PLAIT_TEST_CODEX")
	if path == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(cache,
			"plait/codex/0.169.0/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex")
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no Codex to test with: %v", err)
		}
		t.Skipf("NOT TESTED WITH THE REAL CODEX: %v (set PLAIT_TEST_CODEX)", err)
	}
	return path
}

// A codexHome is a private CODEX_HOME with a scripted model.
type codexHome struct {
	binary, home, tmp string
	server            *scripted.Server
	log               *lines
}

func newCodex(t *testing.T, scenario string) *codexHome {
	t.Helper()
	binary := codexBinary(t)
	sc, err := scripted.Load(scenario)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := &codexHome{binary: binary, home: filepath.Join(dir, "home"), tmp: filepath.Join(dir, "tmp"), log: &lines{}}
	c.server = open(t, scripted.Config{Scenario: sc, Log: c.log})
	for _, d := range []string{c.home, c.tmp} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(c.home, "catalog.json"), string(scripted.Catalog()))
	write(t, filepath.Join(c.home, "config.toml"), fmt.Sprintf(`
model = %q
model_provider = "scripted"
model_catalog_json = %q
check_for_update_on_startup = false
approval_policy = "on-request"
web_search = "disabled"
[analytics]
enabled = false
[features]
plugins = false
apps = false
goals = false
unbounded_connection_retries = false
[agents]
enabled = false
[shell_environment_policy]
inherit = "core"
[model_providers.scripted]
name = "scripted"
base_url = %q
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 2
stream_max_retries = 1
stream_idle_timeout_ms = 4000
`, scripted.Model, filepath.Join(c.home, "catalog.json"), c.server.URL()))
	return c
}

// An item is something that Codex reports the model or a tool to have done.
type item struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Message  string `json:"message"`
	Command  string `json:"command"`
	Output   string `json:"aggregated_output"`
	ExitCode *int   `json:"exit_code"`
	Status   string `json:"status"`
}

// A ran is the result of one turn.
type ran struct {
	items []item
	ends  []string // types of the events that are not about items
	fatal string
	err   error
	trace string
}

func (c *codexHome) exec(t *testing.T, dir, sandbox string, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	all := append([]string{"exec", "--json", "--skip-git-repo-check", "-C", dir, "-s", sandbox}, args...)
	cmd := exec.CommandContext(ctx, c.binary, all...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.tmp, "CODEX_HOME=" + c.home, "TMPDIR=" + c.tmp,
		"SCRIPTED_KEY=x"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	out := ran{err: cmd.Run()}
	out.trace = stdout.String() + stderr.String()
	for line := range bytes.Lines(stdout.Bytes()) {
		var e struct {
			Type  string
			Item  item
			Error struct{ Message string }
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		switch e.Type {
		case "item.completed":
			out.items = append(out.items, e.Item)
		case "turn.completed", "turn.failed":
			out.ends = append(out.ends, e.Type)
			out.fatal = e.Error.Message
		}
	}
	return out
}

// of returns the items of a type.
func (r ran) of(kind string) []item {
	var items []item
	for _, it := range r.items {
		if it.Type == kind {
			items = append(items, it)
		}
	}
	return items
}

func (r ran) answer() string {
	said := r.of("agent_message")
	if len(said) == 0 {
		return ""
	}
	return said[len(said)-1].Text
}

// wantWell fails the test unless the turn was completed without errors.
func (r ran) wantWell(t *testing.T) {
	t.Helper()
	if r.err != nil || len(r.ends) != 1 || r.ends[0] != "turn.completed" || len(r.of("error")) > 0 {
		t.Fatalf("the turn did not end well: %v %v\n%s", r.err, r.ends, r.trace)
	}
}

func TestRealWork(t *testing.T) {
	t.Parallel()
	c := newCodex(t, "work")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "hello.txt"), "hi")
	r := c.exec(t, dir, "read-only", "Have a look.")
	r.wantWell(t)
	if got := r.of("reasoning"); len(got) != 1 {
		t.Errorf("reasoning items: %v\n%s", got, r.trace)
	}
	if got := r.of("command_execution"); len(got) != 1 || got[0].Status != "completed" {
		t.Errorf("commands: %v\n%s", got, r.trace)
	}
	if got := r.answer(); !strings.HasPrefix(got, "---\n$status: done\n---\n") || !strings.Contains(got, "hello.txt") ||
		strings.Contains(got, "Chunk ID") {
		t.Errorf("answer %q", got)
	}
	schema := filepath.Join(c.tmp, "schema.json")
	write(t, schema, `{"type":"object","properties":{"$status":{"enum":["stuck","done"]},"$body":{"type":"string"}},`+
		`"required":["$status","$body"],"additionalProperties":false}`)
	r = c.exec(t, dir, "read-only", "--output-schema", schema, "Have a look.")
	r.wantWell(t)
	var got map[string]string
	if err := json.Unmarshal([]byte(r.answer()), &got); err != nil || got["$status"] != "done" ||
		!strings.Contains(got["$body"], "hello.txt") {
		t.Errorf("answer %q: %v", r.answer(), err)
	}
	// A second prompt in the same thread starts the scenario over.
	r = c.exec(t, dir, "read-only", "resume", "--last", "SCENARIO=parallel once more")
	r.wantWell(t)
	if got := r.of("command_execution"); len(got) != 2 {
		t.Errorf("commands after resume: %v\n%s", got, r.trace)
	}
}

const broken = `package sum

// Of returns the sum of numbers.
func Of(numbers ...int) int {
	total := 0
	for i := 1; i < len(numbers); i++ {
		total += numbers[i]
	}
	return total
}
`

const fixed = `package sum

// Of returns the sum of numbers.
func Of(numbers ...int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}
`

func TestRealFix(t *testing.T) {
	t.Parallel()
	c := newCodex(t, "codex-fix")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "sum.go"), broken)
	write(t, filepath.Join(dir, "sum_test.go"), "package sum\n")
	r := c.exec(t, dir, "workspace-write", "Fix it.")
	r.wantWell(t)
	if got := r.of("file_change"); len(got) != 1 || got[0].Status != "completed" {
		t.Errorf("changes: %v\n%s", got, r.trace)
	}
	data, err := os.ReadFile(filepath.Join(dir, "sum.go"))
	if err != nil || string(data) != fixed {
		t.Errorf("sum.go is\n%s\n%v", data, err)
	}
}

func TestRealParallel(t *testing.T) {
	t.Parallel()
	c := newCodex(t, "parallel")
	r := c.exec(t, t.TempDir(), "read-only", "Go.")
	r.wantWell(t)
	const want = "---\n$status: done\n---\n\nBoth commands ran. The first said: first\nThe second said: second\n"
	if got := r.answer(); got != want {
		t.Errorf("answer %q, want %q", got, want)
	}
	if n := c.log.count(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestRealFailures(t *testing.T) {
	t.Parallel()
	c := newCodex(t, "work")
	dir := t.TempDir()
	for name, want := range map[string]string{
		"error500":     "high demand",
		"limited":      "429",
		"unauthorized": "401",
		"context-full": "context",
		"cut":          "stream disconnected",
	} {
		t.Run(name, func(t *testing.T) {
			r := c.exec(t, dir, "read-only", "-c", "model_providers.scripted.request_max_retries=0",
				"-c", "model_providers.scripted.stream_max_retries=0", "SCENARIO="+name)
			if len(r.ends) != 1 || r.ends[0] != "turn.failed" || !strings.Contains(r.fatal, want) {
				t.Errorf("ends %v with %q, want one with %q\n%s", r.ends, r.fatal, want, r.trace)
			}
		})
	}
}

func TestRealTimes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "times.yaml")
	write(t, file, `
turns:
- steps:
  - fail: {status: 500, times: 2}
    items:
    - run: echo hello
  - cut: {times: 1}
    items:
    - answer: the answer is {{output 1}}, and it is long enough to be streamed in several pieces
`)
	c := newCodex(t, file)
	r := c.exec(t, t.TempDir(), "read-only", "Go.")
	if len(r.ends) != 1 || r.ends[0] != "turn.completed" || !strings.Contains(r.answer(), "hello, and it is") {
		t.Errorf("ends %v with %q\n%s", r.ends, r.answer(), r.trace)
	}
}

// TestRealSlow checks that the model waits for a command that takes longer than Codex does.
func TestRealSlow(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "slow.yaml")
	write(t, file, `
turns:
- steps:
  - items:
    - run: echo begun; sleep 11; echo slow
    - run: echo quick
  - items:
    - answer: "{{output 1}}, {{output 2}}"
`)
	c := newCodex(t, file)
	r := c.exec(t, t.TempDir(), "read-only", "Go.")
	r.wantWell(t)
	ran := r.of("command_execution")
	if r.answer() != "begun\nslow, quick" || len(ran) != 2 || ran[0].Status != "completed" ||
		ran[1].Status != "completed" {
		t.Errorf("%q\n%s", r.answer(), r.trace)
	}
}
