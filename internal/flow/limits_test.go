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
