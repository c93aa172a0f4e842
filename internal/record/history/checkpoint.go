package history

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/mod/sumdb/note"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// ErrMalformed is matched by errors about a text that is not a checkpoint, or is not signed as it says.
var ErrMalformed = errors.New("invalid checkpoint")

// originPrefix begins the origin of every record's log. A ULID follows.
const originPrefix = "plait.run/log/"

// maxCheckpoint is the largest signed checkpoint, in bytes.
const maxCheckpoint = 64 << 10

// Origin returns the name of a log, from the ULID of its record.
func Origin(ulid string) string { return originPrefix + ulid }

// A Checkpoint is the head of a log: how long it was, and the root of the tree over its entries.
type Checkpoint struct {
	Origin string
	Size   int64
	Root   dag.Hash
}

// Head returns the head of a record's log.
func Head(l store.Log) Checkpoint { return Checkpoint{Origin(l.Origin), l.Tree.Size(), l.Tree.Root()} }

// String returns the text that is signed: three lines, see C2SP's tlog-checkpoint.
func (c Checkpoint) String() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]))
}

// ParseCheckpoint reads the text of a checkpoint, without signatures. Lines after the third are for extensions, and
// are ignored. The error matches ErrMalformed.
func ParseCheckpoint(text string) (Checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 4 || lines[len(lines)-1] != "" {
		return Checkpoint{}, fmt.Errorf("%w: fewer than three lines", ErrMalformed)
	}
	id, ok := strings.CutPrefix(lines[0], originPrefix)
	if !ok || id == "" || strings.ContainsAny(id, " +\t\r") {
		return Checkpoint{}, fmt.Errorf("%w: %q is not the log of a record", ErrMalformed, lines[0])
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != lines[1] {
		return Checkpoint{}, fmt.Errorf("%w: %q is not a size", ErrMalformed, lines[1])
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != dag.Size {
		return Checkpoint{}, fmt.Errorf("%w: %q is not a root", ErrMalformed, lines[2])
	}
	return Checkpoint{lines[0], size, dag.Hash(root)}, nil
}

// Sign returns the checkpoint as a signed note. There must be at least one signer: see [LogKey.Signer] and [Person].
func (c Checkpoint) Sign(signers ...note.Signer) ([]byte, error) {
	signed, err := note.Sign(&note.Note{Text: c.String()}, signers...)
	if err != nil {
		return nil, fmt.Errorf("sign checkpoint of %d entries: %w", c.Size, err)
	}
	return signed, nil
}

// Open reads a signed checkpoint. It returns the signatures by known keys, and the keys of people who signed it: it is
// not an error if there are none. A false one is an error that matches ErrMalformed.
func Open(signed []byte, known note.Verifiers) (c Checkpoint, by []note.Signature, persons []ssh.PublicKey, err error) {
	c, n, err := open(signed, known)
	if err != nil {
		return c, nil, nil, err
	}
	persons, valid := people(n)
	if !valid {
		return c, nil, nil, fmt.Errorf("%w: a person's signature is false", ErrMalformed)
	}
	return c, n.Sigs, persons, nil
}

// open returns a signed checkpoint, and its note, in which signatures by known keys are verified.
func open(signed []byte, known note.Verifiers) (Checkpoint, *note.Note, error) {
	if len(signed) > maxCheckpoint {
		return Checkpoint{}, nil, fmt.Errorf("%w: longer than %d bytes", ErrMalformed, maxCheckpoint)
	}
	n, err := note.Open(signed, known)
	var unverified *note.UnverifiedNoteError
	if errors.As(err, &unverified) {
		n, err = unverified.Note, nil
	}
	if err != nil {
		return Checkpoint{}, nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	c, err := ParseCheckpoint(n.Text)
	return c, n, err
}

// unsigned returns the checkpoint that a text is, if it has no signatures.
func unsigned(text []byte) (c Checkpoint, ok bool) {
	c, err := ParseCheckpoint(string(text))
	return c, err == nil && c.String() == string(text)
}
