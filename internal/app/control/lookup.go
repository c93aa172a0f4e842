package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Found is a flow that can be run.
type Found struct {
	Bundle   thread.Bundle     // the flow and all flows that it calls
	Object   store.Object      // the bundle's node
	Files    map[string][]byte // project files it was read from, including those of called flows, by absolute path
	Problems []flow.Problem    // warnings

	// DefinesAgents means that Files say how agents are run, or what they may do; see [flow.Definition.DefinesAgents].
	DefinesAgents bool
}

// Find looks a flow up by name: a path; the project's flows from dir upward; the registry; a hash prefix of a
// bundle; the flows built into Plait. A *flow.InvalidError lists everything that is wrong with the flow's file.
// An error that matches store.ErrNotFound lists where it looked.
func (c *Controller) Find(ctx context.Context, dir, name string) (Found, error) {
	if file, ok := parse.Find(dir, name, exists); ok {
		files := recorded{}
		find := func(dir, name string) (string, bool) { return parse.Find(dir, name, exists) }
		kept := func(name string) ([]*flow.Definition, error) { return c.Kept(ctx, name) }
		flows, problems := parse.LoadAll(files, file, find, kept)
		if flow.Failed(problems) || len(flows) == 0 {
			return Found{}, &flow.InvalidError{Problems: problems}
		}
		f, err := Pack(flows[0], flows[1:]...)
		f.Files, f.Problems = files, problems
		f.DefinesAgents = slices.ContainsFunc(flows, (*flow.Definition).DefinesAgents)
		return f, err
	}
	ext := filepath.Ext(name)
	if strings.ContainsAny(name, `/\`) || ext == ".yaml" || ext == ".yml" || name == "." || name == ".." {
		file := filepath.FromSlash(name)
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			return Found{}, usage("%s is a directory, and has no index.yaml: name a flow's file", name)
		}
		return Found{}, fmt.Errorf("no such file: %s: %w", name, store.ErrNotFound)
	}
	if h, ok, err := c.keptHash(ctx, name); err != nil {
		return Found{}, err
	} else if ok {
		return c.bundle(ctx, h)
	}
	if flows, ok := parse.LoadBuiltIn(name); ok {
		return Pack(flows[0], flows[1:]...)
	}
	return Found{}, fmt.Errorf("no flow %q: %w", name, store.ErrNotFound)
}

// keptHash returns the bundle in the store that a name or a hash prefix means.
func (c *Controller) keptHash(ctx context.Context, name string) (dag.Hash, bool, error) {
	reg, err := c.cfg.Store.Flow(ctx, name)
	if err == nil {
		return reg.Hash, true, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return dag.Hash{}, false, fmt.Errorf("look up flow %s: %w", name, err)
	}
	h, ok, err := c.byPrefix(ctx, name)
	if err != nil {
		return dag.Hash{}, false, fmt.Errorf("look up flow %s: %w", name, err)
	}
	return h, ok, nil
}

// Kept returns a flow of the registry, or of a bundle by its hash prefix, followed by the flows that it calls;
// none if there is no such flow. [parse.LoadAll] calls it for flows that are in no file.
func (c *Controller) Kept(ctx context.Context, name string) ([]*flow.Definition, error) {
	h, ok, err := c.keptHash(ctx, name)
	if err != nil || !ok {
		return nil, err
	}
	b, err := c.reader.Bundle(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("look up flow %s: %w", name, err)
	}
	names := []string{b.Name}
	for _, other := range slices.Sorted(maps.Keys(b.Flows)) {
		if other != b.Name {
			names = append(names, other)
		}
	}
	flows := make([]*flow.Definition, len(names))
	for i, n := range names {
		flows[i] = &flow.Definition{}
		if err := json.Unmarshal(b.Flows[n], flows[i]); err != nil {
			return nil, fmt.Errorf("look up flow %s: read flow %s of bundle %s: %w", name, n, h.Short(), err)
		}
	}
	return flows, nil
}

// byPrefix finds the one bundle whose hash begins with prefix.
func (c *Controller) byPrefix(ctx context.Context, prefix string) (dag.Hash, bool, error) {
	if len(prefix) < dag.MinPrefix {
		return dag.Hash{}, false, nil
	}
	hashes, err := c.cfg.Store.Resolve(ctx, prefix, 2)
	if err != nil || len(hashes) != 1 {
		return dag.Hash{}, false, err
	}
	n, err := c.reader.Node(ctx, hashes[0])
	if errors.Is(err, store.ErrNotFound) { // it is a blob, or was collected meanwhile
		return dag.Hash{}, false, nil
	}
	return hashes[0], err == nil && n.Type == dag.TypeFlow, err
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

// A recorded source reads files and remembers their contents.
type recorded map[string][]byte

func (r recorded) ReadFile(name string) ([]byte, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(abs, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: not a regular file", abs)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFlowFile))
	if err == nil {
		r[abs] = data
	}
	return data, err
}

// maxFlowFile is how many bytes of a file are read: more than a flow may have.
const maxFlowFile = 2 << 20

// Pack makes a bundle of a flow and the flows that it calls.
func Pack(def *flow.Definition, called ...*flow.Definition) (Found, error) {
	b := thread.Bundle{Name: def.Name, Flows: map[string]json.RawMessage{}}
	for _, d := range append([]*flow.Definition{def}, called...) {
		raw, err := json.Marshal(d)
		if err != nil {
			return Found{}, fmt.Errorf("pack flow %s: %w", d.Name, err)
		}
		b.Flows[d.Name] = raw
	}
	obj, err := thread.NewNode(dag.TypeFlow, b)
	if err != nil {
		return Found{}, fmt.Errorf("pack flow %s: %w", def.Name, err)
	}
	return Found{Bundle: b, Object: obj}, nil
}
