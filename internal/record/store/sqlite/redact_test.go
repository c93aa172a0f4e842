package sqlite_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// TestRedactedBytes checks that nothing in the files of a store still has what was redacted: not what was replaced, and
// not what earlier changes left in free space.
func TestRedactedBytes(t *testing.T) {
	const unwanted = "the unwanted text"
	dir := t.TempDir()
	s := open(t, dir)
	commit := func(b store.Batch) {
		t.Helper()
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	small, big := []byte(unwanted), []byte(strings.Repeat("0123456789abcdef", 40_000)+unwanted)
	request := store.Request{ID: "W", Task: "T", Kind: store.RequestInput, Text: unwanted}
	gate := store.Gate{ID: "G", Task: "T", Thread: "T", State: store.GateOpen, Question: strings.Repeat(unwanted, 100)}
	commit(store.Batch{
		Objects:  []store.Object{{Hash: dag.Sum(small), Data: small}},
		Gates:    []store.GateChange{{Row: gate}},
		Requests: []store.RequestChange{{Row: request}},
		Events:   []store.Event{{Type: "x", Task: "T", Payload: json.RawMessage(`"` + unwanted + `"`)}},
	})
	if _, _, err := s.Stage(t.Context(), "T", bytes.NewReader(big)); err != nil {
		t.Fatal(err)
	}
	has := func() (in []string) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if bytes.Contains(data, []byte(unwanted)) {
				in = append(in, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	if len(has()) < 2 {
		t.Fatalf("only %q have the text", has())
	}
	gate.Question, request.Text = "***", "***"
	r := store.Redaction{Requests: []store.Request{request}, Events: []store.Event{{Pos: 1, Payload: json.RawMessage(`"***"`)}}}
	for _, data := range [][]byte{small, big} {
		r.Objects = append(r.Objects, store.Object{Hash: dag.Sum(data), Data: store.Redacted([]byte("***"))})
	}
	commit(store.Batch{Gates: []store.GateChange{{Row: gate, From: store.GateOpen}}, Redact: r})
	if in := has(); len(in) > 0 {
		t.Errorf("%q still have the text", in)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if in := has(); len(in) > 0 {
		t.Errorf("once closed, %q have the text", in)
	}
}
