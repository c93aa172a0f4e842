package attest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// What a bundle without the record can have besides its proof.
const (
	ShowPrompts     = "prompts"
	ShowTranscripts = "transcripts"
)

// Shown returns the texts that a change names by their hashes: of its prompts, or transcripts. A prompt is its node and
// the text whose SHA-256 that node has, so that nothing else of the conversation is shown. Texts from which something
// was redacted are left out.
func Shown(ctx context.Context, s store.Objects, c Change, what []string) ([]store.Object, error) {
	all := map[dag.Hash][]byte{}
	add := func(data []byte) { all[dag.Sum(data)] = data }
	for _, h := range c.named(what) {
		r, e, err := s.Open(ctx, h)
		if err != nil {
			return nil, fmt.Errorf("read what a step names: %w", err)
		}
		data, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, fmt.Errorf("read what a step names: %w", err)
		}
		if dag.Sum(data) != h {
			continue
		}
		add(data)
		want := dag.Hash{}
		if e.Kind == store.Node {
			want = textOf(data)
		}
		if want.IsZero() {
			continue
		}
		text, err := prompt.Read(ctx, thread.NewReader(s), h)
		if err != nil && !errors.Is(err, dag.ErrMalformed) { // which it may be if a part of it was redacted
			return nil, fmt.Errorf("read what a step names: %w", err)
		}
		if dag.SumText(text) == want {
			add([]byte(text))
		}
	}
	list := make([]store.Object, 0, len(all))
	for h, data := range all {
		list = append(list, store.Object{Hash: h, Data: data})
	}
	slices.SortFunc(list, func(a, b store.Object) int { return strings.Compare(a.Hash.String(), b.Hash.String()) })
	return list, nil
}

// named returns the hashes of prompts or transcripts.
func (c Change) named(what []string) (all []dag.Hash) {
	for _, s := range c.Steps {
		if slices.Contains(what, ShowPrompts) {
			all = append(all, s.Prompt)
		}
		if slices.Contains(what, ShowTranscripts) {
			all = append(all, s.Transcript)
		}
	}
	if slices.Contains(what, ShowPrompts) {
		all = append(all, c.Task.Prompt)
	}
	return slices.DeleteFunc(all, dag.Hash.IsZero)
}

// textOf returns the SHA-256 of the text of a prompt, zero if data is no prompt.
func textOf(data []byte) dag.Hash {
	var p prompt.Node
	node, err := dag.Decode(data)
	if err != nil || node.Type != dag.TypePrompt || node.Unmarshal(&p) != nil {
		return dag.Hash{}
	}
	return p.SHA256
}

// shown checks what a bundle without the record has besides its proof: texts that the statement names, as they were.
func (v *verifier) shown() error {
	sums := map[dag.Hash]bool{}
	for _, h := range v.change.named([]string{ShowTranscripts}) {
		sums[h] = true
	}
	for _, h := range v.change.named([]string{ShowPrompts}) {
		if sums[h] = true; v.files.files[objects+h.String()] == nil {
			continue
		}
		data, err := v.files.read(objects+h.String(), dag.MaxBytes)
		if err != nil {
			return err
		}
		sums[textOf(data)] = true
	}
	for name, f := range v.files.files {
		if slices.Contains([]string{fileEnvelope, fileCheckpoint, fileEntries}, name) {
			continue
		}
		object, is := strings.CutPrefix(name, objects)
		h, err := dag.ParseHash(object)
		if !is || err != nil || !sums[h] {
			return refused("bundle: it has %s, and no manifest.json", clip(name))
		}
		got, err := sumFile(f, &v.files.left)
		if err != nil {
			return err
		}
		if got != h {
			return refused("bundle: %s is not what it was: its bytes have another sum", clip(name))
		}
		v.report.Shown++
	}
	return nil
}
