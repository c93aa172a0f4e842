package sshsig_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/sys/sshsig"
)

const namespace = "test@plait.run"

var message = []byte("a message\nof two lines\n")

// program returns the path of one of OpenSSH's programs, which CI must have.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("%v: compared with it only where it is installed", err)
	}
	return path
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// keyFile writes a private key, with its public key beside it, as ssh-keygen would.
func keyFile(t *testing.T, private any, passphrase string) string {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(private, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	name := write(t, filepath.Join(t.TempDir(), "id"), pem.EncodeToMemory(block))
	write(t, name+".pub", ssh.MarshalAuthorizedKey(signer.PublicKey()))
	return name
}

func newEd25519(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return private
}

func signerOf(t *testing.T, private any) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keygenAccepts runs ssh-keygen -Y verify.
func keygenAccepts(t *testing.T, key ssh.PublicKey, signature string) {
	t.Helper()
	dir := t.TempDir()
	allowed := write(t, filepath.Join(dir, "allowed"),
		append([]byte("ann@example.org "), ssh.MarshalAuthorizedKey(key)...))
	sig := write(t, filepath.Join(dir, "sig"), []byte(signature))
	cmd := exec.CommandContext(t.Context(), program(t, "ssh-keygen"), "-Y", "verify", "-f", allowed,
		"-I", "ann@example.org", "-n", namespace, "-s", sig)
	cmd.Stdin = bytes.NewReader(message)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("ssh-keygen does not accept our signature: %v\n%s", err, out)
	}
}

// TestOpenSSH signs with each type of key here and with ssh-keygen, and verifies each there.
func TestOpenSSH(t *testing.T) {
	keygen := program(t, "ssh-keygen")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecdsaKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, private := range map[string]any{"ed25519": newEd25519(t), "rsa": rsaKey, "ecdsa": ecdsaKey} {
		t.Run(name, func(t *testing.T) {
			file := keyFile(t, private, "")
			opened, err := sshsig.Place{Key: file}.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			key := opened.Signer
			ours, err := sshsig.Sign(key, namespace, message)
			if err != nil {
				t.Fatal(err)
			}
			keygenAccepts(t, key.PublicKey(), ours)

			cmd := exec.CommandContext(t.Context(), keygen, "-Y", "sign", "-f", file, "-n", namespace)
			cmd.Stdin = bytes.NewReader(message)
			theirs, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			by, err := sshsig.Verify(string(theirs), namespace, message)
			if err != nil || sshsig.Fingerprint(by) != sshsig.Fingerprint(key.PublicKey()) {
				t.Errorf("theirs is by %v, %v", by, err)
			}
			s, err := sshsig.Parse(string(theirs))
			if err != nil || s.String() != string(theirs) {
				t.Errorf("theirs, written again:\n%s\nwant\n%s\n%v", s, theirs, err)
			}
			if name != "ecdsa" && ours != string(theirs) { // which is not deterministic
				t.Errorf("ours:\n%s\nwant ssh-keygen's:\n%s", ours, theirs)
			}
		})
	}
}

// TestSecurityKey makes the signature of a hardware key, with and without a touch.
func TestSecurityKey(t *testing.T) {
	private := newEd25519(t)
	const application = "ssh:"
	public, err := ssh.ParsePublicKey(ssh.Marshal(struct{ Type, Key, Application string }{
		ssh.KeyAlgoSKED25519, string(private.Public().(ed25519.PublicKey)), application}))
	if err != nil {
		t.Fatal(err)
	}
	for _, touched := range []bool{true, false} {
		flags := []byte{0, 0, 0, 0, 7}
		if touched {
			flags[0] = 1
		}
		signature, err := sshsig.Sign(securityKey{public, private, application, flags}, namespace, message)
		if err != nil {
			t.Fatal(err)
		}
		_, err = sshsig.Verify(signature, namespace, message)
		if touched && err != nil || !touched && !errors.Is(err, sshsig.ErrInvalid) {
			t.Errorf("touched: %v, got %v", touched, err)
		}
		if touched {
			keygenAccepts(t, public, signature)
		}
	}
}

type securityKey struct {
	public      ssh.PublicKey
	private     ed25519.PrivateKey
	application string
	rest        []byte
}

func (k securityKey) PublicKey() ssh.PublicKey { return k.public }

func (k securityKey) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	app, sum := sha256.Sum256([]byte(k.application)), sha256.Sum256(data)
	text := append(append(app[:], k.rest...), sum[:]...)
	return &ssh.Signature{Format: ssh.KeyAlgoSKED25519, Blob: ed25519.Sign(k.private, text), Rest: k.rest}, nil
}

func TestRefuses(t *testing.T) {
	key := signerOf(t, newEd25519(t))
	good, err := sshsig.Sign(key, namespace, message)
	if err != nil {
		t.Fatal(err)
	}
	flipped := func(at int) string {
		s, err := sshsig.Parse(good)
		if err != nil {
			t.Fatal(err)
		}
		b := s.Binary()
		b[len(b)-at] ^= 1
		if s, err = sshsig.ParseBinary(b); err != nil {
			t.Fatal(err)
		}
		return s.String()
	}
	for name, x := range map[string]struct {
		signature, namespace string
		message              []byte
		want                 string
	}{
		"another namespace": {good, "git", message, `it is for the namespace "test@plait.run"`},
		"another message":   {good, namespace, []byte("x"), "not one of this message"},
		"a changed bit":     {flipped(1), namespace, message, "not one of this message"},
		"nothing":           {"", namespace, message, "does not begin with"},
		"no end":            {strings.TrimSuffix(good, "-----\n"), namespace, message, "does not begin with"},
		"no base64":         {strings.Replace(good, "U1NI", "!!!!", 1), namespace, message, "not base64"},
		"too long":          {good + strings.Repeat("\n", 1<<15), namespace, message, "longer than"},
	} {
		if _, err := sshsig.Verify(x.signature, x.namespace, x.message); !errors.Is(err, sshsig.ErrInvalid) ||
			!strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", name, err, x.want)
		}
	}
	if _, err := sshsig.Sign(key, "", message); err == nil {
		t.Error("signed in no namespace")
	}
}

// TestSHA1 makes what ssh-keygen refuses too: RSA with SHA-1.
func TestSHA1(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	key := signerOf(t, private)
	signed := ssh.Marshal(ssh.Signature{Format: ssh.KeyAlgoRSA, Blob: []byte("x")})
	b := append([]byte("SSHSIG"), ssh.Marshal(struct {
		Version                           uint32
		Key, Namespace, Reserved, Hash, S string
	}{1, string(key.PublicKey().Marshal()), namespace, "", "sha512", string(signed)})...)
	if _, err := sshsig.ParseBinary(b); !errors.Is(err, sshsig.ErrInvalid) ||
		!strings.Contains(err.Error(), `algorithm "ssh-rsa"`) {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		f.Fatal(err)
	}
	good, err := sshsig.Sign(s, namespace, message)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add("-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----")
	f.Fuzz(func(t *testing.T, armored string) {
		s, err := sshsig.Parse(armored)
		if err != nil {
			if !errors.Is(err, sshsig.ErrInvalid) {
				t.Errorf("%v does not match ErrInvalid", err)
			}
			return
		}
		again, err := sshsig.Parse(s.String())
		if err != nil || !bytes.Equal(again.Binary(), s.Binary()) {
			t.Errorf("written and read again: %v", err)
		}
		_ = s.Verify(namespace, message) // must not panic
	})
}
