package flow

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSandboxWith(t *testing.T) {
	own := &Sandbox{Write: []string{"/a"}, Network: NetworkOn, Env: map[string]string{"A": "1"}, Pass: []string{"P"}}
	for name, tt := range map[string]struct{ own, over, want *Sandbox }{
		"neither":  {nil, nil, nil},
		"agent":    {own, nil, own},
		"role":     {nil, own, own},
		"narrower": {own, &Sandbox{Write: []string{}, Network: NetworkOff}, &Sandbox{Write: []string{}, Network: NetworkOff, Env: own.Env, Pass: own.Pass}},
		"wider":    {own, &Sandbox{Env: map[string]string{"B": "2"}, Pass: []string{"Q"}}, &Sandbox{Write: own.Write, Network: NetworkOn, Env: map[string]string{"B": "2"}, Pass: []string{"Q"}}},
	} {
		if diff := cmp.Diff(tt.want, tt.own.With(tt.over)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
	if own.Network != NetworkOn {
		t.Error("the agent's own was changed")
	}
}

// A sandbox that is pinned in a bundle unmarshals equal: an empty list has a meaning.
func TestSandboxComesBack(t *testing.T) {
	r := Role{Sandbox: &Sandbox{Write: []string{}, Env: map[string]string{}}}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Role
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestCost(t *testing.T) {
	prices := Prices{"m": {Input: 1.25, Cached: 0.125, Output: 10}}
	for _, tt := range []struct {
		model                 string
		input, cached, output int64
		want                  int64
	}{
		{"m", 1_000_000, 0, 0, 1_250_000},
		{"m", 1_000_000, 1_000_000, 0, 125_000},
		{"m", 1000, 200, 30, 1000 + 25 + 300},
		{"m", 0, 0, 0, 0},
		{"other", 1_000_000, 0, 1_000_000, 0},
	} {
		if got := prices.Cost(tt.model, tt.input, tt.cached, tt.output); got != tt.want {
			t.Errorf("%+v costs %d", tt, got)
		}
	}
}
