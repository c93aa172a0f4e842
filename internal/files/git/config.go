package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// allowedKeys lists the settings that are adopted from a repository, with their known
// values; other values are not adopted.
var allowedKeys = map[string][]string{
	"core.filemode":          {"true", "false"},
	"core.symlinks":          {"true", "false"},
	"core.ignorecase":        {"true", "false"},
	"core.precomposeunicode": {"true", "false"},
	"core.autocrlf":          {"true", "false", "input"},
	"core.eol":               {"lf", "crlf", "native"},
}

// extensions lists the supported repository extensions, with their known values; nil allows any value.
var extensions = map[string][]string{
	"extensions.objectformat":      {"sha1", "sha256"},
	"extensions.refstorage":        {"files"},
	"extensions.noop":              nil,
	"extensions.noop-v1":           nil,
	"extensions.partialclone":      nil,
	"extensions.preciousobjects":   nil,
	"extensions.relativeworktrees": nil,
	"extensions.worktreeconfig":    nil,
}

// adopt adopts the harmless settings of the work tree and refuses a format or an extension that
// it does not know.
func (r *Repo) adopt(ctx context.Context) error {
	all := r.shared
	// The worktree's own file comes later and takes precedence, as in git; without the
	// extension git does not read it.
	if v, ok := lastValue(all, "extensions.worktreeconfig"); ok && v != "false" {
		own, err := r.settings(ctx, filepath.Join(r.gitdir, "config.worktree"))
		if err != nil {
			return err
		}
		all = slices.Concat(all, own)
	}
	r.config = make(map[string]string)
	submodule := !r.linked && r.gitdir != filepath.Join(r.root, ".git")
	for _, kv := range all {
		key, value := kv[0], kv[1]
		if known, ok := allowedKeys[key]; ok && slices.Contains(known, value) {
			r.config[key] = value
		}
		if !strings.HasPrefix(key, "extensions.") {
			continue
		}
		known, ok := extensions[key]
		if !ok || known != nil && !slices.Contains(known, value) {
			return fmt.Errorf("%w: its config has %s = %s", ErrRefused, key, value)
		}
	}
	if v, ok := lastValue(all, "extensions.objectformat"); ok {
		r.format = v
	}
	where, ok := lastValue(all, "core.worktree")
	switch {
	case r.linked: // git ignores it there
	case ok:
		if at, err := resolve(r.gitdir, where); err != nil || at != r.root {
			return fmt.Errorf("%w: its core.worktree is %s", ErrRefused, where)
		}
	case submodule:
		return fmt.Errorf("%w: .git leads to %s, whose core.worktree does not lead back", ErrRefused, r.gitdir)
	}
	return nil
}

// settings returns the settings of a config file: keys, in lower case, and values.
// Includes are not followed. A missing file has none.
func (r *Repo) settings(ctx context.Context, file string) ([][2]string, error) {
	text, err := readSmall(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if all, ok := plainSettings(text); ok {
		return all, nil
	}
	s, err := r.begin(noTree)
	if err != nil {
		return nil, err
	}
	defer s.end()
	// Passed as bytes, so that git reads exactly what was checked.
	out, err := s.run(ctx, strings.NewReader(text), "config", "--file", "-", "--no-includes", "--null", "--list")
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrRefused, err)
	}
	return parseSettings(out), nil
}

// What plainSettings reads: values without quotes, escapes, comments and spaces in a row.
var (
	plainSection = regexp.MustCompile(`^\[([A-Za-z0-9-]+)(?: "([^"\\[:cntrl:]]*)")?\]$`)
	plainSetting = regexp.MustCompile(`^[\t ]*([A-Za-z][A-Za-z0-9-]*) ?= ?([!$-:<-\[\]-~]+(?: [!$-:<-\[\]-~]+)*)$`)
)

// plainSettings returns the settings of a config file as git would, without starting it, if the file is as plain as
// nearly all are. It is read each time that a repository is opened.
func plainSettings(text string) (all [][2]string, ok bool) {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := plainSection.FindStringSubmatch(line); m != nil {
			section = m[1] + "."
			if strings.Contains(line, `"`) {
				section += m[2] + "."
			}
		} else if m := plainSetting.FindStringSubmatch(line); m != nil && section != "" {
			all = append(all, [2]string{strings.ToLower(section + m[1]), m[2]})
		} else if strings.Trim(line, "\t ") != "" {
			return nil, false
		}
	}
	return all, true
}

// parseSettings reads what git config --null --list prints.
func parseSettings(out []byte) (all [][2]string) {
	for entry := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		key, value, valued := strings.Cut(string(entry), "\n")
		if !valued {
			value = "true"
		}
		if key != "" {
			all = append(all, [2]string{strings.ToLower(key), value})
		}
	}
	return all
}

func lastValue(all [][2]string, key string) (value string, ok bool) {
	for _, kv := range all {
		if kv[0] == key {
			value, ok = kv[1], true
		}
	}
	return value, ok
}

// userIgnore returns the user's own ignore file: what they never want tracked, such
// as keys. It is the only setting taken from the user's own config, which the
// repository cannot write.
func (r *Repo) userIgnore(ctx context.Context) string {
	home, xdg, err := userDirs()
	if err != nil {
		return ""
	}
	path := filepath.Join(xdg, "git", "ignore")
	if maySetExcludes(filepath.Join(home, ".gitconfig")) || maySetExcludes(filepath.Join(xdg, "git", "config")) {
		if named, err := r.excludesFile(ctx, home, xdg); err == nil {
			path = named
		}
	}
	info, err := os.Stat(path)
	if !filepath.IsAbs(path) || err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return path
}

// maySetExcludes reports whether a config file may set core.excludesFile, by itself or by an include; otherwise git
// need not be asked.
func maySetExcludes(file string) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	text = bytes.ToLower(text)
	return bytes.Contains(text, []byte("excludesfile")) || bytes.Contains(text, []byte("include"))
}

// ofUser returns an environment in which git reads the user's own config.
func ofUser(env []string, home, xdg string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		return key == "HOME" || key == "XDG_CONFIG_HOME" || key == "GIT_CONFIG_GLOBAL"
	})
	return append(env, "HOME="+home, "XDG_CONFIG_HOME="+xdg)
}

// UserSettings returns the settings of the user's own config, which no repository can write, by key in lower case.
// Paths in them may begin with ~/. The error matches ErrNoGit if git is missing.
func UserSettings(ctx context.Context) (map[string]string, error) {
	all, err := userSettings(ctx)
	if err != nil {
		return nil, fmt.Errorf("read your git settings: %w", err)
	}
	return all, nil
}

func userSettings(ctx context.Context) (map[string]string, error) {
	home, xdg, err := userDirs()
	if err != nil {
		return nil, err
	}
	if !exists(home, ".gitconfig") && !exists(xdg, "git/config") {
		return nil, nil
	}
	// Anywhere but in a work tree: the directory of private git directories is the user's own.
	s := &session{repo: &Repo{}, env: ofUser(environment, home, xdg)}
	if s.cwd, err = scratch(); err != nil {
		return nil, err
	}
	if s.repo.git, err = program(s.cwd); err != nil {
		return nil, err
	}
	s.env = append(s.env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(s.cwd))
	out, err := s.run(ctx, nil, "config", "--global", "--includes", "--null", "--list")
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, kv := range parseSettings(out) {
		all[kv[0]] = kv[1]
	}
	return all, nil
}

// userDirs returns the directories in or below which the user's config is.
func userDirs() (home, xdg string, err error) {
	if home, err = os.UserHomeDir(); err != nil {
		return "", "", err
	}
	if xdg = os.Getenv("XDG_CONFIG_HOME"); !filepath.IsAbs(xdg) {
		xdg = filepath.Join(home, ".config")
	}
	return home, xdg, nil
}

// excludesFile returns core.excludesFile of the user's own config.
func (r *Repo) excludesFile(ctx context.Context, home, xdg string) (string, error) {
	s, err := r.begin(noTree)
	if err != nil {
		return "", err
	}
	defer s.end()
	s.env = ofUser(s.env, home, xdg)
	out, err := s.run(ctx, nil, "config", "--global", "--includes", "--null", "--type=path", "--get",
		"core.excludesFile")
	return strings.TrimSuffix(string(out), "\x00"), err
}
