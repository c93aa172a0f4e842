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

// Home returns PLAIT_HOME from the environment, or else $XDG_DATA_HOME/plait, as an absolute path.
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

// ScratchDir returns the directory for the caches and temporary files of the commands of tasks'
// agents: nothing there outlives its task, or is needed once it is gone.
func ScratchDir() string { return filepath.Join(xdg.CacheHome, "plait", "tasks") }

// UserDir returns the directory of the user's configuration, and of the key of their log. No agent may see it.
func UserDir() string { return filepath.Join(xdg.ConfigHome, "plait") }

// UserFile returns the user's configuration file.
func UserFile() string { return filepath.Join(UserDir(), "config.yaml") }

// LogKeyFile returns the file with the key that signs checkpoints for this user of this host.
func LogKeyFile() string { return filepath.Join(UserDir(), "log.key") }

// ProjectFile returns the configuration file of a workspace.
func ProjectFile(workspace string) string { return filepath.Join(workspace, ".plait", "config.yaml") }

// Workspace returns the workspace that dir belongs to: the nearest directory, dir itself or above, with
// a .plait directory or a .git, or else dir.
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
			// What is above the repository belongs to another project.
			repository = d
			return repository, nil
		}
		if d == filepath.Dir(d) {
			return dir, nil
		}
	}
}

// gitignore keeps what Plait writes out of the project's history, and itself out of git status, which
// does not show a directory that only run made. It does show what a person adds: config.yaml and flows.
const gitignore = "# written by plait: what is listed here is local to this copy\n/.gitignore\ntasks/\nworktrees/\n"

// Init creates the .plait directory of a workspace and reports whether it is new. Nothing is written through a link
// that leads out of the workspace. home must not be inside the workspace: agents can write there.
func Init(workspace, home string) (created bool, err error) {
	if err := Outside(workspace, home); err != nil {
		return false, err
	}
	if created, err = initialize(workspace); err != nil {
		err = fmt.Errorf("make workspace: %w", err)
	}
	return created, err
}

func initialize(workspace string) (created bool, err error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return false, err
	}
	defer root.Close()
	if err := root.Mkdir(".plait", 0o755); err == nil {
		created = true
	} else if !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	for _, dir := range []string{".plait", ".plait/tasks", ".plait/worktrees"} {
		if err := checkOwn(root, dir); err != nil {
			return created, err
		}
	}
	const ignore = ".plait/.gitignore"
	if _, err := root.Lstat(ignore); errors.Is(err, fs.ErrNotExist) {
		return created, root.WriteFile(ignore, []byte(gitignore), 0o644)
	}
	return created, nil
}

// checkOwn refuses what is no directory of the workspace, in a place where we write.
func checkOwn(root *os.Root, dir string) error {
	info, err := root.Stat(dir)
	to, _ := root.Readlink(dir)
	switch {
	case to == "" && errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && to != "":
		return fmt.Errorf("%s is a link to %s, which leads out of the workspace or to nothing: make it a directory", dir, to)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory: remove it", dir)
	}
	return nil
}

// resolveLinks returns path with the links resolved in those parts of it that exist.
func resolveLinks(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil || path == filepath.Dir(path) {
		return real
	}
	return filepath.Join(resolveLinks(filepath.Dir(path)), filepath.Base(path))
}

// Outside returns an error if home is inside the workspace.
func Outside(workspace, home string) error {
	rel, err := filepath.Rel(resolveLinks(workspace), resolveLinks(home))
	if err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return fmt.Errorf("PLAIT_HOME (%s) is inside the workspace %s, where agents can write; set PLAIT_HOME to a "+
			"directory outside", home, workspace)
	}
	return nil
}
