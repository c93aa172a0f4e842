package model

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCallArguments checks that a call is sent back with an object, whatever the model wrote.
func TestCallArguments(t *testing.T) {
	for args, want := range map[string]string{"": "{}", " ": "{}", "{}": "{}", "{": "{}", "[]": "{}", `{"path":"a"}`: `{"path":"a"}`} {
		e := entry{Role: byAssistant, Calls: []call{{ID: "c", Name: "read", Args: args}}}
		data, err := json.Marshal((&messages{}).body(query{entries: []entry{e}})["messages"])
		if err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		var got []struct {
			Content []struct{ Input json.RawMessage }
		}
		if err := json.Unmarshal(data, &got); err != nil || len(got) != 1 || len(got[0].Content) != 1 {
			t.Fatalf("%q: %s: %v", args, data, err)
		}
		if diff := cmp.Diff(want, string(got[0].Content[0].Input)); diff != "" {
			t.Errorf("%q: %s", args, diff)
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
