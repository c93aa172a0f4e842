package store

import (
	"encoding/json"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
)

func TestProofIsJSON(t *testing.T) {
	for _, p := range []Proof{
		{"thread T": dag.Sum(nil)},
		{"thread T": dag.Sum(nil), "flow é\"x\n": dag.Hash{}, "attempt T.1": dag.Sum([]byte("1"))},
	} {
		want, err := json.Marshal(p)
		if got := p.json(); err != nil || string(got) != string(want) {
			t.Errorf("written as %s, want %s, %v", got, want, err)
		}
	}
}
