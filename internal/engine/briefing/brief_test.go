package briefing

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// A contextDesk has a context directory in memory.
type contextDesk struct {
	housetest.BareDesk
	dir   string
	files map[string]string
}

func (d contextDesk) Agent() agent.Desk { return agent.Desk{Context: d.dir} }
func (d contextDesk) Keep(name string, data []byte) error {
	d.files[name] = string(data)
	return nil
}
func (d contextDesk) Copy(name string, r io.Reader) error {
	data, err := io.ReadAll(r)
	d.files[name] = string(data)
	return err
}
func (d contextDesk) Link(file, name string) error {
	d.files[name] = d.files[file]
	return nil
}

// An instructed agent follows instructions of its user.
type instructed struct {
	housetest.Role
	own string
}

func (a instructed) Instructions() string { return a.own }

// A continuer is an agent whose sessions can go on; a forker's can also be branched off.
type continuer struct{ housetest.Role }

func (continuer) Continues(agent.Request) bool { return true }

type forker struct{ continuer }

func (forker) Forks(agent.Request) bool { return true }

// attached are the files that every agent receives.
type attached []agent.Attachment

func (a attached) Attached(store.Thread) []agent.Attachment { return a }

// artifact makes an artifact of text.
func artifact(t *testing.T, name, text string) (dag.Hash, []store.Object) {
	t.Helper()
	blob := store.Object{Hash: dag.SumText(text), Data: []byte(text)}
	node, err := thread.NewNode(dag.TypeArtifact, thread.Artifact{Name: name, MediaType: "text/plain", Size: int64(len(text)),
		Blob: blob.Hash})
	if err != nil {
		t.Fatal(err)
	}
	return node.Hash, []store.Object{blob, node}
}

// step makes a step with a text and artifacts.
func (s *scene) step(t *testing.T, role, meta, text string, artifacts map[string]string) dag.Hash {
	t.Helper()
	d := thread.Draft{Role: role, Meta: []byte(meta), Text: text, At: 1, Detail: &thread.Detail{
		Instance: role, Attempts: []thread.EarlierAttempt{}, Context: []thread.ContextUse{},
		Approvals: thread.Answers{Present: true}}}
	var more []store.Object
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range artifacts {
			if !yield(name) {
				return
			}
		}
	}) {
		h, objects := artifact(t, name, artifacts[name])
		d.Artifacts, more = append(d.Artifacts, h), append(more, objects...)
	}
	s.row = housetest.Append(t.Context(), t, s.store, s.row, d, more...)
	return s.row.Head
}

// TestBrief checks what an agent is told by itself, and who is told of files and instructions.
func TestBrief(t *testing.T) {
	s := newScene(t)
	put(t, s.row.Tree, map[string]string{"AGENTS.md": "be brief"})
	s.cfg.Desks = attached{{Line: "read spec", Name: "spec.md", Data: []byte("the spec")}, {Line: "spec2 is missing"}}
	s.Briefer = New(s.cfg)
	if err := s.store.Commit(t.Context(), store.Batch{Events: []store.Event{
		event.New(s.row, 1, event.NotesRead{Text: "look\nout"}), event.New(s.row, 1, event.NotesRead{Text: "for a gate", Gate: "G"}),
	}}); err != nil {
		t.Fatal(err)
	}
	at := &record.Position{Row: s.row, Def: &flow.Definition{}}
	role := flow.Role{Description: "D", Frontmatter: []byte(`{"type":"object"}`)}
	for name, a := range map[string]agent.Agent{"a program": housetest.Say(""), "a model": instructed{own: "mine"},
		"one without its own": instructed{}} {
		draft := prompt.Draft{Route: "go"}
		given, err := s.Brief(t.Context(), Attempt{At: at, Name: "writer", Role: role, Agent: a}, &draft)
		if err != nil {
			t.Fatal(err)
		}
		if draft.Role != "You are: writer\nDescription: D\n" || !strings.Contains(draft.Contract, `"type": "object"`) ||
			draft.Route != "go" || draft.Inputs != "" || draft.Questions != nil {
			t.Errorf("%s: %+v", name, draft)
		}
		if diff := cmp.Diff([]string{"From the notes on this task (shared/human-notes.md):\n> look\n> out", "read spec",
			"spec2 is missing"}, draft.Notes); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		var want []prompt.Instructions
		if name == "a model" {
			want = append(want, prompt.Instructions{Name: "the user's own", Text: "mine"})
		}
		if name != "a program" {
			want = append(want, prompt.Instructions{Name: "AGENTS.md", Text: "be brief"})
		}
		if diff := cmp.Diff(want, draft.Instructions); diff != "" || (draft.Desk == "") != (name == "a program") {
			t.Errorf("%s: %q, -want +got\n%s", name, draft.Desk, diff)
		}
		desk := contextDesk{dir: "/context", files: map[string]string{}}
		if _, err := s.Export(t.Context(), at, Export{Given: given}, desk); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"instruction.md": "go", "spec.md": "the spec"}, desk.files); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// TestContract checks what an answer must be, by who answers.
func TestContract(t *testing.T) {
	schema := []byte(`{"type":"object"}`)
	for _, tt := range []struct {
		role   flow.Role
		shaped bool
		want   string
	}{
		{flow.Role{}, false, ""}, {flow.Role{}, true, ""},
		{flow.Role{Frontmatter: schema}, true, "Answer with one JSON object in"},
		{flow.Role{Frontmatter: schema}, false, "Begin your answer with front matter"},
		{flow.Role{Frontmatter: schema, Plan: true}, false, "Answer with one JSON object and nothing else"},
	} {
		got := Contract(tt.role, tt.shaped)
		if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%+v, shaped %v: %q, want %q", tt.role, tt.shaped, got, tt.want)
		}
	}
}

// TestPlanner checks what a planner is told about its means.
func TestPlanner(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	p := &Planning{Agents: []Agent{{Name: "a", Kind: "codex", Agent: forker{}, Default: true},
		{Name: "b", Kind: "model", Agent: continuer{}}, {Name: "c", Kind: "command", Agent: housetest.Say(""), Program: true}}}
	for _, want := range []string{"- a (codex): access read or write in a sandbox; its session is continued after a question, " +
		"and forked for an action of mode fork; the default\n", "gets the conversation again\n",
		"- c (command): a program; nothing but its own behaviour holds it to an action's access; it gets everything again"} {
		if told := p.agents(); !strings.Contains(told, want) {
			t.Errorf("%q is not in %s", want, told)
		}
	}
	if got := p.limits(); got != "What is left to you:\n\n" {
		t.Errorf("without limits: %q", got)
	}
	p.Limits = flow.Limits{MaxActions: 3, MaxTaskActions: 10, MaxConcurrent: 2, MaxRounds: 5}
	p.Actions, p.Rounds = 4, 7
	p.Left = Left{Attempts: n(1), Tokens: n(2), CostMicroUSD: n(3), Millis: n(4000)}
	want := "What is left to you:\n- actions in a plan: at most 3\n- actions of the whole task: 6 of 10\n" +
		"- agents at work at the same time: at most 2\n- rounds, of which you take one each time: 0 of 5\n- attempts: 1\n" +
		"- tokens: 2\n- millionths of a dollar: 3\n- time of agents at work: 4s\n\n"
	if diff := cmp.Diff(want, p.limits()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestNotes checks which notes a prompt repeats.
func TestNotes(t *testing.T) {
	s := newScene(t)
	at := func(ts int64, what event.Payload) store.Event {
		ev := event.New(s.row, ts, what)
		if _, ok := what.(event.AttemptStarted); ok {
			ev.Attempt = fmt.Sprint("x.", ts)
		}
		return ev
	}
	part := strings.Repeat("b", 4<<10)
	big := strings.Repeat(part, toldNotes/len(part))
	if err := s.store.Commit(t.Context(), store.Batch{Events: []store.Event{
		at(1, event.NotesRead{Text: "long ago"}), at(5000, event.NotesRead{Text: "just be", More: true}),
		at(5000, event.NotesRead{Text: "fore"}), at(5500, event.AttemptStarted{}), at(9000, event.NotesRead{Text: "later"}),
	}}); err != nil {
		t.Fatal(err)
	}
	check := func(after string, want ...string) {
		t.Helper()
		notes, err := s.Notes(t.Context(), s.row.Task, after)
		if err != nil || len(notes) != len(want) {
			t.Fatalf("after %q: %q, %v", after, notes, err)
		}
		for i, note := range notes {
			if !strings.HasSuffix(note, want[i]) {
				t.Errorf("after %q: note %d is %q, want %q", after, i, note, want[i])
			}
		}
	}
	check("", "> long ago", "> just before", "> later")
	check("x.5500", "> just before", "> later") // a note may have been under way when the prompt was made
	check("x.0", "> long ago", "> just before", "> later")
	var long []store.Event
	for i := range len(big) / len(part) {
		long = append(long, at(9500, event.NotesRead{Text: part, More: (i+1)*len(part) < len(big)}))
	}
	if err := s.store.Commit(t.Context(), store.Batch{Events: long}); err != nil {
		t.Fatal(err)
	}
	check("", "3 earlier notes are left out here; see shared/human-notes.md.", "> "+big)
}

// TestExport checks what of the record an agent can read.
func TestExport(t *testing.T) {
	s := newScene(t)
	first := s.step(t, "first", `{"$status":"done"}`, "the first text", map[string]string{"a.txt": "A", "b.txt": "B"})
	second := s.step(t, "second", `{"$status":"done"}`, "the second text", map[string]string{"c.txt": "C"})
	named, objects := artifact(t, "named.txt", "N")
	if err := s.store.Commit(t.Context(), store.Batch{Objects: objects}); err != nil {
		t.Fatal(err)
	}
	file := prompt.ExportedFile{Path: "named/n.txt", Artifact: named, Blob: dag.SumText("N")}
	a, _ := artifact(t, "a.txt", "A")
	inFirst, inSecond := prompt.ExportName(first, a, "a.txt"), "step-"+second.Short()+"/c.txt"
	for name, tt := range map[string]struct {
		x     Export
		at    record.Position
		steps []dag.Hash
		files []string
	}{
		"nothing":      {},
		"a file":       {x: Export{Named: prompt.Exports{Files: []prompt.ExportedFile{file, file}}}, files: []string{"named/n.txt"}},
		"the caller's": {at: record.Position{Lent: prompt.Exports{Files: []prompt.ExportedFile{file}}}, files: []string{"named/n.txt"}},
		"a chain": {x: Export{Named: prompt.Exports{Chains: []prompt.Chain{{To: second}}}}, steps: []dag.Hash{first, second},
			files: []string{inFirst, inSecond}},
		"its end": {x: Export{Named: prompt.Exports{Chains: []prompt.Chain{{To: second, After: first}}}}, steps: []dag.Hash{second},
			files: []string{inSecond}},
		"what is left out": {x: Export{Uses: []thread.ContextUse{{From: first, To: first, Form: thread.FormOmitted}}},
			steps: []dag.Hash{first}, files: []string{inFirst}},
		"of which there is only meta": {x: Export{Uses: []thread.ContextUse{{From: second, To: second, Form: thread.FormMeta}}},
			steps: []dag.Hash{second}, files: []string{inSecond}},
		"what is whole": {x: Export{Uses: []thread.ContextUse{{From: first, To: second, Form: thread.FormFull}}}},
		"its caller":    {at: record.Position{Caller: second}, steps: []dag.Hash{first, second}, files: []string{inFirst, inSecond}},
	} {
		tt.at.Row, tt.at.Def = s.row, &flow.Definition{}
		desk := contextDesk{dir: "/context", files: map[string]string{}}
		readable, err := s.Export(t.Context(), &tt.at, tt.x, desk)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var files []string
		for file := range desk.files {
			if base := path.Base(file); strings.Contains(file, "/") && base != "b.txt" {
				files = append(files, file)
			}
		}
		slices.Sort(files)
		slices.Sort(tt.files)
		if diff := cmp.Diff(tt.files, files); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		for _, h := range []dag.Hash{first, second} {
			in := strings.Contains(desk.files[agent.Objects], h.String()+" ")
			if want := slices.Contains(tt.steps, h); in != want || readable[h] != want {
				t.Errorf("%s: step %s can be read: %v, %v, want %v", name, h.Short(), in, readable[h], want)
			}
		}
		none := contextDesk{files: map[string]string{}}
		if _, err := s.Export(t.Context(), &tt.at, tt.x, none); err != nil || len(none.files) > 0 {
			t.Errorf("%s: without a context directory: %v, %v", name, none.files, err)
		}
	}
}

// TestFaults: whatever cannot be read is an error, and nothing else happens.
func TestFaults(t *testing.T) {
	s := newScene(t)
	first := s.step(t, "first", `{"$status":"done"}`, "the first text", map[string]string{"a.txt": "A"})
	second := s.step(t, "second", `{"$status":"done"}`, "the second text", map[string]string{"c.txt": "C"})
	a, _ := artifact(t, "a.txt", "A")
	at := &record.Position{Row: s.row, Def: &flow.Definition{}, Caller: second}
	chain := Export{Named: prompt.Exports{Chains: []prompt.Chain{{To: second}}}}
	meta := Export{Uses: []thread.ContextUse{{From: first, To: second, Form: thread.FormMeta}}}
	file := Export{Named: prompt.Exports{Files: []prompt.ExportedFile{{Path: "a", Artifact: a, Blob: dag.SumText("A")}}}}
	lost := func(h dag.Hash, x Export, at *record.Position) {
		t.Helper()
		other := newScene(t)
		for _, h := range []map[string]string{{"a.txt": "A"}, {"c.txt": "C"}} {
			role := map[bool]string{true: "first", false: "second"}[h["a.txt"] != ""]
			other.step(t, role, `{"$status":"done"}`, "the "+role+" text", h)
		}
		other.store.Lose(h)
		desk := contextDesk{dir: "/context", files: map[string]string{}}
		if _, err := other.Export(t.Context(), at, x, desk); err == nil {
			t.Errorf("without %s: no error", h.Short())
		}
	}
	none := &record.Position{Row: s.row, Def: &flow.Definition{}}
	for _, x := range []Export{chain, meta, {Uses: []thread.ContextUse{{To: second, Form: thread.FormSummary}}}} {
		for _, h := range []dag.Hash{first, second, a, dag.SumText("A")} {
			lost(h, x, none)
		}
	}
	lost(a, file, none)
	lost(dag.SumText("A"), file, none)
	lost(s.row.Start, Export{}, at)
	lost(second, Export{}, at)
}

// TestLostEvidence: the error names the input that the record has lost.
func TestLostEvidence(t *testing.T) {
	s := newScene(t)
	node, err := thread.NewNode(dag.TypeEvidence, thread.Evidence{ID: "a", Kind: thread.FileAnchor, By: "first",
		Sources: []thread.EvidenceSource{}, ArtifactRefs: []dag.Hash{}})
	if err != nil {
		t.Fatal(err)
	}
	added := event.New(s.row, 1, event.EvidenceAdded{ID: "first.a", Kind: thread.FileAnchor, Hash: node.Hash})
	b := store.Batch{Objects: []store.Object{node}, Events: []store.Event{added}}
	if err := s.store.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if _, err := s.evidenceInputs(t.Context(), s.row.Task); err != nil {
		t.Fatal(err)
	}
	s.store.Lose(node.Hash)
	_, err = s.evidenceInputs(t.Context(), s.row.Task)
	if !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "evidence:first.a") {
		t.Errorf("got %v", err)
	}
}
