package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/adrg/xdg"

	"github.com/plait-run/plait/internal/config"
	"github.com/plait-run/plait/internal/proc"
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
	cell := &proc.Cell{Bwrap: proc.Walls(), Hide: hide}
	if a.place != nil { // what is published is not secret from any task
		cell.Hide, cell.Read = append(cell.Hide, a.place.Dir()), []string{a.place.Mirrors()}
	}
	if err := cell.Check(ctx); err != nil {
		return err
	}
	if guard := a.program.Team.Guarded; guard != nil {
		if err := guard(ctx); err != nil {
			return err
		}
	}
	a.cell = cell
	return nil
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
	list := []string{"/run", "/tmp", "/var/tmp", os.TempDir(), user, xdg.ConfigHome, xdg.DataHome, xdg.StateHome, xdg.CacheHome,
		xdg.RuntimeDir, config.ScratchDir(), home}
	list = append(list, a.program.Team.Secrets()...)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("make %s: %w", home, err)
	}
	slices.Sort(list) // parents come first, and so hide nothing that was hidden before
	list = slices.Compact(list)
	return slices.DeleteFunc(list, func(dir string) bool { return dir == "" || dir == "/" }), nil
}
