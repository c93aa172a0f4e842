package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/ui/tui"
	"github.com/plait-run/plait/internal/view"
)

// gates opens gates for the task and returns them.
func (p *place) gates(gates ...store.Gate) []store.Gate {
	p.t.Helper()
	s, err := sqlite.Open(p.t.Context(), sqlite.Config{Dir: filepath.Join(p.work, "home")})
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.Close()
	row, err := s.Thread(p.t.Context(), killID)
	if err != nil {
		p.t.Fatal(err)
	}
	for i, g := range gates {
		g.Task, g.Thread, g.From, g.Source = row.Task, row.ID, row.Head, store.SourceAgent
		if gates[i], err = gate.New(gate.Config{Store: s}).Open(p.t.Context(), g); err != nil {
			p.t.Fatal(err)
		}
	}
	return gates
}

func (p *place) gate(id string) store.Gate {
	p.t.Helper()
	out, code := p.run("gate", "show", id, "--json")
	var v struct{ Data store.Gate }
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		p.t.Fatalf("gate %s: exit code %d, %v: %s", id, code, err, out)
	}
	return v.Data
}

// TestInbox answers gates without leaving: what is approved was shown before, and text
// from agents is inert.
func TestInbox(t *testing.T) {
	p := newPlace(t)
	p.write("fails.yaml", `version: 1
name: fails
roles:
  one: {description: fails, retry: {max: 0}, agent: {kind: command, command: [fake, exit=3]}}
graph:
  $START: {new: {role: one, prompt: "{{ prompt }}"}}
  one: {done: {role: $END, prompt: done}}
`)
	if out, code := p.run("run", "fails.yaml", "-p", "go", "-q", "--id", killID); code != exitFailed {
		t.Fatalf("exit code %d: %s", code, out)
	}
	gates := p.gates(
		store.Gate{Kind: store.GateApproval, Question: "\x1b[2JMay I?",
			Action: json.RawMessage(`{"type":"command","command":"make \u001b]52;c;eA==\u0007 test"}`)},
		store.Gate{Kind: store.GateApproval, Question: "And this?",
			Action: json.RawMessage(`{"type":"command","command":"rm -rf /"}`)},
		store.Gate{Kind: store.GateInput, Question: "Which colour?", Options: []string{"red", "\u202eder"}},
	)
	s := p.session(100, 30, "gate", "watch")
	s.see(`NEEDS YOU \(3\)`)
	on := func(question string) {
		t.Helper()
		_, rows, _ := strings.Cut(s.see(question), "NEEDS YOU")
		above, _, _ := strings.Cut(rows, question)
		s.press("up", "up", "up", "up", "up", "up")
		for range strings.Count(above, "\n") - 1 {
			s.press("down")
		}
		s.see(`▸.*` + question)
		s.press("enter")
	}
	on("May I")
	s.see(`command +make \\x1b\]52;c;eA==\\x07 test`)
	s.press("enter", "y", "e", "s", "enter") // neither text nor Enter approves
	s.see("a approve · d deny")
	s.press("a")
	s.see(`NEEDS YOU \(2\)`)
	on("And this")
	s.see("command +rm -rf /")
	s.press("d")
	s.see("reason")
	s.press("a never", "enter")
	s.see(`NEEDS YOU \(1\)`)
	on("Which colour")
	s.see(`2 +\\u202eder`)
	s.press("a blue sky", "enter")
	s.see(`NEEDS YOU\n +nothing`)
	s.press("q")
	code := s.end()
	if !strings.Contains(s.all(), beginWhole) {
		t.Error("the program does not say where an update of the screen begins")
	}
	// The screen is cleared from its corner. What the agent said is drawn elsewhere.
	if text := unescaped(strings.ReplaceAll(s.all(), "\x1b[H\x1b[2J", "")); code != 0 || !inert(text) {
		t.Errorf("exit code %d, wrote %q", code, text)
	}
	for i, want := range []struct {
		state store.GateState
		text  string
	}{{store.GateApproved, ""}, {store.GateRejected, "a never"}, {store.GateAnswered, "a blue sky"}} {
		if g := p.gate(gates[i].ID); g.State != want.state || g.Text != want.text || g.Via != store.ViaCLI || g.By == "" ||
			g.Grant != store.GrantOnce {
			t.Errorf("gate %d: %+v", i, g)
		}
	}
}

// TestPlain answers line by line. A yes names what it is for, so that nothing typed for another
// question, or ahead, approves.
func TestPlain(t *testing.T) {
	p := newPlace(t)
	p.repository()
	s := p.session(80, 24, "--plain", "run", "day", "-p", "Paint the door")
	s.see(`Your answer:`)
	s.press("2", "enter")
	s.see(`or "deny" and a reason:`)
	s.press("approve", "enter", "a", "enter", "enter", "approve ffff", "enter")
	s.see(`(?s)Nothing was approved.*Nothing was approved.*Nothing was approved`)
	code := regexp.MustCompile(`Type "approve (\w+)"`).FindStringSubmatch(s.screen())[1]
	s.press("approve "+code, "enter")
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.see("done")
	if all := s.all(); strings.Contains(all, "\x1b[?") || strings.Contains(all, "\x1b[A") {
		t.Errorf("something moved: %q", all)
	}
}

// configure has the project's agent it say what is given.
func (p *place) configure(says ...string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Join(p.work, "ws", ".plait"), 0o755); err != nil {
		p.t.Fatal(err)
	}
	p.write(".plait/config.yaml",
		"default: it\nagents: {it: {kind: command, command: [fake, "+strings.Join(says, ", ")+"]}}\n")
}

// TestPlainSaysWhatFails checks that an answer after which its task does not continue says why.
func TestPlainSaysWhatFails(t *testing.T) {
	p := newPlace(t)
	p.configure("say=words")
	p.write("asks.yaml", `version: 1
name: asks
roles: {first: {description: says it}}
gates: {ask: {kind: input, question: "Which colour?"}}
graph:
  $START: {new: {role: ask}}
  ask: {answered: {role: first, prompt: "{{ answer }}"}}
  first: {done: {role: $END, prompt: done}}
`)
	if out, code := p.run("run", "asks.yaml", "-p", "go", "-q"); code != exitPerson {
		t.Fatalf("exit code %d: %s", code, out)
	}
	p.configure("say=others")
	s := p.session(300, 24, "--plain", "gate", "watch")
	s.see("Your answer:")
	s.press("blue", "enter")
	s.see(`did not continue: .*config\.yaml changed since`)
	s.press("ctrl+c")
	s.end()
}

// TestNotDetached checks that a task that was stopped for a background process, which refuses it, is not said to run.
func TestNotDetached(t *testing.T) {
	p := newPlace(t)
	p.configure("begun=../begun", "await=../go")
	p.write("waits.yaml", `version: 1
name: waits
roles: {first: {description: waits}}
graph:
  $START: {new: {role: first, prompt: "{{ prompt }}"}}
  first: {done: {role: $END, prompt: done}}
`)
	s := p.session(300, 30, "run", "waits.yaml", "-p", "go")
	s.await("the agent does not begin", func(string) bool {
		_, err := os.Stat(filepath.Join(p.work, "begun"))
		return err == nil
	})
	p.configure("say=others")
	s.press("ctrl+c")
	s.see("d detach")
	s.press("d")
	if code := s.end(); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if now := s.see("the task was stopped; continue with: plait resume"); strings.Contains(now, "in the background") {
		t.Errorf("it is said to run:\n%s", now)
	}
}

// TestPlainSaysWhatIsNotKept checks that an answer that cannot be recorded is not lost silently.
func TestPlainSaysWhatIsNotKept(t *testing.T) {
	kept := mem.New(mem.Config{})
	row := housetest.Begin(t.Context(), t, kept, store.Thread{ID: killID, CreatedAt: 1},
		housetest.Bundle(t, housetest.TwoSteps("read")), "go")
	if _, err := gate.New(gate.Config{Store: kept}).Open(t.Context(), store.Gate{Kind: store.GateInput,
		Source: store.SourceFlow, Task: row.ID, Thread: row.ID, From: row.Head, Question: "Which?"}); err != nil {
		t.Fatal(err)
	}
	full := kept.With(func(op mem.Op, _ mem.When) error {
		if op == mem.OpCommit {
			return errors.New("the disk is full")
		}
		return nil
	})
	var out bytes.Buffer
	p := tui.NewPlain(tui.Config{Store: full, Views: &view.Reader{Store: full, Nodes: thread.NewReader(full)},
		Book: gate.New(gate.Config{Store: full}), Person: "ada", In: strings.NewReader("blue\n"), Out: &out})
	askPlain(t.Context(), p, row.ID)
	if !strings.Contains(out.String(), "no longer asked here: ") || !strings.Contains(out.String(), "the disk is full") {
		t.Errorf("it says %q", out.String())
	}
}

// TestPlainTypedTooEarly checks that a line that was typed before anything is asked answers nothing, and that the end
// of the input is heard meanwhile.
func TestPlainTypedTooEarly(t *testing.T) {
	s := mem.New(mem.Config{})
	row := housetest.Begin(t.Context(), t, s, store.Thread{ID: killID, CreatedAt: 1},
		housetest.Bundle(t, housetest.TwoSteps("read")), "go")
	var out bytes.Buffer
	p := tui.NewPlain(tui.Config{Store: s, Views: &view.Reader{Store: s, Nodes: thread.NewReader(s)},
		Book: gate.New(gate.Config{Store: s}), Person: "ada", In: strings.NewReader("blue\n"), Out: &out})
	if err := p.Ask(t.Context(), row.ID, nil); !errors.Is(err, io.EOF) || !strings.Contains(out.String(),
		"that line was not sent") {
		t.Errorf("%v, %q", err, out.String())
	}
}
