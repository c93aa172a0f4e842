package flow

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLimitsWithAndCap(t *testing.T) {
	a := Limits{MaxRounds: 40, MaxTokens: 100, Timeout: Duration(time.Hour)}
	b := Limits{MaxRounds: 10, MaxTokens: 200, MaxDepth: 2}
	if diff := cmp.Diff(Limits{MaxRounds: 10, MaxTokens: 100, MaxDepth: 2, Timeout: Duration(time.Hour)}, a.Cap(b)); diff != "" {
		t.Errorf("Cap: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(Limits{MaxRounds: 10, MaxTokens: 200, MaxDepth: 2, Timeout: Duration(time.Hour)}, a.With(b)); diff != "" {
		t.Errorf("With: -want +got\n%s", diff)
	}
}

func TestParseLimits(t *testing.T) {
	want := Limits{MaxRounds: 10, MaxTokens: 7, Timeout: Duration(time.Hour), MaxOutput: 1 << 20}
	got, err := ParseLimits([]string{"maxRounds=9", "maxTokens=7", "timeout=1h", "maxOutput=1MiB", "maxRounds=10"})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
	hex, err := ParseLimits([]string{"maxRounds=0x1F", "timeout=0o17", "maxOutput=0o17"})
	if want := (Limits{MaxRounds: 31, Timeout: Duration(15 * time.Second), MaxOutput: 15}); err != nil || hex != want {
		t.Errorf("%+v, %v", hex, err)
	}
	for _, pair := range []string{"", "maxRounds", "maxRounds=", "=1", "maxRounds=0", "maxRounds=~", "maxRounds=null", "timeout=0s",
		"maxOutput=0B", "maxRounds=-1", "maxRounds=x", "maxRonds=1", "maxRounds=1 # 2", "maxRounds={}", "maxRounds=010",
		"maxRounds=1_0", "timeout=0100", "maxOutput=0b1", "maxRounds=[1]", "maxRounds=1\nmaxTokens=2"} {
		if got, err := ParseLimits([]string{"maxTokens=7", pair}); err == nil {
			t.Errorf("%q: %+v", pair, got)
		}
	}
}
