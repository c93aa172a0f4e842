// Package intoto checks attestations with the libraries of in-toto and of DSSE. It is a module of its own, so that plait
// requires neither.
package intoto

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io/fs"
	"os"
	"strings"
	"testing"

	"crypto"
	v1 "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"google.golang.org/protobuf/encoding/protojson"
)

// A key verifies plain signatures.
type key struct{ ed25519.PublicKey }

func (k key) Verify(_ context.Context, data, sig []byte) error {
	if !ed25519.Verify(k.PublicKey, data, sig) {
		return os.ErrInvalid
	}
	return nil
}

func (key) KeyID() (string, error)     { return "", nil }
func (k key) Public() crypto.PublicKey { return k.PublicKey }

// TestBundle verifies the envelope in the bundle of docs/format.md's examples, which the tests of attest compare with
// what is written now and have ssh-keygen and openssl check, and reads its statement.
func TestBundle(t *testing.T) {
	z, err := zip.OpenReader("../../internal/app/attest/testdata/change.plait")
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	data, err := fs.ReadFile(z, "attestation.dsse.json")
	if err != nil {
		t.Fatal(err)
	}
	var e dsse.Envelope
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	public := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	v, err := dsse.NewEnvelopeVerifier(key{public})
	if err != nil {
		t.Fatal(err)
	}
	by, err := v.Verify(t.Context(), &e)
	if err != nil || len(by) != 1 {
		t.Fatalf("verified by %v, %v", by, err)
	}
	payload, err := e.DecodeB64Payload()
	if err != nil {
		t.Fatal(err)
	}
	var s v1.Statement
	if err := protojson.Unmarshal(payload, &s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Errorf("in-toto refuses the statement: %v", err)
	}
	if s.PredicateType != "https://plait.run/attestation/change/v0.1" || len(s.Subject) != 3 {
		t.Errorf("read %v", &s)
	}
	e.Payload = strings.Replace(e.Payload, "e", "f", 1)
	if _, err := v.Verify(t.Context(), &e); err == nil {
		t.Error("another payload is accepted")
	}
}
