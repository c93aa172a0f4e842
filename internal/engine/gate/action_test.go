package gate_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/engine/gate"
)

// TestDigest compares digests with the output of sha256sum for the text.
func TestDigest(t *testing.T) {
	for name, x := range map[string]struct {
		thread    string
		action    string
		canonical string
		want      string
	}{
		"nothing": {
			"", "", `{"action":null,"thread":""}`,
			"658d793afb6b5e2724bd2d561b8f6ae74af52b325ef26b5050f11e409a34413a",
		},
		"a command": {
			"01JABC", `{"type": "command", "command": "make test", "cwd": "/w"}`,
			`{"action":{"command":"make test","cwd":"/w","type":"command"},"thread":"01JABC"}`,
			"c1a428560c2b7579215c61e6fde6fd6be359a8a7cc5db96481b2f7e76128c1ee",
		},
		"a command with one space more": {
			"01JABC", `{"type": "command", "command": "make test ", "cwd": "/w"}`,
			`{"action":{"command":"make test ","cwd":"/w","type":"command"},"thread":"01JABC"}`,
			"740c1092ecae455abec2a1d9ddaf57446bf8ca52ff9c6df61630aaddde312c39",
		},
		"a tool call": {
			"01JABC", `{"tool":"fetch","type":"tool_call","params":{"z":[1.50,"\u00e9"],"a":1e0}}`,
			`{"action":{"params":{"a":1,"z":[1.5,"é"]},"tool":"fetch","type":"tool_call"},"thread":"01JABC"}`,
			"45575d7d5f37978eb14c0c916e1ed0c8f83a1457bf8e8690f1f3f46f95e7e486",
		},
	} {
		t.Run(name, func(t *testing.T) {
			sum := sha256.Sum256([]byte(x.canonical))
			if hex.EncodeToString(sum[:]) != x.want {
				t.Fatalf("the vector is wrong: the text hashes to %x", sum)
			}
			var action json.RawMessage
			if x.action != "" {
				action = json.RawMessage(x.action)
			}
			got, err := gate.Digest(x.thread, action)
			if err != nil || got.String() != x.want {
				t.Errorf("got %s, %v, want %s", got, err, x.want)
			}
		})
	}
}

func TestDigestRefuses(t *testing.T) {
	for name, x := range map[string]struct{ thread, action string }{
		"a key smuggled in behind":  {"T", `1,"thread":"other"`},
		"two values":                {"T", `{} {}`},
		"a key twice":               {"T", `{"command":"ls","command":"rm"}`},
		"no JSON":                   {"T", `{`},
		"no value":                  {"T", ``},
		"a number that would round": {"T", `{"params":9007199254740993}`},
		"what is not UTF-8":         {"T", "{\"command\":\"\xff\"}"},
		"half a letter":             {"T", `{"command":"\ud800"}`},
		"a thread not in UTF-8":     {"\xff", `{}`},
	} {
		if h, err := gate.Digest(x.thread, json.RawMessage(x.action)); err == nil {
			t.Errorf("%s: got %s, want an error", name, h)
		}
	}
}

// TestActions checks that different actions have different digests.
func TestActions(t *testing.T) {
	base := gate.Action{Type: gate.Command, Command: "make", Cwd: "/w"}
	seen := map[string]string{}
	for name, x := range map[string]struct {
		thread string
		action gate.Action
	}{
		"the action":      {"T", base},
		"another thread":  {"U", base},
		"another command": {"T", gate.Action{Type: gate.Command, Command: "make all", Cwd: "/w"}},
		"another place":   {"T", gate.Action{Type: gate.Command, Command: "make", Cwd: "/"}},
		"another type":    {"T", gate.Action{Type: gate.Permissions, Command: "make", Cwd: "/w"}},
		"with a diff":     {"T", gate.Action{Type: gate.Command, Command: "make", Cwd: "/w", Diff: "+"}},
		"with params":     {"T", gate.Action{Type: gate.Command, Command: "make", Cwd: "/w", Params: json.RawMessage(`{}`)}},
	} {
		raw, err := json.Marshal(x.action)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h, err := gate.Digest(x.thread, raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if other, ok := seen[h.String()]; ok {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[h.String()] = name
	}
}

func TestActionNotUTF8(t *testing.T) {
	for _, a := range []gate.Action{{Command: "\xfe"}, {Cwd: "\xfe"}, {Diff: "\xfe"}, {Tool: "\xfe"}, {Type: "\xfe"}} {
		if raw, err := json.Marshal(a); !errors.Is(err, gate.ErrInvalid) {
			t.Errorf("got %s, %v, want ErrInvalid", raw, err)
		}
	}
}

// FuzzDigest writes an action differently and wants the same digest.
func FuzzDigest(f *testing.F) {
	for _, s := range []string{
		`null`, `{}`, `{"type":"command","command":"ls -l","cwd":"/"}`, `{"b":[1,2.5e3,true,null],"a":"\u0041<>&"}`,
		`1,"thread":"x"`, `"\ud83d\ude00"`, strings.Repeat("[", 80), ` [1 , 2 ]`, `-0`, `1e400`,
	} {
		f.Add("T", []byte(s))
	}
	f.Fuzz(func(t *testing.T, thread string, action []byte) {
		h, err := gate.Digest(thread, action)
		if err != nil || action == nil {
			return
		}
		var v any
		if err := json.Unmarshal(action, &v); err != nil {
			t.Fatalf("digested what is not JSON: %v", err)
		}
		loose, err := json.MarshalIndent(v, "\t", "  ")
		if err != nil {
			t.Fatal(err)
		}
		for _, spelling := range [][]byte{loose, append([]byte(" \n"), append(action, '\t')...)} {
			if got, err := gate.Digest(thread, spelling); err != nil || got != h {
				t.Errorf("%s: %s, %v; spelled %s: %s", action, h, err, spelling, got)
			}
		}
		if got, err := gate.Digest(thread+"x", action); err == nil && got == h {
			t.Error("another thread has the same digest")
		}
	})
}
