package view

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// Limits on text diffs.
const (
	diffTextMax = 1 << 20  // bytes of each text; for longer ones the diff only says that they differ
	diffMax     = 64 << 10 // bytes of a diff
)

// A Diff compares two chains from where they diverge.
type Diff struct {
	Common Common     `json:"common"`
	A      DiffSide   `json:"a"`
	B      DiffSide   `json:"b"`
	Steps  []DiffPair `json:"steps"`
}

// A Common is the shared part: n steps, the newest of which is hash. If n is 0, hash is the
// shared start, or null.
type Common struct {
	N    int      `json:"n"`
	Hash dag.Hash `json:"hash"`
}

// A DiffSide is one of the two chains.
type DiffSide struct {
	ID      string       `json:"id"` // "" for a step
	Short   string       `json:"short"`
	Flow    string       `json:"flow"`
	Status  store.Status `json:"status"`
	Display Display      `json:"display"`
	Head    dag.Hash     `json:"head"`
	Steps   int          `json:"steps"`
	Usage   store.Usage  `json:"usage"` // of the steps after the common ones
}

// A DiffPair is two steps that correspond, or a step without a counterpart.
type DiffPair struct {
	N     int        `json:"n"`
	A     *DiffStep  `json:"a"`
	B     *DiffStep  `json:"b"`
	Same  bool       `json:"same"`  // role, meta, text and artifacts are the same
	Meta  []string   `json:"meta"`  // keys that differ
	Files []DiffFile `json:"files"` // artifacts that differ
	Text  string     `json:"text"`  // unified diff, "" when the texts are the same
	Cut   bool       `json:"cut"`   // text is truncated
}

// A DiffStep is a step on one side.
type DiffStep struct {
	N           int               `json:"n"`
	Hash        dag.Hash          `json:"hash"`
	Role        string            `json:"role"`
	Meta        json.RawMessage   `json:"meta"`
	Content     dag.Hash          `json:"content"`
	Artifacts   []Artifact        `json:"artifacts"`
	ChildThread dag.Hash          `json:"childThread"`
	Paths       []thread.PathHead `json:"paths"`
	Usage       store.Usage       `json:"usage"`
	Tree        *string           `json:"tree"` // the git tree after the step

	text string
}

// A DiffFile is an artifact of either side.
type DiffFile struct {
	Name string    `json:"name"`
	A    *Artifact `json:"a"`
	B    *Artifact `json:"b"`
}

// Diff compares two threads, or the chains of two steps.
func (b *Reader) Diff(ctx context.Context, left, right Subject) (*Diff, error) {
	v := &Diff{Steps: []DiffPair{}}
	var sides [2]thread.Side
	asked, err := b.openQuestions(ctx)
	if err != nil {
		return nil, err
	}
	names := b.Names()
	for i, what := range []Subject{left, right} {
		d := DiffSide{ID: what.Row.ID, Flow: what.Row.Flow, Status: b.status(ctx, what.Row), Head: what.Head,
			Steps: what.Row.Steps}
		if d.ID == "" { // the steps of a step's chain have not been counted
			if d.Steps, err = b.Nodes.Length(ctx, what.Head); err != nil {
				return nil, err
			}
		} else {
			d.Short = names.Of(ctx, what.Row)
			d.Display = NewDisplay(d.Status, reason(what.Row), asked[d.ID])
		}
		sides[i] = thread.Side{Head: what.Head, Steps: d.Steps}
		*[]*DiffSide{&v.A, &v.B}[i] = d
	}
	found, err := b.Nodes.Diff(ctx, sides[0], sides[1])
	if err != nil {
		return nil, err
	}
	v.Common = Common{found.N, found.Common}
	for _, p := range found.Pairs {
		pair := DiffPair{Same: p.Same, Meta: []string{}, Files: []DiffFile{}}
		if pair.A, err = b.diffStep(ctx, p.A); err != nil {
			return nil, err
		}
		if pair.B, err = b.diffStep(ctx, p.B); err != nil {
			return nil, err
		}
		if pair.A != nil {
			pair.N = pair.A.N
			v.A.Usage = v.A.Usage.Add(pair.A.Usage)
		}
		if pair.B != nil {
			pair.N = max(pair.N, pair.B.N)
			v.B.Usage = v.B.Usage.Add(pair.B.Usage)
		}
		pair.compare()
		v.Steps = append(v.Steps, pair)
	}
	return v, nil
}

func (b *Reader) diffStep(ctx context.Context, p *thread.NumberedStep) (*DiffStep, error) {
	if p == nil {
		return nil, nil
	}
	s, err := b.step(ctx, p.Step, p.N)
	if err != nil {
		return nil, err
	}
	d := &DiffStep{
		N: s.N, Hash: s.Hash, Role: s.Role, Meta: s.Meta, Content: s.Content, Artifacts: s.Artifacts,
		ChildThread: s.ChildThread, Paths: s.Paths, Usage: s.Usage, text: s.Text,
	}
	if s.Detail != nil {
		d.Tree = s.Detail.TreeAfter
	}
	return d, nil
}

// compare fills in the differences between the two steps.
func (p *DiffPair) compare() {
	if p.Same {
		return
	}
	var a, b DiffStep
	if p.A != nil {
		a = *p.A
	}
	if p.B != nil {
		b = *p.B
	}
	p.Meta = changedKeys(a.Meta, b.Meta)
	p.Files = changedFiles(a.Artifacts, b.Artifacts)
	p.Text, p.Cut = diffTexts(a.text, b.text)
}

// changedKeys returns the keys whose values differ.
func changedKeys(a, b json.RawMessage) []string {
	var x, y map[string]json.RawMessage
	json.Unmarshal(a, &x) // stored meta is an object; a missing step has none
	json.Unmarshal(b, &y)
	keys := []string{}
	for _, k := range slices.Sorted(maps.Keys(x)) {
		if other, ok := y[k]; !ok || !bytes.Equal(x[k], other) { // stored meta is canonical
			keys = append(keys, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(y)) {
		if _, ok := x[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// changedFiles returns the artifacts that differ, by name.
func changedFiles(a, b []Artifact) []DiffFile {
	files := map[string]*DiffFile{}
	at := func(name string) *DiffFile {
		if files[name] == nil {
			files[name] = &DiffFile{Name: name}
		}
		return files[name]
	}
	for i := range a {
		at(a[i].Name).A = &a[i]
	}
	for i := range b {
		at(b[i].Name).B = &b[i]
	}
	out := []DiffFile{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if f := files[name]; f.A == nil || f.B == nil || f.A.Hash != f.B.Hash {
			out = append(out, *f)
		}
	}
	return out
}

// diffTexts returns a unified diff of two texts, and reports whether it is truncated.
func diffTexts(a, b string) (string, bool) {
	if a == b {
		return "", false
	}
	if len(a) > diffTextMax || len(b) > diffTextMax {
		return fmt.Sprintf("@@ texts of %d and %d bytes @@\n", len(a), len(b)), true
	}
	text := string(diff.Diff("a", []byte(a), "b", []byte(b)))
	if _, hunks, ok := strings.Cut(text, "+++ b\n"); ok {
		text = hunks
	}
	if len(text) <= diffMax {
		return text, false
	}
	whole := strings.LastIndexByte(text[:diffMax], '\n') + 1
	if whole == 0 { // a single very long line
		whole = diffMax
	}
	return strings.ToValidUTF8(text[:whole], ""), true
}
