package thread_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/mem"
)

// A vector is one block of docs/format.md: the bytes, and what the comment above
// says about them.
type vector struct {
	kind, name, says string
	data             []byte
}

var block = regexp.MustCompile("<!-- (vector|id|answer): (\\S+) (\\S+) -->\n```json\n([^\n]*)\n```\n")

// published reads the test vectors with which readers of the format check their
// own programs.
func published(t *testing.T, kind string) []vector {
	t.Helper()
	page, err := os.ReadFile("../../../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []vector
	for _, m := range block.FindAllSubmatch(page, -1) {
		if string(m[1]) == kind {
			out = append(out, vector{kind, string(m[2]), string(m[3]), m[4]})
		}
	}
	if comments := bytes.Count(page, []byte("<!-- "+kind+": ")); comments == 0 || comments != len(out) {
		t.Fatalf("docs/format.md has %d comments for %d readable blocks of kind %s", comments, len(out), kind)
	}
	return out
}

// codecs are the payloads of the types, that of a prompt in the room above.
var codecs = map[string]func() any{
	dag.TypeArtifact: func() any { return new(thread.Artifact) },
	dag.TypeStart:    func() any { return new(thread.Start) },
	dag.TypeState:    func() any { return new(thread.State) },
	dag.TypeFlow:     func() any { return new(thread.Bundle) },
	dag.TypeDetail:   func() any { return new(thread.Detail) },
	dag.TypeEvidence: func() any { return new(thread.Evidence) },
	dag.TypePrompt:   func() any { return new(prompt.Node) },
	dag.TypeCalls:    func() any { return new(thread.Calls) },
	dag.TypeTree:     func() any { return new(thread.Files) },
	dag.TypeSession:  func() any { return new(thread.Session) },
}

func TestPublishedNodes(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range published(t, "vector") {
		t.Run(v.name, func(t *testing.T) {
			if got := dag.Sum(v.data).String(); got != v.says {
				t.Errorf("hash is %s, the page says %s", got, v.says)
			}
			if v.data[0] == '[' {
				return // one fold of a digest: TestPublishedDigest
			}
			n, err := dag.Decode(v.data)
			if err != nil {
				t.Fatal(err)
			}
			seen[n.Type] = true
			again := encodeAgain(t, n)
			if !bytes.Equal(again, v.data) {
				t.Errorf("encodes as\n%s\nthe page has\n%s", again, v.data)
			}
			if v.name == "state-eleven" {
				checkFull(t, n)
			}
		})
	}
	for _, typ := range append(slices.Collect(maps.Keys(codecs)), dag.TypeContent) {
		if !seen[typ] {
			t.Errorf("no vector of type %s", typ)
		}
	}
}

// encodeAgain reads a payload into its Go type and encodes it again.
func encodeAgain(t *testing.T, n dag.Node) []byte {
	t.Helper()
	var data []byte
	var err error
	if n.Type == dag.TypeContent {
		var text string
		if err = json.Unmarshal(n.Payload, &text); err == nil {
			data, err = dag.EncodeContent(text, n.Refs)
		}
	} else {
		payload := codecs[n.Type]()
		if err = json.Unmarshal(n.Payload, payload); err == nil {
			data, err = dag.Encode(n.Type, payload)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func state(t *testing.T, n dag.Node) *thread.State {
	t.Helper()
	s := new(thread.State)
	if err := json.Unmarshal(n.Payload, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func checkFull(t *testing.T, n dag.Node) {
	t.Helper()
	s := state(t, n)
	if len(s.Ancestors) != thread.Window {
		t.Errorf("%d ancestors, want %d", len(s.Ancestors), thread.Window)
	}
}

// TestPublishedDigest builds the thread that the page folds step by step, and asks
// the reader for its digest.
func TestPublishedDigest(t *testing.T) {
	ctx := t.Context()
	start, err := thread.NewNode(dag.TypeStart, thread.Start{Name: "ask"})
	if err != nil {
		t.Fatal(err)
	}
	objects := []store.Object{start}
	tip := thread.Tip{Head: start.Hash, Start: start.Hash, IsStart: true}
	var said []string
	for _, v := range published(t, "vector") {
		if v.data[0] != '[' {
			continue
		}
		var fold []json.RawMessage
		if err := json.Unmarshal(v.data, &fold); err != nil || len(fold) != 6 {
			t.Fatalf("%s: want six entries: %v", v.name, err)
		}
		before := "null"
		if len(said) > 0 {
			before = strconv.Quote(said[len(said)-1])
		}
		if string(fold[0]) != before {
			t.Errorf("%s begins with %s, want %s", v.name, fold[0], before)
		}
		var role, text string
		if err := json.Unmarshal(fold[1], &role); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(fold[3], &text); err != nil {
			t.Fatal(err)
		}
		c, err := thread.Append(store.Thread{ID: "T"}, tip, thread.Draft{Role: role, Meta: fold[2], Text: text, At: 1})
		if err != nil {
			t.Fatal(err)
		}
		objects, tip, said = append(objects, c.Objects...), c.Tip, append(said, v.says)
	}
	if len(said) != 3 {
		t.Fatalf("the page folds %d steps, want 3", len(said))
	}
	s := mem.New(mem.Config{})
	defer s.Close()
	// The start's bundle and prompt are null here, so nothing is missing.
	if err := s.Commit(ctx, store.Batch{Objects: objects}); err != nil {
		t.Fatal(err)
	}
	d, err := thread.NewReader(s).Digest(ctx, tip.Head)
	if err != nil {
		t.Fatal(err)
	}
	if d.String() != said[2] {
		t.Errorf("digest is %s, the page says %s", d, said[2])
	}
}

func TestPublishedIDs(t *testing.T) {
	var ids []string
	for _, v := range published(t, "id") {
		at, err := strconv.ParseInt(v.says, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		var parts []any
		if err := json.Unmarshal(v.data, &parts); err != nil || len(parts) != 4 {
			t.Fatalf("%s: want four entries: %v", v.name, err)
		}
		head, err := dag.ParseHash(parts[1].(string))
		if err != nil {
			t.Fatal(err)
		}
		got := thread.DerivedID(at, parts[0].(string), head, parts[2].(string), int(parts[3].(float64)))
		if got != v.name {
			t.Errorf("id of %s at %d is %s, the page says %s", v.data, at, got, v.name)
		}
		if _, err := thread.ParseID(got); err != nil {
			t.Error(err)
		}
		ids = append(ids, got)
	}
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n < 3 {
		t.Errorf("%d different ids, want 3", n)
	}
}

// TestPublishedAnswer hashes the answer on the page, whose text is 8080.
func TestPublishedAnswer(t *testing.T) {
	for _, v := range published(t, "answer") {
		var p struct {
			At              int64
			By, Gate, Grant string
			Digest          dag.Hash
			Verdict, Via    string
		}
		if err := json.Unmarshal(v.data, &p); err != nil {
			t.Fatal(err)
		}
		g := store.Gate{ID: v.name, AnsweredAt: p.At, By: p.By, Digest: p.Digest, Grant: store.Grant(p.Grant), Text: "8080",
			State: store.GateState(p.Verdict), Via: store.Via(p.Via)}
		if got := thread.ApprovalHash(g).String(); got != v.says || dag.Sum(v.data).String() != v.says {
			t.Errorf("hash is %s, the page says %s", got, v.says)
		}
	}
}
