package codex

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
)

const canary = "canary-7d31-secret"

func TestAppEnvironment(t *testing.T) {
	t.Setenv("CODEX_API_KEY", canary)
	t.Setenv("APPTEST_TOKEN", canary)
	t.Setenv("PLAIT_HOME", canary)
	l := newLab(t, `
turns:
- steps:
  - items:
    - run: env | sort; tr '\0' '\n' < /proc/self/environ
  - items:
    - answer: "{{output 1}}"
`, func(c *Config) {
		c.Pass = []string{"CODEX_API_KEY", "APPTEST_TOKEN"}
		c.Env["MORE_FOR_CODEX"] = canary
	})
	y := l.try(t, "go")
	y.req.Env = []string{"PLAIT_ROLE=tester", "PLAIT_CONTEXT=/somewhere", "PLAIT_HOME=hidden"}
	y.req.Access = agent.Full
	res := y.works(t, l.agent)
	env := string(res.Output)
	for _, not := range []string{canary, keyVariable, "CODEX_API_KEY", "PLAIT_HOME", "MORE_FOR_CODEX"} {
		if strings.Contains(env, not) {
			t.Errorf("a command sees %s", not)
		}
	}
	for _, want := range []string{"PLAIT_ROLE=tester\n", "PLAIT_CONTEXT=/somewhere\n", "PLAIT_TAG=" + y.req.Tag,
		"PATH="} {
		contains(t, "the environment of a command", env, want)
	}
	for name, log := range map[string]string{"raw": y.raw.String(), "requests": y.requests.String(),
		"stderr": y.stderr.String()} {
		if strings.Contains(log, canary) {
			t.Errorf("a key is in the log %s", name)
		}
	}
	err := filepath.WalkDir(l.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), canary) {
			t.Errorf("a key is in %s", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestAppNoTrust checks that a project's settings, which can name programs, run none.
func TestAppNoTrust(t *testing.T) {
	const sub = "sub"
	for name, dir := range map[string]string{"the root": "", "below the root": sub} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, answer, func(c *Config) { c.Dir = dir })
			y := l.try(t, "go")
			y.req.Access = agent.Full
			// A path through a link leads to the same project.
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(y.req.Dir, link); err != nil {
				t.Fatal(err)
			}
			y.req.Dir = link
			mark := filepath.Join(t.TempDir(), "touched")
			for _, d := range []string{".codex", ".git", sub} {
				if err := os.MkdirAll(filepath.Join(y.req.Dir, d), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			hook := `[{"hooks":[{"type":"command","command":"touch ` + mark + `"}]}]`
			for name, text := range map[string]string{
				"config.toml": "notify = [\"touch\", \"" + mark + "\"]\n[mcp_servers.evil]\n" +
					"command = \"touch\"\nargs = [\"" + mark + "\"]\n",
				"hooks.json": `{"hooks":{"SessionStart":` + hook + `,"UserPromptSubmit":` + hook + `}}`,
			} {
				if err := os.WriteFile(filepath.Join(y.req.Dir, ".codex", name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			y.works(t, l.agent)
			if _, err := os.Stat(mark); err == nil {
				t.Error("a program that the project's settings name was run")
			}
			file := filepath.Join(codexHome(l.home), "config.toml")
			settings, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, not := range []string{"trust", "projects", "evil"} {
				if strings.Contains(string(settings), not) {
					t.Errorf("the home's settings hold %q:\n%s", not, settings)
				}
			}
			again := l.try(t, "go on")
			again.req.Session, again.req.Dir = y.session, y.req.Dir
			again.works(t, l.agent)
			if now, err := os.ReadFile(file); err != nil || string(now) != string(settings) {
				t.Errorf("the home's settings changed to %s: %v", now, err)
			}
		})
	}
}

func TestAppSandbox(t *testing.T) {
	outside := t.TempDir()
	l := newLab(t, `
turns:
- steps:
  - items:
    - run: echo x > inside.txt; echo x > `+outside+`/out.txt; echo x > "$PLAIT_ARTIFACTS/left.txt"; echo over
  - items:
    - answer: "{{output 1}}"
`)
	tests := []struct {
		access               agent.Access
		want                 string
		inside, left, beyond bool
	}{
		{agent.Read, "read-only", false, true, false},
		{agent.Write, "workspace-write", true, true, false},
		{agent.Full, "danger-full-access", true, true, true},
	}
	for _, tt := range tests {
		t.Run(string(tt.access), func(t *testing.T) {
			y := l.try(t, "go")
			y.req.Access = tt.access
			y.req.Env = append(y.req.Env, "PLAIT_ARTIFACTS="+y.req.Desk.Artifacts)
			res := y.works(t, l.agent)
			contains(t, "the answer", string(res.Output), "over")
			if res.Sandbox != tt.want {
				t.Errorf("the sandbox was %q, want %q", res.Sandbox, tt.want)
			}
			for file, want := range map[string]bool{
				filepath.Join(y.req.Dir, "inside.txt"):          tt.inside,
				filepath.Join(y.req.Desk.Artifacts, "left.txt"): tt.left,
				filepath.Join(outside, "out.txt"):               tt.beyond,
			} {
				if _, err := os.Stat(file); (err == nil) != want {
					t.Errorf("%s was written: %v, want %v", filepath.Base(file), err == nil, want)
				}
			}
		})
	}
}

// TestBinOnPath checks that Bin is first in a command's PATH, whatever a login shell does to PATH.
func TestBinOnPath(t *testing.T) {
	scratch := t.TempDir()
	bin := filepath.Join(scratch, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "plait"), []byte("#!/bin/sh\necho found by $0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	scenario := `
turns:
- steps:
  - items:
    - run: plait; echo x > "$PLAIT_ARTIFACTS/left.txt"; echo x > inside.txt
  - items:
    - answer: "{{output 1}}"
`
	l := newLab(t, scenario)
	for name, a := range map[string]agent.Agent{"codex": l.agent, "codex-exec": scriptedExec(t, scenario, nil)} {
		t.Run(name, func(t *testing.T) {
			y := l.try(t, "go")
			y.req.Home = t.TempDir()
			y.req.Access, y.req.Scratch = agent.Read, scratch
			y.req.Env = append(y.req.Env, "PLAIT_ARTIFACTS="+y.req.Desk.Artifacts)
			res, err := a.Run(t.Context(), y.req, func(agent.Event) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			contains(t, "the answer", string(res.Output), "found by "+bin+"/plait")
			if !strings.HasPrefix(res.Sandbox, "read-only") {
				t.Errorf("the sandbox was %q", res.Sandbox)
			}
			if _, err := os.Stat(filepath.Join(y.req.Desk.Artifacts, "left.txt")); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(y.req.Dir, "inside.txt")); err == nil {
				t.Error("a role that reads has written to the working directory")
			}
		})
	}
}

// TestShellFilesAreNotRead: neither Codex nor its commands read the files with which the user's shell starts. They could
// set tokens, replace PATH, and write among the output.
func TestShellFilesAreNotRead(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{".bashrc", ".bash_profile", ".profile", ".bash_login", ".zshrc", ".zshenv"} {
		text := "echo read >> " + filepath.Join(home, "read") + "\necho noise\nexport FROM_SHELL_FILE=1 PATH=/from/" + name + ":$PATH\n"
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	scenario := `
turns:
- steps:
  - items:
    - run: echo "variable $FROM_SHELL_FILE, path ${PATH%%:*}"
  - items:
    - answer: "{{output 1}}"
`
	l := newLab(t, scenario, func(c *Config) { c.Env["HOME"] = home })
	t.Setenv("HOME", home)
	exec := scriptedExec(t, scenario, nil)
	for name, a := range map[string]agent.Agent{"codex": l.agent, "codex-exec": exec} {
		t.Run(name, func(t *testing.T) {
			y := l.try(t, "go")
			y.req.Home = t.TempDir()
			res, err := a.Run(t.Context(), y.req, func(agent.Event) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			contains(t, "the answer", string(res.Output), "variable , path /")
			for _, odd := range []string{"noise", "/from/", ".bashrc"} {
				if strings.Contains(string(res.Output), odd) {
					t.Errorf("the answer has %q: %s", odd, res.Output)
				}
			}
			if _, err := os.Stat(filepath.Join(home, "read")); err == nil {
				t.Error("a file of the user's shell was read outside the sandbox")
			}
		})
	}
}
