package history_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

// accepted is what a person accepts who restored a backup.
func accepted() history.Acceptance {
	return history.Acceptance{At: 1767225604500, By: "this machine", Kept: 30, Origin: origin, Reason: "the disk was lost",
		Root: head.Root, Size: head.Size}
}

func acceptance(t testing.TB, a history.Acceptance) store.Event {
	t.Helper()
	ev, err := a.Sign(person(t, 1), "ann")
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func TestAcceptance(t *testing.T) {
	ev := acceptance(t, accepted())
	a, by, err := history.OpenAcceptance(ev)
	if err != nil || sshsig.Fingerprint(by) != sshsig.Fingerprint(person(t, 1).PublicKey()) {
		t.Fatalf("got %v, %v", by, err)
	}
	if diff := cmp.Diff(accepted(), a); diff != "" {
		t.Errorf("what was accepted (-want +got):\n%s", diff)
	}
	other := dag.Sum([]byte("other"))
	for _, x := range []struct {
		size int64
		root dag.Hash
		want bool
	}{{41, head.Root, true}, {41, other, false}, {40, other, true}, {31, other, true}, {30, other, false},
		{42, head.Root, false}} {
		if got := a.Covers(x.size, x.root); got != x.want {
			t.Errorf("it covers %d entries with root %s: %t", x.size, x.root.Short(), got)
		}
	}
	ev.Payload = []byte(strings.Replace(string(ev.Payload), "30", "10", 1))
	if _, _, err := history.OpenAcceptance(ev); !errors.Is(err, sshsig.ErrInvalid) {
		t.Errorf("a forged one: %v", err)
	}
	if _, _, err := history.OpenAcceptance(event.New(store.Thread{}, 1, event.FlowRemoved{})); err == nil {
		t.Error("another event accepts something")
	}
}

// TestCopy reads checkpoints of a copy, and those of its original.
func TestCopy(t *testing.T) {
	k := logKey(t, 3)
	is := history.Origin("01KDVDTC00000000000000000C")
	made := accepted()
	made.Copy, made.Kept = is, made.Size
	vouched := admit(t, 2, public(t, k), origin, 1)
	keys := history.ReadKeys(is, []store.Event{vouched, acceptance(t, made)}, nil)
	if made.Covers(41, head.Root) {
		t.Error("a copy gives up what its original has")
	}
	for name, x := range map[string]struct {
		of   history.Checkpoint
		as   string // the name of the key that signs; "": none
		want history.Standing
		says string
	}{
		"of the original":        {head, origin, history.Vouched, ""},
		"of what it has further": {history.Checkpoint{Origin: origin, Size: 42}, origin, "", "a copy of the first 41"},
		"of the copy":            {history.Checkpoint{Origin: is, Size: 50}, "", history.Unsigned, ""},
		"by a key of before":     {history.Checkpoint{Origin: is, Size: 50}, is, history.Unvouched, ""},
		"by its name of before":  {history.Checkpoint{Origin: is, Size: 50}, origin, history.Unvouched, ""},
		"of neither":             {history.Checkpoint{Origin: history.Origin("X"), Size: 1}, "", "", "it is of the log"},
	} {
		text := []byte(x.of.String())
		if x.as != "" {
			var err error
			if text, err = x.of.Sign(k.Signer(x.as)); err != nil {
				t.Fatal(err)
			}
		}
		_, got, err := keys.Read(text)
		if x.says == "" && (err != nil || got.Standing != x.want) ||
			x.says != "" && (err == nil || !strings.Contains(err.Error(), x.says)) {
			t.Errorf("%s: %s, %v", name, got.Standing, err)
		}
	}
}
