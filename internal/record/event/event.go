// Package event declares what can happen to a task: the types of events and their payloads.
//
// New turns a payload into a row of the journal, and Read turns it back. Laws:
//
//   - The name of a type is written here and nowhere else.
//   - An event always fits into the journal: texts are cut, and a payload that is still too
//     large is replaced by a marker.
//   - Readers skip events that they do not know or understand.
//
// The package never decides that something has happened, and never commits.
package event

import (
	"encoding/json"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
)

// A Payload is the content of an event. Its Go type determines the event's type.
type Payload interface{ event() string }

// New returns an event of a thread with payload p. at is its time in Unix ms.
func New(row store.Thread, at int64, p Payload) store.Event {
	return store.Event{TS: at, Type: p.event(), Task: row.Task, Thread: row.ID, Payload: encode(p)}
}

// OfAttempt returns an event of an attempt and its instance with payload p.
func OfAttempt(row store.Thread, a store.Attempt, at int64, p Payload) store.Event {
	ev := New(row, at, p)
	ev.Instance, ev.Attempt = a.Instance, a.ID
	return ev
}

// tooLarge replaces a payload that does not fit into the journal.
var tooLarge = json.RawMessage(`{"cut":true}`)

func encode(p Payload) json.RawMessage {
	for {
		data, err := json.Marshal(p)
		if err == nil && len(data) <= store.MaxEventPayload {
			return data
		}
		long, ok := p.(interface{ shorter() (Payload, bool) })
		if err != nil || !ok {
			return tooLarge
		}
		if p, ok = long.shorter(); !ok {
			return tooLarge
		}
	}
}

// Read returns the payload of an event, nil if its type is unknown or it cannot be decoded.
func Read(ev store.Event) Payload {
	decode, ok := decoders[ev.Type]
	if !ok {
		return nil
	}
	p, err := decode(ev.Payload)
	if err != nil {
		return nil
	}
	switch p := p.(type) {
	case TaskEnded:
		p.State = strings.TrimPrefix(ev.Type, "task.")
		return p
	case AttemptFailed:
		p.Interrupted = ev.Type == AttemptFailed{Interrupted: true}.event()
		return p
	case AgentEnded:
		p.State = store.Status(strings.TrimPrefix(ev.Type, "agent."))
		return p
	case GateChanged:
		p.Change = Change(strings.TrimPrefix(ev.Type, "gate."))
		return p
	}
	return p
}

// All returns all event types.
func All() []string {
	var types []string
	for _, f := range forms() {
		types = append(types, f.of.event())
	}
	return types
}

// Types returns the types of payloads, for a filter of the journal.
func Types(of ...Payload) []string {
	types := make([]string, len(of))
	for i, p := range of {
		types[i] = p.event()
	}
	return types
}

// Type returns the type of events with payload p.
func Type(p Payload) string { return p.event() }

// Is reports whether ev has the type of p.
func Is(ev store.Event, p Payload) bool { return ev.Type == p.event() }

// decoders decode payloads, by type.
var decoders = readers()

func readers() map[string]func([]byte) (Payload, error) {
	m := map[string]func([]byte) (Payload, error){}
	for _, f := range forms() {
		m[f.of.event()] = f.decode
	}
	return m
}

// A form is one type of event.
type form struct {
	of     Payload
	decode func([]byte) (Payload, error)
}

func one[P Payload](of P) form {
	return form{of, func(data []byte) (Payload, error) {
		var p P
		err := json.Unmarshal(data, &p)
		return p, err
	}}
}

// MaxText is the maximum length of a text in an event or a reason, in bytes.
const MaxText = 2000

// A Text is a text of which an event holds at most MaxText bytes.
type Text string

// MarshalJSON writes at most MaxText bytes of t.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal(Clip(string(t), MaxText)) }

// Brief cuts a text to MaxText.
func Brief(s string) string { return Clip(store.Text(s), MaxText) }

// Clip cuts s to at most n bytes at a character boundary. A text that was cut ends with an ellipsis, which [text.Clip]
// does not count.
func Clip(s string, n int) string {
	const mark = "…"
	if len(s) <= n {
		return s
	}
	return text.Head(s, n-len(mark)) + mark
}
