package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/thread"
)

// A proof makes evidence of one answer.
type proof struct {
	e     *Engine
	p     *prepared
	ans   *answer
	files *files
	known *proven
	at    int64
	own   map[string]bool             // local ids of this answer
	ran   map[string]*thread.Evidence // commands of this answer by id
	lines map[string]*thread.Evidence // and by command line, the newest
}

// prove makes evidence of what an attempt did and of what its answer points out. It
// goes with the step: nodes and bytes into ans, the nodes' hashes into p. With
// p.strict each citation in the answer has to resolve. A *agent.Failure says what the
// agent has to do better.
func (e *Engine) prove(ctx context.Context, c *cursor, p *prepared, desk Desk, result agent.Result, ans *answer) error {
	ctx = context.WithoutCancel(ctx)
	entries, cited, problems := handedIn(ans.meta, p.strict)
	if p.strict {
		cited = append(cited, saidIn(ans.text, ans.meta)...)
	}
	if len(entries)+len(cited)+len(problems)+len(p.gather.deeds) == 0 {
		return nil
	}
	known, err := e.proven(ctx, c.row.Task)
	if err != nil {
		return err
	}
	m := &proof{
		e: e, p: p, ans: ans, known: known, at: e.now(), own: make(map[string]bool),
		ran: make(map[string]*thread.Evidence), lines: make(map[string]*thread.Evidence),
		files: openFiles(cmp.Or(c.row.Tree, c.row.Workspace), p.run.Location),
	}
	defer m.files.close()
	for _, h := range entries { // their ids may be cited, whatever becomes of them
		m.own[h.ID] = true
	}
	made, err := m.seen(ctx, desk, result)
	if err != nil {
		return fmt.Errorf("keep evidence of attempt %s: %w", p.row.ID, err)
	}
	for _, h := range entries {
		ev, problem, err := m.handed(ctx, h)
		if err != nil {
			return fmt.Errorf("keep evidence of attempt %s: %w", p.row.ID, err)
		}
		if problem != "" {
			problems = append(problems, h.ID+": "+problem)
			continue
		}
		made = append(made, ev)
	}
	problems = append(problems, m.unresolved(cited)...)
	if len(problems) > 0 {
		return refused(problems)
	}
	for _, ev := range made {
		if err := m.add(ev); err != nil {
			return fmt.Errorf("keep evidence of attempt %s: %w", p.row.ID, err)
		}
	}
	return nil
}

// refused tells an agent what is wrong with its evidence.
func refused(problems []string) error {
	const most = 10
	if over := len(problems) - most; over > 0 {
		problems = append(slices.Clip(problems[:most]), fmt.Sprintf("and %d more", over))
	}
	return &agent.Failure{Kind: agent.InvalidOutput, Message: clip("the evidence does not hold: " + strings.Join(problems, "; "))}
}

// add puts an entry into what the step carries.
func (m *proof) add(ev *thread.Evidence) error {
	obj, err := thread.NewNode(dag.TypeEvidence, ev)
	if err != nil {
		return err
	}
	m.ans.objects = append(m.ans.objects, obj)
	m.p.evidence = append(m.p.evidence, obj.Hash)
	m.ans.proved = append(m.ans.proved, thread.Added{ID: thread.FullID(ev.By, ev.ID), Kind: ev.Kind, Title: ev.Title, Hash: obj.Hash})
	return nil
}

func (m *proof) entry(id, kind, title, summary string) *thread.Evidence {
	return &thread.Evidence{
		ID: id, Kind: kind, Title: title, Summary: clip(strings.ToValidUTF8(summary, "\ufffd")), CreatedAt: m.at, By: m.p.row.Instance,
		Sources: []thread.EvidenceSource{}, ArtifactRefs: []dag.Hash{},
	}
}

// tree is the git tree that the attempt left, or that it found and left as it was.
func (m *proof) tree() *string {
	if m.p.after == "" {
		return nil
	}
	return &m.p.after
}

// seen makes entries of what the agent was seen to do.
func (m *proof) seen(ctx context.Context, desk Desk, result agent.Result) ([]*thread.Evidence, error) {
	deeds := m.p.gather.deeds
	commands, changes := 0, 0
	var made []*thread.Evidence
	for i, d := range deeds {
		var ev *thread.Evidence
		var err error
		if d.kind == agent.EventCommand {
			commands++
			id := m.known.next(m.p.row.Instance, "cmd", commands)
			ev, err = m.command(ctx, id, d)
			if err == nil && result.Plain && i == len(deeds)-1 && d.output == "" {
				err = m.logs(ctx, desk, &ev.Sources[0]) // the program is the agent
			}
			m.ran[id], m.lines[d.text] = ev, ev
		} else {
			changes++
			ev, err = m.change(ctx, m.known.next(m.p.row.Instance, "change", changes), d)
		}
		if err != nil {
			return nil, err
		}
		if m.p.gather.missed > 0 && i == len(deeds)-1 {
			ev.Summary += fmt.Sprintf("; %d more commands and file changes came after it and are not kept", m.p.gather.missed)
		}
		m.own[ev.ID] = true
		made = append(made, ev)
	}
	return made, nil
}

func (m *proof) command(ctx context.Context, id string, d deed) (*thread.Evidence, error) {
	text := strings.ToValidUTF8(d.text, "\ufffd")
	said := []string{"it ended"}
	switch {
	case d.phase == "declined":
		said[0] = "it was declined and not run"
	case d.exit != nil:
		said[0] = fmt.Sprintf("exit code %d", *d.exit)
	case d.phase == "failed":
		said[0] = "it failed"
	}
	ev := m.entry(id, thread.CommandExecution, cmp.Or(oneLine(text), "a command"), strings.Join(append(said, d.notes...), "; "))
	cwd := m.files.location
	src := thread.EvidenceSource{Command: []string{text}, Cwd: &cwd, ExitCode: d.exit, Tree: m.tree()}
	if d.phase != "declined" {
		src.Hash = dag.Sum([]byte(d.output))
	}
	if d.output != "" {
		var err error
		if src.StdoutRef, err = m.keep(ctx, strings.NewReader(d.output), int64(len(d.output))); err != nil {
			return nil, err
		}
	}
	ev.Sources = append(ev.Sources, src)
	return ev, nil
}

// logs names the raw logs of a program as its output.
func (m *proof) logs(ctx context.Context, desk Desk, src *thread.EvidenceSource) error {
	one := func(open func() (io.ReadCloser, int64, error)) (dag.Hash, error) {
		r, size, err := open()
		if err != nil {
			return dag.Hash{}, err
		}
		defer r.Close()
		if size == 0 {
			return dag.Hash{}, nil
		}
		return m.keep(ctx, r, size)
	}
	out, err := one(desk.Transcript)
	if err != nil {
		return err
	}
	if src.StdoutRef = out; !out.IsZero() {
		src.Hash = out
	}
	src.StderrRef, err = one(desk.Stderr)
	return err
}

func (m *proof) keep(ctx context.Context, r io.Reader, size int64) (dag.Hash, error) {
	return m.e.keepFile(ctx, m.p, r, size, m.ans)
}

func (m *proof) change(ctx context.Context, id string, d deed) (*thread.Evidence, error) {
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
		said = append(said, cmp.Or(f.Change, "change")+" "+path)
	}
	ev.Title = oneLine(strings.Join(said, ", "))
	ev.Summary = clip(strings.Join(append(said, d.notes...), "; "))
	return ev, nil
}

// handed makes an entry of one that was handed in, or says what is wrong with it.
func (m *proof) handed(ctx context.Context, h handed) (ev *thread.Evidence, problem string, err error) {
	if m.known.has(thread.FullID(m.p.row.Instance, h.ID)) {
		return nil, "you have used this id before: choose another", nil
	}
	ev = m.entry(h.ID, h.Kind, oneLine(h.Title), h.Summary)
	if h.Kind == thread.CommandExecution {
		ran := m.ran[h.Command]
		if ran == nil {
			ran = m.lines[h.Command]
		}
		if ran == nil {
			return nil, fmt.Sprintf("no command %q was seen in this turn: name one that ended, by its line or its id", clip(h.Command)), nil
		}
		ev.Sources = append(ev.Sources, ran.Sources...)
	}
	if h.Path != "" {
		src, problem, err := m.anchor(ctx, h)
		if problem != "" || err != nil {
			return nil, problem, err
		}
		ev.Sources = append(ev.Sources, src)
	}
	return ev, "", nil
}

// anchor resolves the place in a file that an entry names.
func (m *proof) anchor(ctx context.Context, h handed) (src thread.EvidenceSource, problem string, err error) {
	path, inside := m.files.place(h.Path)
	if !inside {
		return src, fmt.Sprintf("the path %q does not lie in the working tree: give one relative to your working directory", clip(h.Path)), nil
	}
	start, end := 1, int(^uint(0)>>1)
	if h.StartLine != nil {
		start = *h.StartLine
		end = start
		if h.EndLine != nil {
			end = *h.EndLine
		}
	}
	found, err := m.files.anchor(path, start, end)
	switch {
	case errors.Is(err, thread.ErrAnchor):
		return src, fmt.Sprintf("%s: at most %d MiB of a file and %d MiB of its lines can be anchored, and %d MiB in one answer",
			h.Path, thread.MaxAnchored>>20, thread.MaxAnchorText>>20, maxAnchorRead>>20), nil
	case err != nil:
		return src, fmt.Sprintf("%s: %s", h.Path, err), nil
	case h.StartLine != nil && end > found.Lines:
		return src, fmt.Sprintf("%s has %d lines, so there is no line %d", h.Path, found.Lines, end), nil
	}
	src = thread.EvidenceSource{Path: &path, Hash: found.Hash, Tree: m.tree()}
	if h.StartLine != nil {
		src.StartLine, src.EndLine = &start, &end
	}
	if src.Blob, err = m.keep(ctx, bytes.NewReader(found.Text), int64(len(found.Text))); err != nil {
		return src, "", err
	}
	return src, "", nil
}

// unresolved returns a line for each citation that names no entry.
func (m *proof) unresolved(cited []string) []string {
	var lines []string
	slices.Sort(cited)
	for _, id := range slices.Compact(cited) {
		full := id
		if !strings.Contains(id, ".") {
			if m.own[id] {
				continue
			}
			full = thread.FullID(m.p.row.Instance, id)
		} else if by, local, _ := strings.Cut(id, "."); by == m.p.row.Instance && m.own[local] {
			continue
		}
		if !m.known.has(full) {
			lines = append(lines, fmt.Sprintf("evidence:%s is cited, but there is no such entry", clip(id)))
		}
	}
	if len(lines) > 0 {
		lines[0] += "; " + m.choices()
	}
	return lines
}

// choices lists ids that could be cited in place of a wrong one.
func (m *proof) choices() string {
	const most = 12
	ids := slices.Sorted(maps.Keys(m.own))
	for _, id := range m.known.list() {
		ids = append(ids, strings.TrimPrefix(id, m.p.row.Instance+"."))
	}
	if len(ids) == 0 {
		return "there is none yet: hand it in, in evidence, or cite nothing"
	}
	if len(ids) > most {
		return "there are " + strings.Join(ids[:most], ", ") + " and others"
	}
	return "there is " + strings.Join(ids, ", ")
}
