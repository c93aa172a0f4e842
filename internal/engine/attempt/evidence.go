package attempt

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/thread"
)

// An evidenceRecorder makes the evidence of one answer.
type evidenceRecorder struct {
	e     *Runner
	p     *Prepared
	ans   *answer
	files *files
	desk  agent.Directory
	said  dag.Hash // of the transcript, once known
	known *evidenceIndex
	cited map[string]bool // ids as in the answer: those of its own instance lack the instance's name
	at    int64
	own   map[string]*thread.Evidence // local ids of this answer; nil: submitted
	ran   map[string]*thread.Evidence // commands of this answer by id
	lines map[string]*thread.Evidence // and by command line: the newest that ended, otherwise the newest
}

// recordEvidence makes evidence of what an attempt did and of what its answer points out. The evidence goes
// with the step: nodes and bytes into ans, the nodes' hashes into p. A model's answer must not cite a command
// or a tool call that was declined or interrupted, or is not there, except in a chat; with p.strict each citation has
// to resolve, whatever its form. If the evidence is wrong, the error is an *agent.Failure that tells the agent what to
// fix.
func (e *Runner) recordEvidence(ctx context.Context, c *Thread, p *Prepared, desk agent.Directory, result agent.Result,
	ans *answer) error {
	ctx = context.WithoutCancel(ctx)
	entries, cited, problems := readSubmitted(ans.meta, p.strict)
	cited = append(cited, p.cited(ans, result)...)
	if len(entries)+len(cited)+len(problems)+len(p.activity.activities) == 0 {
		return nil
	}
	known, err := e.evidenceOf(ctx, c.Row.Task)
	if err != nil {
		return err
	}
	m := &evidenceRecorder{
		e: e, p: p, ans: ans, desk: desk, known: known, cited: map[string]bool{}, at: e.now(),
		own: map[string]*thread.Evidence{}, ran: map[string]*thread.Evidence{}, lines: map[string]*thread.Evidence{},
		files: openFiles(worktree.Of(c.Row), p.location),
	}
	defer m.files.close()
	for _, h := range entries { // they may be cited even if they are not kept
		m.own[h.ID] = nil
	}
	for _, id := range cited {
		m.cited[strings.TrimPrefix(id, p.Row.Instance+".")] = true
	}
	fail := func(err error) error { return fmt.Errorf("keep evidence of attempt %s: %w", p.Row.ID, err) }
	made, err := m.seen(ctx, result)
	if err != nil {
		return fail(err)
	}
	for _, h := range entries {
		ev, problem, err := m.submitted(ctx, h)
		if err != nil {
			return fail(err)
		}
		if problem != "" {
			problems = append(problems, h.ID+": "+problem)
			continue
		}
		made = append(made, ev)
	}
	kept, err := e.accepted(ctx, c, p, ans)
	if err != nil {
		return fail(err)
	}
	faults, err := m.check(ctx, cited, kept)
	if err != nil {
		return fail(err)
	}
	if problems = append(problems, faults...); len(problems) > 0 {
		return refused(problems)
	}
	for _, ev := range made {
		if err := m.add(ev); err != nil {
			return fail(err)
		}
	}
	return nil
}

// refused returns the failure that tells an agent what is wrong with its evidence.
func refused(problems []string) error {
	const most = 10
	if over := len(problems) - most; over > 0 {
		problems = append(slices.Clip(problems[:most]), fmt.Sprintf("and %d more", over))
	}
	return &agent.Failure{Kind: agent.InvalidOutput, Message: event.Brief("the evidence does not hold: " +
		strings.Join(problems, "; "))}
}

// add adds an entry to the step.
func (m *evidenceRecorder) add(ev *thread.Evidence) error {
	obj, err := thread.NewNode(dag.TypeEvidence, ev)
	if err != nil {
		return err
	}
	m.ans.objects = append(m.ans.objects, obj)
	m.p.kept.evidence = append(m.p.kept.evidence, obj.Hash)
	m.ans.proved = append(m.ans.proved, event.EvidenceAdded{ID: thread.FullID(ev.By, ev.ID), Kind: ev.Kind,
		Title: ev.Title, Hash: obj.Hash})
	return nil
}

func (m *evidenceRecorder) entry(id, kind, title, summary string) *thread.Evidence {
	return &thread.Evidence{
		ID: id, Kind: kind, Title: title, Summary: event.Brief(strings.ToValidUTF8(summary, "\ufffd")), CreatedAt: m.at,
		By:      m.p.Row.Instance,
		Sources: []thread.EvidenceSource{}, ArtifactRefs: []dag.Hash{},
	}
}

// tree returns the git tree that the attempt left, or found and did not change.
func (m *evidenceRecorder) tree() *string {
	if m.p.kept.after == "" {
		return nil
	}
	return &m.p.kept.after
}

// seen makes entries of the agent's observed activities.
func (m *evidenceRecorder) seen(ctx context.Context, result agent.Result) (made []*thread.Evidence, err error) {
	done := m.p.activity.activities
	given, last, taken := map[string]int{}, map[string]int{}, map[string]bool{} // by kind and turn; in the last; ids
	for _, d := range done {
		if d.turn == m.p.tries.turn {
			last[d.kind]++
		}
	}
	free := func(id string) bool { return !taken[id] && !m.known.has(thread.FullID(m.p.Row.Instance, id)) }
	next := func(kind string, d activity) string {
		for {
			given[kind+d.turn]++
			n := given[kind+d.turn]
			id, own := fmt.Sprintf("%s%s-%d", kind, d.turn, n), fmt.Sprintf("%s-%d", kind, n)
			// Agents count from the start of the answering turn or, for what is not in it, of an earlier one.
			if (d.turn == m.p.tries.turn || n > last[d.kind]) && m.cited[own] && free(own) {
				id = own
			}
			if free(id) {
				taken[id] = true
				return id
			}
		}
	}
	for i, d := range done {
		var ev *thread.Evidence
		switch d.kind {
		case agent.EventCommand:
			id := next("cmd", d)
			ev, err = m.command(ctx, id, d)
			if err == nil && result.Plain && i == len(done)-1 && d.output == "" {
				err = m.logs(ctx, &ev.Sources[0]) // the program is the agent
			}
			m.ran[id] = ev
			if err == nil && (m.lines[d.text] == nil || !ev.Unfinished()) {
				m.lines[d.text] = ev
			}
		case agent.EventFile:
			ev, err = m.change(ctx, next("change", d), d)
		default:
			ev, err = m.call(ctx, next("tool", d), d)
		}
		if err != nil {
			return nil, err
		}
		if m.p.activity.missed > 0 && i == len(done)-1 {
			ev.Summary += fmt.Sprintf("; %d more commands, file changes and tool calls came after it and are not kept",
				m.p.activity.missed)
		}
		m.own[ev.ID] = ev
		made = append(made, ev)
	}
	return made, nil
}

func (m *evidenceRecorder) command(ctx context.Context, id string, d activity) (ev *thread.Evidence, err error) {
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
	ev = m.entry(id, thread.CommandExecution, cmp.Or(oneLine(text), "a command"),
		strings.Join(append(said, d.notes...), "; "))
	cwd := m.files.location
	src := thread.EvidenceSource{Command: []string{text}, Cwd: &cwd, ExitCode: d.exit, Tree: m.tree()}
	if ended {
		src.Hash = dag.Sum([]byte(d.output))
		ev.ArtifactRefs = m.named(d.text)
	} else {
		src.ExitCode = nil
	}
	if d.output != "" {
		if src.StdoutRef, err = m.keep(ctx, strings.NewReader(d.output), int64(len(d.output))); err != nil {
			return nil, err
		}
	}
	ev.Sources = append(ev.Sources, src)
	return ev, nil
}

// logs sets the raw logs of a program as its output.
func (m *evidenceRecorder) logs(ctx context.Context, src *thread.EvidenceSource) error {
	out, _, err := m.e.keepLog(ctx, m.p, m.desk.Transcript, &m.ans.objects)
	if err != nil {
		return err
	}
	src.StdoutRef = out
	if !out.IsZero() {
		src.Hash = out
	}
	src.StderrRef, _, err = m.e.keepLog(ctx, m.p, m.desk.StderrLog, &m.ans.objects)
	return err
}

func (m *evidenceRecorder) keep(ctx context.Context, r io.Reader, size int64) (dag.Hash, error) {
	return m.e.keepBytes(ctx, m.p, r, size, &m.ans.objects)
}

func (m *evidenceRecorder) change(ctx context.Context, id string, d activity) (*thread.Evidence, error) {
	var said []string
	ev := m.entry(id, thread.FileAnchor, "", "")
	for _, f := range d.files {
		path, inside := m.files.place(f.Path)
		path = strings.ToValidUTF8(path, "\ufffd")
		src := thread.EvidenceSource{Path: &path}
		if inside {
			src.Tree = m.tree()
			if f.Change != "delete" {
				src.Hash = m.files.hash(path)
			}
		}
		if f.Diff != "" {
			var err error
			if src.Blob, err = m.keep(ctx, strings.NewReader(f.Diff), int64(len(f.Diff))); err != nil {
				return nil, err
			}
		}
		ev.Sources = append(ev.Sources, src)
		ev.ArtifactRefs = appendNew(ev.ArtifactRefs, m.named(f.Path))
		said = append(said, cmp.Or(f.Change, "change")+" "+path)
	}
	ev.Title = oneLine(strings.Join(said, ", "))
	ev.Summary = event.Brief(strings.Join(append(said, d.notes...), "; "))
	return ev, nil
}
