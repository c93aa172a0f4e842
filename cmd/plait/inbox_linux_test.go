package main

import (
	"encoding/json"
	"path/filepath"
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

// TestInbox answers gates without leaving: what is approved was shown before, and what
// agents wrote is inert.
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
	// In the order they are listed: by time, then by id.
	numbers := map[string]string{}
	out, code := p.onTerminal("q\n", "gate", "watch")
	if code != 0 || !strings.Contains(out, "3 gates wait for you") {
		t.Fatalf("exit code %d: %q", code, out)
	}
	for _, g := range gates {
		head, _, _ := strings.Cut(unescaped(out), "  "+g.ID)
		numbers[g.ID] = strings.TrimSpace(head[strings.LastIndexByte(head, '\n')+1:])
	}
	make, rm, colour := numbers[gates[0].ID], numbers[gates[1].ID], numbers[gates[2].ID]
	typed := strings.Join([]string{
		"99", "a", make + " a", "a fine by me", "m fine", "m fine by me", "a", // the first "a" has nothing, the second shows, the third is a text
		rm, "answer yes", "Approve nothing of that", "Do not", "", rm, "m never", "d", colour, "a", "answer blue sky", "nonsense", "q", "",
	}, "\n")
	out, code = p.onTerminal(typed, "gate", "watch", killID)
	text := unescaped(out)
	if code != 0 || !inert(text) {
		t.Errorf("exit code %d, wrote %q", code, text)
	}
	for _, want := range []string{
		"number 99 does not wait here", "which one? Type its number first", "look at it first; then answer", "not a command; nothing was approved", "asks for an approval: a or d",
		"asks a question: answer TEXT", gates[0].ID + "  approved", gates[1].ID + "  rejected", gates[2].ID + "  answered", "continue with: plait resume",
		"nothing waits for you", `command: make \x1b]52`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in %s", want, text)
		}
	}
	for i, want := range []struct {
		state store.GateState
		text  string
	}{{store.GateApproved, "fine by me"}, {store.GateRejected, "never"}, {store.GateAnswered, "blue sky"}} {
		if g := p.gate(gates[i].ID); g.State != want.state || g.Text != want.text || g.Via != store.ViaCLI || g.By == "" || g.Grant != store.GrantOnce {
			t.Errorf("gate %d: %+v", i, g)
		}
	}
	// The end of the input ends it.
	if out, code := p.onTerminal("\x04", "gate", "watch"); code != 0 {
		t.Errorf("exit code %d: %q", code, out)
	}
}
