package codex

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// codexHome is CODEX_HOME of a task: private, and shared by all its attempts,
// because a session can only be forked inside one home.
func codexHome(home string) string {
	link := homeLink(home)
	if apart, err := os.Readlink(link); err == nil && filepath.IsAbs(apart) {
		return apart
	}
	return link
}

// homeLink is CODEX_HOME below a task's home, or a link to it: see makeHome.
func homeLink(home string) string { return filepath.Join(home, "codex") }

// makeHome makes the CODEX_HOME of a task, and reports whether it lies apart from the task's home, which is hidden
// from commands. For root it does not. For anybody else it has to: a command that a person has allowed outside the
// sandbox is started by Codex in a sandbox that has the denials alone, by a program in CODEX_HOME, which below a denied
// directory only root finds. So it gets a name that cannot be guessed, in a directory that cannot be listed.
//
// In a wall of the caller's the home stays where that wall has it.
func makeHome(h *Host, home string, walled bool) (apart bool, err error) {
	link := homeLink(home)
	if at := codexHome(home); at != link {
		return true, os.MkdirAll(at, 0o700)
	}
	parent := apartDir(h.cfg.Getenv)
	hidden := slices.ContainsFunc(h.cfg.Hide, func(dir string) bool { return isBelow(dir, parent) })
	if os.Geteuid() == 0 || parent == "" || hidden || walled {
		return false, os.MkdirAll(link, 0o700)
	}
	return layApart(link, parent)
}

// layApart makes a home in parent, to which link leads, and reports whether it lies there: one of an earlier version may
// not be moved.
func layApart(link, parent string) (bool, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return false, err
	}
	if err := os.Chmod(parent, 0o300); err != nil {
		return false, err
	}
	at := filepath.Join(parent, rand.Text())
	if old, err := os.Lstat(link); err == nil && old.IsDir() && os.Rename(link, at) != nil {
		return false, nil // of an earlier version, on another file system: it stays where it is
	}
	switch err := os.Symlink(at, link); {
	case errors.Is(err, fs.ErrExist): // by another attempt, just now
		if at, err = os.Readlink(link); err != nil {
			return false, err
		}
	case err != nil:
		return false, err
	}
	return true, os.MkdirAll(at, 0o700)
}

// apartDir is where homes lie that lie apart, "" if that cannot be said.
func apartDir(getenv func(string) string) string {
	if state := getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "plait", "codex")
	}
	if user := getenv("HOME"); filepath.IsAbs(user) {
		return filepath.Join(user, ".local", "state", "plait", "codex")
	}
	return ""
}
