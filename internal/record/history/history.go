// Package history says what people and hosts have signed of a record: that its log had a certain head, that a key may
// say so, and that an action was approved.
//
// A checkpoint is a statement about the head of the log, signed by the log key of a host. A person vouches for that key
// with an entry of the log, which they signed with their SSH key. A person's answer is signed by that key directly. All
// messages of people are canonical JSON (RFC 8785) in SSHSIG, so that ssh-keygen -Y verify accepts them; checkpoints
// are signed notes, as C2SP's signed-note and tlog-checkpoint describe them.
//
// A signature proves that whoever had the key signed these bytes: not when, and not that they understood them. The
// package commits nothing.
package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

// The namespaces of people's signatures.
const (
	NamespaceApproval   = "approval@plait.run"
	NamespaceLog        = "log@plait.run"        // about log keys
	NamespaceCheckpoint = "checkpoint@plait.run" // of the text of a checkpoint
)

// A Signed is a message in canonical JSON, a line feed, and a person's signature of the message, without the line feed,
// as an armored SSHSIG.
type Signed string

// sign returns a message with a signature of it.
func sign(key ssh.Signer, namespace string, message []byte) (Signed, error) {
	armored, err := sshsig.Sign(key, namespace, message)
	if err != nil {
		return "", err
	}
	return Signed(string(message) + "\n" + armored), nil
}

// Time returns the time that the message of s names, in Unix ms. Nothing about s is verified. The error matches
// [sshsig.ErrInvalid].
func (s Signed) Time() (int64, error) {
	message, _, _ := strings.Cut(string(s), "\n")
	var m struct {
		At int64 `json:"at"`
	}
	if err := json.Unmarshal([]byte(message), &m); err != nil {
		return 0, fmt.Errorf("%w: its message cannot be read: %w", sshsig.ErrInvalid, err)
	}
	return m.At, nil
}

// open checks the signature of s in a namespace, reads its message into m and returns the key that signed. A message
// that has other fields than m, or that is not canonical, is refused. The error matches [sshsig.ErrInvalid].
func (s Signed) open(namespace string, m any) (ssh.PublicKey, error) {
	message, armored, _ := strings.Cut(string(s), "\n")
	key, err := sshsig.Verify(armored, namespace, []byte(message))
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(message))
	dec.DisallowUnknownFields()
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: its message cannot be read: %w", sshsig.ErrInvalid, err)
	}
	if again, err := dag.Marshal(m); err != nil || !bytes.Equal(again, []byte(message)) {
		return nil, fmt.Errorf("%w: its message is not in canonical form", sshsig.ErrInvalid)
	}
	return key, nil
}
