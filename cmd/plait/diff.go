package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// Bounds of what thread diff prints of a text.
const (
	diffTextMax  = 1 << 20  // bytes of each text; longer ones are only said to differ
	diffMax      = 64 << 10 // bytes of a diff
	diffFewLines = 40       // lines on a terminal, without --full
)

// A diffView is two chains, from where they part.
type diffView struct {
	Common diffCommon `json:"common"`
	A      diffThread `json:"a"`
	B      diffThread `json:"b"`
	Steps  []diffPair `json:"steps"`
}

// A diffCommon is what both have: n steps, the newest of them under hash. With n 0
// hash is the start that both have, or null.
type diffCommon struct {
	N    int      `json:"n"`
	Hash dag.Hash `json:"hash"`
}

type diffThread struct {
	ID     string      `json:"id"` // "" for a step
	Flow   string      `json:"flow"`
	Status string      `json:"status"`
	Head   dag.Hash    `json:"head"`
	Steps  int         `json:"steps"`
	Usage  store.Usage `json:"usage"` // of the steps after the common ones
}

// A diffPair is two steps that stand against each other, or one alone.
type diffPair struct {
	N     int        `json:"n"`
	A     *diffStep  `json:"a"`
	B     *diffStep  `json:"b"`
	Same  bool       `json:"same"`  // role, meta, text and artifacts are the same
	Meta  []string   `json:"meta"`  // keys that differ
	Files []diffFile `json:"files"` // artifacts that differ
	Text  string     `json:"text"`  // unified diff, "" when the texts are the same
	Cut   bool       `json:"cut"`   // text is not all of it
}

type diffStep struct {
	N           int               `json:"n"`
	Hash        dag.Hash          `json:"hash"`
	Role        string            `json:"role"`
	Meta        json.RawMessage   `json:"meta"`
	Content     dag.Hash          `json:"content"`
	Artifacts   []artifactView    `json:"artifacts"`
	ChildThread dag.Hash          `json:"childThread"`
	Paths       []thread.PathHead `json:"paths"`
	Usage       store.Usage       `json:"usage"`
	Tree        *string           `json:"tree"` // the git tree that it left

	text string
}

// A diffFile is an artifact on either side.
type diffFile struct {
	Name string        `json:"name"`
	A    *artifactView `json:"a"`
	B    *artifactView `json:"b"`
}

func (a *app) threadDiffCmd() *cobra.Command {
	var whole bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two threads or steps from where they part",
		Long: `Compare two threads, or the chains of two steps. What they share is found by hash and
left out; after that steps of the same role stand against each other: role, meta, text,
artifacts. Tokens and cost are those of the steps after the common ones. The exit code
is 0 whether or not they differ.`,
		Args: exactly(2, "two threads or steps"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeThreads()(cmd, nil, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, left, err := a.openShown(ctx, args[0])
			if err != nil {
				return err
			}
			right, err := w.shown(ctx, args[1])
			if err != nil {
				return err
			}
			v, err := w.diff(ctx, left, right)
			if err != nil {
				return err
			}
			return a.print(cmd, v, func(out io.Writer) { a.writeDiff(out, v, whole) })
		},
	}
	cmd.Flags().BoolVar(&whole, "full", false, "print each text's difference whole")
	return cmd
}

func (w *workplace) diff(ctx context.Context, left, right shown) (*diffView, error) {
	v := &diffView{Steps: []diffPair{}}
	var sides [2]thread.Side
	for i, what := range []shown{left, right} {
		d := diffThread{ID: what.row.ID, Flow: what.row.Flow, Status: w.shownStatus(ctx, what.row), Head: what.head, Steps: what.row.Steps}
		if d.ID == "" { // nobody has counted
			var err error
			if d.Steps, err = w.control.Reader().Length(ctx, what.head); err != nil {
				return nil, err
			}
		}
		sides[i] = thread.Side{Head: what.head, Steps: d.Steps}
		*[]*diffThread{&v.A, &v.B}[i] = d
	}
	found, err := w.control.Reader().Diff(ctx, sides[0], sides[1])
	if err != nil {
		return nil, err
	}
	v.Common = diffCommon{found.N, found.Common}
	for _, p := range found.Pairs {
		pair := diffPair{Same: p.Same, Meta: []string{}, Files: []diffFile{}}
		if pair.A, err = w.diffStep(ctx, p.A); err != nil {
			return nil, err
		}
		if pair.B, err = w.diffStep(ctx, p.B); err != nil {
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

func (w *workplace) diffStep(ctx context.Context, p *thread.Placed) (*diffStep, error) {
	if p == nil {
		return nil, nil
	}
	s, err := w.step(ctx, p.Step, p.N)
	if err != nil {
		return nil, err
	}
	d := &diffStep{
		N: s.N, Hash: s.Hash, Role: s.Role, Meta: s.Meta, Content: s.Content, Artifacts: s.Artifacts,
		ChildThread: s.ChildThread, Paths: s.Paths, Usage: s.Usage, text: s.Text,
	}
	if s.Detail != nil {
		d.Tree = s.Detail.TreeAfter
	}
	return d, nil
}

// compare fills in how the two steps differ.
func (p *diffPair) compare() {
	if p.Same {
		return
	}
	var a, b diffStep
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

// changedKeys returns the keys of two objects whose values are not the same.
func changedKeys(a, b json.RawMessage) []string {
	var x, y map[string]json.RawMessage
	json.Unmarshal(a, &x) // stored meta is an object; a step that is not there has none
	json.Unmarshal(b, &y)
	keys := []string{}
	for _, k := range sortedKeys(x) {
		if other, ok := y[k]; !ok || !bytes.Equal(x[k], other) { // stored meta is canonical
			keys = append(keys, k)
		}
	}
	for _, k := range sortedKeys(y) {
		if _, ok := x[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// changedFiles returns the artifacts that differ, by name.
func changedFiles(a, b []artifactView) []diffFile {
	files := map[string]*diffFile{}
	at := func(name string) *diffFile {
		if files[name] == nil {
			files[name] = &diffFile{Name: name}
		}
		return files[name]
	}
	for i := range a {
		at(a[i].Name).A = &a[i]
	}
	for i := range b {
		at(b[i].Name).B = &b[i]
	}
	out := []diffFile{}
	for _, name := range sortedKeys(files) {
		if f := files[name]; f.A == nil || f.B == nil || f.A.Hash != f.B.Hash {
			out = append(out, *f)
		}
	}
	return out
}

// diffTexts returns a unified diff of two texts, and whether it is not all of it.
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
	if whole == 0 { // one very long line
		whole = diffMax
	}
	return strings.ToValidUTF8(text[:whole], ""), true
}
