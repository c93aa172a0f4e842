package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A Found flow is one that can be run.
type Found struct {
	Bundle   thread.Bundle
	Object   store.Object      // the bundle's node
	Files    map[string][]byte // project files it was read from, by absolute path
	Problems []flow.Problem    // warnings
}

// Find looks a flow up by name: a path; the project's flows from dir upward; the
// registry; a hash prefix of a bundle; what comes with Plait. A *flow.InvalidError lists all that is
// wrong with its file. store.ErrNotFound says where was looked.
func (c *Controller) Find(ctx context.Context, dir, name string) (Found, error) {
	if file, ok := flow.Find(dir, name, exists); ok {
		return load(file)
	}
	if strings.ContainsAny(name, `/\`) || filepath.Ext(name) == ".yaml" || filepath.Ext(name) == ".yml" {
		return Found{}, fmt.Errorf("flow %s: no such file: %w", name, store.ErrNotFound)
	}
	reg, err := c.cfg.Store.Flow(ctx, name)
	if err == nil {
		return c.bundle(ctx, reg.Hash)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return Found{}, fmt.Errorf("look up flow %s: %w", name, err)
	}
	if h, ok := c.byPrefix(ctx, name); ok {
		return c.bundle(ctx, h)
	}
	if def, ok := flow.BuiltIn(name); ok {
		return pack(def)
	}
	return Found{}, fmt.Errorf("flow %q: not a file, not in .plait/flows or .workflows up to the repository root, not in the registry, not the hash of a bundle, and not built in: %w", name, store.ErrNotFound)
}

// byPrefix finds the one bundle whose hash begins with prefix.
func (c *Controller) byPrefix(ctx context.Context, prefix string) (dag.Hash, bool) {
	if len(prefix) < dag.MinPrefix {
		return dag.Hash{}, false
	}
	hashes, err := c.cfg.Store.Resolve(ctx, prefix, 2)
	if err != nil || len(hashes) != 1 {
		return dag.Hash{}, false
	}
	n, err := c.reader.Node(ctx, hashes[0])
	return hashes[0], err == nil && n.Type == dag.TypeFlow
}

func (c *Controller) bundle(ctx context.Context, h dag.Hash) (Found, error) {
	b, err := c.reader.Bundle(ctx, h)
	if err != nil {
		return Found{}, fmt.Errorf("look up flow: %w", err)
	}
	obj, err := thread.NewNode(dag.TypeFlow, b)
	return Found{Bundle: *b, Object: obj}, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A recorded source reads files and remembers what it read.
type recorded map[string][]byte

func (r recorded) ReadFile(name string) ([]byte, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(abs)
	if err == nil {
		r[abs] = data
	}
	return data, err
}

// load reads a flow from its file and makes a bundle of it.
func load(file string) (Found, error) {
	files := recorded{}
	def, problems := flow.Load(files, file)
	if flow.Failed(problems) || def == nil {
		return Found{}, &flow.InvalidError{Problems: problems}
	}
	f, err := pack(def)
	f.Files, f.Problems = files, problems
	return f, err
}

func pack(def *flow.Definition) (Found, error) {
	raw, err := json.Marshal(def)
	if err != nil {
		return Found{}, fmt.Errorf("pack flow %s: %w", def.Name, err)
	}
	b := thread.Bundle{Name: def.Name, Flows: map[string]json.RawMessage{def.Name: raw}}
	obj, err := thread.NewNode(dag.TypeFlow, b)
	if err != nil {
		return Found{}, fmt.Errorf("pack flow %s: %w", def.Name, err)
	}
	return Found{Bundle: b, Object: obj}, nil
}
