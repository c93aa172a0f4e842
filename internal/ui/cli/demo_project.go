package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
)

// make makes the demo's project, a Git repository, with its own record next to it. The person's own
// settings are not read: the demo is the same everywhere.
func (d *demo) make(ctx context.Context) (err error) {
	h, err := d.codexHost()
	if err != nil {
		return err
	}
	_, err = h.Find(ctx, "")
	if d.codex = err == nil; err != nil && !errors.As(err, new(*host.MissingError)) {
		return err
	}
	if err := os.MkdirAll(demoDir(), 0o700); err != nil {
		return err
	}
	if d.root, err = os.MkdirTemp(demoDir(), ""); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(d.root)
		}
	}()
	dir := filepath.Join(d.root, "tally")
	d.w = &workplace{dir: dir, workspace: dir, home: filepath.Join(d.root, "home")}
	d.home = d.w.home
	if err := d.writeProject(ctx); err != nil {
		return err
	}
	none := func(string) string { return "" }
	if d.w.settings, err = config.Load("", config.ProjectFile(dir), none); err != nil {
		return err
	}
	if d.w.store, err = d.program.Open(ctx, d.w.home); err != nil {
		return err
	}
	d.store = d.w.store
	bin, err := os.Executable()
	if err != nil {
		bin = ""
	}
	d.w.control = control.New(control.Config{Store: d.w.store, Home: d.w.home, Scratch: filepath.Join(d.root, "scratch"),
		Settings: d.w.settings, Agent: d.newAgent, Bin: bin, Log: d.log, Secrets: &d.keys.secrets})
	return nil
}

// writeProject writes the project's files and commits them.
func (d *demo) writeProject(ctx context.Context) error {
	project, err := fs.Sub(demoFiles, "demo/tally")
	if err != nil {
		return err
	}
	if err := os.CopyFS(d.w.workspace, project); err != nil {
		return err
	}
	if _, err := config.Init(d.w.workspace, d.w.home); err != nil {
		return err
	}
	if !d.codex {
		agents, err := demoFiles.ReadFile("demo/agents.yaml")
		if err != nil {
			return err
		}
		if err := os.WriteFile(config.ProjectFile(d.w.workspace), agents, 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-qm", "First version"}} {
		if _, err := d.git(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// git runs git in the project, without the person's configuration: no hooks, no signatures, no custom diff.
func (d *demo) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = d.w.workspace
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_PAGER=cat",
		"GIT_AUTHOR_NAME=Demo", "GIT_AUTHOR_EMAIL=demo@example.org",
		"GIT_COMMITTER_NAME=Demo", "GIT_COMMITTER_EMAIL=demo@example.org")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
