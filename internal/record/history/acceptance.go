package history

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

// An Acceptance is what a person signs who knows why the log does not continue what someone saw of it: a backup was
// restored, or a server took over that lacked the last commits. It gives up what was seen beyond the first Kept
// entries, up to that head, and nothing else.
//
// With Copy it says instead that the record is a copy of another, and shares the first Size entries with it.
type Acceptance struct {
	At     int64    `json:"at"`     // Unix ms
	By     string   `json:"by"`     // who saw the head: a witness, see verify.Seen
	Copy   string   `json:"copy"`   // the origin of the log from here on; "" if the record is no copy
	Kept   int64    `json:"kept"`   // entries that are as they were seen
	Origin string   `json:"origin"` // of the head
	Reason string   `json:"reason"`
	Root   dag.Hash `json:"root"`
	Size   int64    `json:"size"`
}

// Sign returns the event that accepts, signed by a person.
func (a Acceptance) Sign(key ssh.Signer, by string) (store.Event, error) {
	message, err := dag.Marshal(a)
	if err != nil {
		return store.Event{}, fmt.Errorf("sign acceptance of %d entries: %w", a.Size, err)
	}
	signed, err := sign(key, NamespaceLog, message)
	return event.New(store.Thread{}, a.At, event.HistoryAccepted{By: by, Reason: event.Text(a.Reason),
		Signed: string(signed)}), err
}

// AcceptanceEvents selects the events that OpenAcceptance reads.
func AcceptanceEvents() store.EventFilter {
	return store.EventFilter{Types: event.Types(event.HistoryAccepted{})}
}

// OpenAcceptance returns what a person accepted with an event, and their key. Whether that key counts is for the caller
// to say. The error matches [sshsig.ErrInvalid].
func OpenAcceptance(ev store.Event) (a Acceptance, by ssh.PublicKey, err error) {
	p, ok := event.Read(ev).(event.HistoryAccepted)
	if !ok {
		return a, nil, fmt.Errorf("%w: the event accepts nothing", sshsig.ErrInvalid)
	}
	by, err = Signed(p.Signed).open(NamespaceLog, &a)
	return a, by, err
}

// Covers reports whether a head of the log that was seen, and that the log does not continue, is accepted.
func (a Acceptance) Covers(size int64, root dag.Hash) bool {
	return a.Copy == "" && a.Kept < size && (size < a.Size || size == a.Size && root == a.Root)
}

// Counts returns why a person's word for a history that is not as it was seen does not count, nil if it does. If it is
// nil, nobody's does.
type Counts func(key ssh.PublicKey, at time.Time) error

// Accept reports whether one of the events that AcceptanceEvents selects accepts that the log does not continue what
// was seen. The error says that only people accept it whose word does not count; a nil counts says that of all.
func Accept(events []store.Event, size int64, root dag.Hash, counts Counts) (ok bool, err error) {
	for _, ev := range events {
		a, key, invalid := OpenAcceptance(ev)
		if invalid != nil || !a.Covers(size, root) {
			continue
		}
		why := counts.Of(key, a.At)
		if why == nil {
			return true, nil
		}
		err = fmt.Errorf("%s accepts it, which does not count: %w", sshsig.Fingerprint(key), why)
	}
	return false, err
}

// Of returns why a person's word of a time, in Unix ms, does not count.
func (c Counts) Of(key ssh.PublicKey, at int64) error {
	if c == nil {
		return errors.New("nobody's does here")
	}
	return c(key, time.UnixMilli(at))
}
