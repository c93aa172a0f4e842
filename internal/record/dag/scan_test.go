package dag

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// slowDecode is Decode based on a general JSON library: Decode must agree with it.
func slowDecode(data []byte) (Node, error) {
	canon, err := canonicalize(data)
	if err != nil {
		return Node{}, err
	}
	var raw struct {
		Type    *string          `json:"type"`
		Payload json.RawMessage  `json:"payload"`
		Refs    *json.RawMessage `json:"refs"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&raw); err != nil {
		return Node{}, err
	}
	if !bytes.Equal(canon, data) || raw.Type == nil || raw.Payload == nil || raw.Refs == nil {
		return Node{}, errors.New("another spelling")
	}
	n := Node{Type: *raw.Type, Payload: raw.Payload}
	if err := json.Unmarshal(*raw.Refs, &n.Refs); err != nil {
		return Node{}, err
	}
	var v any
	if err := json.Unmarshal(n.Payload, &v); err != nil {
		return Node{}, err
	}
	_, text := v.(string)
	_, object := v.(map[string]any)
	paths, known := refPaths[n.Type]
	var want []Hash
	switch {
	case n.Type == TypeContent && text:
		if want = unique(n.Refs); len(want) != len(n.Refs) {
			return Node{}, errors.New("refs twice")
		}
	case !known || !object:
		return Node{}, errors.New("wrong payload")
	default:
		for _, p := range paths {
			if want, err = slowCollect(want, v, p); err != nil {
				return Node{}, err
			}
		}
	}
	if !slices.Equal(unique(want), n.Refs) {
		return Node{}, errors.New("other refs")
	}
	again, err := encode(n.Type, n.Payload, n.Refs)
	if err != nil || !bytes.Equal(again, data) {
		return Node{}, errors.New("another spelling")
	}
	return n, nil
}

func slowCollect(refs []Hash, v any, path string) (_ []Hash, err error) {
	if v == nil {
		return refs, nil
	}
	if path == "" {
		s, ok := v.(string)
		if !ok {
			return nil, ErrBadHash
		}
		h, err := ParseHash(s)
		return append(refs, h), err
	}
	if names, ok := strings.CutPrefix(path, "{"); ok {
		for name := range strings.SplitSeq(strings.TrimSuffix(names, "}"), ",") {
			if refs, err = slowCollect(refs, v, name); err != nil {
				return nil, err
			}
		}
		return refs, nil
	}
	name, rest, list := splitName(path)
	obj, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("want an object")
	}
	if !list || obj[name] == nil {
		return slowCollect(refs, obj[name], rest)
	}
	items, ok := obj[name].([]any)
	if !ok {
		return nil, errors.New("want a list")
	}
	for _, item := range items {
		if refs, err = slowCollect(refs, item, rest); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// agree fails unless both ways of reading data give the same result.
func agree(t interface{ Fatalf(string, ...any) }, data []byte) {
	got, err := Decode(data)
	want, wantErr := slowDecode(data)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: %v, the library says %v", data, err, wantErr)
	}
	if err == nil && (got.Type != want.Type || !bytes.Equal(got.Payload, want.Payload) ||
		!slices.Equal(got.Refs, want.Refs)) {
		t.Fatalf("%q: -library +got\n%s", data, cmp.Diff(want, got))
	}
	if canon, err := canonicalize(data); isCanonical(data) != (err == nil && bytes.Equal(canon, data)) {
		t.Fatalf("%q: canonical is %v, the library says %q, %v", data, isCanonical(data), canon, err)
	}
}

// odd are values whose spelling is easy to get wrong.
var odd = []string{
	`null`, `true`, `false`, `0`, `-0`, `00`, `-1`, `1.5`, `1e21`, `1E21`, `1e+21`, `100000000000000000000`,
	`9007199254740991`,
	`9007199254740992`, `9007199254740993`, `10000000000000000`, `1e16`, `1152921504606846976`, `1e-400`,
	`123456789012345`, `1234567890123456`, `0.000001`, `1e-7`, `-`, `.5`, `1.`, `1.0`, `tru`, `nul`,
	`""`, `"a"`, `"\""`, `"\\"`, `"\/"`, `"\n"`, `"\u000a"`, `"\u0001"`, `"\u001F"`, `"\u001f"`, `"\u0020"`, `"\u00e9"`,
	"\"\n\"", "\"\x7f\"", "\"\u2028\"", "\"\xff\"", "\"\xed\xa0\x80\"", `"\ud800"`, `"é"`, "\"\U0001F600\"", `"`, `"\`,
	`"\u00`,
	`{}`, `[]`, `[1,2]`, `[1,]`, `[,1]`, `[1 ,2]`, `{"a":1,"b":2}`, `{"b":1,"a":2}`, `{"a":1,"a":2}`, `{"a":1,"ab":2}`,
	`{"ab":1,"a":2}`, `{"":1,"a":2}`, `{"\n":1,"a":2}`, `{"a":2,"\n":1}`, `{"é":1,"z":2}`, `{"z":1,"é":2}`,
	"{\"\U0001F600\":1,\"\uFFFD\":2}", "{\"\uFFFD\":1,\"\U0001F600\":2}", `{"a":}`, `{"a"}`, `{a:1}`, `{"a":1,}`, `[`, `{`,
	`]`, `1]`, ` 1`,
	strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
	strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1),
	strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1),
	strings.Repeat("[", MaxDepth-2) + strings.Repeat("]", MaxDepth-2),
}

func TestScannerAgreesWithTheLibrary(t *testing.T) {
	h := hash("a")
	for _, v := range odd {
		agree(t, []byte(v))
		for _, node := range []string{
			`{"payload":%s,"refs":[],"type":"content"}`, `{"payload":{"a":%s},"refs":[],"type":"flow"}`,
			`{"payload":{"blob":%s},"refs":[],"type":"artifact"}`, `{"payload":{"paths":%s},"refs":[],"type":"state"}`,
			`{"payload":{"ancestors":%s},"refs":[],"type":"state"}`, `{"payload":{"sources":[%s]},"refs":[],"type":"evidence"}`,
			`{"payload":{},"refs":[],"type":%s}`, `{"payload":{},"refs":%s,"type":"flow"}`,
			`{"payload":{},"refs":[%s],"type":"flow"}`,
			`{"payload":{"parts":[{"content":"` + h.String() + `","x":%s}]},"refs":["` + h.String() + `"],"type":"prompt"}`,
		} {
			agree(t, fmt.Appendf(nil, node, v))
		}
	}
}

// Nodes with any payload, whole or with a byte changed, are read alike by both.
func TestDecodeAgreesWithTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := []string{TypeContent}
		for typ := range refPaths {
			types = append(types, typ)
		}
		slices.Sort(types)
		typ := rapid.SampledFrom(types).Draw(t, "type")
		hs := []any{hash("a"), hash("b"), hash("c"), nil}
		one := func() any { return rapid.SampledFrom(hs).Draw(t, "hash") }
		fields := map[string]any{rapid.String().Draw(t, "key"): rapid.SampledFrom([]any{1, -1.5, "x\u2028\"", nil,
			[]any{}}).Draw(t, "value")}
		for _, p := range refPaths[typ] {
			name, rest, list := splitName(p)
			switch {
			case !list:
				fields[name] = one()
			case rest == "":
				fields[name] = []any{hs[0], one()}
			default:
				item := map[string]any{}
				for inner := range strings.SplitSeq(strings.Trim(rest, "{}"), ",") {
					if inner, _, list := splitName(inner); list {
						item[inner] = []any{one()}
					} else {
						item[inner] = one()
					}
				}
				fields[name] = []any{item, map[string]any{}}
			}
		}
		data, err := Encode(typ, fields)
		if typ == TypeContent {
			data, err = EncodeContent(rapid.String().Draw(t, "text"), []Hash{hash("a"), hash("b")})
		}
		if err != nil {
			t.Skip(err) // a key that the library refuses
		}
		if _, err := Decode(data); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		agree(t, data)
		changed := bytes.Clone(data)
		changed[rapid.IntRange(0, len(data)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		agree(t, changed)
	})
}
