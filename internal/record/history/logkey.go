package history

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"

	"github.com/plait-run/plait/internal/sys/atomicfile"
)

// A LogKey is the key with which a host, or rather one of its users, signs checkpoints. It signs nothing else.
type LogKey struct{ private ed25519.PrivateKey }

// OpenLogKey reads the log key in a file, PKCS #8 in PEM, and makes it if there is none. It refuses a file that others
// can read or that holds no key, and never replaces one.
func OpenLogKey(file string) (*LogKey, error) {
	k, err := readLogKey(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if err := makeLogKey(file); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make log key: %w", err)
	}
	return readLogKey(file) // another process may have been faster
}

const pemType = "PRIVATE KEY"

func makeLogKey(file string) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	// Two processes may do this at once: the file gets its name when it is whole, and only once.
	whole := file + "." + rand.Text()
	if err := atomicfile.Write(whole, pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), 0o600); err != nil {
		return err
	}
	defer os.Remove(whole)
	return os.Link(whole, file)
}

func readLogKey(file string) (*LogKey, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return nil, fmt.Errorf("read log key: %w", err)
	}
	const again = "; or remove it: a new key is made, for which a person has to vouch again"
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read log key: %s is no regular file%s", file, again)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("read log key: others can read %s (mode %04o): if nobody has, run chmod 600 %s%s", file,
			info.Mode().Perm(), file, again)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read log key: %w", err)
	}
	block, rest := pem.Decode(data)
	if block == nil || block.Type != pemType || len(rest) > 0 {
		return nil, fmt.Errorf("read log key: %s is damaged: restore it%s", file, again)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("read log key: %s holds no Ed25519 key: restore it%s", file, again)
	}
	return &LogKey{private}, nil
}

// Public returns the public key as a verifier of the log's checkpoints, in the encoding of signed notes:
// ORIGIN+HASH+KEY.
func (k *LogKey) Public(origin string) (string, error) {
	public := k.private.Public().(ed25519.PublicKey)
	vkey, err := note.NewEd25519VerifierKey(origin, public)
	if err != nil {
		return "", fmt.Errorf("name log key: %w", err)
	}
	return vkey, nil
}

// Sign returns a checkpoint signed by the key alone.
func (k *LogKey) Sign(head Checkpoint) ([]byte, error) { return head.Sign(k.Signer(head.Origin)) }

// Signer returns a signer of the log's checkpoints.
func (k *LogKey) Signer(origin string) note.Signer {
	const ed25519Type = 0x01
	public := k.private.Public().(ed25519.PublicKey)
	return signer{origin, keyHash(origin, append([]byte{ed25519Type}, public...)),
		func(text []byte) ([]byte, error) { return ed25519.Sign(k.private, text), nil }}
}

// A signer is a note.Signer.
type signer struct {
	name string
	hash uint32
	sign func(text []byte) ([]byte, error)
}

func (s signer) Name() string                     { return s.name }
func (s signer) KeyHash() uint32                  { return s.hash }
func (s signer) Sign(text []byte) ([]byte, error) { return s.sign(text) }

// keyHash returns the id of a key in a signed note, from its name and what follows the line feed there.
func keyHash(name string, key []byte) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"), key...))
	return binary.BigEndian.Uint32(sum[:])
}
