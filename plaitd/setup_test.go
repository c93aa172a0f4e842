package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/agent/claude"
	"github.com/plait-run/plait/internal/agent/codex"
)

// known checks that plaitd has the verb and the flags of a command line.
func known(t *testing.T, args ...string) {
	t.Helper()
	if out := newHost(t, "").plaitd().run(0, append(args, "--help")...); !strings.Contains(out, "plaitd "+args[0]) {
		t.Errorf("plaitd %v: %s", args, out)
	}
}

// plaitd makes h run plaitd, without a record.
func (h *host) plaitd() *host {
	h.be = "plaitd"
	return h
}

// TestUnit checks the unit of a worker, as far as systemd can without running it.
func TestUnit(t *testing.T) {
	unit := file(t, "plaitd-worker.service")
	line := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/plaitd (.*)$`).FindStringSubmatch(unit)
	if line == nil {
		t.Fatal("it does not start plaitd")
	}
	known(t, strings.Fields(line[1])...)
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("NOT TESTED: systemd-analyze is not installed")
	}
	self, err := os.Executable() // verify wants the program to be there
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "plaitd-worker.service")
	text := strings.ReplaceAll(unit, "/usr/local/bin/plaitd", self)
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", at).CombinedOutput(); err != nil ||
		strings.Contains(string(out), at) {
		t.Errorf("verify: %v\n%s", err, out)
	}
	out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", "--threshold=35",
		"plaitd-worker.service").CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if t.Log(lines[len(lines)-1]); err != nil {
		t.Errorf("security: %v\n%s", err, out)
	}
}

// TestCompose checks the commands of the compose file, and in what order its services start.
func TestCompose(t *testing.T) {
	var compose struct {
		Services map[string]struct {
			Command     []string
			Environment map[string]string
			Depends     map[string]struct{ Condition string } `yaml:"depends_on"`
			Secrets     []string
		}
	}
	if err := yaml.Unmarshal([]byte(file(t, "compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	worker, migrate := compose.Services["worker"], compose.Services["migrate"]
	known(t, worker.Command...)
	known(t, migrate.Command...)
	if worker.Depends["migrate"].Condition != "service_completed_successfully" {
		t.Errorf("the worker starts before the record is there: %v", worker.Depends)
	}
	if migrate.Depends["postgres"].Condition != "service_healthy" {
		t.Errorf("the record is made before the server is there: %v", migrate.Depends)
	}
	if len(worker.Secrets) != 1 || worker.Environment["PLAIT_STORE_FILE"] != "/run/secrets/"+worker.Secrets[0] {
		t.Errorf("the worker has its role from %v, %v", worker.Environment, worker.Secrets)
	}
	for name := range worker.Environment {
		if strings.Contains(name, "PASSWORD") || name == "PLAIT_STORE" {
			t.Errorf("the worker has %s in its environment", name)
		}
	}
}

// TestContainerfile checks that an image has what an isolated worker needs, and agents of the versions that are tested.
func TestContainerfile(t *testing.T) {
	text := file(t, "Containerfile")
	for _, want := range []string{" bubblewrap ", " git ", "@openai/codex@" + codex.Version + " ",
		"@anthropic-ai/claude-code@" + claude.Version + "\n", "\nUSER 1000:1000\n",
		`ENTRYPOINT ["/usr/local/bin/plaitd"]`} {
		if !strings.Contains(text, want) {
			t.Errorf("it has no %q", want)
		}
	}
	start := regexp.MustCompile(`(?m)^CMD \[(.*)\]$`).FindStringSubmatch(text)
	if start == nil {
		t.Fatal("it starts nothing")
	}
	known(t, strings.Split(strings.ReplaceAll(start[1], `"`, ""), ", ")...)
}

func file(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
