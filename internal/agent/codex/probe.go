package codex

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/sys/proc"
)

// A Read is something that no command of an agent should read, and whether the sandbox prevents
// it.
type Read struct {
	Path   string
	Denied bool
}

// probeTime limits one command of a probe.
const probeTime = 20 * time.Second

// CanRead tries, in the sandbox of a role with access: read, to read what is hidden from agents:
// the directories that the host hides and the user's login, if they exist. It is an error if no
// command runs in the sandbox at all. Its files are in the temporary directory, and are removed.
func (h *Host) CanRead(ctx context.Context, p host.Program) ([]Read, error) {
	tmp, err := os.MkdirTemp("", "plait-probe")
	if err != nil {
		return nil, fmt.Errorf("try the sandbox: %w", err)
	}
	defer os.RemoveAll(tmp)
	s := &setup{program: p, dir: filepath.Join(tmp, "work"), home: filepath.Join(tmp, "home"), scratch: tmp}
	for _, dir := range []string{s.dir, filepath.Join(s.home, helpers), s.tmp(), s.cache()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("try the sandbox: %w", err)
		}
	}
	sandbox, err := Config{}.profile(h, s, agent.Request{Dir: s.dir, Access: agent.Read})
	if err != nil {
		return nil, err
	}
	args := []string{"sandbox"}
	for _, key := range slices.Sorted(maps.Keys(sandbox.settings)) {
		pairs, err := execSettings(key, sandbox.settings[key])
		if err != nil {
			return nil, fmt.Errorf("try the sandbox: %w", err)
		}
		for _, pair := range pairs {
			args = append(args, "-c", pair)
		}
	}
	try := func(command ...string) (bool, error) {
		res, err := proc.Run(ctx, proc.Config{
			Path: p.Path, Args: slices.Concat(args, []string{"--"}, command), Dir: s.dir, Wall: probeTime,
			// It refuses a home below the temporary directory, and looks for that in TMPDIR.
			Env: []string{"CODEX_HOME=" + s.home, "HOME=" + s.home, "TMPDIR=" + s.tmp(),
				"PATH=" + h.Getenv("PATH")},
		})
		return err == nil && res.Signal == 0 && res.Exit == 0, err
	}
	if works, err := try("true"); err != nil || !works {
		return nil, fmt.Errorf("no command runs in the sandbox of Codex here: %w", orStopped(err))
	}
	var reads []Read
	for _, path := range append(slices.Clone(h.hidden()), filepath.Join(userHome(h.Getenv), "auth.json")) {
		info, err := os.Stat(path)
		if err != nil || !filepath.IsAbs(path) {
			continue // nothing to read
		}
		command := []string{"head", "-c", "1", resolve(path)}
		if info.IsDir() {
			command = []string{"ls", resolve(path)}
		}
		read, err := try(command...)
		if err != nil {
			return nil, fmt.Errorf("try the sandbox: %w", err)
		}
		reads = append(reads, Read{Path: path, Denied: !read})
	}
	return reads, nil
}

// orStopped returns err, or an error for a command that ran but did not succeed.
func orStopped(err error) error {
	if err == nil {
		return fmt.Errorf("the command true failed in it")
	}
	return err
}
