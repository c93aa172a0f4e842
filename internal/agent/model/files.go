package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/text"
)

// Limits on what a model is shown at once.
const (
	maxFile     = 8 << 20  // bytes of a file that can be read
	maxShown    = 64 << 10 // bytes
	maxLines    = 2000
	maxMatches  = 200
	maxMatch    = 300     // bytes of a matching line
	maxSearched = 50_000  // files
	maxRead     = 1 << 30 // bytes of the files that one search reads
)

// files are the files that an agent can reach: directories that no path leads out of.
type files struct {
	dir    string // base of relative paths
	places []place
	names  *strings.Replacer // of places, as commands know them
}

type place struct {
	dir   string // absolute, without links
	root  *os.Root
	write bool
	tree  bool // it is the working tree, which has protected files
}

// openFiles opens the working tree, the artifacts and the part of the record that the agent may
// read.
func openFiles(req agent.Request, dir string) (*files, error) {
	f := &files{dir: dir, names: strings.NewReplacer("$PLAIT_ARTIFACTS/", req.Desk.Artifacts+"/",
		"$PLAIT_CONTEXT/", req.Desk.Context+"/")}
	for _, p := range []place{
		{dir: req.Dir, write: req.Access != agent.Read, tree: true},
		{dir: req.Desk.Artifacts, write: true},
		{dir: req.Desk.Context},
	} {
		if p.dir == "" {
			continue
		}
		var err error
		if p.dir, err = filepath.EvalSymlinks(p.dir); err == nil {
			p.root, err = os.OpenRoot(p.dir)
		}
		if err != nil {
			f.close()
			return nil, fmt.Errorf("open what the agent may reach: %w", err)
		}
		f.places = append(f.places, p)
	}
	return f, nil
}

// path returns a path that may begin with the name of a place.
func (f *files) path(name string) string {
	if !strings.HasPrefix(name, "$PLAIT_") {
		return name
	}
	return strings.TrimSuffix(f.names.Replace(name+"/"), "/")
}

func (f *files) close() {
	for _, p := range f.places {
		p.root.Close()
	}
}

// find returns the place of a path and its name there. Links are followed as long as they stay
// inside.
func (f *files) find(name string) (place, string, error) {
	if strings.ContainsRune(name, 0) {
		return place{}, "", errors.New("a path has no zero byte")
	}
	full := name
	if !filepath.IsAbs(full) {
		full = filepath.Join(f.dir, full)
	}
	real, err := agent.Target(filepath.Clean(full))
	if err != nil {
		return place{}, "", fmt.Errorf("%s leads through too many links", name)
	}
	for _, p := range slices.Backward(f.places) { // artifacts may be inside the tree
		if rel, err := filepath.Rel(p.dir, real); err == nil && filepath.IsLocal(rel) {
			return p, rel, nil
		}
	}
	return place{}, "", fmt.Errorf("%s is not in the working directory, in $PLAIT_ARTIFACTS or in $PLAIT_CONTEXT", name)
}

// load returns a file's content; nil if it does not exist.
func (f *files) load(name string) (p place, rel string, data []byte, err error) {
	if p, rel, err = f.find(name); err != nil {
		return p, rel, nil, err
	}
	info, err := p.root.Stat(rel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p, rel, nil, nil
	case err != nil:
		return p, rel, nil, plain(name, err)
	case info.IsDir():
		return p, rel, nil, fmt.Errorf("%s is a directory", name)
	case !info.Mode().IsRegular():
		return p, rel, nil, fmt.Errorf("%s is no regular file", name)
	case info.Size() > maxFile:
		return p, rel, nil, fmt.Errorf("%s has %d bytes, over %d", name, info.Size(), maxFile)
	}
	if data, err = p.root.ReadFile(rel); err != nil {
		return p, rel, nil, plain(name, err)
	}
	if data == nil {
		data = []byte{}
	}
	return p, rel, data, nil
}

// plain returns an error with the path as the model wrote it.
func plain(name string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// read returns lines of a file, or the names in a directory.
func (f *files) read(name string, from, lines int) (string, error) {
	p, rel, err := f.find(name)
	if err != nil {
		return "", err
	}
	if info, err := p.root.Stat(rel); err == nil && info.IsDir() {
		return list(p, rel)
	}
	_, _, data, err := f.load(name)
	switch {
	case err != nil:
		return "", err
	case data == nil:
		return "", fmt.Errorf("%s does not exist", name)
	case binary(data):
		return "", fmt.Errorf("%s is no text: %d bytes", name, len(data))
	}
	all := slices.Collect(bytes.Lines(data))
	from, lines = max(from, 1), min(max(lines, 0), maxLines)
	if lines == 0 {
		lines = maxLines
	}
	var b strings.Builder
	at := from - 1
	for ; at < len(all) && at < from-1+lines && b.Len() < maxShown; at++ {
		b.WriteString(text.Clip(string(all[at]), maxShown))
	}
	switch {
	case len(all) > 0 && from > len(all):
		return "", fmt.Errorf("%s has only %d lines", name, len(all))
	case at < len(all) || from > 1:
		fmt.Fprintf(&b, "\n[lines %d to %d of %d]", from, at, len(all))
	case len(all) == 0:
		return "[the file is empty]", nil
	}
	return b.String(), nil
}

func list(p place, rel string) (string, error) {
	dir, err := p.root.Open(rel)
	if err != nil {
		return "", plain(rel, err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(maxLines)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", plain(rel, err)
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "[the directory is empty]", nil
	}
	if len(names) == maxLines {
		names = append(names, "[there may be more]")
	}
	return strings.Join(names, "\n"), nil
}

// binary reports whether data is not text.
func binary(data []byte) bool {
	head := data[:min(len(data), 8<<10)]
	short := len(head) == len(data) && !bytes.Contains(head, []byte{'\n'})
	return bytes.IndexByte(head, 0) >= 0 || short && !utf8.Valid(head)
}
