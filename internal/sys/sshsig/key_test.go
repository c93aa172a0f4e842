package sshsig_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/sys/sshsig"
)

// startAgent starts OpenSSH's agent on a socket of its own, and ends it with the test.
func startAgent(t *testing.T) (socket string, add func(file string)) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // short enough for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	cmd := exec.CommandContext(t.Context(), program(t, "ssh-agent"), "-D", "-a", socket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for { // the test's own time limit ends this
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			break
		}
		time.Sleep(time.Millisecond)
	}
	return socket, func(file string) {
		t.Helper()
		add := exec.CommandContext(t.Context(), program(t, "ssh-add"), file)
		add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
		if out, err := add.CombinedOutput(); err != nil {
			t.Fatalf("ssh-add: %v\n%s", err, out)
		}
	}
}

// TestAgent finds keys in a real agent, and signs there.
func TestAgent(t *testing.T) {
	socket, add := startAgent(t)
	none := sshsig.Place{Socket: socket}
	if _, err := none.Open(t.Context()); !errors.Is(err, sshsig.ErrNoKey) || !strings.Contains(err.Error(), "ssh-add") {
		t.Errorf("an empty agent: %v", err)
	}
	private := newEd25519(t)
	file := keyFile(t, private, "")
	locked := keyFile(t, private, "secret")
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	alone := write(t, filepath.Join(t.TempDir(), "key.pub"), public)
	if _, err := (sshsig.Place{Key: alone, Socket: socket}).Open(t.Context()); !errors.Is(err, sshsig.ErrNoKey) {
		t.Errorf("a public key without the private one: %v", err)
	}
	add(file)
	for name, p := range map[string]sshsig.Place{
		"the only key":                {Socket: socket},
		"a public key's file":         {Key: alone, Socket: socket},
		"a literal":                   {Key: "key::" + string(public), Socket: socket},
		"an old literal":              {Key: string(public), Socket: socket},
		"a private key's file":        {Key: file},
		"a public key beside it":      {Key: file + ".pub"},
		"one that has a passphrase":   {Key: locked, Socket: socket},
		"the same, by its public key": {Key: locked + ".pub", Socket: socket},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := p.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			got, err := sshsig.Sign(k.Signer, namespace, message)
			if err != nil {
				t.Fatal(err)
			}
			if want, err := sshsig.Sign(signerOf(t, private), namespace, message); err != nil || got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if pub, err := p.Public(t.Context()); err != nil || !bytes.Equal(pub.Marshal(), k.Signer.PublicKey().Marshal()) {
				t.Errorf("public: %v, %v", pub, err)
			}
		})
	}
	add(keyFile(t, newEd25519(t), ""))
	if _, err := none.Open(t.Context()); !errors.Is(err, sshsig.ErrNoKey) || !strings.Contains(err.Error(), "2 keys") {
		t.Errorf("an agent with two keys: %v", err)
	}
}

func TestNoKey(t *testing.T) {
	private := newEd25519(t)
	locked := keyFile(t, private, "secret")
	garbage := write(t, filepath.Join(t.TempDir(), "id"), []byte("-----BEGIN"))
	for name, x := range map[string]struct {
		place sshsig.Place
		want  string
	}{
		"no agent":         {sshsig.Place{}, "SSH_AUTH_SOCK"},
		"an agent gone":    {sshsig.Place{Socket: filepath.Join(t.TempDir(), "none")}, "reach the SSH agent"},
		"a passphrase":     {sshsig.Place{Key: locked}, "ssh-add " + locked},
		"no file":          {sshsig.Place{Key: locked + "x"}, "no such file"},
		"a directory":      {sshsig.Place{Key: filepath.Dir(locked)}, "not a key file"},
		"no key in a file": {sshsig.Place{Key: garbage}, "no SSH key"},
		"a bad literal":    {sshsig.Place{Key: "key::x"}, "not a public SSH key"},
	} {
		if _, err := x.place.Open(t.Context()); !errors.Is(err, sshsig.ErrNoKey) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", name, err, x.want)
		}
	}
	// Whose key it is can be said without the passphrase.
	pub, err := sshsig.Place{Key: locked}.Public(t.Context())
	if err != nil || !bytes.Equal(pub.Marshal(), signerOf(t, private).PublicKey().Marshal()) {
		t.Errorf("got %v, %v", pub, err)
	}
}

func TestSigners(t *testing.T) {
	ann, bob := signerOf(t, newEd25519(t)).PublicKey(), signerOf(t, newEd25519(t)).PublicKey()
	a, b := string(ssh.MarshalAuthorizedKey(ann)), string(ssh.MarshalAuthorizedKey(bob))
	day := func(d int) time.Time { return time.Date(2026, 3, d, 12, 0, 0, 0, time.UTC) }
	for name, x := range map[string]struct {
		text, namespace string
		at              time.Time
		want            string // of Ann's key; "": an error with err
		err             string
	}{
		"plain":             {"ann@x.org " + a, "n", day(1), "ann@x.org", ""},
		"quoted names":      {`"ann@x.org,*@y.org" ` + a, "n", day(1), "ann@x.org,*@y.org", ""},
		"comments":          {"# x\n\n  \nann " + a, "n", day(1), "ann", ""},
		"only Bob":          {"bob " + b, "n", day(1), "", "nobody allowed it"},
		"another namespace": {`ann namespaces="git,file" ` + a, "n@plait.run", day(1), "", "may sign in git,file only"},
		"its namespace":     {`ann namespaces="git,*@plait.run" ` + a, "n@plait.run", day(1), "ann", ""},
		"not that one":      {`ann namespaces="*@plait.run,!n@*" ` + a, "n@plait.run", day(1), "", "may sign in"},
		"too early":         {`ann valid-after="20260302Z" ` + a, "n", day(1), "", "not valid yet"},
		"in time":           {`ann valid-after="20260302Z",valid-before="202603031200Z" ` + a, "n", day(2), "ann", ""},
		"too late":          {`ann valid-before="20260303120000Z" ` + a, "n", day(3), "", "valid no longer"},
		"a second line":     {`ann valid-before="20260303Z" ` + a + "ann2 " + a, "n", day(3), "ann2", ""},
		"an authority":      {`ann cert-authority ` + a, "n", day(1), "", "nobody allowed it"},
	} {
		list, err := sshsig.ParseSigners([]byte(x.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := list.Find(ann, x.namespace, x.at)
		if got != x.want || (x.err == "") != (err == nil) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		if x.err != "" && (!errors.Is(err, sshsig.ErrInvalid) || !strings.Contains(err.Error(), x.err)) {
			t.Errorf("%s: got %v, want %q", name, err, x.err)
		}
	}
	for text, want := range map[string]string{
		"ann " + a + "\nbob":          "line 3: it names nobody",
		"ann ssh-ed25519 AAAA":        "line 1: it has no public key",
		`"ann ` + a:                   "line 1: a quote is not closed",
		`ann valid-after="2026" ` + a: `line 1: "2026" is not a time`,
		`ann port=22 ` + a:            `line 1: unknown option "port=22"`,
		`ann valid-after=20260303,valid-before=20260302 ` + a: "line 1: valid-after is not before",
	} {
		if _, err := sshsig.ParseSigners([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func FuzzSigners(f *testing.F) {
	f.Add([]byte(`"a,b" namespaces="x",valid-after=20260101 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop c`))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := sshsig.ParseSigners(text)
		for _, s := range list {
			if err != nil || s.Key == nil || s.Principals == "" {
				t.Errorf("read %+v, %v", s, err)
			}
		}
	})
}
