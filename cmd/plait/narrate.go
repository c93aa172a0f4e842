package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A narrator says events in a few words. It remembers which thread is which path
// or call, so that roles of the same name are told apart.
type narrator struct {
	labels map[string]string          // by thread: "api", "api/develop"; none for the root
	proofs map[string][]string        // by attempt: what evidence it added
	merged func(join dag.Hash) string // what became of the files of paths; nil: nobody knows
}

func newNarrator() *narrator {
	return &narrator{labels: map[string]string{}, proofs: map[string][]string{}}
}

// hear takes note of the threads that an event tells of.
func (n *narrator) hear(ev store.Event) {
	under := func(parent, own string) string {
		if above := n.labels[parent]; above != "" {
			return above + "/" + own
		}
		return own
	}
	switch ev.Type {
	case thread.EvidenceAdded:
		if a, ok := thread.AddedBy(ev); ok {
			n.proofs[ev.Attempt] = append(n.proofs[ev.Attempt], oneLine(a.ID, 100))
		}
	case "thread.forked":
		var p struct{ Paths, Threads []string }
		if json.Unmarshal(ev.Payload, &p) != nil {
			return
		}
		for i, id := range p.Threads {
			if i < len(p.Paths) {
				n.labels[id] = under(ev.Thread, oneLine(p.Paths[i], 40))
			}
		}
	case "thread.started":
		var p struct {
			Flow, Kind string
			Parent     *store.Parent
		}
		if json.Unmarshal(ev.Payload, &p) == nil && p.Parent != nil && p.Kind == store.KindCall {
			n.labels[ev.Thread] = under(p.Parent.Thread, oneLine(p.Flow, 40))
		}
	}
}

// name is who an event of a role is about.
func (n *narrator) name(ev store.Event, role string) string {
	role = oneLine(role, 40)
	switch label := n.labels[ev.Thread]; {
	case label == "":
		return role
	case label == role || strings.HasSuffix(label, "/"+role): // an action
		return label
	default:
		return label + "/" + role
	}
}

// line prints an event as one line or more, or nothing when it says little.
func (n *narrator) line(out io.Writer, ev store.Event) {
	n.hear(ev)
	text := n.describe(ev)
	if text == "" {
		return
	}
	at := time.UnixMilli(ev.TS).Format("15:04:05")
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(out, "%s  %s\n", at, line)
	}
}

// fields reads an event's payload.
func fields(ev store.Event) map[string]any {
	var m map[string]any
	json.Unmarshal(ev.Payload, &m) // no payload, no fields
	return m
}

// describe says an event in a few words.
func (n *narrator) describe(ev store.Event) string {
	p := fields(ev)
	str := func(key string) string { s, _ := p[key].(string); return oneLine(s, 160) }
	// about begins a line about a role; part one about a path or a called thread.
	about := func() string { return fmt.Sprintf("%-12s", n.name(ev, str("role"))) }
	part := func(text string) string {
		if label := n.labels[ev.Thread]; label != "" {
			return fmt.Sprintf("%-12s %s", label, text)
		}
		return text
	}
	switch ev.Type {
	case "task.created":
		return "task " + ev.Task + " created from flow " + str("flow")
	case "thread.forked":
		if fork := str("fork"); fork != "" {
			if str("join") == thread.RoleJoin {
				return part(fmt.Sprintf("%s sets %s to work", fork, oneLine(strings.Trim(fmt.Sprint(p["paths"]), "[]"), 160)))
			}
			return part(fmt.Sprintf("fork %s into %s", fork, oneLine(strings.Trim(fmt.Sprint(p["paths"]), "[]"), 160)))
		}
		return "forked from " + str("from") + " at step " + fmt.Sprint(p["n"])
	case "controller.state.changed":
		if state := str("state"); state != "init" {
			return fmt.Sprintf("%-12s %s", cmp.Or(n.labels[ev.Thread], "controller"), state)
		}
	case "thread.joined":
		if str("join") == thread.RoleJoin {
			return part(fmt.Sprintf("the actions have ended: %s%s  (step %v, %s)", str("outcome"), by(str("decidedBy")), p["n"], clipHash(str("step")))) + n.files(ev, str("step"))
		}
		return part(fmt.Sprintf("join %s → %s%s  (step %v, %s)", str("join"), str("outcome"), by(str("decidedBy")), p["n"], clipHash(str("step")))) + n.files(ev, str("step"))
	case "thread.resumed":
		return part("resumed (was " + str("from") + ")")
	case "thread.compacted":
		return part(fmt.Sprintf("%v steps summarised  (step %v, %s)", p["steps"], p["n"], clipHash(str("step"))))
	case "thread.blocked":
		return part("blocked (" + str("kind") + "): " + str("message"))
	case "thread.ended":
		text := str("status")
		if s := str("summary"); s != "" && s != text {
			text += ": " + s
		}
		return part(text)
	case "attempt.started":
		if n, _ := p["try"].(float64); n > 1 {
			return fmt.Sprintf("%s started again (attempt %d, %s)", about(), int(n), str("agent"))
		}
		return fmt.Sprintf("%s started (%s)", about(), str("agent"))
	case "attempt.completed":
		return fmt.Sprintf("%s → %s  (step %v, %s)", about(), str("status"), p["n"], clipHash(str("step")))
	case "agent.completed", "agent.failed", "agent.blocked", "agent.cancelled":
		if ids := n.proofs[ev.Attempt]; len(ids) > 0 {
			return fmt.Sprintf("%s   + %s", about(), counted(ids))
		}
		if child := str("child"); child != "" {
			return fmt.Sprintf("%s → %s  (step %v, %s)", about(), str("status"), p["n"], clipHash(str("step")))
		}
	case "attempt.failed", "attempt.interrupted":
		return fmt.Sprintf("%s failed (%s): %s", about(), str("kind"), str("message"))
	case "artifact.written":
		return fmt.Sprintf("%-12s left %s", ev.Instance, oneLine(fmt.Sprint(p["names"]), 160))
	case "gate.blocked":
		return fmt.Sprintf("%-12s asks: %s  (plait gate show %s)", cmp.Or(ev.Instance, n.name(ev, str("node"))), str("question"), str("gate"))
	case "gate.approved", "gate.rejected", "gate.answered", "gate.expired", "gate.withdrawn":
		return fmt.Sprintf("%-12s gate %s %s%s", cmp.Or(ev.Instance, n.name(ev, str("node"))), str("gate"), strings.TrimPrefix(ev.Type, "gate."), by(str("by")))
	case "notes.read":
		if to := str("gate"); to != "" {
			return "notes answer gate " + to + ": " + str("text")
		}
		return "notes read: " + str("text")
	case "notes.refused":
		return "notes are not read: " + str("message")
	case "limit.reached":
		return part("limit reached: " + str("message"))
	case "agent.item":
		role, _ := items(ev)
		return itemLines(ev, n.name(ev, role))
	}
	return ""
}

// files says what became, at a join, of the files that its paths changed.
func (n *narrator) files(ev store.Event, step string) string {
	h, err := dag.ParseHash(step)
	if n.merged == nil || err != nil {
		return ""
	}
	text := ""
	for line := range strings.Lines(n.merged(h)) {
		text += fmt.Sprintf("\n%-12s   %s", n.labels[ev.Thread], oneLine(strings.TrimPrefix(line, "- "), 200))
	}
	return text
}

// counted says what evidence was added.
func counted(ids []string) string {
	switch n := len(ids); n {
	case 1:
		return "evidence:" + ids[0]
	case 2:
		return "evidence:" + ids[0] + ", evidence:" + ids[1]
	default:
		return fmt.Sprintf("%d entries of evidence, evidence:%s to %s", n, ids[0], ids[n-1])
	}
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

func clipHash(h string) string {
	if len(h) > 12 {
		return h[:12]
	}
	return h
}
