package store

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Check returns ErrInvalid, with the reason, if b holds something that no store accepts: an
// object without a hash, a count without a task or a name, a payload that is too large, a
// text with a NUL or invalid UTF-8. Stores call it before others wait for the batch.
func (b Batch) Check() error {
	for _, err := range []error{checkTexts("remove", "", b.Remove), checkTexts("unpin", "", b.Unpin)} {
		if err != nil {
			return err
		}
	}
	for _, f := range b.Under {
		if err := checkTexts("fence", f.Name, []string{f.Name}); err != nil {
			return err
		}
	}
	for _, o := range b.Objects {
		if o.Hash.IsZero() {
			return fmt.Errorf("object without a hash: %w", ErrInvalid)
		}
	}
	for i := range b.Threads {
		t := &b.Threads[i].Row
		if err := checkTexts("thread", t.ID, t.texts()); err != nil {
			return err
		}
	}
	for i := range b.Attempts {
		a := &b.Attempts[i].Row
		texts := []string{a.ID, a.Thread, a.Role, a.Agent, a.Instance, string(a.Status), a.Session, a.Turn, a.Tag, a.Host,
			a.Boot}
		if a.Failure != nil {
			texts = append(texts, string(a.Failure.Kind), a.Failure.Message)
		}
		if err := checkTexts("attempt", a.ID, texts); err != nil {
			return err
		}
	}
	for i := range b.Gates {
		g := &b.Gates[i].Row
		texts := append([]string{g.ID, string(g.Kind), string(g.State), string(g.Source), g.Task, g.Thread, g.Node,
			g.Instance, g.Attempt, g.Question, string(g.Grant), g.OnTimeout, g.By, string(g.Via), g.Text, g.Ref,
			g.Signature}, g.Options...)
		if err := checkTexts("gate", g.ID, texts); err != nil {
			return err
		}
	}
	for i := range b.Flows {
		if err := checkTexts("flow", b.Flows[i].Row.Name, []string{b.Flows[i].Row.Name}); err != nil {
			return err
		}
	}
	for i := range b.Requests {
		if err := b.Requests[i].Row.check(); err != nil {
			return err
		}
	}
	for i := range b.Redact.Requests {
		if err := b.Redact.Requests[i].check(); err != nil {
			return err
		}
	}
	for _, c := range b.Counts {
		if c.Task == "" || c.Name == "" {
			return fmt.Errorf("count %q of task %q: %w", c.Name, c.Task, ErrInvalid)
		}
		if err := checkTexts("count", c.Name, []string{c.Task, c.Name}); err != nil {
			return err
		}
	}
	for i := range b.Events {
		e := &b.Events[i]
		if n := len(e.Payload); n > MaxEventPayload {
			return fmt.Errorf("event %s: payload of %d bytes is over %d: %w", e.Type, n, MaxEventPayload, ErrInvalid)
		}
		if err := checkTexts("event", e.Type, []string{e.Type, e.Task, e.Thread, e.Instance, e.Attempt}); err != nil {
			return err
		}
	}
	return nil
}

// texts returns the parts of a row that must be text.
func (t *Thread) texts() []string {
	texts := []string{t.ID, t.Short, t.Task, t.Root, string(t.Kind), t.Flow, string(t.Status), string(t.Intent),
		t.InFlight, t.Tree, t.Workspace, t.Host}
	if r := t.Reason; r != nil {
		texts = append(texts, string(r.Kind), r.Message, r.Gate, r.Limit, r.Raise, string(r.Failure))
		for name, why := range r.Workers {
			texts = append(texts, name, why)
		}
	}
	if p := t.Path; p != nil {
		texts = append(texts, p.Key, p.ID, p.Join)
	}
	if t.Parent != nil {
		texts = append(texts, t.Parent.Thread)
	}
	if t.ForkedFrom != nil {
		texts = append(texts, t.ForkedFrom.Thread)
	}
	return texts
}

func (w *Request) check() error {
	return checkTexts("request", w.ID, []string{w.ID, w.Task, w.Thread, string(w.Kind), w.Text, w.By, string(w.Via)})
}

func checkTexts(what, id string, texts []string) error {
	for _, s := range texts {
		if !IsText(s) {
			return fmt.Errorf("%s %q: %.40q is not UTF-8 text without NUL: %w", what, id, s, ErrInvalid)
		}
	}
	return nil
}

// IsText reports whether a row can hold s: valid UTF-8 without NUL.
func IsText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// Text returns s as a row can hold it: NUL and invalid UTF-8 become U+FFFD.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
