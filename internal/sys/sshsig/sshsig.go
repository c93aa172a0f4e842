// Package sshsig signs messages with people's SSH keys, and verifies such signatures.
//
// The format is that of ssh-keygen -Y sign and of Git's gpg.format=ssh: SSHSIG, as OpenSSH's PROTOCOL.sshsig describes
// it. A signature holds the public key that made it and a namespace, such as git or approval@plait.run, and is valid in
// no other. Key finds the key to sign with, Signers says whose keys count.
//
// The package stores nothing and knows nothing of Plait.
package sshsig

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// ErrInvalid is matched by errors about a text that is not a signature, or not one of the message.
var ErrInvalid = errors.New("invalid signature")

const (
	magic = "SSHSIG"
	begin = "-----BEGIN SSH SIGNATURE-----"
	end   = "-----END SSH SIGNATURE-----"
	width = 70 // of the lines between, in bytes

	// maxArmor is more than any signature has: one of a 16384-bit RSA key has 6 KB.
	maxArmor = 16 << 10
)

// algorithms are the algorithms of signatures by the type of the key. RSA with SHA-1 and DSA are none, nor are
// certificates.
var algorithms = map[string][]string{
	ssh.KeyAlgoED25519:    {ssh.KeyAlgoED25519},
	ssh.KeyAlgoRSA:        {ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256},
	ssh.KeyAlgoECDSA256:   {ssh.KeyAlgoECDSA256},
	ssh.KeyAlgoECDSA384:   {ssh.KeyAlgoECDSA384},
	ssh.KeyAlgoECDSA521:   {ssh.KeyAlgoECDSA521},
	ssh.KeyAlgoSKED25519:  {ssh.KeyAlgoSKED25519},
	ssh.KeyAlgoSKECDSA256: {ssh.KeyAlgoSKECDSA256},
}

// A Signature is one that was read. Nothing about it has been verified.
type Signature struct {
	Key       ssh.PublicKey
	Namespace string
	Hash      string // of the message: sha256 or sha512
	signed    *ssh.Signature
}

// blob is a signature in wire format, without the magic.
type blob struct {
	Version   uint32
	Key       string
	Namespace string
	Reserved  string
	Hash      string
	Signature string
}

// Sign returns the armored signature of a message in a namespace, which must not be empty. It does what ssh-keygen -Y
// sign does: with an Ed25519 key, byte for byte.
func Sign(key ssh.Signer, namespace string, message []byte) (string, error) {
	s := Signature{Key: key.PublicKey(), Namespace: namespace, Hash: "sha512"}
	known, ok := algorithms[s.Key.Type()]
	if !ok {
		return "", fmt.Errorf("sign with SSH key %s: keys of type %s cannot sign messages", Fingerprint(s.Key), s.Key.Type())
	}
	if namespace == "" {
		return "", errors.New("sign with SSH key: no namespace")
	}
	data := s.data(message)
	var err error
	if able, ok := key.(ssh.AlgorithmSigner); ok {
		s.signed, err = able.SignWithAlgorithm(rand.Reader, data, known[0])
	} else {
		s.signed, err = key.Sign(rand.Reader, data)
	}
	if err == nil && !slices.Contains(known, s.signed.Format) {
		err = fmt.Errorf("the signer used %s", s.signed.Format)
	}
	if err != nil {
		return "", fmt.Errorf("sign with SSH key %s: %w", Fingerprint(s.Key), err)
	}
	return s.String(), nil
}

// Verify checks that an armored signature is one of message in a namespace, and returns the key that made it. Whether
// that key counts is for the caller to say. The error matches ErrInvalid.
func Verify(armored, namespace string, message []byte) (ssh.PublicKey, error) {
	s, err := Parse(armored)
	if err != nil {
		return nil, err
	}
	return s.Key, s.Verify(namespace, message)
}

// Verify checks that s is a signature of message in a namespace. The error matches ErrInvalid.
func (s Signature) Verify(namespace string, message []byte) error {
	if s.Namespace != namespace {
		return fmt.Errorf("%w: it is for the namespace %q, not for %q", ErrInvalid, s.Namespace, namespace)
	}
	if err := s.Key.Verify(s.data(message), s.signed); err != nil {
		return fmt.Errorf("%w: it is not one of this message by %s", ErrInvalid, Fingerprint(s.Key))
	}
	return nil
}

// Fingerprint returns the name of a key as ssh-keygen -l and ssh-add -l show it: SHA256:….
func Fingerprint(key ssh.PublicKey) string { return ssh.FingerprintSHA256(key) }

// Parse reads an armored signature. The error matches ErrInvalid.
func Parse(armored string) (Signature, error) {
	if len(armored) > maxArmor {
		return Signature{}, fmt.Errorf("%w: longer than %d bytes", ErrInvalid, maxArmor)
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(armored), begin)
	if ok {
		text, ok = strings.CutSuffix(text, end)
	}
	if !ok {
		return Signature{}, fmt.Errorf("%w: it does not begin with %s and end with %s", ErrInvalid, begin, end)
	}
	data, err := base64.StdEncoding.Strict().DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return Signature{}, fmt.Errorf("%w: not base64", ErrInvalid)
	}
	return ParseBinary(data)
}

// ParseBinary reads a signature in its wire format. The error matches ErrInvalid.
func ParseBinary(data []byte) (Signature, error) {
	s, err := parseBinary(data)
	if err != nil {
		return Signature{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return s, nil
}

func parseBinary(data []byte) (Signature, error) {
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok {
		return Signature{}, fmt.Errorf("it does not begin with %s", magic)
	}
	var b blob
	if err := ssh.Unmarshal(rest, &b); err != nil {
		return Signature{}, err
	}
	switch {
	case b.Version != 1:
		return Signature{}, fmt.Errorf("version %d, not 1", b.Version)
	case b.Reserved != "":
		return Signature{}, errors.New("a reserved field is not empty")
	case b.Namespace == "":
		return Signature{}, errors.New("it has no namespace")
	case b.Hash != "sha256" && b.Hash != "sha512":
		return Signature{}, fmt.Errorf("the hash %q is unknown", b.Hash)
	}
	s := Signature{Namespace: b.Namespace, Hash: b.Hash, signed: new(ssh.Signature)}
	var err error
	if s.Key, err = ssh.ParsePublicKey([]byte(b.Key)); err != nil {
		return Signature{}, err
	}
	if err := ssh.Unmarshal([]byte(b.Signature), s.signed); err != nil {
		return Signature{}, err
	}
	if !slices.Contains(algorithms[s.Key.Type()], s.signed.Format) {
		return Signature{}, fmt.Errorf("algorithm %q with a key of type %q", s.signed.Format, s.Key.Type())
	}
	return s, nil
}

// String returns the armored signature.
func (s Signature) String() string {
	text := base64.StdEncoding.EncodeToString(s.Binary())
	var b strings.Builder
	b.WriteString(begin + "\n")
	for len(text) > 0 {
		n := min(width, len(text))
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	b.WriteString(end + "\n")
	return b.String()
}

// Binary returns the signature in its wire format.
func (s Signature) Binary() []byte {
	return append([]byte(magic), ssh.Marshal(blob{1, string(s.Key.Marshal()), s.Namespace, "", s.Hash,
		string(ssh.Marshal(s.signed))})...)
}

// data returns what the key signs for a message.
func (s Signature) data(message []byte) []byte {
	var sum []byte
	if s.Hash == "sha256" {
		h := sha256.Sum256(message)
		sum = h[:]
	} else {
		h := sha512.Sum512(message)
		sum = h[:]
	}
	return append([]byte(magic), ssh.Marshal(struct{ Namespace, Reserved, Hash, Message string }{
		s.Namespace, "", s.Hash, string(sum)})...)
}
