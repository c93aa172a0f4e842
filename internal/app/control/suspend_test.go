package control

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A role that suspends itself asks through a gate. However it is answered the role runs again, and
// the text of a request to continue is kept as it was before such gates existed.
func TestSuspendAndAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		old    bool // the thread was left by a version that opened no gate
		answer func(h *house, row store.Thread) Resume
		source string
		gate   bool
	}{
		"by the order to go on": {source: "resume", gate: true, answer: func(*house, store.Thread) Resume {
			return Resume{Prompt: "port 8080"}
		}},
		"at its gate": {source: "gate", gate: true, answer: func(h *house, row store.Thread) Resume {
			h.answers(h.controller(), row, "port 8080")
			return Resume{}
		}},
		"without a gate": {old: true, source: "resume", answer: func(*house, store.Thread) Resume {
			return Resume{Prompt: "port 8080"}
		}},
		"at the gate that it gets": {old: true, source: "gate", gate: true, answer: func(h *house, row store.Thread) Resume {
			row = h.drive(h.controller(), row.ID, Resume{})
			wantStatus(h.t, row, store.Blocked, "input")
			h.answers(h.controller(), row, "port 8080")
			return Resume{}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, map[string]scripted{"work": func(_ context.Context, req agent.Request,
				_ func(agent.Event) error) (agent.Result, error) {
				if strings.Contains(req.Prompt, "port 8080") {
					return agent.Result{Output: []byte(`{"$status":"done","n":8080}`)}, nil
				}
				return agent.Result{Output: []byte(`{"$status":"$SUSPEND","reason":"which port?"}`)}, nil
			}})
			row := h.run(one("write", schema))
			wantStatus(t, row, store.Blocked, "input")
			if row.Reason.Message != "which port?" {
				t.Errorf("reason %q", row.Reason.Message)
			}
			row = h.drive(h.controller(), row.ID, Resume{})
			wantStatus(t, row, store.Blocked, "input")
			gates, err := h.store.Gates(t.Context(), store.GateFilter{Task: row.Task})
			if err != nil || len(gates) != 1 || gates[0].ID != row.Reason.Gate {
				t.Fatalf("gates: %+v, %v", gates, err)
			}
			g := gates[0]
			if g.Node != "work" || g.Instance != "work" || g.Question != "which port?" || g.Source != store.SourceAgent {
				t.Errorf("asked by %s, instance %q, source %s: %s", g.Node, g.Instance, g.Source, g.Question)
			}
			if tt.old {
				row = h.withoutGate(row, g)
			}
			row = h.drive(h.controller(), row.ID, tt.answer(h, row))
			wantStatus(t, row, store.Completed, "")
			if diff := cmp.Diff([]string{"work", "__input__", "work", "__end__"}, h.roles(row)); diff != "" {
				t.Errorf("roles: -want +got\n%s", diff)
			}
			if source, gate := h.inputOf(row); source != tt.source || (gate != "") != tt.gate {
				t.Errorf("the answer came from %q, gate %q", source, gate)
			}
		})
	}
}

// withoutGate leaves a thread that waits for input as older versions did.
func (h *house) withoutGate(row store.Thread, g store.Gate) store.Thread {
	h.t.Helper()
	if _, err := h.controller().Gates().Withdraw(h.t.Context(), g, "there was none"); err != nil {
		h.t.Fatal(err)
	}
	was := row.State()
	row.Reason = &store.Reason{Kind: store.ReasonInput, Message: row.Reason.Message}
	b := stated(row.Task, store.Batch{Threads: []store.ThreadChange{{Row: row, From: was}}})
	if err := h.store.Commit(h.t.Context(), b); err != nil {
		h.t.Fatal(err)
	}
	return row
}

// inputOf returns the source of a thread's only input, and the gate that it answers.
func (h *house) inputOf(row store.Thread) (source, gate string) {
	h.t.Helper()
	for s, err := range thread.NewReader(h.store).Walk(h.t.Context(), row.Head) {
		if err != nil {
			h.t.Fatal(err)
		}
		if s.State.Role == thread.RoleInput {
			var meta struct{ Source, Gate string }
			if err := json.Unmarshal(s.State.Meta, &meta); err != nil {
				h.t.Fatal(err)
			}
			return meta.Source, meta.Gate
		}
	}
	return "", ""
}
