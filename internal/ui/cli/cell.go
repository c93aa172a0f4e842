package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/adrg/xdg"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/config"
	places "github.com/plait-run/plait/internal/files/place"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/view"
)

// isolate makes all agents that this process starts run in a cell, where they can reach neither what gives access
// to the record nor what belongs to other tasks. The error says why that is not possible.
func (a *app) isolate(ctx context.Context) error {
	err := a.makeCell(ctx)
	if err == nil {
		return nil
	}
	return view.Advise(usagef("agents started here %s: %w", a.program.Exposed, err),
		"see \"What agents on a worker can reach\" in workers.md; "+
			"or add --unsafe-agents if you trust them, and everything they read, with this access")
}

func (a *app) makeCell(ctx context.Context) error {
	if os.Geteuid() == 0 {
		return errors.New("a worker cannot run as root, which file permissions do not restrict: run it as a dedicated user")
	}
	hide, err := a.hidden()
	if err != nil {
		return err
	}
	set, err := config.Load(config.UserFile(), "", a.getenv)
	if err != nil {
		return err
	}
	limits := set.Team.V.Limits
	cell := &proc.Cell{Bwrap: proc.Bubblewrap(), Hide: append(hide, a.place.Dir()), Prlimit: proc.Prlimit(),
		Processes: limits.Processes, Memory: int64(limits.MemoryGB) << 30, FileSize: int64(limits.FileGB) << 30}
	cell.Groups, cell.Ungrouped = proc.Delegated()
	bin, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find plait: %w", err)
	}
	cell.Forward = []string{bin, gatewayForward}
	cell.Egress.Proxy = http.ProxyFromEnvironment
	if a.program.Team.Servers != nil {
		cell.Egress.Servers = a.program.Team.Servers()
	}
	if cell.Prlimit == "" && limits != (config.Limits{}) {
		return errors.New("prlimit, which sets team.limits, is not installed: it is part of util-linux")
	}
	dirs := map[string]string{}
	for _, dir := range set.Team.V.Directories {
		if dirs[dir], err = shareable(dir, cell.Hide); err != nil {
			return fmt.Errorf("team.directories: %w", err)
		}
	}
	cell.Lend = a.lender(dirs)
	if err := cell.Check(ctx); err != nil {
		return err
	}
	if guard := a.program.Team.Guarded; guard != nil {
		if err := guard(ctx); err != nil {
			return err
		}
	}
	a.cell, a.store = cell, a.place.Confined(slices.Collect(maps.Keys(dirs)))
	return nil
}

// shareable returns the real path of a directory whose tasks a worker may take: hiding it, or something in it, would
// not go together with agents that work there.
func shareable(dir string, hide []string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	for _, hidden := range hide {
		at := hidden
		if found, err := filepath.EvalSymlinks(hidden); err == nil {
			at = found
		}
		if agent.Within(at, real) || agent.Within(real, at) {
			return "", fmt.Errorf("%s: agents must not see %s", dir, hidden)
		}
	}
	return real, nil
}

// lender returns what programs of a workspace may read besides it: what its remote has published. dirs are the
// workspaces without Git, with their real paths when the worker began: a link may lead elsewhere by now.
func (a *app) lender(dirs map[string]string) func(workspace string) ([]string, error) {
	return func(workspace string) ([]string, error) {
		if a.placed(workspace) {
			return a.place.Mirrors(workspace), nil
		}
		real, err := filepath.EvalSymlinks(workspace)
		if err != nil || real != dirs[workspace] {
			return nil, fmt.Errorf("%q: %w", workspace, places.ErrElsewhere)
		}
		return nil, nil
	}
}

// hidden returns the directories of this user, of this machine's services and of other tasks, and the files that
// hold the program's secrets.
func (a *app) hidden() ([]string, error) {
	home, err := a.findHome()
	if err != nil {
		return nil, err
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("find the home directory: %w", err)
	}
	list := []string{"/run", "/tmp", "/var/tmp", os.TempDir(), user, xdg.ConfigHome, xdg.DataHome, xdg.StateHome,
		xdg.CacheHome, xdg.RuntimeDir, config.ScratchDir(), home}
	list = append(list, a.program.Team.Secrets()...)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("make %s: %w", home, err)
	}
	slices.Sort(list) // parents come first, and so hide nothing that was hidden before
	list = slices.Compact(list)
	return slices.DeleteFunc(list, func(dir string) bool { return dir == "" || dir == "/" }), nil
}
