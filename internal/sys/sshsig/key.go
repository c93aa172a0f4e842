package sshsig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// ErrNoKey is matched by errors that say why there is no key to sign with, and what to do.
var ErrNoKey = errors.New("no key to sign with")

// maxKeyFile is larger than any key file, in bytes.
const maxKeyFile = 64 << 10

// A Place says where to look for a person's key.
type Place struct {
	// Key names the key: a file with a private or a public key, or, as in git's user.signingkey, key:: and a public key.
	// Empty: the only key of the agent.
	Key string
	// Socket is the agent's, as in SSH_AUTH_SOCK. Empty: there is none.
	Socket string
}

// A Key is a key to sign with.
type Key struct {
	Signer ssh.Signer
	agent  io.Closer // nil: the private key was in a file
}

// Close closes the connection to the agent, if there is one.
func (k *Key) Close() error {
	if k.agent == nil {
		return nil
	}
	return k.agent.Close()
}

// Open finds the key: a private key is used as it is, unless it has a passphrase; for that, and for a public key, the
// agent has to have the private one. As ssh-keygen does, Open looks next to NAME.pub for NAME if no agent has it. The
// error matches ErrNoKey. When ctx ends, so does the connection to the agent, which may be asking the person.
func (p Place) Open(ctx context.Context) (*Key, error) {
	if p.Key == "" {
		return p.fromAgent(ctx, nil)
	}
	public, literal, err := p.literal()
	if err != nil {
		return nil, err
	}
	if literal {
		return p.fromAgent(ctx, public)
	}
	data, err := readKey(p.Key)
	if err != nil {
		return nil, err
	}
	if public, _, _, _, err := ssh.ParseAuthorizedKey(data); err == nil {
		k, err := p.fromAgent(ctx, public)
		private, isPublic := strings.CutSuffix(p.Key, ".pub")
		if err == nil || !isPublic {
			return k, err
		}
		data, readErr := readKey(private)
		if readErr != nil {
			return nil, err
		}
		signer, parseErr := ssh.ParsePrivateKey(data)
		if parseErr != nil || !bytes.Equal(signer.PublicKey().Marshal(), public.Marshal()) {
			return nil, err
		}
		return &Key{Signer: signer}, nil
	}
	signer, err := ssh.ParsePrivateKey(data)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
		return &Key{Signer: signer}, nil
	case !errors.As(err, &locked):
		return nil, fmt.Errorf("%w: %s holds no SSH key that can be read", ErrNoKey, p.Key)
	case locked.PublicKey != nil:
		if k, err := p.fromAgent(ctx, locked.PublicKey); err == nil {
			return k, nil
		}
	}
	return nil, fmt.Errorf("%w: %s has a passphrase: give it to the SSH agent with: ssh-add %s", ErrNoKey, p.Key, p.Key)
}

// Public returns the public key that Open would sign with, without opening the private one.
func (p Place) Public(ctx context.Context) (ssh.PublicKey, error) {
	if public, literal, err := p.literal(); literal || err != nil {
		return public, err
	}
	if p.Key != "" {
		data, err := readKey(p.Key)
		if err != nil {
			return nil, err
		}
		if public, _, _, _, err := ssh.ParseAuthorizedKey(data); err == nil {
			return public, nil
		}
		var locked *ssh.PassphraseMissingError
		if _, err := ssh.ParsePrivateKey(data); errors.As(err, &locked) && locked.PublicKey != nil {
			return locked.PublicKey, nil
		}
	}
	k, err := p.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	return k.Signer.PublicKey(), nil
}

// literal returns the public key that Key itself is, if it is one.
func (p Place) literal() (key ssh.PublicKey, is bool, err error) {
	text, is := strings.CutPrefix(p.Key, "key::")
	if !is && !strings.HasPrefix(p.Key, "ssh-") {
		return nil, false, nil
	}
	if key, _, _, _, err = ssh.ParseAuthorizedKey([]byte(text)); err != nil {
		return nil, true, fmt.Errorf("%w: %q is not a public SSH key", ErrNoKey, p.Key)
	}
	return key, true, nil
}

// fromAgent returns a key of the agent: the one that belongs to public, or, without that, the only one.
func (p Place) fromAgent(ctx context.Context, public ssh.PublicKey) (*Key, error) {
	if p.Socket == "" {
		return nil, fmt.Errorf("%w: no SSH agent runs here (SSH_AUTH_SOCK is not set)", ErrNoKey)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", p.Socket)
	if err != nil {
		return nil, fmt.Errorf("%w: reach the SSH agent: %w", ErrNoKey, err)
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	all, err := agent.NewClient(conn).Signers()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%w: ask the SSH agent for its keys: %w", ErrNoKey, err)
	}
	var fit []ssh.Signer
	for _, s := range all {
		if public != nil && !bytes.Equal(s.PublicKey().Marshal(), public.Marshal()) {
			continue
		}
		if _, able := algorithms[s.PublicKey().Type()]; able { // the others are certificates
			fit = append(fit, s)
		}
	}
	if len(fit) == 1 {
		return &Key{fit[0], conn}, nil
	}
	conn.Close()
	switch {
	case public != nil:
		return nil, fmt.Errorf("%w: the SSH agent does not have %s: add it with: ssh-add FILE", ErrNoKey, Fingerprint(public))
	case len(fit) == 0:
		return nil, fmt.Errorf("%w: the SSH agent has no key: add one with: ssh-add", ErrNoKey)
	}
	return nil, fmt.Errorf("%w: the SSH agent has %d keys: name one with: "+
		"git config --global user.signingkey FILE", ErrNoKey, len(fit))
}

// readKey reads a key file. It does not wait for the writer of a pipe.
func readKey(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: read key: %w", ErrNoKey, err)
	case !info.Mode().IsRegular() || info.Size() > maxKeyFile:
		return nil, fmt.Errorf("%w: %s is not a key file", ErrNoKey, filepath.Clean(name))
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%w: read key: %w", ErrNoKey, err)
	}
	return data, nil
}
