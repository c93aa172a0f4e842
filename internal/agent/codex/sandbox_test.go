package codex

import (
	"context"
	"maps"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// writeTree writes files below dir.
func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// goCmp returns the line of go.mod and those of go.sum for a module of the user's cache.
func goCmp(t *testing.T) (require, sums string) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Path}} {{.Version}}", "github.com/google/go-cmp").Output()
	if err != nil {
		t.Fatal(err)
	}
	require = strings.TrimSpace(string(out))
	data, err := os.ReadFile("../../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "github.com/google/go-cmp ") {
			sums += line
		}
	}
	return require, sums
}

// TestAppToolchains checks that the tests of ordinary projects run with access: write, without approvals.
func TestAppToolchains(t *testing.T) {
	l := newLab(t, `
turns:
- steps:
  - items:
    - run: cd plain && go test ./... && cd ../dependent && go test ./... && go env GOMODCACHE
  - items:
    - wait: 1
  - items:
    - run: node --test js 2>&1 && npm config get cache
  - items:
    - wait: 3
  - items:
    - run: python3 -m unittest discover -s py 2>&1; ls -d py/__pycache__
  - items:
    - wait: 5
  - items:
    - answer: "{{output 1}}\n{{output 2}}\n{{output 3}}\n{{output 4}}\n{{output 5}}\n{{output 6}}"
`)
	require, sums := goCmp(t)
	y := l.try(t, "test")
	y.req.Timeout = 15 * time.Minute // it compiles, which takes minutes on a busy machine
	if err := housetest.GoCache(filepath.Join(y.req.Home, "cache")); err != nil {
		t.Fatal(err)
	}
	writeTree(t, y.req.Dir, map[string]string{
		"plain/go.mod": "module example.com/plain\n\ngo 1.24\n",
		"plain/it_test.go": "package it\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestIt(t *testing.T) { " +
			"os.MkdirTemp(\"\", \"x\") }\n",
		"dependent/go.mod": "module example.com/dependent\n\ngo 1.24\n\nrequire " + require + "\n",
		"dependent/go.sum": sums,
		"dependent/it_test.go": "package it\n\nimport (\n\t\"testing\"\n\n\t\"github.com/google/go-cmp/cmp\"\n)\n\n" +
			"func TestIt(t *testing.T) {\n\tif !cmp.Equal(1, 1) {\n\t\tt.Error()\n\t}\n}\n",
		"js/it.test.js": "require('node:test')('it', () => {})\n",
		"py/test_it.py": "import tempfile, unittest\nclass It(unittest.TestCase):\n    def test_it(self):\n        " +
			"tempfile.mkdtemp()\n",
	})
	y.req.Ask = func(_ context.Context, q agent.Question) (agent.Answer, error) {
		t.Errorf("it was asked: %+v", q)
		return agent.Answer{}, nil
	}
	res := y.works(t, l.agent)
	for _, want := range []string{
		"example.com/plain", "example.com/dependent", filepath.Join(y.req.Home, "cache", "go-mod"), "# pass 1",
		filepath.Join(y.req.Home, "cache", "npm"), "Ran 1 test", "OK",
	} {
		contains(t, "the answer", string(res.Output), want)
	}
	if strings.Contains(string(res.Output), "FAIL") {
		t.Errorf("a test failed: %s", res.Output)
	}
	if res.Sandbox != "workspace-write" {
		t.Errorf("the sandbox was %q", res.Sandbox)
	}
}

// TestAppGranted checks that only what is granted can be used, and that the record says what was granted.
func TestAppGranted(t *testing.T) {
	record, err := os.MkdirTemp(".", "record-") // a home below TMPDIR would be hidden with all of it
	if err != nil {
		t.Fatal(err)
	}
	if record, err = filepath.Abs(record); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(record) })
	place := t.TempDir()
	writeTree(t, record, map[string]string{"plait.db": "secret", "agents/task/x": "x"})
	t.Setenv("PASSED_TO_COMMANDS", "passed")
	t.Setenv("OPENAI_API_KEY", "key")
	t.Setenv("HTTPS_PROXY", "http://proxy.invalid")
	const scenario = `
turns:
- steps:
  - items:
    - run: cat RECORD/plait.db; ls RECORD/agents/task/codex/sessions; touch RECORD/agents/task/codex/HELPERS/x; mv RECORD/agents/task/codex/HELPERS RECORD/agents/task/codex/tmp/y; echo x > PLACE/x; echo "$PASSED_TO_COMMANDS,$SET,$OPENAI_API_KEY,$HTTPS_PROXY,$PLAIT_ROLE"
  - items:
    - answer: "{{output 1}}"
`
	text := strings.NewReplacer("RECORD", record, "HELPERS", helpers, "PLACE", place).Replace(scenario)
	for name, tt := range map[string]struct {
		box           Sandbox
		access        agent.Access
		says, sandbox string
		written       bool
	}{
		"nothing": {Sandbox{}, agent.Write, ",,,,tester", "workspace-write", false},
		"all": {Sandbox{Write: []string{place}, Network: true, Env: map[string]string{"SET": "hidden-1"}, Pass: []string{
			"PASSED_*"}}, agent.Read, "passed,hidden-1,,http://proxy.invalid,tester",
			"read-only + network, write " + place + ", env PASSED_* SET", true},
	} {
		t.Run(name, func(t *testing.T) {
			os.Remove(filepath.Join(place, "x"))
			l := newLab(t, text)
			l.host.Hide = []string{record}
			l.agent.cfg.Sandbox = tt.box
			y := l.try(t, "look")
			y.req.Access, y.req.Home = tt.access, filepath.Join(record, "agents", "task")
			res := y.works(t, l.agent)
			contains(t, "the answer", string(res.Output), tt.says)
			// Sessions are listed by year; the names of directories made for tests may have its digits.
			out := strings.NewReplacer(record, "", place, "").Replace(string(res.Output))
			if strings.Contains(out, "secret") || strings.Contains(out, time.Now().Format("2006")) {
				t.Errorf("the record or a session was read: %s", out)
			}
			at := filepath.Join(y.req.Home, "codex", helpers)
			if entries, err := os.ReadDir(at); err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool {
				return e.Name() == "x"
			}) {
				t.Errorf("what starts commands was changed: %v, %v", entries, err)
			}
			if res.Sandbox != tt.sandbox {
				t.Errorf("the sandbox was %q, want %q", res.Sandbox, tt.sandbox)
			}
			if _, err := os.Stat(filepath.Join(place, "x")); (err == nil) != tt.written {
				t.Errorf("%s was written: %v", place, err == nil)
			}
			if strings.Contains(y.requests.String(), "hidden-1") {
				t.Error("what is set for commands is in a log")
			}
		})
	}
}

func TestSandboxIsRefused(t *testing.T) {
	dir, record := t.TempDir(), t.TempDir()
	s := &setup{home: filepath.Join(record, "codex"), scratch: record, dir: dir}
	h := newHost(0)
	h.Hide = []string{record}
	for _, path := range []string{"below", filepath.Join(record, "x")} {
		c := Config{Sandbox: Sandbox{Write: []string{path}}}
		if _, err := c.profile(h, s, agent.Request{Dir: dir, Access: agent.Read}); err == nil ||
			!strings.Contains(err.Error(), "sandbox.write") {
			t.Errorf("%s: got %v", path, err)
		}
	}
	for _, name := range []string{"CODEX_API_KEY", "OPENAI_API_KEY"} {
		if err := (Config{Sandbox: Sandbox{Pass: []string{name}}}).check(); err == nil {
			t.Errorf("%s may be passed to commands", name)
		}
	}
}

// TestProfileIsNamedByWhatItSays checks that different sandboxes have different profile names.
func TestProfileIsNamedByWhatItSays(t *testing.T) {
	dir := t.TempDir()
	s, h := &setup{home: filepath.Join(dir, "codex"), scratch: dir, dir: dir}, NewHost(host.New(host.Config{}))
	names := map[string]bool{}
	for _, access := range []agent.Access{agent.Read, agent.Write} {
		for _, network := range []bool{false, true} {
			p, err := (Config{Sandbox: Sandbox{Network: network}}).profile(h, s, agent.Request{Dir: dir, Access: access})
			if err != nil {
				t.Fatal(err)
			}
			names[p.name] = true
		}
	}
	if len(names) != 4 {
		t.Errorf("four sandboxes have the names %v", slices.Sorted(maps.Keys(names)))
	}
}

// TestAppServersOfTheUser checks that only chosen servers of the user run, and that their keys are in no request.
func TestAppServersOfTheUser(t *testing.T) {
	user := t.TempDir()
	writeTree(t, user, map[string]string{"config.toml": `
cli_auth_credentials_store = "auto"
[mcp_servers.lab]
command = "/bin/sh"
args = ["-c", "touch ` + user + `/ran-lab; exit 1"]
env = { KEY = "secret-1" }
[mcp_servers.other]
command = "/bin/sh"
args = ["-c", "touch ` + user + `/ran-other; exit 1"]
`})
	t.Setenv("CODEX_HOME", user)
	l := newLab(t, answer)
	l.agent.cfg.MCP = []string{"lab"}
	y := l.try(t, "go")
	y.works(t, l.agent)
	eventually(t, "the server was started", func() bool {
		_, err := os.Stat(filepath.Join(user, "ran-lab"))
		return err == nil
	})
	if _, err := os.Stat(filepath.Join(user, "ran-other")); err == nil {
		t.Error("a server that nobody chose was started")
	}
	if strings.Contains(y.requests.String(), "secret-1") {
		t.Error("a server's key is in a log")
	}
	cfg := l.agent.cfg
	cfg.MCP = []string{"missing"}
	if _, err := l.host.Agent(cfg); err == nil || !strings.Contains(err.Error(), "no [mcp_servers.missing]") {
		t.Errorf("got %v", err)
	}
	if mine, err := userSettings(user); err != nil || mine["cli_auth_credentials_store"] != "auto" {
		t.Errorf("the user's keyring is not carried: %v, %v", mine, err)
	}
}

// TestAppProxy checks that Codex reaches its model through the user's proxy.
func TestAppProxy(t *testing.T) {
	l := newLab(t, answer)
	model, err := url.Parse(l.model.URL())
	if err != nil {
		t.Fatal(err)
	}
	var through atomic.Int64
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		if r.In.Host == "model.invalid" {
			through.Add(1)
			r.Out.URL.Scheme, r.Out.URL.Host = model.Scheme, model.Host
		}
	}, FlushInterval: -1}
	proxy := httptest.NewServer(forward)
	t.Cleanup(proxy.Close)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "127.0.0.1")
	l.agent.cfg.Endpoint.URL = "http://model.invalid" + model.Path
	once, y := &ExecAgent{installed: installed{host: l.host, cfg: l.agent.cfg}}, newExecTry(t, "go")
	for kind, run := range map[string]func() (agent.Result, error){
		"codex":      func() (agent.Result, error) { return l.try(t, "go").run(t.Context(), t, l.agent) },
		"codex-exec": func() (agent.Result, error) { return y.run(t.Context(), t, once) },
	} {
		before := through.Load()
		res, err := run()
		if err != nil || strings.TrimSpace(string(res.Output)) != "all done" || through.Load() == before {
			t.Errorf("%s: got %q and %v, %d requests through the proxy", kind, res.Output, err, through.Load()-before)
		}
	}
}

// TestAppProjectFiles checks that commands of an agent that writes cannot change what Plait runs outside a sandbox.
func TestAppProjectFiles(t *testing.T) {
	l := newLab(t, `
turns:
- steps:
  - items:
    - run: {cmd: "echo a > .plait/config.yaml; mkdir .plait/flows; echo b > tree.txt; echo c > .plait/tasks/t/artifacts/c.txt"}
  - items:
    - answer: "{{output 1}}"
`)
	y := l.try(t, "go")
	plait := filepath.Join(y.req.Dir, ".plait")
	y.req.Desk.Artifacts = filepath.Join(plait, "tasks", "t", "artifacts")
	if err := os.MkdirAll(y.req.Desk.Artifacts, 0o755); err != nil {
		t.Fatal(err)
	}
	y.works(t, l.agent)
	for file, want := range map[string]bool{filepath.Join(plait, "config.yaml"): false,
		filepath.Join(plait, "flows"):        false,
		filepath.Join(y.req.Dir, "tree.txt"): true, filepath.Join(y.req.Desk.Artifacts, "c.txt"): true} {
		if _, err := os.Stat(file); (err == nil) != want {
			t.Errorf("%s: %v", file, err)
		}
	}
}
