package codex

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/sys/proc"
)

// Package is the npm package of Codex.
var Package = host.Package{Name: "codex", Title: "Codex", NPM: "@openai/codex", Version: Version, Oldest: Version,
	Native: nativeProgram}

// Find looks for Codex: at path if that is not empty, otherwise in PATH and then in its CacheDir. It asks the program
// for its version. Errors: *host.MissingError.
func (h *Host) Find(ctx context.Context, path string) (host.Program, error) {
	return h.Host.Find(ctx, Package, path, nil)
}

// Where npm puts the native program, below node_modules/@openai.
const (
	binary = "codex-*/vendor/*/bin/codex"
	nested = "codex/node_modules/@openai/" + binary
)

// nativeProgram returns the native program for path, "" for none: a file, an npm prefix, or npm's launcher, which is a
// script next to the program that it starts. The launcher is bypassed: it would get the signals, and its process id
// would be the one we know.
func nativeProgram(path string) string {
	const modules = "node_modules/@openai/"
	real := proc.Installed(path, false, modules+binary, modules+nested, "lib/"+modules+binary, "lib/"+modules+nested)
	if real != "" && isScript(real) { // …/node_modules/@openai/codex/bin/codex.js
		return cmp.Or(proc.Installed(filepath.Join(filepath.Dir(real), "..", ".."), false, binary, nested), real)
	}
	return real
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
