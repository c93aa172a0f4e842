package agenttest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/agent"
)

func (l *lab) continues(t *testing.T) agent.Continuer {
	t.Helper()
	a, ok := l.agent.(agent.Continuer)
	if !ok {
		t.Fatal("it is no Continuer; if it cannot be one, Lacks has to say so")
	}
	return a
}

func (l *lab) continued(t *testing.T) {
	a := l.continues(t)
	y := l.try(t, "case first")
	one := l.works(t, y, nil)
	if s := y.session.Load(); one.Session == "" || s == nil || *s != one.Session {
		t.Fatalf("the session %q was not told when it was opened", one.Session)
	}
	z := l.after(t, y, "case second", one.Session)
	if !a.Continues(z.req) {
		t.Fatal("the session cannot be continued")
	}
	two := l.works(t, z, nil)
	if two.Session != one.Session || two.Turn == one.Turn && two.Turn != "" {
		t.Errorf("got %+v after %+v", two, one)
	}
	holds(t, l.last(t, "case second"), map[string]bool{"case first": true})
	z.req.Session = "no-such-session"
	if a.Continues(z.req) {
		t.Error("a session that never was can be continued")
	}
}

// forked branches off from a session with two turns: after the first of them, or after both.
func (l *lab) forked(t *testing.T, first bool) {
	a, ok := l.agent.(agent.Forker)
	if !ok {
		t.Fatal("it is no Forker; if it cannot be one, Lacks has to say so")
	}
	mark := fmt.Sprintf("(%s)", t.Name())
	y := l.try(t, "case first "+mark)
	one := l.works(t, y, nil)
	l.works(t, l.after(t, y, "case second", one.Session), nil)
	from := agent.Branch{Home: y.req.Home, Session: one.Session}
	if first {
		from.Turn = one.Turn
	}
	homes := map[string]string{"same": y.req.Home}
	if first {
		homes["other"] = t.TempDir()
	}
	for name, home := range homes {
		z := l.after(t, y, "case fork in the "+name+" home "+mark, "")
		z.req.Home, z.req.From = home, &from
		if !a.Forks(z.req) {
			t.Fatal("the session cannot be forked")
		}
		fork := l.works(t, z, nil)
		if s := z.session.Load(); fork.Session == one.Session || s == nil || *s != fork.Session {
			t.Errorf("the fork of %s is the session %s", one.Session, fork.Session)
		}
		holds(t, l.last(t, z.req.Prompt), map[string]bool{"case first " + mark: true, "case second": !first})
		if !first {
			continue
		}
		again := l.after(t, z, "case on in the "+name+" home "+mark, fork.Session)
		l.works(t, again, nil)
		holds(t, l.last(t, again.req.Prompt), map[string]bool{z.req.Prompt: true, "case second": !first})
	}
	if !first {
		return
	}
	l.works(t, l.after(t, y, "case third "+mark, one.Session), nil)
	holds(t, l.last(t, "case third "+mark), map[string]bool{"case second": true, "case fork": false})
}

func (l *lab) shaped(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"$status":{"enum":["done"]},` +
		`"count":{"type":"integer"}},"required":["$status","count"]}`)
	if a, ok := l.agent.(agent.Shaper); !ok || !a.Shapes(schema) {
		t.Fatal("it is no Shaper; if it cannot be one, Lacks has to say so")
	}
	y := l.try(t, "case shape")
	y.odd = true
	y.req.Schema, y.req.Shaped = schema, true
	out := string(l.works(t, y, nil).Output)
	front, text, _ := strings.Cut(strings.TrimPrefix(out, "---\n"), "\n---\n")
	var fields map[string]any
	err := yaml.Unmarshal([]byte(front), &fields) // JSON is YAML
	if err != nil || fields["$status"] != "done" || fields["count"] != 7 || strings.TrimSpace(text) != "the text" {
		t.Errorf("got output %q", out)
	}
	said := y.of(agent.EventMessage, "completed")
	if len(said) != 1 || !strings.Contains(said[0].Text, "the text") {
		t.Errorf("got messages %+v", said)
	}
}
