package attest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// cosignerKey returns the key of a witness as policies have it.
func cosignerKey(t testing.TB) string {
	t.Helper()
	public := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{5}, 32)).Public().(ed25519.PublicKey)
	raw := append([]byte{cosignatureType}, public...)
	return fmt.Sprintf("witness.example+%08x+%s", keyHash("witness.example", raw), base64.StdEncoding.EncodeToString(raw))
}

// A witness signs checkpoints.
type witness struct{ *cosigner }

func (witness) Sign(text []byte) ([]byte, error) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{5}, 32))
	const at = 1767225600
	return append(binary.BigEndian.AppendUint64(nil, at), ed25519.Sign(private,
		fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, text))...), nil
}

// TestQuorum has a checkpoint that a witness saw, and one that none did.
func TestQuorum(t *testing.T) {
	w := newWorld(t, 1)
	p := w.prove(false)
	lines := "group g 1 w\nquorum g\n"
	p.policy = strings.Replace(p.policy, "quorum none\n", "witness w "+cosignerKey(t)+"\n"+lines, 1)
	r := p.verify(p.pack(p.bundle), "")
	if len(r.Reasons) != 1 || !strings.Contains(r.Reasons[0], "fewer witnesses signed it than the quorum") {
		t.Errorf("unseen: %q", r.Reasons)
	}
	c, err := newCosigner(cosignerKey(t))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := headOf(p.statement.Predicate.Log).Sign(logKey(t, 3).Signer(w.origin), witness{c})
	if err != nil {
		t.Fatal(err)
	}
	if p.bundle, err = NewBundle(p.statement, signed, p.entries, nil); err != nil {
		t.Fatal(err)
	}
	p.bundle.Envelope = p.sign(p.statement, person(t, 1))
	if r := p.verify(p.pack(p.bundle), ""); len(r.Reasons) > 0 {
		t.Errorf("seen: %q", r.Reasons)
	}
	n, err := note.Open(signed, note.VerifierList(c))
	if err != nil || len(n.Sigs) != 1 {
		t.Errorf("the note: %+v, %v", n, err)
	}
}
