package history

import (
	"encoding/base64"
	"fmt"

	"golang.org/x/crypto/ssh"
	"golang.org/x/mod/sumdb/note"

	"github.com/plait-run/plait/internal/sys/sshsig"
)

// personName is the name of people's keys in signed notes. It also follows the byte of the type there, which is that of
// types without a number of their own.
const personName = "plait.run/sshsig"

const personType = 0xff

// personHash returns the id of a person's key in a signed note.
func personHash(key ssh.PublicKey) uint32 {
	return keyHash(personName, append(append([]byte{personType}, personName...), key.Marshal()...))
}

// Person returns a signer of checkpoints with a person's SSH key. Its signature is an SSHSIG in wire format, in the
// namespace checkpoint@plait.run.
func Person(key ssh.Signer) note.Signer {
	return signer{personName, personHash(key.PublicKey()), func(text []byte) ([]byte, error) {
		armored, err := sshsig.Sign(key, NamespaceCheckpoint, text)
		if err != nil {
			return nil, err
		}
		s, err := sshsig.Parse(armored)
		return s.Binary(), err
	}}
}

// people returns the keys of the people who signed a note, and whether all signatures of people are valid.
func people(n *note.Note) (keys []ssh.PublicKey, valid bool) {
	for _, sig := range n.UnverifiedSigs {
		if sig.Name != personName {
			continue
		}
		s, err := parsePerson(sig)
		if err != nil || personHash(s.Key) != sig.Hash || s.Verify(NamespaceCheckpoint, []byte(n.Text)) != nil {
			return nil, false
		}
		keys = append(keys, s.Key)
	}
	return keys, true
}

// parsePerson reads a person's signature of a note, which follows the id of the key.
func parsePerson(sig note.Signature) (sshsig.Signature, error) {
	data, err := base64.StdEncoding.DecodeString(sig.Base64)
	if err != nil || len(data) < 4 {
		return sshsig.Signature{}, sshsig.ErrInvalid
	}
	return sshsig.ParseBinary(data[4:])
}

// Armored returns the signature of the first person who signed a checkpoint, as ssh-keygen -Y verify takes it for the
// text of the checkpoint. The error matches ErrMalformed.
func Armored(signed []byte) (string, error) {
	_, n, err := open(signed, note.VerifierList())
	if err != nil {
		return "", err
	}
	for _, sig := range n.UnverifiedSigs {
		if s, err := parsePerson(sig); err == nil && sig.Name == personName {
			return s.String(), nil
		}
	}
	return "", fmt.Errorf("%w: no person signed it", ErrMalformed)
}
