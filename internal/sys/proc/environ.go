package proc

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// TagKey is the environment variable that carries a run's tag.
const TagKey = "PLAIT_TAG"

// homeKey is the environment variable that names the directory of the record. No child ever gets it.
const homeKey = "PLAIT_HOME"

// allowed are the variables that every child gets, together with those that begin
// with LC_. None of them carries a credential.
var allowed = [...]string{"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR"}

// Environ returns the whole environment of a child, sorted by name: our variables that are allowed,
// TERM=dumb, our variables that pass names (X_* means all that begin with X_), then extra, then
// plait (KEY=value each), then PLAIT_TAG. Later ones take precedence. PLAIT_HOME is never included,
// and PLAIT_TAG is tag or absent.
func Environ(pass []string, extra map[string]string, plait []string, tag string) []string {
	env := make(map[string]string)
	for _, kv := range os.Environ() {
		key, value, _ := strings.Cut(kv, "=")
		if slices.Contains(allowed[:], key) || strings.HasPrefix(key, "LC_") {
			env[key] = value
		}
	}
	env["TERM"] = "dumb"
	for _, key := range pass {
		if prefix, ok := strings.CutSuffix(key, "*"); ok {
			for _, kv := range os.Environ() {
				if key, value, _ := strings.Cut(kv, "="); strings.HasPrefix(key, prefix) {
					env[key] = value
				}
			}
			continue
		}
		if value, ok := os.LookupEnv(key); ok {
			env[key] = value
		}
	}
	maps.Copy(env, extra)
	for _, kv := range plait {
		key, value, _ := strings.Cut(kv, "=")
		env[key] = value
	}
	delete(env, TagKey)
	if tag != "" {
		env[TagKey] = tag
	}
	delete(env, homeKey)
	list := make([]string, 0, len(env))
	for _, key := range slices.Sorted(maps.Keys(env)) {
		// The kernel accepts such entries, but no program reads them as intended.
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.Contains(env[key], "\x00") {
			continue
		}
		list = append(list, key+"="+env[key])
	}
	return list
}

// First puts dir first in the PATH of an environment, unless dir is empty. It may modify env.
func First(dir string, env []string) []string {
	if dir == "" {
		return env
	}
	i := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	if i < 0 {
		return append(env, "PATH="+dir)
	}
	env[i] = "PATH=" + dir + string(filepath.ListSeparator) + strings.TrimPrefix(env[i], "PATH=")
	return env
}

// Lookup returns the program that Run would start for path in dir with env. It checks the directory too, since the
// kernel's error does not distinguish a missing directory from a missing program. The error is a *StartError.
func Lookup(path, dir string, env []string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", &StartError{Path: path, Dir: dir, Err: errors.New("not an absolute directory")}
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		return "", &StartError{Path: path, Dir: dir, Err: reason(err)}
	}
	if path == "" {
		return "", &StartError{Path: path, Err: errors.New("no program given")}
	}
	if strings.Contains(path, "/") {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if err := runnable(path); err != nil {
			return "", &StartError{Path: path, Err: reason(err)}
		}
		return path, nil
	}
	var paths string
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			paths = v
		}
	}
	found, err := InPath(paths, path)
	if err != nil {
		return "", &StartError{Path: path, Err: err}
	}
	return found, nil
}

// runnable returns an error unless path is a file that some user may execute.
func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir(), info.Mode()&0o111 == 0:
		return fs.ErrPermission
	}
	return nil
}

// reason strips the operation and path from err; StartError names them already.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
