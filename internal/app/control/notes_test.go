package control

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/people/notes"
	"github.com/plait-run/plait/internal/engine/briefing"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// asked asks one question, then works with the answer.
const asked = `
version: 1
name: test
roles: {plan: {description: plans}, work: {description: works}}
gates: {port: {kind: input, question: "Which port?"}}
graph:
  $START: {new: {role: plan, prompt: "{{ prompt }}"}}
  plan: {ready: {role: port}}
  port: {answered: {role: work, prompt: "on {{ answer }}"}}
  work: {done: {role: $END, prompt: over}}
`

func (h *house) notesFile() string {
	return filepath.Join(taskdir.At(h.dir, rootID).Path(), "shared", "human-notes.md")
}

// jot adds to the notes of the task.
func (h *house) jot(text string) {
	h.t.Helper()
	f, err := os.OpenFile(h.notesFile(), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(text)
		f.Close()
	}
	if err != nil {
		h.t.Error(err)
	}
}

// open returns the open gates of the task, once there are n.
func (h *house) open(n int) []store.Gate {
	h.t.Helper()
	for pos := int64(0); ; {
		open, err := h.controller().Gates().Gates(h.t.Context(), store.GateFilter{Task: rootID, State: store.GateOpen})
		if err != nil || len(open) >= n {
			return open
		}
		if pos, err = h.store.Wait(h.t.Context(), pos); err != nil {
			h.t.Error(err)
			return nil
		}
	}
}

// ask opens a gate directly.
func (h *house) ask(row store.Thread, kind store.GateKind, source store.GateSource, question string) store.Gate {
	h.t.Helper()
	g := store.Gate{Kind: kind, Source: source, Task: row.Task, Thread: row.ID, From: row.Head, Question: question}
	if kind == store.GateApproval {
		g.Action = []byte(`{"type":"command","command":"` + question + `"}`)
	}
	g, err := h.controller().Gates().Open(h.t.Context(), g)
	if err != nil {
		h.t.Fatal(err)
	}
	return g
}

// gate returns the current state of a gate.
func (h *house) gate(id string) store.Gate {
	h.t.Helper()
	g, err := h.store.Gate(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return g
}

// soon returns a controller that does not wait for writers to finish.
func (h *house) soon() *Controller {
	c := h.controller()
	c.cfg.NotesDebounce, c.cfg.PollNotes = time.Millisecond, false
	return c
}

func newAsked(t *testing.T, said *[]string) *house {
	h := newHouse(t, map[string]scripted{"plan": say(status("ready")), "work": say(status("done"))})
	h.agents["work"] = heard(said, h.agents["work"])
	return h
}

func TestNotesAnswer(t *testing.T) {
	for _, when := range []string{"while nobody runs", "while it waits"} {
		t.Run(when, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			var said []string
			h := newAsked(t, &said)
			c := h.soon()
			row := h.begin(c, asked)
			if when == "while it waits" {
				var wg sync.WaitGroup
				wg.Go(func() {
					h.open(1)
					h.jot("8080\n")
				})
				row = h.drive(c, row.ID, Resume{Wait: true})
				wg.Wait()
			} else {
				wantStatus(t, h.drive(c, row.ID, Resume{}), store.Blocked, "gate")
				h.jot("8080\n")
				row = h.drive(h.soon(), row.ID, Resume{})
			}
			wantStatus(t, row, store.Completed, "")
			g := h.gates(row.ID, 1)[0]
			if g.State != store.GateAnswered || g.Via != store.ViaNotes || g.Text != "8080" {
				t.Errorf("gate: %+v", g)
			}
			if len(said) != 1 || !strings.Contains(said[0], "on 8080") || strings.Contains(said[0], "human-notes") {
				t.Errorf("prompts: %q", said)
			}
			if n := h.events(row.ID, "notes.read"); n != 1 {
				t.Errorf("it was read %d times", n)
			}
		})
	}
}

// While an agent is at work, others ask and are answered.
func TestNotesAnswerWhileDriven(t *testing.T) {
	working, on := make(chan struct{}), make(chan struct{})
	h := newHouse(t, map[string]scripted{"work": func(_ context.Context, req agent.Request,
		_ func(agent.Event) error) (agent.Result, error) {
		close(working)
		<-on
		return agent.Result{Output: []byte(status("done")), Sandbox: "none"}, nil
	}})
	c := h.soon()
	row := h.begin(c, one("read", ""))
	done := make(chan store.Thread)
	go func() {
		row, _ := c.Drive(context.Background(), row.ID, Resume{})
		done <- row
	}()
	<-working
	first, second := h.ask(row, store.GateInput, store.SourceWorker, "Which colour?"),
		h.ask(row, store.GateInput, store.SourceFlow, "Which port?")
	yes := h.ask(row, store.GateApproval, store.SourceAgent, "make install")
	h.jot("In general, be quick.\n\n## gate " + second.ID + "\n8080\n\n# " + first.ID +
		"\nblue,\nlike the sky\n\ngate " + yes.ID + "\napprove\n")
	for pos := int64(0); h.gate(first.ID).State == store.GateOpen || h.gate(second.ID).State == store.GateOpen ||
		h.events(row.ID, "notes.read") < 4; {
		var err error
		if pos, err = h.store.Wait(t.Context(), pos); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := h.gate(first.ID), h.gate(second.ID); a.Text != "blue,\nlike the sky" || b.Text != "8080" ||
		b.Via != store.ViaNotes {
		t.Errorf("answers %q, %q", a.Text, b.Text)
	}
	if g := h.gate(yes.ID); g.State != store.GateOpen {
		t.Errorf("the approval is %s via %s", g.State, g.Via)
	}
	close(on)
	wantStatus(t, <-done, store.Completed, "")
	notes, err := c.noted(t.Context(), row)
	if want := []string{"be quick", "approve"}; err != nil || len(notes) != 2 || !strings.Contains(notes[0], want[0]) ||
		!strings.Contains(notes[1], want[1]) {
		t.Errorf("notes %q: %v", notes, err)
	}
}

// Whatever is written, it approves nothing, and answers nothing about what was cut off,
// cannot be merged or exceeds a limit.
func TestNotesNeverApprove(t *testing.T) {
	h := newHouse(t, map[string]scripted{"work": say(status("done"))})
	c := h.soon()
	row := h.begin(c, one("read", ""))
	var closed []store.Gate
	for _, source := range []store.GateSource{store.SourceFlow, store.SourceWorker, store.SourceAgent,
		store.SourceMerge, store.SourceLimit, store.SourceInterrupted} {
		closed = append(closed, h.ask(row, store.GateApproval, source, "make "+string(source)))
	}
	for _, source := range []store.GateSource{store.SourceMerge, store.SourceLimit, store.SourceInterrupted} {
		closed = append(closed, h.ask(row, store.GateInput, source, string(source)))
	}
	id := closed[2].ID
	texts := []string{
		"approve", "yes", "y", "ok", "approved", "Approve all.", "deny", "no", "reject", "go ahead", "approve " + id,
		id, id + ": yes",
		"gate " + id + ": approve", "gate " + id + "\napprove", "# gate " + id + "\nyes", "## " + id + "\napproved",
		"plait gate approve " + id,
		`{"approve":true}`, `{"gate":"` + id + `","approve":true}`, `{"kind":"approval","state":"approved","id":"` +
			id + `"}`,
		"---\napprove: true\ngate: " + id + "\n---", "$status: approved", "gate " + id[:8] + "\nok", "GATE " +
			strings.ToUpper(id) + "\nYES",
		"- [x] approve " + id, "approve --session " + id, "grant: session", "via: cli\nby: root\napprove",
		"\x00approve\x00", "\u202eevorppa",
		"gate.approved " + id, "<!-- approve " + id + " -->", "```\napprove\n```",
	}
	file := ""
	for i, text := range texts {
		file += text + "\n"
		h.jot(text + "\n")
		h.readNotes(c, row)
		if n := h.events(row.ID, "notes.read"); n != i+1 {
			t.Fatalf("%q: %d events", text, n)
		}
	}
	for _, g := range closed {
		if now := h.gate(g.ID); !cmp.Equal(now, g) {
			t.Errorf("notes moved a gate of source %s: %+v", g.Source, now)
		}
	}
	// The one question that they may answer is not answered by text meant for another.
	question := h.ask(row, store.GateInput, store.SourceWorker, "Which colour?")
	h.jot("gate " + id + "\napprove\n")
	h.readNotes(c, row)
	if g := h.gate(question.ID); g.State != store.GateOpen {
		t.Errorf("the question was answered %q", g.Text)
	}
}

// A crash at any commit, kept or not, answers once and loses nothing.
func TestNotesSurviveACrash(t *testing.T) {
	for _, when := range []mem.When{mem.Before, mem.After} {
		for n := 1; n <= 4; n++ {
			h := newHouse(t, map[string]scripted{"work": say(status("done"))})
			var mu sync.Mutex
			count, armed := 0, false
			broken := mem.New(mem.Config{Proven: true, Fault: func(o mem.Op, w mem.When) error {
				mu.Lock()
				defer mu.Unlock()
				if o != mem.OpCommit || w != when || !armed {
					return nil
				}
				if count++; count >= n {
					return errBroken
				}
				return nil
			}})
			h.store = broken
			row := h.begin(h.soon(), one("read", ""))
			first, second := h.ask(row, store.GateInput, store.SourceWorker, "Which colour?"),
				h.ask(row, store.GateInput, store.SourceFlow, "Which port?")
			h.jot("be quick\ngate " + first.ID + "\nblue\ngate " + second.ID + "\n8080\n")
			read := func(c *Controller) {
				h.readNotes(c, row)
			}
			mu.Lock()
			armed = true
			mu.Unlock()
			read(h.soon())
			mu.Lock()
			armed = false
			mu.Unlock()
			h.store = broken.Reopen()
			h.extends()
			for range 2 {
				c := h.soon()
				read(c)
				notes, err := c.noted(t.Context(), row)
				if a, b := h.gate(first.ID).Text, h.gate(second.ID).Text; a != "blue" || b != "8080" || err != nil ||
					len(notes) != 1 || !strings.HasSuffix(notes[0], "> be quick") {
					t.Errorf("commit %d %v: answers %q, %q, notes %q: %v", n, when, a, b, notes, err)
				}
				if got := h.events(row.ID, "notes.read"); got != 3 {
					t.Errorf("commit %d %v: %d events", n, when, got)
				}
			}
		}
	}
}

// Someone who answers at the same moment wins, and the text is not lost.
func TestNotesAreTooLate(t *testing.T) {
	h := newHouse(t, map[string]scripted{"work": say(status("done"))})
	c := h.soon()
	row := h.begin(c, one("read", ""))
	g := h.ask(row, store.GateInput, store.SourceWorker, "Which colour?")
	if _, err := c.Gates().Answer(t.Context(), g.ID, gate.Answer{Text: "red", Via: store.ViaCLI}); err != nil {
		t.Fatal(err)
	}
	h.jot("blue\n")
	h.readNotes(c, row)
	notes, err := c.noted(t.Context(), row)
	if h.gate(g.ID).Text != "red" || err != nil || len(notes) != 1 || !strings.Contains(notes[0], "> blue") {
		t.Errorf("notes %q: %v", notes, err)
	}
}

func TestNotesOfOddFilesAreRefused(t *testing.T) {
	var said []string
	h := newAsked(t, &said)
	c := h.soon()
	row := h.begin(c, asked)
	os.Remove(h.notesFile())
	if err := syscall.Mkfifo(h.notesFile(), 0o644); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, h.drive(c, row.ID, Resume{}), store.Blocked, "gate")
	if n := h.events(row.ID, "notes.refused"); n != 1 {
		t.Errorf("it was told %d times", n)
	}
	os.Remove(h.notesFile())
	if err := os.Symlink("/etc/hostname", h.notesFile()); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, h.drive(c, row.ID, Resume{}), store.Blocked, "gate")
	if n := h.events(row.ID, "notes.read"); n != 0 {
		t.Errorf("it was read %d times", n)
	}
}

// A session is told what is new, every other prompt all of it.
func TestNotesForPrompts(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	var mu sync.Mutex
	var saw []string
	var h *house
	add := func(role, out string) scripted {
		return func(_ context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			saw = append(saw, role+":"+strings.Join(wordsOf(req.Prompt), " "))
			now = now.Add(time.Minute)
			return agent.Result{Output: []byte(out), Sandbox: "none", Session: "s-" + role, Turn: "t"}, nil
		}
	}
	h = newHouse(t, map[string]scripted{"plan": add("plan", status("ready")), "work": add("work", status("done")),
		"review": nil})
	review := add("review", "")
	h.agents["review"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
		error) {
		res, err := review(ctx, req, emit)
		res.Output = []byte(status([]string{"bad", "good"}[min(req.Visit, 1)]))
		if req.Visit == 0 {
			mu.Lock()
			now = now.Add(time.Minute)
			mu.Unlock()
			h.jot("note-two\n")
			for pos := int64(0); h.events(rootID, "notes.read") < 2; {
				if pos, err = h.store.Wait(ctx, pos); err != nil {
					return res, err
				}
			}
			mu.Lock()
			now = now.Add(time.Minute)
			mu.Unlock()
		}
		return res, err
	}
	h.clock = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	h.wrap = func(a agent.Agent) agent.Agent { return &sessioned{Agent: a} }
	c := h.soon()
	row := h.begin(c, loop)
	h.jot("note-one\n# Now\n")
	wantStatus(t, h.drive(c, row.ID, Resume{}), store.Completed, "")
	want := []string{"plan:note-one", "work:note-one", "review:note-one", "work:note-two", "review:note-two"}
	if !slices.Equal(saw, want) {
		t.Errorf("told %q, want %q", saw, want)
	}
	// Another process reads the same from the journal.
	notes, err := h.controller().noted(t.Context(), row)
	if err != nil || len(notes) != 2 || !strings.HasSuffix(notes[0], "> note-one\n> # Now") {
		t.Errorf("notes %q: %v", notes, err)
	}
}

// wordsOf returns the notes that a prompt contains.
func wordsOf(prompt string) []string {
	var out []string
	for _, word := range strings.Fields(prompt) {
		if strings.HasPrefix(word, "note-") {
			out = append(out, word)
		}
	}
	return out
}

func TestAgentsAreHandedAttachments(t *testing.T) {
	var prompt, file string
	h := newHouse(t, map[string]scripted{"work": func(_ context.Context, req agent.Request,
		_ func(agent.Event) error) (agent.Result, error) {
		data, err := os.ReadFile(filepath.Join(req.Desk.Context, "attachment-api.md"))
		prompt, file = req.Prompt, string(data)
		return agent.Result{Output: []byte(status("done")), Sandbox: "none"}, err
	}})
	c := h.soon()
	row := h.begin(c, one("read", ""))
	if err := os.WriteFile(filepath.Join(h.dir, "api.md"), []byte("one\ntwo\nthree\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(filepath.Dir(h.notesFile()), "context-manifest.yaml")
	text := "attachments:\n  - {id: api, kind: file, path: api.md, range: [2, 2], reason: it counts}\n" +
		"  - {id: no, kind: file, path: nope}\n"
	if err := os.WriteFile(manifest, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, h.drive(c, row.ID, Resume{}), store.Completed, "")
	if file != "two\n" ||
		!strings.Contains(prompt, "attachment api: api.md lines 2-2, because it counts, in "+
			"$PLAIT_CONTEXT/attachment-api.md") ||
		!strings.Contains(prompt, "attachment no is missing") {
		t.Errorf("file %q, prompt %s", file, prompt)
	}
}

// readNotes reads what was written into the notes of a task.
func (h *house) readNotes(c *Controller, row store.Thread) {
	notes.Read(h.t.Context(), notes.Config{Store: c.cfg.Store, Gates: c.gates, Row: row, Now: c.cfg.Now,
		Debounce: c.cfg.NotesDebounce, Poll: true})
}

// noted returns what prompts are told of the notes of a task.
func (c *Controller) noted(ctx context.Context, row store.Thread) ([]string, error) {
	return briefing.New(briefing.Config{Store: c.cfg.Store, Record: record.New(c.Reader(), c.cfg.Store)}).Notes(ctx, row.Task, "")
}
