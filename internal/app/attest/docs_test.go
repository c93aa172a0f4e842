package attest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/merkle"
	"github.com/plait-run/plait/internal/record/store"
)

// vector makes the examples of docs/format.md, and their bundle: a log of six events, of which the third and the fifth
// are of the task.
func vector(t *testing.T) (texts map[string]string, bundle []byte) {
	t.Helper()
	var secret store.Secret
	for i := range secret {
		secret[i] = byte(i)
	}
	head := dag.Sum([]byte("head"))
	payload, err := json.Marshal(event.ThreadEnded{Status: store.Completed, Head: head})
	if err != nil {
		t.Fatal(err)
	}
	ended := store.Event{Pos: 3, Seq: 1, TS: began, Type: "thread.ended", Task: taskID, Thread: taskID, Payload: payload}
	done := store.Event{Pos: 5, Seq: 2, TS: began, Type: "task.completed", Task: taskID, Thread: taskID,
		Payload: json.RawMessage(`{"code":0,"summary":"Fixed."}`)}
	var leaves []dag.Hash
	var tree merkle.Tree
	for i := range 6 {
		leaves = append(leaves, merkle.Leaf([]byte{byte(i)}))
	}
	leaves[2], leaves[4] = ended.Leaf(secret), done.Leaf(secret)
	for _, leaf := range leaves {
		tree.Append(leaf)
	}
	log := history.Checkpoint{Origin: history.Origin("01KDVDTC00000000000000000A"), Size: 6, Root: tree.Root()}
	checkpoint, err := log.Sign(logKey(t, 3).Signer(log.Origin))
	if err != nil {
		t.Fatal(err)
	}
	entries := &Entries{Entries: []Entry{entryOf(&ended, secret), entryOf(&done, secret)}, Proof: merkle.Prove(leaves,
		[]int64{2, 4}), Size: 6}
	s := &Statement{Type: statementType, Subject: subjects.Subjects(), PredicateType: predicateType, Predicate: Change{
		Approvals: []Approval{}, Files: map[string]dag.Hash{}, NotKnown: []Unknown{}, Steps: []Step{{Node: head, Role: "__end__"}},
		Log:  Log{Entries: 2, Origin: log.Origin, Root: log.Root, Size: 6},
		Task: Task{CreatedAt: began, EndedAt: began, Flow: "fix", Head: head, ID: taskID, StartedBy: "person", Status: store.Completed},
	}}
	b, err := NewBundle(s, checkpoint, entries, nil)
	if err != nil {
		t.Fatal(err)
	}
	statement, err := s.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	p := proof{t: t, policy: "signer ann " + authorized(t, 1) + "log " + vkeyOf(t, log.Origin) + "\n"}
	b.Envelope = p.sign(s, person(t, 1))
	if r := p.verify(p.pack(b), "require complete"); len(r.Reasons) > 0 {
		t.Errorf("the examples prove nothing: %q", r.Reasons)
	}
	return map[string]string{"statement": string(statement) + "\n", "envelope": string(b.Envelope) + "\n",
		"entries": string(b.Entries) + "\n", "checkpoint of six": string(checkpoint)}, p.pack(b)
}

func vkeyOf(t testing.TB, origin string) string {
	t.Helper()
	key, err := logKey(t, 3).Public(origin)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestDocs compares the examples of docs/format.md with what is written here, byte for byte.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	texts, bundle := vector(t)
	for name, want := range texts {
		_, rest, _ := strings.Cut(string(page), "<!-- attested: "+name+" -->\n```")
		_, rest, _ = strings.Cut(rest, "\n")
		got, _, _ := strings.Cut(rest, "```\n")
		if got != want {
			t.Errorf("%s: docs/format.md has\n%s\nwant\n%s", name, got, want)
		}
	}
	const file = "testdata/change.plait" // tools/intoto and TestPrograms read it, too
	kept, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was missing: %v", file, os.WriteFile(file, bundle, 0o644))
	} else if err != nil || !bytes.Equal(kept, bundle) {
		t.Errorf("%s is not what Pack writes (remove it to write it anew): %v", file, err)
	}
}
