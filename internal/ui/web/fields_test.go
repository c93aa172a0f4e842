package web

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOutputFields(t *testing.T) {
	got := outputFields([]byte(`{"$status":"done","sessionGoal":"ship \ud83d\ude80","ok":true,"n":12.50,"none":null,"list":["a",{"id":"b"}],"empty":[]}`),
		"$status")
	want := []outputField{{Name: "sessionGoal", Text: "ship 🚀"}, {Name: "ok", Text: "yes"}, {Name: "n", Text: "12.50"},
		{Name: "list", Of: []outputField{{Text: "a"}, {Of: []outputField{{Name: "id", Text: "b"}}}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if label := want[0].Label(); label != "Session goal" {
		t.Errorf("the label is %q", label)
	}
	for _, text := range []string{"", "7", "[1]", `{"a":`,
		`{"a":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + "}",
		`{"a":[` + strings.Repeat("1,", maxFields) + "1]}"} {
		if got := outputFields([]byte(text)); got != nil {
			t.Errorf("%.20s has fields: %v", text, got)
		}
	}
}
