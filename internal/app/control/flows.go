package control

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/sys/text"
)

// Where a flow was found.
const (
	FromProject  = "project"
	FromRegistry = "registry"
	FromBuiltIn  = "built-in"
)

// A KnownFlow is a flow that can be run by its name.
type KnownFlow struct {
	Name        string `json:"name"`
	Source      string `json:"source"` // FromProject, FromRegistry or FromBuiltIn
	Description string `json:"description"`
	File        string `json:"file"` // of a project's flow, otherwise ""
}

// Flows lists the flows that Find can find by name from dir, each once: the project's, those in the registry
// and those built in. A flow whose file is broken has no description.
func (c *Controller) Flows(ctx context.Context, dir string) ([]KnownFlow, error) {
	var out []KnownFlow
	add := func(f KnownFlow) {
		if !slices.ContainsFunc(out, func(k KnownFlow) bool { return k.Name == f.Name }) {
			out = append(out, f)
		}
	}
	for _, file := range parse.ProjectFiles(dir, exists) {
		f := KnownFlow{Name: parse.FileName(file), Source: FromProject, File: file}
		if d, _ := parse.Load(recorded{}, file); d != nil {
			f.Description = d.Description
		}
		add(f)
	}
	kept, err := c.cfg.Store.Flows(ctx)
	if err != nil {
		return nil, fmt.Errorf("list flows: %w", err)
	}
	for _, k := range kept {
		f := KnownFlow{Name: k.Name, Source: FromRegistry}
		var d flow.Definition
		if b, err := c.reader.Bundle(ctx, k.Hash); err == nil && json.Unmarshal(b.Flows[b.Name], &d) == nil {
			f.Description = d.Description
		}
		add(f)
	}
	for _, name := range parse.BuiltIns() {
		if d, ok := parse.BuiltIn(name); ok {
			add(KnownFlow{Name: name, Source: FromBuiltIn, Description: d.Description})
		}
	}
	return out, nil
}

// Nearest returns the flow that a misspelled name most likely means, "" for none.
func (c *Controller) Nearest(ctx context.Context, dir, name string) string {
	flows, err := c.Flows(ctx, dir)
	if err != nil {
		return ""
	}
	names := make([]string, len(flows))
	for i, f := range flows {
		names[i] = f.Name
	}
	base := filepath.Base(name)
	if near := text.Nearest(strings.TrimSuffix(base, filepath.Ext(base)), names); near != "" {
		return near
	}
	if dir, _ := os.ReadDir(filepath.Dir(name)); strings.ContainsAny(name, `/\`) || filepath.Ext(name) != "" {
		var files []string
		for _, e := range dir {
			files = append(files, e.Name())
		}
		if near := text.Nearest(base, files); near != "" {
			return filepath.Join(filepath.Dir(name), near)
		}
	}
	return ""
}
