package cli

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/store/sqlite"
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
		store.Gate{Kind: store.GateApproval, Question: "\x1b[2JMay I?", Action: json.RawMessage(`{"type":"command","command":"make \u001b]52;c;eA==\u0007 test"}`)},
		store.Gate{Kind: store.GateApproval, Question: "And this?", Action: json.RawMessage(`{"type":"command","command":"rm -rf /"}`)},
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
		if g := p.gate(gates[i].ID); g.State != want.state || g.Text != want.text || g.Via != store.ViaCLI || g.By == "" || g.Grant != store.GrantOnce {
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
