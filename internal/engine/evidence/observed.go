package evidence

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/thread"
)

// kinds are the kinds of ids of the observed events.
var kinds = map[string]string{agent.EventCommand: "cmd", agent.EventFile: "change", agent.EventTool: "tool"}

// observed makes entries of the agent's activities.
func (r *recorder) observed(ctx context.Context) (made []*thread.Evidence, err error) {
	all := make([]occurrence, len(r.Seen.activities))
	for i, d := range r.Seen.activities {
		all[i] = occurrence{kinds[d.kind], d.turn}
	}
	ids := number(all, r.Turn, r.cited, func(id string) bool {
		return r.known.Has(thread.FullID(r.Attempt.Instance, id))
	})
	for i, d := range r.Seen.activities {
		var ev *thread.Evidence
		last := i == len(ids)-1
		switch d.kind {
		case agent.EventCommand:
			ev, err = r.command(ctx, ids[i], d)
			if err == nil && r.Plain && last && d.output == "" {
				err = r.logs(ctx, &ev.Sources[0]) // the program is the agent
			}
			if err == nil {
				r.ran[ev.ID] = ev
				if r.lines[d.text] == nil || !ev.Unfinished() {
					r.lines[d.text] = ev
				}
			}
		case agent.EventFile:
			ev, err = r.change(ctx, ids[i], d)
		default:
			ev, err = r.call(ctx, ids[i], d)
		}
		if err != nil {
			return nil, err
		}
		if r.Seen.missed > 0 && last {
			ev.Summary += fmt.Sprintf("; %d more commands, file changes and tool calls came after it and are not kept",
				r.Seen.missed)
		}
		r.own[ev.ID] = ev
		made = append(made, ev)
	}
	return made, nil
}

func (r *recorder) command(ctx context.Context, id string, d activity) (ev *thread.Evidence, err error) {
	text := strings.ToValidUTF8(d.text, "\ufffd")
	said, ended := []string{"it ended"}, true
	switch {
	case d.phase == "declined":
		said[0], ended = "it was declined and not run", false
	case d.exit != nil:
		said[0] = fmt.Sprintf("exit code %d", *d.exit)
	case d.phase == "failed":
		said[0], ended = "it was interrupted before it ended", false
	}
	ev = r.entry(id, thread.CommandExecution, cmp.Or(oneLine(text), "a command"),
		strings.Join(append(said, d.notes...), "; "))
	cwd := r.files.location
	src := thread.EvidenceSource{Command: []string{text}, Cwd: &cwd, ExitCode: d.exit, Tree: r.tree()}
	if ended {
		src.Hash = dag.Sum([]byte(d.output))
		ev.ArtifactRefs = r.named(d.text)
	} else {
		src.ExitCode = nil
	}
	if d.output != "" {
		if src.StdoutRef, err = r.Bytes.Keep(ctx, strings.NewReader(d.output), int64(len(d.output))); err != nil {
			return nil, err
		}
	}
	ev.Sources = append(ev.Sources, src)
	return ev, nil
}

// logs sets the raw logs of a program as its output.
func (r *recorder) logs(ctx context.Context, src *thread.EvidenceSource) error {
	out, _, err := r.Bytes.KeepLog(ctx, r.Desk.Transcript)
	if err != nil {
		return err
	}
	src.StdoutRef = out
	if !out.IsZero() {
		src.Hash = out
	}
	src.StderrRef, _, err = r.Bytes.KeepLog(ctx, r.Desk.StderrLog)
	return err
}

func (r *recorder) change(ctx context.Context, id string, d activity) (*thread.Evidence, error) {
	var said []string
	ev := r.entry(id, thread.FileAnchor, "", "")
	for _, f := range d.files {
		path, inside := r.files.place(f.Path)
		path = strings.ToValidUTF8(path, "\ufffd")
		src := thread.EvidenceSource{Path: &path}
		if inside {
			src.Tree = r.tree()
			if f.Change != "delete" {
				src.Hash = r.files.hash(path)
			}
		}
		if f.Diff != "" {
			var err error
			if src.Blob, err = r.Bytes.Keep(ctx, strings.NewReader(f.Diff), int64(len(f.Diff))); err != nil {
				return nil, err
			}
		}
		ev.Sources = append(ev.Sources, src)
		ev.ArtifactRefs = appendNew(ev.ArtifactRefs, r.named(f.Path))
		said = append(said, cmp.Or(f.Change, "change")+" "+path)
	}
	ev.Title = oneLine(strings.Join(said, ", "))
	ev.Summary = event.Brief(strings.Join(append(said, d.notes...), "; "))
	return ev, nil
}
