package evidence

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

// call makes an entry for a tool call: the lines of the transcript from the one that reports its start to the
// one that reports its end. Agents' reports do not distinguish tools that failed, were declined or were
// interrupted, so only a completed call proves something.
func (r *recorder) call(ctx context.Context, id string, d activity) (*thread.Evidence, error) {
	name := strings.ToValidUTF8(d.text, "\ufffd")
	said := "the tool answered"
	if d.phase != "completed" {
		said = "it failed, or was declined or interrupted before it ended"
	}
	ev := r.entry(id, thread.RuntimeEventRange, oneLine(name+" "+strings.ToValidUTF8(d.args, "\ufffd")),
		strings.Join(append([]string{said}, d.notes...), "; "))
	src := thread.EvidenceSource{StartLine: &d.lines[0], EndLine: &d.lines[1]}
	if d.phase == "completed" {
		ev.ArtifactRefs = r.named(d.args)
	}
	whole, lines, err := r.transcript(ctx, d)
	if err != nil {
		return nil, err
	}
	src.EventsRef = whole
	if d.phase == "completed" {
		src.Hash = lines
	}
	ev.Sources = append(ev.Sources, src)
	return ev, nil
}

// transcript returns the hash of the transcript that has a call, which is kept with the call's attempt, and the
// hash of the call's lines.
func (r *recorder) transcript(ctx context.Context, d activity) (whole, lines dag.Hash, err error) {
	open := func() (io.ReadCloser, error) {
		log, _, err := r.Desk.Transcript()
		return log, err
	}
	if d.attempt != r.Attempt.ID {
		for _, a := range r.Earlier {
			if a.ID == d.attempt {
				whole = a.Transcript
			}
		}
		if whole.IsZero() {
			return whole, lines, fmt.Errorf("attempt %s, which called a tool, has no transcript", d.attempt)
		}
		open = func() (io.ReadCloser, error) {
			log, _, err := r.cfg.Store.Open(ctx, whole)
			return log, err
		}
	}
	sum := func(from, to int) (dag.Hash, error) {
		log, err := open()
		if err != nil {
			return dag.Hash{}, err
		}
		defer log.Close()
		return thread.SumLines(log, from, to)
	}
	if whole.IsZero() {
		if r.said.IsZero() {
			if r.said, err = sum(1, int(^uint(0)>>1)); err != nil {
				return whole, lines, err
			}
		}
		whole = r.said
	}
	lines, err = sum(d.lines[0], d.lines[1])
	return whole, lines, err
}

// named lists the artifacts of the step whose paths text names, either in the artifacts directory itself or
// through the variable that holds it.
func (r *recorder) named(text string) []dag.Hash {
	refs := []dag.Hash{}
	text = strings.NewReplacer(`"`, "", "'", "", `\`, "").Replace(text)
	for i, name := range r.Names {
		dirs := []string{"$PLAIT_ARTIFACTS", "${PLAIT_ARTIFACTS}", r.Desk.Agent().Artifacts}
		names := func(dir string) bool { return dir != "" && hasPath(text, filepath.Join(dir, name)) }
		if slices.ContainsFunc(dirs, names) {
			refs = append(refs, r.Nodes[i])
		}
	}
	return refs
}

// hasPath reports whether text contains path, but not as the beginning of a longer path.
func hasPath(text, path string) bool {
	for {
		_, after, found := strings.Cut(text, path)
		if !found {
			return false
		}
		if after == "" || !isPathByte(after[0]) {
			return true
		}
		text = after
	}
}

func isPathByte(b byte) bool {
	return strings.IndexByte("._-/", b) >= 0 || b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z' || b >= 0x80
}

// appendNew appends to list those elements of more that it lacks.
func appendNew(list, more []dag.Hash) []dag.Hash {
	for _, h := range more {
		if !slices.Contains(list, h) {
			list = append(list, h)
		}
	}
	return list
}
