package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

// maxSubmitted is how many entries an answer may submit.
const maxSubmitted = 200

// A submitted entry is evidence that an agent points out in its answer.
type submitted struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Title     string `json:"title"`
	Summary   string `json:"summary"`
	Path      string `json:"path"`
	StartLine *int   `json:"startLine"`
	EndLine   *int   `json:"endLine"`
	Command   string `json:"command"` // of a command: its command line, or the id of its entry
}

// readSubmitted reads the field evidence of meta: entries, and citations of others. Unless strict, it ignores a
// field of another form: a flow may use the word for something else.
func readSubmitted(meta json.RawMessage, strict bool) (entries []submitted, cited []string, problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var fields map[string]json.RawMessage
	if json.Unmarshal(meta, &fields) != nil || len(fields["evidence"]) == 0 || string(fields["evidence"]) == "null" {
		return nil, nil, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(fields["evidence"], &list) != nil {
		if strict {
			bad("evidence must be a list of ids and entries")
		}
		return nil, nil, problems
	}
	for i, item := range list {
		var id string
		if json.Unmarshal(item, &id) == nil {
			if strict {
				cited = append(cited, strings.TrimPrefix(id, "evidence:"))
			}
			continue
		}
		var kind struct {
			Kind any `json:"kind"`
		}
		known := json.Unmarshal(item, &kind) == nil &&
			(kind.Kind == thread.FileAnchor || kind.Kind == thread.CommandExecution)
		if !known {
			if strict {
				bad("evidence[%d]: want the id of an entry, or an object whose kind is %s or %s", i, thread.FileAnchor,
					thread.CommandExecution)
			}
			continue
		}
		if len(entries) == maxSubmitted {
			bad("evidence has more than %d entries: keep those that prove something", maxSubmitted)
			break
		}
		var h submitted
		if err := json.Unmarshal(item, &h); err != nil {
			bad("evidence[%d]: %s", i, strings.TrimPrefix(err.Error(), "json: "))
			continue
		}
		if what := h.wrong(); what != "" {
			bad("evidence[%d]: %s", i, what)
			continue
		}
		if slices.ContainsFunc(entries, func(o submitted) bool { return o.ID == h.ID }) {
			bad("evidence[%d]: the id %s is a duplicate", i, h.ID)
			continue
		}
		entries = append(entries, h)
	}
	return entries, cited, problems
}

// wrong returns what is wrong with the form of an entry, or "".
func (h submitted) wrong() string {
	switch {
	case !thread.LocalID(h.ID):
		return fmt.Sprintf("the id %q must be lower-case letters, digits and hyphens, at most 32 of them",
			event.Brief(h.ID))
	case numbered.MatchString(h.ID):
		return fmt.Sprintf("the id %s is reserved for commands, file changes and tool calls: choose another",
			h.ID)
	case oneLine(h.Title) == "":
		return fmt.Sprintf("%s has no title", h.ID)
	case h.Kind == thread.FileAnchor && h.Path == "":
		return fmt.Sprintf("%s has no path", h.ID)
	case h.Kind == thread.CommandExecution && h.Command == "":
		return fmt.Sprintf("%s must name in command a command that you ran: its line, or its id "+
			"(cmd-1 is the first of your first turn)", h.ID)
	case h.StartLine == nil && h.EndLine != nil:
		return fmt.Sprintf("%s has an endLine but no startLine", h.ID)
	case h.StartLine != nil && *h.StartLine < 1, h.EndLine != nil && *h.EndLine < *h.StartLine:
		return fmt.Sprintf("%s: lines count from 1, and endLine is not before startLine", h.ID)
	}
	return ""
}

// submitted makes evidence of a submitted entry, or returns what is wrong with it.
func (r *recorder) submitted(ctx context.Context, h submitted) (ev *thread.Evidence, problem string,
	err error) {
	if r.known.Has(thread.FullID(r.Attempt.Instance, h.ID)) {
		return nil, "you have used this id before: choose another", nil
	}
	ev = r.entry(h.ID, h.Kind, oneLine(h.Title), h.Summary)
	if h.Kind == thread.CommandExecution {
		ran := r.ran[h.Command]
		if ran == nil {
			ran = r.lines[h.Command]
		}
		if ran == nil {
			return nil, fmt.Sprintf("no command %q was seen in this turn: name one that ended, by its line or its id",
				event.Brief(h.Command)), nil
		}
		if ran.Unfinished() {
			return nil, fmt.Sprintf("the command %q proves nothing: %s", event.Brief(h.Command), ran.Summary), nil
		}
		ev.Sources = append(ev.Sources, ran.Sources...)
		ev.ArtifactRefs = ran.ArtifactRefs
	}
	if h.Path != "" {
		src, problem, err := r.anchor(ctx, h)
		if problem != "" || err != nil {
			return nil, problem, err
		}
		ev.Sources = append(ev.Sources, src)
	}
	return ev, "", nil
}

// anchor resolves the place in a file that an entry names.
func (r *recorder) anchor(ctx context.Context, h submitted) (src thread.EvidenceSource, problem string,
	err error) {
	path, inside := r.files.place(h.Path)
	if !inside {
		return src, fmt.Sprintf("the path %q does not lie in the working tree: give one relative to your "+
			"working directory", event.Brief(h.Path)), nil
	}
	start, end := 1, int(^uint(0)>>1)
	if h.StartLine != nil {
		start = *h.StartLine
		end = start
		if h.EndLine != nil {
			end = *h.EndLine
		}
	}
	found, err := r.files.anchor(path, start, end)
	switch {
	case errors.Is(err, thread.ErrAnchor):
		return src, fmt.Sprintf("%s: at most %d MiB of a file and %d MiB of its lines can be anchored, and %d MiB "+
			"in one answer",
			h.Path, thread.MaxAnchored>>20, thread.MaxAnchorText>>20, maxAnchorRead>>20), nil
	case err != nil:
		return src, fmt.Sprintf("%s: %s", h.Path, err), nil
	case h.StartLine != nil && end > found.Lines:
		return src, fmt.Sprintf("%s has %d lines, so there is no line %d", h.Path, found.Lines, end), nil
	}
	src = thread.EvidenceSource{Path: &path, Hash: found.Hash, Tree: r.tree()}
	if h.StartLine != nil {
		src.StartLine, src.EndLine = &start, &end
	}
	text := r.cfg.Secrets.Bytes(found.Text)
	if src.Blob, err = r.Bytes.Keep(ctx, bytes.NewReader(text), int64(len(text))); err != nil {
		return src, "", err
	}
	return src, "", nil
}

// oneLine makes a title from a text: its first line, without control characters.
func oneLine(s string) string {
	const most = 201
	s, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	s = strings.TrimSpace(s)
	if short := text.Shorten(s, most); short != s || !more {
		return short
	}
	return s + " …"
}
