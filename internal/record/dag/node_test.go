package dag

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func hash(s string) Hash { return Sum([]byte(s)) }

func TestRefsAreDerived(t *testing.T) {
	a, b, c, d, e, f, g := hash("a"), hash("b"), hash("c"), hash("d"), hash("e"), hash("f"), hash("g")
	for _, tt := range []struct {
		name, typ string
		payload   any
		want      []Hash
	}{
		{"artifact", TypeArtifact, map[string]any{"name": "n", "mediaType": "t", "size": 1, "blob": a}, []Hash{a}},
		{"start of a root", TypeStart, map[string]any{"name": "f", "hash": a, "depth": 0, "parentState": nil,
			"prompt": b, "maxRounds": nil}, []Hash{b, a}},
		{"start of a child", TypeStart, map[string]any{"name": "f", "hash": a, "depth": 1, "parentState": c,
			"prompt": b, "maxRounds": nil}, []Hash{b, c, a}},
		{"state", TypeState, map[string]any{"start": a, "content": b, "ancestors": []Hash{c, d}, "compact": b,
			"childThread": e, "detail": f,
			"fork": nil, "paths": nil}, []Hash{a, b, c, d, e, f}},
		{"join: first place wins", TypeState, map[string]any{"start": a, "content": b, "ancestors": []Hash{c},
			"fork":  d,
			"paths": []any{map[string]any{"id": "x", "head": c}, map[string]any{"id": "y", "head": g}}},
			[]Hash{a, b, c, d, g}},
		{"flow", TypeFlow, map[string]any{"name": "f", "flows": map[string]any{"f": a}}, []Hash{}},
		{"detail", TypeDetail, map[string]any{"prompt": a, "transcript": b, "stderr": c,
			"attempts": []any{map[string]any{"id": "1", "transcript": d},
				map[string]any{"id": "2", "transcript": nil}}}, []Hash{a, b, d, c}},
		{"detail with evidence", TypeDetail, map[string]any{"prompt": a, "transcript": b, "stderr": c,
			"attempts": []any{},
			"evidence": []Hash{d, a, e}}, []Hash{a, b, c, d, e}},
		{"the hash of a source is no ref", TypeEvidence,
			map[string]any{"sources": []any{map[string]any{"blob": a, "hash": b}}}, []Hash{a}},
		{"evidence", TypeEvidence,
			map[string]any{"sources": []any{map[string]any{"blob": a, "stdoutRef": b}, map[string]any{"eventsRef": c}},
				"artifactRefs": []Hash{d}}, []Hash{a, b, c, d}},
		{"hashes elsewhere are not refs", TypeArtifact, map[string]any{"name": b.String(), "blob": a, "other": c},
			[]Hash{a}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data, err := Encode(tt.typ, tt.payload)
			if err != nil {
				t.Fatal(err)
			}
			n, err := Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, n.Refs); diff != "" {
				t.Errorf("refs: -want +got\n%s", diff)
			}
			tail, err := RefsOf(data)
			if err != nil || !cmp.Equal(tail, n.Refs) && len(tail)+len(n.Refs) > 0 {
				t.Errorf("RefsOf = %v, %v; want %v", tail, err, n.Refs)
			}
		})
	}
}

func TestFieldsThatDifferInCase(t *testing.T) {
	a := hash("a")
	for _, tt := range []struct {
		name, typ string
		payload   any
	}{
		{"a field", TypeState, map[string]any{"Detail": a}},
		{"beside the right one", TypeState, map[string]any{"detail": a, "DETAIL": nil}},
		{"a long s", TypeState, map[string]any{"\u017ftart": a}},
		{"the sign for kelvin", TypeState, map[string]any{"for\u212a": a}},
		{"a list", TypeState, map[string]any{"Ancestors": []Hash{a}}},
		{"a list of objects", TypeState, map[string]any{"Paths": []any{map[string]any{"head": a}}}},
		{"in a list of objects", TypeState, map[string]any{"paths": []any{map[string]any{"heaD": a}}}},
		{"one of several", TypeEvidence, map[string]any{"sources": []any{map[string]any{"stdoutref": a}}}},
		{"a long s in an object", TypeCalls, map[string]any{"calls": []any{map[string]any{"re\u017fponse": a}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const want = "only in case"
			if _, err := Encode(tt.typ, tt.payload); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Encode = %v, want an error with %q", err, want)
			}
			payload, err := Marshal(tt.payload)
			if err != nil {
				t.Fatal(err)
			}
			data, err := encode(tt.typ, payload, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Decode(data); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) {
				t.Errorf("Decode = %v, want a malformed node and %q", err, want)
			}
		})
	}
}

func TestContentKeepsOrderOfArtifacts(t *testing.T) {
	a, b := hash("a"), hash("b")
	text := "see " + hash("c").String() + "\n\"quoted\" \u2028"
	data, err := EncodeContent(text, []Hash{b, a, b, {}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Hash{b, a}, n.Refs); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	var back string
	if err := json.Unmarshal(n.Payload, &back); err != nil || back != text {
		t.Errorf("text came back as %q: %v", back, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	a, b := hash("a"), hash("b")
	good := fmt.Sprintf(`{"payload":{"blob":"%s","mediaType":"t","name":"n","size":1},"refs":["%s"],"type":"artifact"}`,
		a, a)
	if _, err := Decode([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, in string }{
		{"a ref that is not derived", strings.Replace(good, `"refs":["`+a.String(), `"refs":["`+b.String(), 1)},
		{"a ref too many", strings.Replace(good, `"]`, `","`+b.String()+`"]`, 1)},
		{"no refs", strings.Replace(good, `["`+a.String()+`"]`, `[]`, 1)},
		{"null ref", strings.Replace(good, `["`+a.String()+`"]`, `[null]`, 1)},
		{"white space", strings.Replace(good, ",", ", ", 1)},
		{"other key order", `{"type":"flow","payload":{},"refs":[]}`},
		{"another key", strings.Replace(good, `"type"`, `"extra":1,"type"`, 1)},
		{"a missing key", `{"payload":{},"type":"flow"}`},
		{"a key in capitals", strings.Replace(good, `"type"`, `"Type"`, 1)},
		{"an unknown type", `{"payload":{},"refs":[],"type":"stat"}`},
		{"null type", `{"payload":{},"refs":[],"type":null}`},
		{"payload no object", `{"payload":[],"refs":[],"type":"flow"}`},
		{"content no string", `{"payload":{},"refs":[],"type":"content"}`},
		{"content with a ref twice", fmt.Sprintf(`{"payload":"","refs":["%s","%s"],"type":"content"}`, a, a)},
		{"a hash in capitals", strings.ReplaceAll(good, a.String(), strings.ToUpper(a.String()))},
		{"escaped letter", strings.Replace(good, `"n"`, `"\u006e"`, 1)},
		{"an array", `[]`}, {"null", `null`}, {"nothing", ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Decode([]byte(tt.in)); !errors.Is(err, ErrMalformed) {
				t.Errorf("Decode(%s) = %v, want ErrMalformed", clip(tt.in), err)
			}
		})
	}
}

func TestUnknownPayloadKeysAreKept(t *testing.T) {
	data, err := Encode(TypeArtifact, map[string]any{"blob": hash("a"), "fromTheFuture": 1})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Decode(data)
	if err != nil || !bytes.Contains(n.Payload, []byte("fromTheFuture")) {
		t.Errorf("payload %s: %v", n.Payload, err)
	}
}

func TestOversizedNodeIsRefused(t *testing.T) {
	if _, err := EncodeContent(strings.Repeat("x", MaxBytes), nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

// FuzzDecode checks the law that makes hashes names: what decodes encodes to
// the same bytes.
func FuzzDecode(f *testing.F) {
	for _, typ := range []string{TypeState, TypeStart, TypeDetail, TypeEvidence, TypeFlow, TypeArtifact} {
		data, err := Encode(typ, map[string]any{"start": hash("a"), "blob": hash("b"), "n": 1.5, "s": "ö\n"})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	content, _ := EncodeContent("text", []Hash{hash("a")})
	f.Add(content)
	f.Add([]byte(`{"payload":"","refs":[],"type":"content"}`))
	for _, v := range odd {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		agree(t, data)
		n, err := Decode(data)
		if err != nil {
			return
		}
		var again []byte
		if n.Type == TypeContent {
			var text string
			if err := json.Unmarshal(n.Payload, &text); err != nil {
				t.Fatal(err)
			}
			again, err = EncodeContent(text, n.Refs)
		} else {
			again, err = Encode(n.Type, json.RawMessage(n.Payload))
		}
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("decoded %q, encoded %q (%v)", data, again, err)
		}
		refs, err := RefsOf(data)
		if err != nil || !cmp.Equal(refs, n.Refs) && len(refs)+len(n.Refs) > 0 {
			t.Errorf("RefsOf(%q) = %v, %v; want %v", data, refs, err, n.Refs)
		}
	})
}

func TestWalkVisitsEachOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "nodes")
		edges := make([][]Hash, n)
		for i := range edges {
			for range rapid.IntRange(0, 4).Draw(t, "refs") {
				edges[i] = append(edges[i], hash(fmt.Sprint(rapid.IntRange(0, n-1).Draw(t, "to"))))
			}
		}
		index := map[Hash]int{}
		for i := range n {
			index[hash(fmt.Sprint(i))] = i
		}
		want := map[Hash]bool{}
		var reach func(h Hash)
		reach = func(h Hash) {
			if !want[h] {
				want[h] = true
				for _, r := range edges[index[h]] {
					reach(r)
				}
			}
		}
		visits := map[Hash]int{}
		var w Walker
		for range rapid.IntRange(1, 3).Draw(t, "walks") {
			root := hash(fmt.Sprint(rapid.IntRange(0, n-1).Draw(t, "root")))
			reach(root)
			if err := w.Walk([]Hash{root}, func(h Hash) ([]Hash, error) {
				visits[h]++
				return edges[index[h]],
					nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if len(visits) != len(want) || w.Len() != len(want) {
			t.Fatalf("visited %d, Len %d, reachable %d", len(visits), w.Len(), len(want))
		}
		for h, n := range visits {
			if n != 1 || !want[h] || !w.Seen(h) {
				t.Fatalf("%s visited %d times, reachable %v", h.Short(), n, want[h])
			}
		}
	})
}

func TestWalkOfAMillionNeedsNoStack(t *testing.T) {
	const length = 1_000_000
	number := func(i int) Hash {
		return Hash{byte(i), byte(i >> 8), byte(i >> 16), 1}
	}
	visited := 0
	var w Walker
	err := w.Walk([]Hash{number(length)}, func(h Hash) ([]Hash, error) {
		visited++
		i := int(h[0]) | int(h[1])<<8 | int(h[2])<<16
		if i == 0 {
			return nil, nil
		}
		return []Hash{number(i - 1)}, nil
	})
	if err != nil || visited != length+1 {
		t.Errorf("visited %d of %d: %v", visited, length+1, err)
	}
}

func TestWalkEndsAtAnError(t *testing.T) {
	broken := errors.New("broken")
	var w Walker
	if err := w.Walk([]Hash{hash("a")}, func(Hash) ([]Hash, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if w.Seen(hash("a")) {
		t.Error("an object that could not be read counts as seen")
	}
}

// What Decode would refuse does not become a node.
func TestCloseRefusesWhatCannotBeDecoded(t *testing.T) {
	deep := func(n int) string { return `{"meta":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` }
	for _, tt := range []struct{ name, payload, want string }{
		{"too deep", deep(MaxDepth - 1), "nested deeper"},
		{"a number that is not kept", `{"n":9007199254740993}`, `"n": number 9007199254740993`},
		{"another spelling", `{"n":1e16}`, "canonical form"},
		{"keys in another order", `{"b":1,"a":2}`, "canonical form"},
		{"a rest", `{}{}`, "after the value"},
		{"nothing", ``, "no value"},
	} {
		data, err := encode(TypeFlow, []byte(tt.payload), nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %q, %v, want an error about %q", tt.name, data, err, tt.want)
		}
	}
	if _, err := Encode(TypeFlow, json.RawMessage(deep(MaxDepth-1))); !errors.Is(err, ErrTooDeep) {
		t.Errorf("Encode: %v", err)
	}
	data, err := Encode(TypeFlow, json.RawMessage(deep(MaxDepth-2)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(data); err != nil {
		t.Error(err)
	}
}
