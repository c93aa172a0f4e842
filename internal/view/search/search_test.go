package search_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/search"
)

// TestFinds finds words wherever they are: identifiers, paths, phrases, beginnings, accents, and languages without
// spaces. The tokenizer of the index is chosen by this.
func TestFinds(t *testing.T) {
	r := newRecord(t)
	a := r.begin(1, "solo", "Mend the login\nIt times out in internal/auth/session.go.")
	a.did(a.row.ID+".1", agent.Event{Kind: agent.EventCommand, ID: "c", Phase: "completed", Text: "go test -run TestLogin ./..."},
		agent.Event{Kind: agent.EventFile, ID: "f", Phase: "completed", Files: []agent.File{{Path: "internal/auth/token.go"}}})
	a.step(thread.Draft{Text: "The naïve retry is gone; --max-agents is kept, and `sessionTimeout` is 30s.",
		Detail: &thread.Detail{Agent: "codex", Attempt: a.row.ID + ".1", Session: "s"}})
	a.step(thread.Draft{Role: "reviewer", Text: "", Meta: json.RawMessage(`{"$status":"done","notes":["Reads well."]}`),
		Detail: &thread.Detail{Agent: "claude"}})
	before, after := "0a1", "0b2"
	a.step(thread.Draft{Role: "make", Text: "",
		Detail: &thread.Detail{Agent: "command", TreeBefore: &before, TreeAfter: &after}})
	b := r.begin(2, "chat", "検索を実装してください")
	b.step(thread.Draft{Text: "サーバーを書きました。한국어도 됩니다. ภาษาไทย"})
	r.expect(map[string][]string{
		"login":                    {"k001 title"}, // TestLogin is another word, as GitHub is one
		"TestLogin":                {"k001/1 command"},
		"testlog*":                 {"k001/1 command"},
		"internal/auth":            {"k001 prompt", "k001/1 file"},
		"session.go":               {"k001 prompt"},
		"max-agents":               {"k001/1 output"},
		"--max-agents":             {"k001/1 output"},
		"sessiontimeout":           {"k001/1 output"},
		"naive RETRY":              {"k001/1 output"},
		`"retry naive"`:            nil,
		`"naive retry" "go test"`:  {"k001/1 output"},
		"reads":                    {"k001/2 output"},
		"done":                     nil, // a status is no word
		"file:token.go":            {"k001/1 file"},
		"file:internal/auth retry": {"k001/1 output"},
		"file:session.go":          nil,
		"file:0a1.go":              {"k001/3 file"}, // the program did not say so
		"file:0b2.sum":             {"k001/3 file"},
		"検索":                       {"k002 title"},
		"実装して":                     {"k002 title"},
		"サーバ":                      {"k002/1 output"},
		"국어":                       {"k002/1 output"},
		"ไทย":                      {"k002/1 output"},
		"索検":                       nil,
		"agent:codex retry":        {"k001/1 output"},
		"agent:claude retry":       nil,
		"flow:chat login":          nil,
		"flow:solo login":          {"k001 title"},
		"state:done login":         nil,
		"state:queued login":       {"k001 title"},
		"since:1d login":           {"k001 title"},
		"since:2099-01-01 login":   nil,
	})
}

// TestHostile looks for what would be syntax of the index, and shows what is as an agent wrote it.
func TestHostile(t *testing.T) {
	r := newRecord(t)
	l := r.begin(1, "solo", "plain")
	l.step(thread.Draft{Text: "one\x02two\x03 \x1f<b>bold</b> say \"quoted\" a OR b"})
	for _, typed := range []string{`"`, `a"b`, "NEAR(a b, 2)", "title:plain", "a AND NOT b", "^plain", "pla*in", "-plain",
		"{title prompt}:x", "a OR", "x'; DROP TABLE doc; --", "a\x00b", "\xff\xfe", `file:"a" "`, "+", "( )", "ⅷ", "𝒜"} {
		q, err := search.Parse(typed, time.Now())
		if err != nil {
			continue // it says that there is nothing to look for
		}
		if _, err := r.index().Search(t.Context(), q, time.Minute); err != nil {
			t.Errorf("%q: %v", typed, err)
		}
	}
	f := r.search("bold quoted")
	if len(f.Hits) != 1 {
		t.Fatalf("%+v", f)
	}
	h := f.Hits[0]
	want := []search.Piece{{Text: "onetwo <b>"}, {Text: "bold", Match: true}, {Text: "</b> say \""}, {Text: "quoted", Match: true},
		{Text: "\" a OR b"}}
	if diff := cmp.Diff(want, h.Pieces()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r.expect(map[string][]string{"OR": {"k001/1 output"}, "plain": {"k001 title"}})
}

// TestParse reads what people type, and says what is wrong.
func TestParse(t *testing.T) {
	for typed, want := range map[string]string{
		"": "say what to look for", "flow:solo since:1d": "say what to look for", "…": "say what to look for",
		"state:lost x": "state:lost: use queued", "since:soon x": `since: "soon" is not a time`, "flow: x": "flow: wants a value",
		"agent:": "agent: wants a value", "file: x": "file: wants a path", `state:"needs you" x`: "", "state:needs-you x": "",
		`"open phrase`: "", "http://x:80/a": "", "main.go:12": "", "File:x": "",
	} {
		_, err := search.Parse(typed, time.Now())
		if err == nil != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", typed, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	r := &record{store: mem.New(mem.Config{}), home: f.TempDir()}
	for _, s := range []string{`a "b c" d*`, "state:done x", `file:"`, "検索", "\x1f\x02"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, typed string) {
		q, err := search.Parse(typed, time.Now())
		if err != nil {
			return
		}
		if _, err := r.index().Search(context.Background(), q, time.Minute); err != nil {
			t.Errorf("%q: %v", typed, err)
		}
	})
}

// TestJoinsAreSilent does not find the words of a path again in its join.
func TestJoinsAreSilent(t *testing.T) {
	r := newRecord(t)
	root := r.begin(1, "solve", "go")
	root.step(thread.Draft{Text: "begun"})
	path := r.add(nil, thread.Path(root.row, r.clock, store.Path{Key: "k/api", ID: "api", Join: "gathered"}, r.clock),
		event.ThreadStarted{})
	path.step(thread.Draft{Text: "an interface"})
	path.row.Status = store.Completed
	ch, err := thread.Join(root.row, path.tip, path.row.Steps, thread.JoinDraft{Node: "gathered", Outcome: "joined",
		DecidedBy: "api", At: r.clock, Paths: []thread.PathEnd{{Row: path.row, Text: "an interface"}}})
	if err != nil {
		t.Fatal(err)
	}
	r.commit(store.Batch{Objects: ch.Objects, Threads: []store.ThreadChange{{Row: ch.Row, From: root.row.State()}},
		Events: []store.Event{event.New(ch.Row, r.clock, event.ThreadJoined{})}})
	root.row, root.tip = ch.Row, ch.Tip
	root.step(thread.Draft{Text: "after"})
	r.expect(map[string][]string{"interface": {"k001/api/2 output"}, "begun": {"k001/1 output"}, "after": {"k001/4 output"}})
}

// TestEndsAreSilent does not find what a step said again in the end of its thread, however late that comes.
func TestEndsAreSilent(t *testing.T) {
	for _, summary := range []string{"a green build", "cancelled"} {
		r := newRecord(t)
		root := r.begin(1, "mend", "go")
		root.step(thread.Draft{Text: "a green build\nof all of it"})
		root.step(thread.Draft{Role: flow.UntilRole("worker"), Text: "ok"})
		r.expect(map[string][]string{"green": {"k001/1 output"}})
		root.step(thread.Draft{Role: thread.RoleEnd, Meta: thread.EndMeta(thread.CodeDone, summary), Text: summary})
		r.expect(map[string][]string{"green": {"k001/1 output"}})
		if summary == "cancelled" {
			r.expect(map[string][]string{"cancelled": {"k001/3 output"}})
		}
	}
}

// TestRemoved takes what was removed out of the file, by the process that removes it or by the next that searches. What a
// fork has stays.
func TestRemoved(t *testing.T) {
	for _, here := range []bool{true, false} {
		t.Run(fmt.Sprint("here ", here), func(t *testing.T) {
			r := newRecord(t)
			a := r.begin(1, "solo", "zanzibar asks")
			at := a.step(thread.Draft{Text: "shared words of mombasa"})
			fork := thread.Fork(a.row, "01KA0000000000000000000002", thread.Step{Hash: at}, 1, r.clock)
			fork.Short = "k002"
			a.step(thread.Draft{Text: "the kilimanjaro secret"})
			f := r.add(nil, fork, event.ThreadForked{From: a.row.ID, Step: at, N: 1})
			f.step(thread.Draft{Text: "fork goes on"})
			r.expect(map[string][]string{"mombasa": {"k001/1 output"}, "kilimanjaro": {"k001/2 output"}})
			if !bytes.Contains(r.bytes(), []byte("kilimanjaro")) {
				t.Fatal("the file does not have the word")
			}
			said := event.New(store.Thread{ID: a.row.ID}, r.clock, event.ThreadRemoved{})
			r.commit(store.Batch{Remove: []string{a.row.ID}, Events: []store.Event{said}})
			if here {
				if err := r.index().Forget(t.Context(), []string{a.row.ID}); err != nil {
					t.Fatal(err)
				}
			} else {
				r.found("anything")
			}
			for _, part := range []string{"kilimanjaro", "kilim", "manjaro"} {
				if bytes.Contains(bytes.ToLower(r.bytes()), []byte(part)) {
					t.Errorf("%q is still in the file", part)
				}
			}
			r.expect(map[string][]string{"kilimanjaro": nil, "mombasa": {"k002/1 output"}, "zanzibar": {"k002 title"}})
		})
	}
}

// TestRedacted empties the file when the record was redacted, wherever, and builds it from what the record has now.
func TestRedacted(t *testing.T) {
	r := newRecord(t)
	l := r.begin(1, "solo", "the key is hunter2hunter2")
	r.expect(map[string][]string{"hunter2hunter2": {"k001 title"}})
	r.commit(store.Batch{Events: []store.Event{event.New(l.row, r.clock, event.TaskRedacted{})}})
	q, err := search.Parse("key", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	// Nothing of the old words is left, however little time there is to read the new ones.
	if f, err := r.index().Search(t.Context(), q, 0); err != nil || f.Index.Last == 0 {
		t.Fatalf("%+v, %v", f, err)
	}
	if err := r.index().Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(r.bytes(), []byte("hunter2")) {
		t.Error("the text is still in the file")
	}
	r.expect(map[string][]string{"key": {"k001 title"}})
}

// TestView builds the file again when it was deleted, belongs to another history of the record, or is damaged.
func TestView(t *testing.T) {
	r := newRecord(t)
	r.begin(1, "solo", "one")
	r.expect(map[string][]string{"one": {"k001 title"}})
	path := filepath.Join(r.home, "search.db")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.expect(map[string][]string{"one": {"k001 title"}})

	was := r.store
	r.store = mem.New(mem.Config{})
	r.begin(2, "solo", "two")
	r.begin(3, "solo", "three")
	r.expect(map[string][]string{"one": nil, "two": {"k002 title"}})
	r.store = was
	r.expect(map[string][]string{"one": {"k001 title"}, "two": nil})

	if err := os.WriteFile(path, []byte(strings.Repeat("no database", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	q, _ := search.Parse("one", time.Now())
	if _, err := r.index().Search(t.Context(), q, time.Minute); err == nil || !strings.Contains(err.Error(), "delete it") {
		t.Errorf("of a damaged file it says %v", err)
	}
	if _, err := search.New(r.reader(), "", nil).Search(t.Context(), q, time.Minute); err == nil {
		t.Error("something was searched without a place for an index")
	}
}

func (r *record) reader() *view.Reader {
	return &view.Reader{Store: r.store, Nodes: thread.NewReader(r.store), Workspace: "/w"}
}

// TestTogether adds to one file from several indexes at once, as processes do, while tasks begin.
func TestTogether(t *testing.T) {
	r := newRecord(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5 {
				if _, err := r.index().CatchUp(t.Context(), time.Minute); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range 20 {
		r.begin(n+1, "solo", "together").step(thread.Draft{Text: "we work"})
	}
	all.Wait()
	if got := len(r.found("together")); got != 20 {
		t.Errorf("%d tasks", got)
	}
	if got := len(r.found("work")); got != 20 {
		t.Errorf("%d steps", got)
	}
}

// TestLimit finds the best first, only in the workspace, and says that there is more.
func TestLimit(t *testing.T) {
	r := newRecord(t)
	for n := range 3 {
		r.begin(n+1, "solo", "short").step(thread.Draft{Text: "a word about elephants " + strings.Repeat("and so on ", 100)})
	}
	r.begin(4, "solo", "elephants").step(thread.Draft{Text: "yes"})
	q, err := search.Parse("elephants", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	q.Limit = 2
	f, err := r.index().Search(t.Context(), q, time.Minute)
	if err != nil || len(f.Hits) != 2 || !f.More || f.Hits[0].Name != "k004" {
		t.Errorf("%+v, %v", f, err)
	}
	elsewhere := r.reader()
	elsewhere.Workspace = "/other"
	if f, err = search.New(elsewhere, r.home, nil).Search(t.Context(), q, 0); err != nil || len(f.Hits) != 0 {
		t.Errorf("elsewhere %+v, %v", f, err)
	}
	q.All = true
	if f, err = search.New(elsewhere, r.home, nil).Search(t.Context(), q, 0); err != nil || len(f.Hits) != 2 {
		t.Errorf("everywhere %+v, %v", f, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.index().CatchUp(ctx, time.Minute); err == nil {
		t.Error("it went on")
	}
}

// TestIs tells the files of an index from others.
func TestIs(t *testing.T) {
	for path, want := range map[string]bool{
		"/h/search.db": true, "/h/search.db-wal": true, "/h/records/r1/search.db": true, "/h/plait.db": false,
		"/h/homes/t/search.db": false, "/w/search.db": false,
	} {
		if search.Is("/h", path) != want {
			t.Errorf("%s: %t", path, !want)
		}
	}
}
