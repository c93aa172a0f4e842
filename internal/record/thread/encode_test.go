package thread

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

func anyHash(t *rapid.T, name string) dag.Hash {
	if rapid.IntRange(0, 3).Draw(t, name+" null") == 0 {
		return dag.Hash{}
	}
	return dag.Sum([]byte{byte(rapid.IntRange(0, 9).Draw(t, name))})
}

// someHash is never null. It draws duplicates deliberately: they must yield a single ref.
func someHash(t *rapid.T, name string) dag.Hash {
	return dag.Sum([]byte{byte(rapid.IntRange(0, 9).Draw(t, name))})
}

// TestHandWrittenCodecs compares the hand-written codecs with the general one,
// refs included.
func TestHandWrittenCodecs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &State{
			Role: rapid.String().Draw(t, "role"), Meta: json.RawMessage(`{"$status":"done","n":1.5}`),
			Start:   someHash(t, "start"),
			Content: someHash(t, "content"), Ancestors: []dag.Hash{}, Compact: anyHash(t, "compact"),
			Timestamp:   rapid.Int64Range(0, 1<<50).Draw(t, "at"),
			ChildThread: anyHash(t, "child"), Detail: anyHash(t, "detail"), Fork: anyHash(t, "fork"),
			Path: Name{rapid.String().Draw(t, "in path"), true},
		}
		for range rapid.IntRange(0, Window).Draw(t, "ancestors") {
			s.Ancestors = append(s.Ancestors, someHash(t, "ancestor"))
		}
		for range rapid.IntRange(0, 3).Draw(t, "paths") {
			s.Paths = append(s.Paths, PathHead{rapid.String().Draw(t, "id"), "01J", someHash(t, "path"), "completed"})
		}
		got, err := s.Encode()
		same(t, dag.TypeState, s, got, err)
		n, err := dag.Decode(got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := DecodeState(n); err != nil || !cmp.Equal(back, s) {
			t.Fatalf("it came back as %+v: %v", back, err)
		}

		d := &Detail{
			Agent: rapid.String().Draw(t, "agent"), Model: "m", Instance: "i", Session: "s\n", Attempt: "a.1",
			Attempts: []EarlierAttempt{}, StartedAt: 1, EndedAt: 2,
			Prompt: anyHash(t, "prompt"), Context: []ContextUse{},
			Usage: store.Usage{
				InputTokens: 1, CachedInputTokens: 2, OutputTokens: 3, ReasoningTokens: 4, CostMicroUSD: 5,
			},
			Transcript: anyHash(t, "transcript"), Stderr: anyHash(t, "stderr"), Sandbox: "none",
			Calls: anyHash(t, "all calls"), Files: anyHash(t, "files"), SessionFiles: anyHash(t, "session files"),
		}
		if rapid.Bool().Draw(t, "filled") {
			tree, code := "t", -1
			d.By, d.TreeBefore, d.TreeAfter, d.Exit = &tree, &tree, &tree, &code
			d.Memory = &Memory{Bare: 6, Summary: anyHash(t, "summary"), Tokens: 7}
		}
		for range rapid.IntRange(0, 3).Draw(t, "earlier") {
			d.Attempts = append(d.Attempts,
				EarlierAttempt{"a.0", &store.Failure{Kind: "infra", Message: "m", ResetAt: 7}, anyHash(t, "log"), anyHash(t, "calls")},
				EarlierAttempt{ID: "b"})
			d.Context = append(d.Context, ContextUse{someHash(t, "from"), someHash(t, "to"), FormFull})
		}
		if rapid.Bool().Draw(t, "merged") {
			d.Merge = &Merge{From: rapid.String().Draw(t, "from"), To: "b", Sides: []MergedSide{
				{Path: "p", Branch: "plait/x/p", Merged: true, Conflicts: []string{}, Protected: []string{"AGENTS.md"}},
			}}
		}
		for range rapid.IntRange(0, 2).Draw(t, "failures") {
			d.Failures = append(d.Failures, PathFailure{rapid.String().Draw(t, "failed"), store.FailureSaid, "m\n"})
		}
		for range rapid.IntRange(0, 3).Draw(t, "evidence") {
			d.Evidence = append(d.Evidence, someHash(t, "evidence"))
		}
		got, err = d.Encode()
		same(t, dag.TypeDetail, d, got, err)
		p := &PromptNode{SHA256: someHash(t, "sum"), Size: rapid.Int64Range(0, dag.MaxBytes).Draw(t, "size"), Parts: []Part{}}
		for range rapid.IntRange(0, 4).Draw(t, "parts") {
			part := Part{Text: rapid.String().Draw(t, "part")}
			if rapid.Bool().Draw(t, "range") {
				part = Part{Content: rapid.SampledFrom([]dag.Hash{d.Prompt, someHash(t, "of")}).Draw(t, "content"), From: 3, To: 8}
			}
			if !part.Content.IsZero() || part.From == 0 {
				p.Parts = append(p.Parts, part)
			}
		}
		got, err = p.Encode()
		same(t, dag.TypePrompt, p, got, err)
	})
}

func same(t *rapid.T, typ string, payload any, got []byte, err error) {
	if err != nil {
		t.Fatal(err)
	}
	want, err := dag.Encode(typ, payload)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Fatalf("-general +by hand\n%s", diff)
	}
	if _, err := dag.Decode(got); err != nil {
		t.Fatal(err)
	}
}
