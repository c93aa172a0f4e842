package codex

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// codexHome returns the CODEX_HOME of a task: private, and shared by all its
// attempts, because a session can only be forked within one home.
func codexHome(home string) string {
	link := homeLink(home)
	if apart, err := os.Readlink(link); err == nil && filepath.IsAbs(apart) &&
		strings.HasSuffix(filepath.Dir(apart), apartName) { // otherwise it is an agent's
		return apart
	}
	return link
}

// homeLink returns the CODEX_HOME below a task's home, or a link to it: see makeHome.
func homeLink(home string) string { return filepath.Join(home, "codex") }

// makeHome makes the CODEX_HOME of a task, and reports whether it is apart from the task's home, which is hidden from
// commands. For root it is not. For other users it must be: Codex starts a command that a person has allowed outside
// the sandbox in a sandbox with nothing but the denials, by a program in CODEX_HOME, which only root finds below a
// denied directory. So it has a name that cannot be guessed, in a directory that cannot be listed.
//
// In a cell of the caller, the home stays where the cell has it.
func makeHome(h *Host, home string, inCell bool) (apart bool, err error) {
	link := homeLink(home)
	if at := codexHome(home); at != link {
		return true, os.MkdirAll(at, 0o700)
	}
	parent := apartDir(h.Getenv)
	hidden := slices.ContainsFunc(h.hidden(), func(dir string) bool { return isBelow(dir, parent) })
	if os.Geteuid() == 0 || parent == "" || hidden || inCell {
		return false, os.MkdirAll(link, 0o700)
	}
	return makeApart(link, parent)
}

// makeApart makes a home in parent and a link to it, and reports whether it is there: it may be impossible to move the
// home of an earlier version.
func makeApart(link, parent string) (bool, error) {
	if err := errors.Join(os.MkdirAll(parent, 0o700), os.MkdirAll(filepath.Dir(link), 0o700)); err != nil {
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
	case errors.Is(err, fs.ErrExist): // another attempt was faster
		if at, err = os.Readlink(link); err != nil {
			return false, err
		}
	case err != nil:
		return false, err
	}
	return true, os.MkdirAll(at, 0o700)
}

// apartName is the end of the name of the directory of homes that are apart.
var apartName = filepath.Join("plait", "codex")

// apartDir returns the directory of homes that are apart, "" if it cannot be determined.
func apartDir(getenv func(string) string) string {
	if state := getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, apartName)
	}
	if user := getenv("HOME"); filepath.IsAbs(user) {
		return filepath.Join(user, ".local", "state", apartName)
	}
	return ""
}
