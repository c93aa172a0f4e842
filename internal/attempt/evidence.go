package attempt

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/thread"
	"github.com/plait-run/plait/internal/worktree"
)

// An evidenceRecorder makes evidence of one answer.
type evidenceRecorder struct {
	e     *Runner
	p     *Prepared
	ans   *answer
	files *files
	desk  agent.Directory
	said  dag.Hash // of the transcript, once it is known
	known *evidenceIndex
	cited map[string]bool // ids as the answer has them: those of its own instance without the name of the instance
	at    int64
	own   map[string]*thread.Evidence // local ids of this answer; nil: handed in
	ran   map[string]*thread.Evidence // commands of this answer by id
	lines map[string]*thread.Evidence // and by command line: the newest that ended, else the newest
}

// recordEvidence makes evidence of what an attempt did and of what its answer points out. It
// goes with the step: nodes and bytes into ans, the nodes' hashes into p. No citation in the
// answer of a model may name a command that was declined or interrupted, or such a call of a tool,
// except in a chat; with p.strict each has to resolve. A *agent.Failure says what the agent has to do better.
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
		own: make(map[string]*thread.Evidence),
		ran: make(map[string]*thread.Evidence), lines: make(map[string]*thread.Evidence),
		files: openFiles(worktree.Of(c.Row), p.run.Location),
	}
	defer m.files.close()
	for _, h := range entries { // their ids may be cited, whether or not they are kept
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
	faults, err := m.check(ctx, cited)
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

// refused tells an agent what is wrong with its evidence.
func refused(problems []string) error {
	const most = 10
	if over := len(problems) - most; over > 0 {
		problems = append(slices.Clip(problems[:most]), fmt.Sprintf("and %d more", over))
	}
	return &agent.Failure{Kind: agent.InvalidOutput, Message: event.Brief("the evidence does not hold: " +
		strings.Join(problems, "; "))}
}

// add puts an entry into what the step carries.
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

// tree is the git tree that the attempt left, or that it found and left as it was.
func (m *evidenceRecorder) tree() *string {
	if m.p.kept.after == "" {
		return nil
	}
	return &m.p.kept.after
}

// seen makes entries of what the agent was seen to do.
func (m *evidenceRecorder) seen(ctx context.Context, result agent.Result) ([]*thread.Evidence, error) {
	done := m.p.activity.activities
	given, taken := map[string]int{}, map[string]bool{} // by kind and turn; ids
	free := func(id string) bool { return !taken[id] && !m.known.has(thread.FullID(m.p.Row.Instance, id)) }
	next := func(kind, turn string) string {
		for {
			given[kind+turn]++
			n := "-" + strconv.Itoa(given[kind+turn])
			id := kind + turn + n
			if own := kind + n; turn == m.p.tries.turn && m.cited[own] && free(own) {
				id = own // so it counts its own, and nothing else has that name
			}
			if free(id) {
				taken[id] = true
				return id
			}
		}
	}
	var made []*thread.Evidence
	for i, d := range done {
		var ev *thread.Evidence
		var err error
		switch d.kind {
		case agent.EventCommand:
			id := next("cmd", d.turn)
			ev, err = m.command(ctx, id, d)
			if err == nil && result.Plain && i == len(done)-1 && d.output == "" {
				err = m.logs(ctx, &ev.Sources[0]) // the program is the agent
			}
			m.ran[id] = ev
			if err == nil && (m.lines[d.text] == nil || !ev.Unfinished()) {
				m.lines[d.text] = ev
			}
		case agent.EventFile:
			ev, err = m.change(ctx, next("change", d.turn), d)
		default:
			ev, err = m.call(ctx, next("tool", d.turn), d)
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

func (m *evidenceRecorder) command(ctx context.Context, id string, d activity) (*thread.Evidence, error) {
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
	ev := m.entry(id, thread.CommandExecution, cmp.Or(oneLine(text), "a command"),
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
		var err error
		if src.StdoutRef, err = m.keep(ctx, strings.NewReader(d.output), int64(len(d.output))); err != nil {
			return nil, err
		}
	}
	ev.Sources = append(ev.Sources, src)
	return ev, nil
}

// logs names the raw logs of a program as its output.
func (m *evidenceRecorder) logs(ctx context.Context, src *thread.EvidenceSource) error {
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
	out, err := one(m.desk.Transcript)
	if err != nil {
		return err
	}
	src.StdoutRef = out
	if !out.IsZero() {
		src.Hash = out
	}
	src.StderrRef, err = one(m.desk.StderrLog)
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

// submitted makes an entry of one that an answer hands in, or says what is wrong with it.
func (m *evidenceRecorder) submitted(ctx context.Context, h submitted) (ev *thread.Evidence, problem string, err error) {
	if m.known.has(thread.FullID(m.p.Row.Instance, h.ID)) {
		return nil, "you have used this id before: choose another", nil
	}
	ev = m.entry(h.ID, h.Kind, oneLine(h.Title), h.Summary)
	if h.Kind == thread.CommandExecution {
		ran := m.ran[h.Command]
		if ran == nil {
			ran = m.lines[h.Command]
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
		src, problem, err := m.anchor(ctx, h)
		if problem != "" || err != nil {
			return nil, problem, err
		}
		ev.Sources = append(ev.Sources, src)
	}
	return ev, "", nil
}

// anchor resolves the place in a file that an entry names.
func (m *evidenceRecorder) anchor(ctx context.Context, h submitted) (src thread.EvidenceSource, problem string,
	err error) {
	path, inside := m.files.place(h.Path)
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
	found, err := m.files.anchor(path, start, end)
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
	src = thread.EvidenceSource{Path: &path, Hash: found.Hash, Tree: m.tree()}
	if h.StartLine != nil {
		src.StartLine, src.EndLine = &start, &end
	}
	if src.Blob, err = m.keep(ctx, bytes.NewReader(found.Text), int64(len(found.Text))); err != nil {
		return src, "", err
	}
	return src, "", nil
}

// check returns a line for each citation that does not hold: it names a command or a tool call
// that came to nothing or, where the agent is held to that, no entry.
func (m *evidenceRecorder) check(ctx context.Context, cited []string) ([]string, error) {
	var lines []string
	missing := -1 // the first line of one that names nothing
	slices.Sort(cited)
	for _, id := range slices.Compact(cited) {
		ev, found, err := m.find(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case !found && m.p.strict:
			if missing < 0 {
				missing = len(lines)
			}
			lines = append(lines, fmt.Sprintf("evidence:%s is cited, but there is no such entry", event.Brief(id)))
		case ev != nil && ev.Unfinished():
			lines = append(lines, fmt.Sprintf("evidence:%s proves nothing: %s; say so without citing it",
				event.Brief(id), ev.Summary))
		}
	}
	if missing >= 0 {
		choices, err := m.choices(ctx)
		if err != nil {
			return nil, err
		}
		lines[missing] += "; " + choices
	}
	return lines, nil
}

// find returns the entry that an id means in this answer, and whether there is one. The entry is nil when
// nothing about it needs to be known.
func (m *evidenceRecorder) find(ctx context.Context, id string) (*thread.Evidence, bool, error) {
	full := id
	if by, local, whole := strings.Cut(id, "."); !whole || by == m.p.Row.Instance {
		if !whole {
			local = id
		}
		if ev, own := m.own[local]; own {
			return ev, true, nil
		}
		full = thread.FullID(m.p.Row.Instance, local)
	}
	a, ok := m.known.get(full)
	if !ok && !m.p.strict && !strings.Contains(id, ".") {
		a, ok = m.known.only(id) // as readers do
	}
	if !ok || a.Kind == thread.FileAnchor {
		return nil, ok, nil
	}
	ev, err := m.e.entry(ctx, a.Hash)
	return ev, true, err
}

// choices lists ids that could be cited in place of a wrong one.
func (m *evidenceRecorder) choices(ctx context.Context) (string, error) {
	const most = 12
	var ids []string
	for _, id := range append(slices.Sorted(maps.Keys(m.own)), m.known.names()...) {
		ev, _, err := m.find(ctx, id)
		if err != nil {
			return "", err
		}
		if ev != nil && ev.Unfinished() {
			continue
		}
		if len(ids) == most {
			return "there are " + strings.Join(ids, ", ") + " and others", nil
		}
		ids = append(ids, strings.TrimPrefix(id, m.p.Row.Instance+"."))
	}
	if len(ids) == 0 {
		return "there is none yet: hand it in, in evidence, or cite nothing", nil
	}
	return "there is " + strings.Join(ids, ", "), nil
}
