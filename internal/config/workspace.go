package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/adrg/xdg"
)

// Home returns PLAIT_HOME: the environment's, else $XDG_DATA_HOME/plait.
func Home(getenv func(string) string) (string, error) {
	home := getenv("PLAIT_HOME")
	if home == "" {
		home = filepath.Join(xdg.DataHome, "plait")
	}
	abs, err := filepath.Abs(home)
	if err != nil {
		return "", fmt.Errorf("find PLAIT_HOME: %w", err)
	}
	return abs, nil
}

// ScratchDir is where tasks have a place for the caches and temporary files of their agents'
// commands: nothing there outlives its task, or is missed when it is gone.
func ScratchDir() string { return filepath.Join(xdg.CacheHome, "plait", "tasks") }

// UserFile returns the user's configuration file.
func UserFile() string { return filepath.Join(xdg.ConfigHome, "plait", "config.yaml") }

// ProjectFile returns the configuration file of a workspace.
func ProjectFile(workspace string) string { return filepath.Join(workspace, ".plait", "config.yaml") }

// Workspace returns the directory that dir belongs to: the nearest one above
// with a .plait directory, else the root of its git repository, else dir.
func Workspace(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("find workspace: %w", err)
	}
	repository := ""
	for d := dir; ; d = filepath.Dir(d) {
		if info, err := os.Stat(filepath.Join(d, ".plait")); err == nil && info.IsDir() {
			return d, nil
		}
		if _, err := os.Stat(filepath.Join(d, ".git")); err == nil && repository == "" {
			// What lies above the repository is another project's.
			repository = d
			return repository, nil
		}
		if d == filepath.Dir(d) {
			return dir, nil
		}
	}
}

// gitignore keeps what Plait writes out of the project's history, and itself out of git status: a
// directory that only run made is not seen there. What a person adds, config.yaml and flows, is.
const gitignore = "# written by plait: what is listed here is local to this copy\n/.gitignore\ntasks/\nworktrees/\n"

// Init makes the .plait directory of a workspace and says whether it was new.
// home must not lie inside the workspace: agents can write there.
func Init(workspace, home string) (created bool, err error) {
	if err := Outside(workspace, home); err != nil {
		return false, err
	}
	dir := filepath.Join(workspace, ".plait")
	if err := os.Mkdir(dir, 0o755); err == nil {
		created = true
	} else if !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("make workspace: %w", err)
	}
	ignore := filepath.Join(dir, ".gitignore")
	if _, err := os.Lstat(ignore); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(ignore, []byte(gitignore), 0o644); err != nil {
			return created, fmt.Errorf("make workspace: %w", err)
		}
	}
	return created, nil
}

// resolveLinks returns path without the links in those parts of it that exist.
func resolveLinks(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil || path == filepath.Dir(path) {
		return real
	}
	return filepath.Join(resolveLinks(filepath.Dir(path)), filepath.Base(path))
}

// Outside returns an error when home lies inside the workspace.
func Outside(workspace, home string) error {
	rel, err := filepath.Rel(resolveLinks(workspace), resolveLinks(home))
	if err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return fmt.Errorf("PLAIT_HOME (%s) is inside the workspace %s, where agents can write; set PLAIT_HOME to a "+
			"directory outside", home, workspace)
	}
	return nil
}
