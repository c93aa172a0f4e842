package history_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/mod/sumdb/note"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

// person returns the SSH key whose seed is n, 32 times. Vectors are made with those of 1 and 2.
func person(t testing.TB, n byte) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// logKeyFile writes the log key whose seed is n, 32 times.
func logKeyFile(t testing.TB, n byte) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "log.key")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func logKey(t testing.TB, n byte) *history.LogKey {
	t.Helper()
	k, err := history.OpenLogKey(logKeyFile(t, n))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func public(t testing.TB, k *history.LogKey) string {
	t.Helper()
	vkey, err := k.Public(origin)
	if err != nil {
		t.Fatal(err)
	}
	return vkey
}

var (
	origin = history.Origin("01KDVDTC00000000000000000A")
	head   = history.Checkpoint{Origin: origin, Size: 41, Root: dag.Sum([]byte("root"))}
)

// answered is a gate that a person approved.
func answered() store.Gate {
	return store.Gate{ID: "g-83a2ac282b", Task: "01KDVDTC00000000000000000B", State: store.GateApproved,
		Digest: dag.Sum([]byte("action")), Grant: store.GrantOnce, AnsweredAt: 1767225604500, By: "ann", Via: store.ViaCLI,
		Text: "go ahead"}
}

func signed(t testing.TB, g store.Gate, n byte) store.Gate {
	t.Helper()
	s, err := history.NewApproval(g, head).Sign(person(t, n))
	if err != nil {
		t.Fatal(err)
	}
	g.Signature = string(s)
	return g
}

func TestApproval(t *testing.T) {
	g := signed(t, answered(), 1)
	a, key, err := history.OpenApproval(g)
	if err != nil || sshsig.Fingerprint(key) != sshsig.Fingerprint(person(t, 1).PublicKey()) {
		t.Fatalf("got %v, %v", key, err)
	}
	if diff := cmp.Diff(history.NewApproval(answered(), head), a); diff != "" {
		t.Errorf("what was signed (-want +got):\n%s", diff)
	}
	edited := answered()
	edited.EditedDigest = dag.Sum([]byte("another action"))
	if _, _, err := history.OpenApproval(signed(t, edited, 1)); err != nil {
		t.Errorf("an edited action: %v", err)
	}
	message, armored, _ := strings.Cut(g.Signature, "\n")
	elsewhere, err := sshsig.Sign(person(t, 1), "git", []byte(message))
	if err != nil {
		t.Fatal(err)
	}
	spaced := strings.Replace(message, ",", ", ", 1)
	more := strings.Replace(message, "{", `{"a":1,`, 1)
	resign := func(m string) string {
		s, err := sshsig.Sign(person(t, 1), history.NamespaceApproval, []byte(m))
		if err != nil {
			t.Fatal(err)
		}
		return m + "\n" + s
	}
	for name, x := range map[string]struct {
		forge func(*store.Gate)
		want  string
	}{
		"another gate":     {func(g *store.Gate) { g.ID = "g-1" }, "of another gate"},
		"another task":     {func(g *store.Gate) { g.Task = "T" }, "of another task"},
		"another action":   {func(g *store.Gate) { g.Digest = dag.Sum(nil) }, "of another action"},
		"edited after":     {func(g *store.Gate) { g.EditedDigest = dag.Sum(nil) }, "of another action"},
		"another verdict":  {func(g *store.Gate) { g.State = store.GateRejected }, "of another verdict"},
		"a longer grant":   {func(g *store.Gate) { g.Grant = store.GrantSession }, "of another grant"},
		"another text":     {func(g *store.Gate) { g.Text = "stop" }, "of another text"},
		"another time":     {func(g *store.Gate) { g.AnsweredAt++ }, "of another time"},
		"two of them":      {func(g *store.Gate) { g.ID, g.Text = "g-1", "" }, "of another gate and text"},
		"no signature":     {func(g *store.Gate) { g.Signature = message + "\n" }, "does not begin with"},
		"no message":       {func(g *store.Gate) { g.Signature = "\n" + armored }, "not one of this message"},
		"elsewhere":        {func(g *store.Gate) { g.Signature = message + "\n" + elsewhere }, `for the namespace "git"`},
		"not canonical":    {func(g *store.Gate) { g.Signature = resign(spaced) }, "not in canonical form"},
		"a key more":       {func(g *store.Gate) { g.Signature = resign(more) }, "unknown field"},
		"a message behind": {func(g *store.Gate) { g.Signature = resign(message + "{}") }, "canonical form"},
		"a changed one": {func(g *store.Gate) { g.Signature = strings.Replace(g.Signature, "41", "42", 1) },
			"not one of this message"},
	} {
		forged := signed(t, answered(), 1)
		x.forge(&forged)
		if _, _, err := history.OpenApproval(forged); !errors.Is(err, sshsig.ErrInvalid) ||
			!strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", name, err, x.want)
		}
	}
}

// TestKeygen gives what people signed to ssh-keygen.
func TestKeygen(t *testing.T) {
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	allowed := filepath.Join(t.TempDir(), "allowed")
	line := append([]byte("ann "), ssh.MarshalAuthorizedKey(person(t, 1).PublicKey())...)
	if err := os.WriteFile(allowed, line, 0o600); err != nil {
		t.Fatal(err)
	}
	noted, err := head.Sign(history.Person(person(t, 1)))
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := history.Armored(noted)
	if err != nil {
		t.Fatal(err)
	}
	message, approval, _ := strings.Cut(signed(t, answered(), 1).Signature, "\n")
	for namespace, x := range map[string][2]string{
		history.NamespaceApproval:   {message, approval},
		history.NamespaceCheckpoint: {head.String(), checkpoint},
	} {
		sig := filepath.Join(t.TempDir(), "sig")
		if err := os.WriteFile(sig, []byte(x[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), keygen, "-Y", "verify", "-f", allowed, "-I", "ann",
			"-n", namespace, "-s", sig)
		cmd.Stdin = strings.NewReader(x[0])
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", namespace, err, out)
		}
	}
}

func TestCheckpoint(t *testing.T) {
	got, err := history.ParseCheckpoint(head.String())
	if err != nil || got != head {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := history.ParseCheckpoint(head.String() + "an extension\n"); err != nil || got != head {
		t.Errorf("with an extension: got %+v, %v", got, err)
	}
	for name, text := range map[string]string{
		"nothing":        "",
		"no end":         strings.TrimSuffix(head.String(), "\n"),
		"another origin": strings.Replace(head.String(), "plait.run", "example.org", 1),
		"no record":      strings.Replace(head.String(), "01KDVDTC00000000000000000A", "", 1),
		"a plus":         strings.Replace(head.String(), "0A", "+A", 1),
		"a sign":         strings.Replace(head.String(), "41", "+41", 1),
		"a zero more":    strings.Replace(head.String(), "41", "041", 1),
		"negative":       strings.Replace(head.String(), "41", "-41", 1),
		"a short root":   strings.Replace(head.String(), "\n41\n", "\n41\nAAAA\n", 1),
	} {
		if _, err := history.ParseCheckpoint(text); !errors.Is(err, history.ErrMalformed) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestNote opens our checkpoint with the verifier of another library.
func TestNote(t *testing.T) {
	k := logKey(t, 3)
	text, err := head.Sign(k.Signer(origin), history.Person(person(t, 1)))
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(public(t, k))
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(text, note.VerifierList(v))
	if err != nil || n.Text != head.String() || len(n.Sigs) != 1 || len(n.UnverifiedSigs) != 1 {
		t.Errorf("got %+v, %v", n, err)
	}
}

func TestLogKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plait", "log.key")
	made := make(chan string)
	for range 8 { // who is first makes it
		go func() {
			k, err := history.OpenLogKey(file)
			if err != nil {
				t.Error(err)
				made <- ""
				return
			}
			made <- public(t, k)
		}()
	}
	first := <-made
	for range 7 {
		if other := <-made; other != first {
			t.Errorf("two keys: %s, %s", first, other)
		}
	}
	left, err := os.ReadDir(filepath.Dir(file))
	if info, statErr := os.Stat(file); err != nil || statErr != nil || info.Mode().Perm() != 0o600 || len(left) != 1 {
		t.Errorf("%v, %v, %v, %v", info.Mode(), left, err, statErr)
	}
	for name, x := range map[string]struct {
		spoil func(file string) error
		want  string
	}{
		"others can read it": {func(f string) error { return os.Chmod(f, 0o640) }, "mode 0640"},
		"it is cut":          {func(f string) error { return os.Truncate(f, 20) }, "is damaged"},
		"it is empty":        {func(f string) error { return os.Truncate(f, 0) }, "is damaged"},
		"another key": {func(f string) error {
			return os.WriteFile(f, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}), 0o600)
		}, "no Ed25519 key"},
		"a link": {func(f string) error {
			return errors.Join(os.Rename(f, f+"2"), os.Symlink(f+"2", f))
		}, "no regular file"},
	} {
		f := logKeyFile(t, 3)
		if err := x.spoil(f); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(f)
		if _, err := history.OpenLogKey(f); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", name, err, x.want)
		}
		if after, _ := os.ReadFile(f); !bytes.Equal(before, after) {
			t.Errorf("%s: the file was replaced", name)
		}
	}
}
