package attest

import (
	"archive/zip"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"
)

// program returns a program that the test needs. Where CI runs it must be there.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") != "":
		t.Fatalf("%s is not installed", name)
	}
	t.Skipf("%s is not installed", name)
	return ""
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func run(t *testing.T, stdin []byte, name string, args ...string) error {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t, name), args...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	t.Logf("%s: %v\n%s", name, err, out)
	return err
}

// signed returns the envelope in the file of a bundle, and the statement that it says was signed.
func signed(t *testing.T, file string) (e envelope, statement []byte) {
	t.Helper()
	z, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	data, err := fs.ReadFile(z, fileEnvelope)
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	if err != nil {
		t.Fatal(err)
	}
	statement, _ = decode(e.Payload)
	return e, statement
}

// TestPrograms has ssh-keygen and openssl check what was signed in a bundle, and what was not.
func TestPrograms(t *testing.T) {
	p := newWorld(t, 1).prove(true)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecdsaKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]ssh.Signer{"ed25519": person(t, 1), "of the docs": person(t, 1)}
	for name, private := range map[string]any{"rsa": rsaKey, "ecdsa": ecdsaKey} {
		if keys[name], err = ssh.NewSignerFromKey(private); err != nil {
			t.Fatal(err)
		}
	}
	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			file := "testdata/change.plait"
			if name != "of the docs" {
				b := p.bundle
				b.Envelope = p.sign(p.statement, key)
				file = write(t, "change.plait", p.pack(b))
			}
			e, statement := signed(t, file)
			public := key.PublicKey()
			armored, _ := decode(e.Signatures[len(e.Signatures)-1].Sig)
			allowed := write(t, "allowed", append([]byte("ann "), ssh.MarshalAuthorizedKey(public)...))
			args := []string{"-Y", "verify", "-f", allowed, "-I", "ann", "-n", Namespace, "-s", write(t, "sig", armored)}
			if err := run(t, pae(statement), "ssh-keygen", args...); err != nil {
				t.Error("ssh-keygen refuses it")
			}
			if err := run(t, pae([]byte(`{"a":2}`)), "ssh-keygen", args...); err == nil {
				t.Error("ssh-keygen accepts another statement")
			}
			raw, plain := rawKey(public)
			if !plain {
				if len(e.Signatures) != 1 {
					t.Errorf("%d signatures, want the SSHSIG", len(e.Signatures))
				}
				return
			}
			der, err := x509.MarshalPKIXPublicKey(raw)
			if err != nil {
				t.Fatal(err)
			}
			sig, _ := decode(e.Signatures[0].Sig)
			pemFile := write(t, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
			sigFile := write(t, "raw", sig)
			check := func(data []byte) error {
				return run(t, nil, "openssl", "pkeyutl", "-verify", "-pubin", "-inkey", pemFile, "-rawin",
					"-in", write(t, "pae", data), "-sigfile", sigFile)
			}
			if check(pae(statement)) != nil {
				t.Error("openssl refuses it")
			}
			if check(pae([]byte(`{"a":2}`))) == nil {
				t.Error("openssl accepts another statement")
			}
		})
	}
}
