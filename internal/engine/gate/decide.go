package gate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// An Answer is the answer of a person, or of a policy, to a gate. Approval gates take Approve or Reject, with
// Text as a note; input gates take only Text.
type Answer struct {
	Approve bool
	Reject  bool
	Text    string
	Grant   store.Grant // of an approval; empty: once
	By      string      // who answered
	Via     store.Via   // how the answer came
	// Digest is the digest of the gate that the person saw: the answer is only for that one. Zero: for any.
	Digest dag.Hash
	// Input, for an approval that is Editable, approves the action with this input instead of its own. The
	// approval is then bound to the digest of that. Nil: exactly what was asked for.
	Input json.RawMessage
	// Signature is a history.Signed of this answer that was made elsewhere. Empty: Answer has it signed if it must be.
	Signature string
	// Late says that a recorded question timed out, so that a replay need not wait for that.
	Late bool

	// Beside is committed in one batch with the answer, for example the fact that it was read. Its gates are
	// ignored.
	Beside store.Batch
}

// sources lists who may ask, and ways how an answer may come: all but ViaTimeout.
var (
	sources = []store.GateSource{
		store.SourceFlow, store.SourceWorker, store.SourceAgent,
		store.SourceMerge, store.SourceLimit, store.SourceInterrupted,
	}
	ways = []store.Via{store.ViaCLI, store.ViaWeb, store.ViaAPI, store.ViaNotes, store.ViaPolicy,
		store.ViaResume, store.ViaMCP, store.ViaReplay}
)

// opening fills in a gate that is about to open, except its id.
func opening(g store.Gate, now int64) (store.Gate, error) {
	g.State, g.OpenedAt = store.GateOpen, now
	g.AnsweredAt, g.UsedAt, g.By, g.Via, g.Text, g.Signature = 0, 0, "", "", "", ""
	g.Edited, g.EditedDigest = nil, dag.Hash{}
	g.Options = slices.Clone(g.Options)
	for i, o := range g.Options {
		g.Options[i] = store.Text(o)
	}
	for _, s := range []*string{&g.Question, &g.Node, &g.Instance, &g.OnTimeout} {
		*s = store.Text(*s)
	}
	if g.Grant == "" {
		g.Grant = store.GrantOnce
	}
	if g.Ref = ""; Noted(g) {
		g.Ref = notesFile
	}
	switch {
	case g.Task == "" || g.Thread == "":
		return g, invalid("a gate without its task and thread")
	case g.Kind != store.GateInput && g.Kind != store.GateApproval:
		return g, invalid("a gate of kind %q", g.Kind)
	case !slices.Contains(sources, g.Source):
		return g, invalid("a gate whose source is %q", g.Source)
	case g.Grant != store.GrantOnce && g.Grant != store.GrantSession:
		return g, invalid("a gate that grants %q", g.Grant)
	case g.Kind == store.GateApproval && len(g.Action) == 0:
		return g, invalid("an approval of nothing")
	}
	var digest dag.Hash
	var err error
	switch {
	case len(g.Action) > 0:
		digest, err = Digest(g.Thread, g.Action)
	case g.Digest.IsZero():
		digest, err = QuestionDigest(g.Thread, g.Question, g.Options)
	default:
		digest = g.Digest // the asker may choose what a question is bound to
	}
	if err == nil && !g.Digest.IsZero() && digest != g.Digest {
		err = invalid("the digest %s does not match the action", g.Digest.Short())
	}
	g.Digest = digest
	return g, err
}

// notesFile is the file in the task's directory where a question may be answered.
const notesFile = "./shared/human-notes.md"

// Noted reports whether a gate may be answered in human-notes.md. Agents may be able to write there, so
// approvals may not, nor may questions about interrupted work or a merge.
func Noted(g store.Gate) bool {
	asks := g.Source == store.SourceFlow || g.Source == store.SourceWorker || g.Source == store.SourceAgent
	return g.Kind == store.GateInput && asks
}

// sameRequest reports whether two gates ask the same thing at the same head.
func sameRequest(a, b store.Gate) bool {
	return a.Thread == b.Thread && a.From == b.From && a.Digest == b.Digest
}

// idHash returns the hash that gives a gate its id: the hash of its thread, head and digest, and of the number
// of earlier gates with the same three. Two processes that open the same gate choose the same id, and the store
// admits only one of them.
func idHash(g store.Gate, before int) dag.Hash {
	text := dag.AppendString([]byte(`{"before":`+strconv.Itoa(before)+`,"digest":`), g.Digest.String())
	text = dag.AppendString(append(text, `,"from":`...), g.From.String())
	text = dag.AppendString(append(text, `,"thread":`...), g.Thread)
	return dag.Sum(append(text, '}'))
}

// minID is the minimum number of hex digits in an id.
const minID = 10

// withAnswer returns g after an answer, with its signature if it has one.
func withAnswer(g store.Gate, a Answer, now int64) (store.Gate, error) {
	g, err := decided(g, a, now)
	if err != nil {
		return g, err
	}
	return withSignature(g, a, now)
}

// decided returns g after an answer, without its signature.
func decided(g store.Gate, a Answer, now int64) (store.Gate, error) {
	if g.State != store.GateOpen {
		return g, &StateError{g}
	}
	if !a.Digest.IsZero() && a.Digest != g.Digest {
		return g, fmt.Errorf("%s is for something other than what was shown: %w", displayName(g), store.ErrConflict)
	}
	if !slices.Contains(ways, a.Via) {
		return g, invalid("an answer via %q", a.Via)
	}
	if !utf8.ValidString(a.Text) || !utf8.ValidString(a.By) {
		return g, invalid("an answer that is not UTF-8")
	}
	if a.Late {
		return withExpiry(g, now), nil
	}
	a.Text, a.By = store.Text(a.Text), store.Text(a.By) // rows must not contain a NUL
	g.AnsweredAt, g.By, g.Via, g.Text = now, a.By, a.Via, a.Text
	if g.Kind == store.GateInput {
		switch {
		case a.Approve || a.Reject || a.Grant != "" || a.Input != nil:
			return g, invalid("%s must be answered with text, not approved or denied", displayName(g))
		case strings.TrimSpace(a.Text) == "":
			return g, invalid("the answer to %s is empty", displayName(g))
		}
		g.State = store.GateAnswered
		return g, nil
	}
	switch {
	case a.Approve == a.Reject:
		return g, invalid("%s must be approved or denied", displayName(g))
	case a.Via == store.ViaNotes:
		return g, invalid("%s cannot be given in notes", displayName(g))
	case a.Reject && a.Input != nil:
		return g, invalid("%s: a denial has no input", displayName(g))
	case a.Reject && a.Grant != "":
		return g, invalid("%s: a denial cannot hold for the task", displayName(g))
	case a.Reject:
		g.State = store.GateRejected
		return g, nil
	case a.Via == store.ViaPolicy && (g.Source == store.SourceMerge || g.Source == store.SourceInterrupted):
		return g, invalid("%s: only a person can approve this (%s)", displayName(g), g.Source)
	}
	if digest, err := Digest(g.Thread, g.Action); err != nil || digest != g.Digest {
		return g, fmt.Errorf("%s: its digest does not match its action: %w", displayName(g), store.ErrCorrupt)
	}
	g.State, g.Grant = store.GateApproved, cmp.Or(a.Grant, store.GrantOnce)
	if g.Grant != store.GrantOnce && g.Grant != store.GrantSession {
		return g, invalid("%s: unknown grant %q", displayName(g), a.Grant)
	}
	if a.Input != nil {
		return withInput(g, a)
	}
	return g, nil
}

// usable reports whether the approval or answer of g can still take effect.
func usable(g store.Gate) bool {
	switch g.State {
	case store.GateApproved:
		return g.Grant == store.GrantSession || g.UsedAt == 0
	case store.GateAnswered:
		return g.UsedAt == 0
	}
	return false
}

// overdue reports whether an open gate has timed out.
func overdue(g store.Gate, now int64) bool {
	return g.State == store.GateOpen && g.ExpiresAt != 0 && now >= g.ExpiresAt
}

// withExpiry returns g after it timed out.
func withExpiry(g store.Gate, now int64) store.Gate {
	g.State, g.AnsweredAt, g.Via = store.GateExpired, now, store.ViaTimeout
	return g
}

// effective returns the gate of a thread that counts for a digest at a head: a usable yes, otherwise the newest
// no, otherwise an open gate. A yes counts both for what was asked and for what was approved instead.
func effective(gates []store.Gate, from, digest dag.Hash) (store.Gate, bool) {
	var best store.Gate
	rank := 0
	for _, g := range byAge(gates) {
		here, r := g.From == from, 0
		switch {
		case g.Digest != digest && (g.EditedDigest != digest || digest.IsZero() || !usable(g)):
		case usable(g) && (here || g.State == store.GateApproved && g.Grant == store.GrantSession):
			r = 3
		case here && g.State.Refused():
			r = 2
		case here && g.State == store.GateOpen:
			r = 1
		}
		if r > 0 && r >= rank {
			best, rank = g, r
		}
	}
	return best, rank > 0
}

// byAge sorts gates, oldest first.
func byAge(gates []store.Gate) []store.Gate {
	slices.SortStableFunc(gates, func(a, b store.Gate) int {
		return cmp.Or(cmp.Compare(a.OpenedAt, b.OpenedAt), cmp.Compare(a.ID, b.ID))
	})
	return gates
}

// maxBy is how many bytes of a name an event includes. The row has the whole name.
const maxBy = 256

// changeEvent returns the event of a change of g.
func changeEvent(g store.Gate, change event.Change, now int64) store.Event {
	return gateEvent(g, now, event.GateChanged{
		Change: change, Gate: g.ID, Kind: g.Kind, Source: g.Source, Node: event.Clip(g.Node, maxBy),
		Question: event.Clip(g.Question, event.MaxQuestion), State: g.State, By: event.Clip(g.By, maxBy), Via: g.Via,
		Edited: g.EditedDigest,
	})
}

// gateEvent returns an event of the asker at g.
func gateEvent(g store.Gate, now int64, what event.Payload) store.Event {
	at := store.Attempt{Instance: g.Instance, ID: g.Attempt}
	return event.OfAttempt(store.Thread{Task: g.Task, ID: g.Thread}, at, now, what)
}
