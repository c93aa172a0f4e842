package history

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/mod/sumdb/note"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

// An Admission is what a person signs who vouches for a log key: it signs checkpoints of this log.
type Admission struct {
	At     int64  `json:"at"` // Unix ms
	Host   string `json:"host"`
	Key    string `json:"key"` // see [LogKey.Public]
	Origin string `json:"origin"`
}

// A Revocation is what a person signs who withdraws that.
type Revocation struct {
	At     int64  `json:"at"` // Unix ms
	Key    string `json:"key"`
	Origin string `json:"origin"`
	Reason string `json:"reason"`
}

// Verifier returns the key as one that verifies checkpoints of the log. The error says why it is none.
func (a Admission) Verifier() (note.Verifier, error) {
	v, err := note.NewVerifier(a.Key)
	if err == nil && v.Name() != a.Origin {
		err = fmt.Errorf("it is of the log %s, not of %s", v.Name(), a.Origin)
	}
	if err != nil {
		return nil, fmt.Errorf("read log key: %w", err)
	}
	return v, nil
}

// Sign returns the event that admits the key, signed by a person.
func (a Admission) Sign(key ssh.Signer, by string) (store.Event, error) {
	signed, err := signKey(key, a, a.Key)
	return event.New(store.Thread{}, a.At, event.KeyAdmitted{Key: a.Key, Host: a.Host, By: by,
		Signed: string(signed)}), err
}

// Sign returns the event that revokes the key, signed by a person.
func (r Revocation) Sign(key ssh.Signer, by string) (store.Event, error) {
	signed, err := signKey(key, r, r.Key)
	return event.New(store.Thread{}, r.At, event.KeyRevoked{Key: r.Key, By: by, Reason: event.Text(r.Reason),
		Signed: string(signed)}), err
}

func signKey(key ssh.Signer, message any, named string) (Signed, error) {
	data, err := dag.Marshal(message)
	if err != nil {
		return "", fmt.Errorf("sign about log key %s: %w", named, err)
	}
	return sign(key, NamespaceLog, data)
}

// KeyEvents selects the events that Keys reads.
func KeyEvents() store.EventFilter {
	return store.EventFilter{Types: event.Types(event.KeyAdmitted{}, event.KeyRevoked{}, event.HistoryAccepted{})}
}

// Keys are the log keys that people vouch for.
type Keys struct {
	origin string
	counts Counts             // whose word counts; nil: anybody's
	former map[string]int64   // of a copy: the origins that its log had, and the size at which each ended
	known  map[string]*logKey // by Key
}

type logKey struct {
	verifier note.Verifier
	by       ssh.PublicKey // who vouches for it
	host     string        // whose it is, as they say
	revoked  int64         // position of the entry that revokes it; zero: none does
}

// ReadKeys reads the events about the log keys of one log. An event that is not signed as it says counts for nothing,
// and neither does one about another log: keys that it would admit are not vouched for. A key can be revoked by
// whoever vouched for it, and by whoever vouches for another one. What was revoked stays so. The log of a copy is also
// that of its original, as far as they are the same. Nobody vouches for a key whose word does not count; a nil counts
// says that anybody's does.
func ReadKeys(origin string, events []store.Event, counts Counts) Keys {
	k := Keys{origin, counts, map[string]int64{}, map[string]*logKey{}}
	for _, ev := range events {
		if a, _, err := OpenAcceptance(ev); err == nil && a.Copy != "" && a.Origin != origin {
			k.former[a.Origin] = a.Size
		}
	}
	for _, ev := range events {
		switch p := event.Read(ev).(type) {
		case event.KeyAdmitted:
			var a Admission
			by, err := Signed(p.Signed).open(NamespaceLog, &a)
			if err != nil || !k.had(a.Origin) || k.known[a.Key] != nil || !k.count(by, a.At) {
				continue
			}
			if v, err := a.Verifier(); err == nil {
				k.known[a.Key] = &logKey{verifier: v, by: by, host: a.Host}
			}
		case event.KeyRevoked:
			var r Revocation
			by, err := Signed(p.Signed).open(NamespaceLog, &r)
			if err == nil && k.had(r.Origin) && k.known[r.Key] != nil && k.known[r.Key].revoked == 0 && k.vouches(by) {
				k.known[r.Key].revoked = ev.Pos
			}
		}
	}
	return k
}

// count reports whether a person's word of a time, in Unix ms, counts.
func (k Keys) count(by ssh.PublicKey, at int64) bool {
	return k.counts == nil || k.counts.Of(by, at) == nil
}

// had reports whether the log has an origin, or had it.
func (k Keys) had(origin string) bool {
	_, was := k.former[origin]
	return was || origin == k.origin
}

// own returns an error if c is a checkpoint of another log.
func (k Keys) own(c Checkpoint) error {
	shared, was := k.former[c.Origin]
	switch {
	case c.Origin == k.origin || was && c.Size <= shared:
		return nil
	case was:
		return fmt.Errorf("%w: it is of %d entries of the log %s, and this record is a copy of the first %d", ErrMalformed,
			c.Size, c.Origin, shared)
	}
	return fmt.Errorf("%w: it is of the log %s, not of %s", ErrMalformed, c.Origin, k.origin)
}

// vouches reports whether a person vouches for some key.
func (k Keys) vouches(by ssh.PublicKey) bool {
	for _, l := range k.known {
		if bytes.Equal(l.by.Marshal(), by.Marshal()) {
			return true
		}
	}
	return false
}

// Has reports whether somebody vouches for a log key, given as [LogKey.Public] returns it.
func (k Keys) Has(key string) bool { return k.known[key] != nil && k.known[key].revoked == 0 }

// A Known is a log key that somebody vouches for, or did.
type Known struct {
	Key     string `json:"key"`               // see [LogKey.Public]
	Host    string `json:"host,omitempty"`    // whose it is, as that person says
	By      string `json:"by"`                // fingerprint of the person's key
	Revoked int64  `json:"revoked,omitempty"` // position of the entry that revokes it; zero: none does
}

// Known returns the log keys, sorted.
func (k Keys) Known() []Known {
	all := []Known{}
	for _, key := range slices.Sorted(maps.Keys(k.known)) {
		l := k.known[key]
		all = append(all, Known{key, l.host, sshsig.Fingerprint(l.by), l.revoked})
	}
	return all
}

// A Standing says what the signatures of a checkpoint are worth.
type Standing string

// The standings.
const (
	Vouched   Standing = "vouched"   // by a person
	Unsigned  Standing = "unsigned"  // it has no signature at all
	Unvouched Standing = "unvouched" // signed by keys that nobody vouches for
	Revoked   Standing = "revoked"   // signed by a key that was revoked before
)

// A Worth says what the signatures of a checkpoint are worth, and whose word that is.
type Worth struct {
	Standing
	By   ssh.PublicKey // of the person who signed it, or who vouches for the log key that did; nil: nobody does
	Host string        // whose log key that is, as they say
}

// Read reads a checkpoint of the log, and says what its signatures are worth. The error matches ErrMalformed: the text
// is not a checkpoint of this log, or has a signature that is false.
func (k Keys) Read(signed []byte) (Checkpoint, Worth, error) {
	if c, ok := unsigned(signed); ok {
		return c, Worth{Standing: Unsigned}, k.own(c)
	}
	var verifiers []note.Verifier
	for _, l := range k.known {
		verifiers = append(verifiers, l.verifier)
	}
	c, sigs, persons, err := Open(signed, note.VerifierList(verifiers...))
	if err == nil {
		err = k.own(c)
	}
	if err != nil {
		return c, Worth{}, err
	}
	is := Worth{Standing: Unvouched}
	for _, sig := range sigs {
		for _, l := range k.known {
			switch {
			case l.verifier.KeyHash() != sig.Hash || sig.Name != c.Origin: // a copy's log is not signed as its original's
			case l.revoked == 0 || c.Size < l.revoked:
				return c, Worth{Vouched, l.by, l.host}, nil
			default:
				is.Standing = Revoked
			}
		}
	}
	for _, by := range persons {
		if k.count(by, time.Now().UnixMilli()) {
			return c, Worth{Standing: Vouched, By: by}, nil
		}
	}
	return c, is, nil
}

// Says returns a standing as a phrase: "vouched for by SHA256:…". by is the fingerprint of the person's key, if any.
func (s Standing) Says(by string) string {
	switch s {
	case Vouched:
		return "vouched for by " + by
	case Unvouched:
		return "signed by a key nobody vouches for"
	case Revoked:
		return "signed by a key that was revoked"
	}
	return "unsigned"
}
