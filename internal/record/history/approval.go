package history

import (
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

// An Approval is what a person signs who approves an action, or denies it.
type Approval struct {
	At      int64           `json:"at"`     // time of the answer, Unix ms
	Digest  dag.Hash        `json:"digest"` // of the action that is approved: the edited one if there is one
	Gate    string          `json:"gate"`
	Grant   store.Grant     `json:"grant"`
	Origin  string          `json:"origin"` // of the log when the answer was given
	Root    dag.Hash        `json:"root"`   // likewise
	Size    int64           `json:"size"`   // likewise
	Task    string          `json:"task"`
	Text    dag.Hash        `json:"text"` // SHA-256 of the text of the answer
	Verdict store.GateState `json:"verdict"`
}

// NewApproval returns what is to be signed of an answered gate. head is that of the log.
func NewApproval(g store.Gate, head Checkpoint) Approval {
	a := Approval{At: g.AnsweredAt, Digest: g.Digest, Gate: g.ID, Grant: g.Grant, Origin: head.Origin, Root: head.Root,
		Size: head.Size, Task: g.Task, Text: dag.Sum([]byte(g.Text)), Verdict: g.State}
	if !g.EditedDigest.IsZero() {
		a.Digest = g.EditedDigest
	}
	return a
}

// Message returns what is signed: a in canonical form.
func (a Approval) Message() ([]byte, error) { return dag.Marshal(a) }

// Sign returns a, signed with a person's key.
func (a Approval) Sign(key ssh.Signer) (Signed, error) {
	message, err := a.Message()
	if err != nil {
		return "", fmt.Errorf("sign answer to gate %s: %w", a.Gate, err)
	}
	return sign(key, NamespaceApproval, message)
}

// Approval returns the approval that s is, and the key that signed it. The error matches [sshsig.ErrInvalid].
func (s Signed) Approval() (a Approval, key ssh.PublicKey, err error) {
	key, err = s.open(NamespaceApproval, &a)
	return a, key, err
}

// OpenApproval checks the signature of an answered gate: that it is valid, and of this answer to this gate, and of no
// other. It returns what was signed, and the key. Whether that key counts, and whether the log has the head that was
// signed, is for the caller to say. The error matches [sshsig.ErrInvalid].
func OpenApproval(g store.Gate) (Approval, ssh.PublicKey, error) {
	a, key, err := Signed(g.Signature).Approval()
	if err != nil {
		return a, nil, err
	}
	is := NewApproval(g, Checkpoint{a.Origin, a.Size, a.Root})
	var other []string
	for _, x := range []struct {
		what string
		same bool
	}{
		{"gate", a.Gate == is.Gate}, {"task", a.Task == is.Task}, {"action", a.Digest == is.Digest},
		{"verdict", a.Verdict == is.Verdict}, {"grant", a.Grant == is.Grant}, {"text", a.Text == is.Text},
		{"time", a.At == is.At},
	} {
		if !x.same {
			other = append(other, x.what)
		}
	}
	if other != nil {
		return a, nil, fmt.Errorf("%w: it is of another %s", sshsig.ErrInvalid, strings.Join(other, " and "))
	}
	return a, key, nil
}
