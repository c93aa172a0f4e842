package model

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// dialects has both APIs.
var dialects = map[string]func() dialect{
	Chat:     func() dialect { return &chat{} },
	Messages: func() dialect { return &messages{} },
}

// odd draws texts that models, commands and broken files leave in a conversation.
func odd(t *rapid.T, name string) string {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", " \n", "fine", "\x00", "a\x00b", "\xff",
		"\xed\xa0\x80",
		`{"path":"a"}`, `{"path":"\ud83d"}`, `{"path":"\ud83d\ude00 \u0000 \\u0000"}`, `{"a":{"b":[1e400,1.50]}}`, `{`, `[]`,
		"null",
		"c1", "functions.read:0", strings.Repeat("x", 70)})).Draw(t, name)
}

// TestWhatGoesOutParses checks that a strict server accepts every conversation, also those that something is wrong
// with: nothing in it can make all later requests fail.
func TestWhatGoesOutParses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := []entry{{Role: byUser, Text: odd(t, "prompt")}}
		for range rapid.IntRange(0, 8).Draw(t, "entries") {
			e := entry{Role: rapid.SampledFrom([]string{byUser, byAssistant, byTool}).Draw(t, "role"), Text: odd(t, "text")}
			switch e.Role {
			case byTool:
				e.Call = odd(t, "call")
			case byAssistant:
				e.Thought = odd(t, "thought")
				for range rapid.IntRange(0, 3).Draw(t, "calls") {
					e.Calls = append(e.Calls, call{ID: odd(t, "id"), Name: odd(t, "name"), Args: odd(t, "args")})
				}
				if rapid.Bool().Draw(t, "kept") {
					e.Kept = []json.RawMessage{json.RawMessage(`{"type":"thinking","thinking":"Hm.","signature":"s"}`)}
				}
			}
			entries = append(entries, e)
		}
		entries = append(entries, entry{Role: byUser, Text: odd(t, "last")})
		fields := map[string]any{}
		for _, part := range []string{system, cacheMark, signature} {
			if rapid.Bool().Draw(t, part) {
				fields[part] = nil
			}
		}
		before := string(encode(entries))
		for api, d := range dialects {
			raw, err := json.Marshal(query{system: "Work.", entries: entries, fields: fields}.body(d()))
			if err != nil {
				t.Fatalf("%s: %v", api, err)
			}
			r, err := requestOf(api, string(raw))
			if err == nil {
				err = r.wellFormed()
			}
			if err != nil {
				t.Errorf("%s: %s\n%v", api, raw, err)
			}
		}
		if string(encode(entries)) != before {
			t.Error("the conversation itself was changed")
		}
	})
}

// TestSentAgain checks that what is fine is sent as it is, and that the beginning of a conversation does not change
// when it grows: servers cache it.
func TestSentAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries []entry
		grow := func() {
			args := rapid.SampledFrom([]string{"", "{}", `{"a": "\ud83d\ude00 \\u0000"}`, ` {"b" : 1.50} `, "{"}).Draw(t, "args")
			id := rapid.SampledFrom([]string{"", "a", "b", "call00000", "functions.read:0"}).Draw(t, "id")
			entries = append(entries, entry{Role: byUser, Text: "Go on."}, entry{Role: byAssistant,
				Calls: []call{{ID: id, Name: "read", Args: args}, {ID: id, Name: "read", Args: args}}},
				entry{Role: byTool, Call: id, Text: "one"}, entry{Role: byTool, Call: id, Text: "two"})
		}
		for range rapid.IntRange(1, 4).Draw(t, "turns") {
			grow()
		}
		before := sendable(entries)
		grow()
		after := sendable(entries)
		for i, e := range before {
			if got, want := string(encode(after[i])), string(encode(e)); got != want {
				t.Errorf("entry %d was sent as %s, and now as %s", i, want, got)
			}
		}
		for i, e := range after {
			if e.Role == byTool && e.Text != map[bool]string{true: "one", false: "two"}[after[i-1].Role == byAssistant] {
				t.Errorf("the results are exchanged: %s", encode(after))
			}
		}
	})
}

// TestArguments checks what the arguments of a call are sent as.
func TestArguments(t *testing.T) {
	for args, want := range map[string]string{
		"": "{}", " ": "{}", "{}": "{}", "{": "{}", "[]": "{}", "null": "{}", `"{}"`: "{}", "{} {}": "{}",
		`{"b":1.50,"a":1e300}`: `{"b":1.50,"a":1e300}`, `{"a":1e400}`: "{}", `{"path":"a\u0000"}`: `{"path":"a\ufffd"}`,
		`{"path":"\\u0000"}`:          `{"path":"\\u0000"}`,
		`{"path":"a\ud83d","n":1.50}`: `{"n":1.50,"path":"a` + "\uFFFD" + `"}`, `{"path":"\ud83d\ude00"}`: `{"path":"😀"}`,
		"{\"path\":\"\xff\"}": `{"path":"` + "\uFFFD" + `"}`, `{"path":7}`: `{"path":7}`,
	} {
		if got := objectOf(args); got != want {
			t.Errorf("%q is sent as %s, want %s", args, got, want)
		}
	}
}

// TestUnsendable checks that a request that is no JSON is not sent.
func TestUnsendable(t *testing.T) {
	asked := false
	l := newLab(t, func(http.ResponseWriter, *http.Request) { asked = true })
	l.cfg.Extra = map[string]any{"temperature": math.NaN()}
	if _, err := l.run(); asked || err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("asked %t: %v", asked, err)
	}
}
