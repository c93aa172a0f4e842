package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// plait is the program as cmd/plait defines it.
var plait = Program{Name: "plait", Open: sqlite.OpenHome, OpenHome: sqlite.OpenHome}

// TestMain makes the test binary act as plait, and as the agent that the
// scripts' flows run, when it is called by these names.
func TestMain(m *testing.M) {
	programs := map[string]func(){
		"plait": func() { os.Exit(plait.Main(os.Args[1:])) },
		"fake":  fakeAgent,
		"lab":   serveLab,
	}
	if programs[filepath.Base(os.Args[0])] == nil {
		housetest.OwnMounts()
	}
	testscript.Main(m, programs)
}

// TestScripts runs the stories in testdata/script: one file, one story.
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED with -short: the stories")
	}
	mountable, err := canMount()
	if err != nil {
		t.Fatal(err)
	}
	var disks disks
	t.Cleanup(func() { disks.remove(t) })
	cmds := maps.Clone(scriptCommands)
	cmds["mount"] = disks.mount
	testscript.Run(t, testscript.Params{
		Dir:   filepath.Join("testdata", "script"),
		Setup: setup,
		Cmds:  cmds,
		Condition: func(cond string) (bool, error) {
			if cond == "mount" {
				return mountable, nil
			}
			return condition(cond)
		},
		RequireUniqueNames: true,
	})
}

// condition evaluates [codex], [claude], [copilot] and [bwrap]: whether the real programs are available.
func condition(cond string) (bool, error) {
	if cond == "codex" {
		return needCodex()
	}
	if cond == "claude" {
		return needClaude()
	}
	if cond == "bwrap" {
		if proc.Bubblewrap() == "" && os.Getenv("CI") != "" {
			return false, errors.New("bubblewrap is not installed")
		}
		return proc.Bubblewrap() != "", nil
	}
	if cond == "copilot" {
		return needCopilot()
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}

// canMount reports whether file systems can be mounted. It must run before the first script: no mount may
// disappear while a sandbox is built from the existing mounts.
func canMount() (bool, error) {
	dir, err := os.MkdirTemp("", "plait-mount")
	if err != nil {
		return false, err
	}
	defer os.Remove(dir)
	if err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", dir).Run(); err != nil {
		if os.Getenv("CI") != "" {
			return false, fmt.Errorf("mount a file system: %w", err)
		}
		return false, nil
	}
	return true, exec.Command("umount", dir).Run()
}

// setup gives a script a home, a workspace (a Git repository in ws) and an
// environment that contains nothing of the user who runs the tests.
func setup(env *testscript.Env) error {
	examples, err := filepath.Abs(filepath.Join("..", "..", "..", "examples"))
	if err != nil {
		return err
	}
	for key, value := range scriptEnv(env.WorkDir) {
		env.Setenv(key, value)
	}
	env.Setenv("EXAMPLES", examples)
	if dir, err := realCodex(); err == nil {
		env.Setenv("CODEX", dir) // scripts that need it put it into PATH
	}
	if program, err := realClaude(); err == nil {
		env.Setenv("CLAUDE", filepath.Dir(program.Path)) // scripts that need it put it into PATH
	}
	if program, err := realCopilot(); err == nil {
		env.Setenv("COPILOT", filepath.Dir(program.Path)) // the same
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOFLAGS", "GOROOT"} {
		env.Setenv(name, goEnv()[name])
	}
	env.Setenv("GOPROXY", "off")
	env.Setenv("GOTOOLCHAIN", "local")
	env.Cd = filepath.Join(env.WorkDir, "ws")
	return os.MkdirAll(filepath.Join(env.Cd, ".git"), 0o755)
}

// scriptEnv is the environment of plait and its agents below a directory.
func scriptEnv(work string) map[string]string {
	return map[string]string{
		"PLAIT_HOME":          filepath.Join(work, "home"),
		"PLAIT_AGENT":         "",
		"PLAIT_CONTEXT":       "",
		"PLAIT_TASK":          "",
		"HOME":                filepath.Join(work, "user"),
		"XDG_CONFIG_HOME":     filepath.Join(work, "user", "config"),
		"XDG_DATA_HOME":       filepath.Join(work, "user", "data"),
		"XDG_CACHE_HOME":      filepath.Join(work, "user", "cache"),
		"GIT_CONFIG_NOSYSTEM": "1",
		"GIT_CONFIG_GLOBAL":   filepath.Join(work, "user", "gitconfig"),
		"GIT_AUTHOR_NAME":     "Ada", "GIT_AUTHOR_EMAIL": "ada@example.com",
		"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.com",
		"TZ": "UTC", "LC_ALL": "C.UTF-8", "TERM": "dumb",
	}
}
