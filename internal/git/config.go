package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// readConfig adopts the harmless settings of the repository's config and refuses a format
// or an extension that it does not know. Includes are not followed.
func (r *Repo) readConfig(ctx context.Context) error {
	r.config = make(map[string]string)
	s, err := r.begin(noTree)
	if err != nil {
		return err
	}
	defer s.end()
	// The worktree's own file comes later and takes precedence, as in git; without the
	// extension git does not read it.
	all, err := s.settings(ctx, filepath.Join(r.common, "config"))
	if err != nil {
		return err
	}
	if v, ok := lastValue(all, "extensions.worktreeconfig"); ok && v != "false" {
		own, err := s.settings(ctx, filepath.Join(r.gitdir, "config.worktree"))
		if err != nil {
			return err
		}
		all = append(all, own...)
	}
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
	r.ignore = s.userIgnore(ctx)
	return nil
}

// settings returns the settings of a config file: keys, in lower case, and values.
// A missing file has none.
func (s *session) settings(ctx context.Context, file string) ([][2]string, error) {
	text, err := readSmall(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// Passed as bytes, so that git reads exactly what was checked.
	out, err := s.run(ctx, strings.NewReader(text), "config", "--file", "-", "--no-includes", "--null", "--list")
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrRefused, err)
	}
	var all [][2]string
	for entry := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		key, value, valued := strings.Cut(string(entry), "\n")
		if !valued {
			value = "true"
		}
		if key != "" {
			all = append(all, [2]string{strings.ToLower(key), value})
		}
	}
	return all, nil
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
func (s *session) userIgnore(ctx context.Context) string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	xdg := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(xdg) {
		xdg = filepath.Join(home, ".config")
	}
	path := filepath.Join(xdg, "git", "ignore")
	if exists(home, ".gitconfig") || exists(xdg, "git/config") { // otherwise git need not be asked
		if named, err := s.excludesFile(ctx, home, xdg); err == nil {
			path = named
		}
	}
	info, err := os.Stat(path)
	if !filepath.IsAbs(path) || err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return path
}

// excludesFile returns core.excludesFile of the user's own config.
func (s *session) excludesFile(ctx context.Context, home, xdg string) (string, error) {
	u := *s
	u.env = slices.DeleteFunc(slices.Clone(s.env), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		return key == "HOME" || key == "XDG_CONFIG_HOME" || key == "GIT_CONFIG_GLOBAL"
	})
	u.env = append(u.env, "HOME="+home, "XDG_CONFIG_HOME="+xdg)
	out, err := u.run(ctx, nil, "config", "--global", "--includes", "--null", "--type=path", "--get",
		"core.excludesFile")
	return strings.TrimSuffix(string(out), "\x00"), err
}
