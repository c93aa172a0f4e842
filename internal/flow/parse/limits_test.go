package parse

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
)

func TestParseLimits(t *testing.T) {
	want := flow.Limits{MaxRounds: 10, MaxTokens: 7, Timeout: flow.Duration(time.Hour), MaxOutput: 1 << 20}
	got, err := ParseLimits([]string{"maxRounds=9", "maxTokens=7", "timeout=1h", "maxOutput=1MiB", "maxRounds=10"})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
	hex, err := ParseLimits([]string{"maxRounds=0x1F", "timeout=0o17", "maxOutput=0o17"})
	if want := (flow.Limits{MaxRounds: 31, Timeout: flow.Duration(15 * time.Second), MaxOutput: 15}); err != nil || hex != want {
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

func TestLimitsSayWhatToWrite(t *testing.T) {
	for pair, want := range map[string]string{
		"maxRounds=1.5":                "maxRounds must be a whole number, not 1.5",
		"maxRounds=true":               "maxRounds must be a whole number, not true or false",
		"maxRounds=.inf":               `maxRounds: .inf cannot be used: write a number below 2^53, without leading zeros, "_" and "0b"`,
		"timeout=1_000":                `timeout: 1_000 cannot be used: write a number below 2^53, without leading zeros, "_" and "0b"`,
		"maxTokens=9007199254740993":   `maxTokens: 9007199254740993 cannot be used: write a number below 2^53`,
		"maxTokens=9007199254740992":   "maxTokens must be from 0 to 2^53-1, not 9007199254740992",
		"maxOutput=100000000000000000": `maxOutput: size "100000000000000000" is out of range: it must be below 2^53 bytes`,
	} {
		if l, err := ParseLimits([]string{pair}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %s", pair, l, err, want)
		}
	}
}
