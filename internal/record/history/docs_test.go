package history_test

import (
	"os"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
)

// TestDocs compares the examples of docs/format.md with what is signed here, byte for byte.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	k := logKey(t, 3)
	admitted := admit(t, 2, public(t, k), origin, 1)
	p, ok := event.Read(admitted).(event.KeyAdmitted)
	if !ok {
		t.Fatalf("read %s", admitted.Payload)
	}
	checkpoint, err := head.Sign(k.Signer(origin), history.Person(person(t, 1)))
	if err != nil {
		t.Fatal(err)
	}
	gives, ok := event.Read(acceptance(t, accepted())).(event.HistoryAccepted)
	if !ok {
		t.Fatal("read what was accepted")
	}
	for name, want := range map[string]string{
		"approval": signed(t, answered(), 1).Signature, "admission": p.Signed, "checkpoint": string(checkpoint),
		"acceptance": gives.Signed,
	} {
		_, rest, _ := strings.Cut(string(page), "<!-- signed: "+name+" -->\n```text\n")
		got, _, _ := strings.Cut(rest, "```\n")
		if got != want {
			t.Errorf("%s: docs/format.md has\n%s\nwant\n%s", name, got, want)
		}
	}
	_, is, err := history.ReadKeys(origin, []store.Event{admitted}, nil).Read(checkpoint)
	if err != nil || is.Standing != history.Vouched {
		t.Errorf("the checkpoint is %s, %v", is.Standing, err)
	}
}
