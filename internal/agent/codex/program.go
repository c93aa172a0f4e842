package codex

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/plait-run/plait/internal/agent/host"
)

// Package is the npm package of Codex.
var Package = host.Package{Name: "codex", Title: "Codex", NPM: "@openai/codex", Version: Version, Oldest: Version,
	Native: nativeProgram}

// Find looks for Codex: at path if that is not empty, otherwise in PATH and then in its CacheDir. It asks the program
// for its version. Errors: *host.MissingError.
func (h *Host) Find(ctx context.Context, path string) (host.Program, error) {
	return h.Host.Find(ctx, Package, path, nil)
}

// binaries are where npm puts the native program, below node_modules/@openai.
var binaries = []string{"codex-*/vendor/*/bin/codex", "codex/node_modules/@openai/codex-*/vendor/*/bin/codex"}

// nativeProgram returns the native program for path, "" for none: a file, an npm prefix, or npm's launcher, which is a
// script next to the program that it starts. The launcher is bypassed: it would get the signals, and its process id
// would be the one we know.
func nativeProgram(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return ""
	case info.IsDir():
		for _, modules := range []string{"node_modules", filepath.Join("lib", "node_modules")} {
			if found := inModules(filepath.Join(real, modules, "@openai")); found != "" {
				return found
			}
		}
		return ""
	case info.Mode()&0o111 == 0:
		return ""
	case isScript(real): // …/node_modules/@openai/codex/bin/codex.js
		if found := inModules(filepath.Join(filepath.Dir(real), "..", "..")); found != "" {
			return found
		}
	}
	return real
}

func inModules(openai string) string {
	for _, pattern := range binaries {
		if found, err := filepath.Glob(filepath.Join(openai, pattern)); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head, err := bufio.NewReader(f).Peek(2)
	return err == nil && string(head) == "#!"
}

func pathCause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
