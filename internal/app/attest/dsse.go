package attest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

// Namespace is that of people's signatures of statements.
const Namespace = "attest@plait.run"

// payloadType is that of in-toto statements in DSSE.
const payloadType = "application/vnd.in-toto+json"

// maxEnvelope is the largest envelope, in bytes.
const maxEnvelope = 6 << 20

// An envelope is a DSSE envelope.
type envelope struct {
	Payload     string      `json:"payload"`
	PayloadType string      `json:"payloadType"`
	Signatures  []signature `json:"signatures"`
}

// A signature is one of an envelope. Its key id is the fingerprint of the key, and that of an SSHSIG begins with
// sshsigPrefix.
type signature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

const sshsigPrefix = "sshsig:"

// pae is DSSE's pre-authentication encoding: the bytes that are signed.
func pae(payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}

// Sign returns the envelope of a statement in canonical form. With an Ed25519 key it has two signatures of the same
// bytes: a plain one, which any program verifies, and an SSHSIG. With any other key it has the SSHSIG only.
func Sign(statement []byte, key ssh.Signer) ([]byte, error) {
	signed := pae(statement)
	id := sshsig.Fingerprint(key.PublicKey())
	e := envelope{Payload: base64.StdEncoding.EncodeToString(statement), PayloadType: payloadType}
	add := func(id string, sig []byte) {
		e.Signatures = append(e.Signatures, signature{id, base64.StdEncoding.EncodeToString(sig)})
	}
	if key.PublicKey().Type() == ssh.KeyAlgoED25519 {
		plain, err := key.Sign(rand.Reader, signed)
		if err != nil {
			return nil, fmt.Errorf("sign statement: %w", err)
		}
		add(id, plain.Blob)
	}
	armored, err := sshsig.Sign(key, Namespace, signed)
	if err != nil {
		return nil, fmt.Errorf("sign statement: %w", err)
	}
	add(sshsigPrefix+id, []byte(armored))
	return dag.Marshal(e)
}

// OpenEnvelope checks the signatures of an envelope, and returns the statement in it and the key that signed it. All
// signatures must be valid, and of one key. Whether that key counts is for the caller to say.
func OpenEnvelope(data []byte) (*Statement, ssh.PublicKey, error) {
	var e envelope
	if err := strictly("envelope", data, maxEnvelope, &e); err != nil {
		return nil, nil, err
	}
	if e.PayloadType != payloadType {
		return nil, nil, refused("envelope: its payload is of type %q", e.PayloadType)
	}
	payload, ok := decode(e.Payload)
	if !ok {
		return nil, nil, refused("envelope: its payload is not base64")
	}
	key, err := e.verify(pae(payload))
	if err != nil {
		return nil, nil, err
	}
	s, err := ParseStatement(payload)
	return s, key, err
}

// decode reads base64, in its only form: Go's reader skips line feeds.
func decode(text string) ([]byte, bool) {
	data, err := base64.StdEncoding.DecodeString(text)
	return data, err == nil && base64.StdEncoding.EncodeToString(data) == text
}

// verify checks the signatures of what is signed, and returns their key.
func (e envelope) verify(signed []byte) (ssh.PublicKey, error) {
	var sigs [][]byte
	for _, s := range e.Signatures {
		sig, ok := decode(s.Sig)
		if !ok {
			return nil, refused("envelope: a signature is not base64")
		}
		sigs = append(sigs, sig)
	}
	if len(sigs) != 1 && len(sigs) != 2 {
		return nil, refused("envelope: it has %d signatures, want one or two", len(sigs))
	}
	last := len(sigs) - 1
	s, err := sshsig.Parse(string(sigs[last]))
	if err == nil {
		err = s.Verify(Namespace, signed)
	}
	if err != nil {
		return nil, refused("envelope: its SSH signature: %v", err)
	}
	id := sshsig.Fingerprint(s.Key)
	switch {
	case s.String() != string(sigs[last]):
		return nil, refused("envelope: its SSH signature is not written as ssh-keygen writes it")
	case e.Signatures[last].KeyID != sshsigPrefix+id:
		return nil, refused("envelope: its SSH signature is by %s, not by %s", id, e.Signatures[last].KeyID)
	case last == 0 && s.Key.Type() == ssh.KeyAlgoED25519:
		return nil, refused("envelope: its plain signature is missing")
	case last == 0:
		return s.Key, nil
	}
	public, ok := rawKey(s.Key)
	switch {
	case !ok:
		return nil, refused("envelope: keys of type %s make no plain signature", s.Key.Type())
	case e.Signatures[0].KeyID != id:
		return nil, refused("envelope: its signatures are by two keys, %s and %s", e.Signatures[0].KeyID, id)
	case !ed25519.Verify(public, signed, sigs[0]):
		return nil, refused("envelope: its plain signature is not one of this statement by %s", id)
	}
	return s.Key, nil
}

// rawKey returns the key as Ed25519, if it is one that is not in hardware.
func rawKey(key ssh.PublicKey) (ed25519.PublicKey, bool) {
	c, ok := key.(ssh.CryptoPublicKey)
	if !ok || key.Type() != ssh.KeyAlgoED25519 {
		return nil, false
	}
	public, ok := c.CryptoPublicKey().(ed25519.PublicKey)
	return slices.Clone(public), ok
}
