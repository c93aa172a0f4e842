package verify_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/plait-run/plait/internal/record/event"
	signatures "github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/merkle"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/record/verify"
)

// history opens a record with the events of two tasks, one of which was removed.
func history(t *testing.T) (dir string, s *sqlite.Store) {
	t.Helper()
	dir = t.TempDir()
	s = openSQLite(t, dir)
	commit := func(b store.Batch) {
		t.Helper()
		if err := s.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		commit(store.Batch{Events: []store.Event{{Type: "gate.answered", TS: int64(1000 + i), Task: "A", Thread: "A",
			Payload: json.RawMessage(fmt.Sprintf(`{"by":"ann","n":%d}`, i))}}})
	}
	for range 3 {
		commit(store.Batch{Events: []store.Event{{Type: "x", TS: 1, Task: "B", Thread: "B"}}})
	}
	commit(store.Batch{Remove: []string{"B"}, Events: []store.Event{event.New(store.Thread{ID: "A", Task: "A"}, 5,
		event.ThreadRemoved{By: "ann", First: 13, Last: 15, Count: 3})}})
	redacted := store.Event{Pos: 2, Task: "A", Payload: json.RawMessage(`{"by":"[redacted]"}`)}
	commit(store.Batch{Redact: store.Redaction{Events: []store.Event{redacted}}, Events: []store.Event{
		event.New(store.Thread{ID: "A", Task: "A"}, 6, event.TaskRedacted{By: "ann", Events: 1})}})
	for range 3 {
		commit(store.Batch{Events: []store.Event{{Type: "y", TS: 9, Task: "A", Thread: "A"}}})
	}
	return dir, s
}

// judged returns what is wrong with the history of a record.
func judged(t *testing.T, s store.Store, seen ...verify.Seen) []string {
	t.Helper()
	r, err := verify.All(ctx, verify.Config{Store: s, Seen: seen})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range r.Problems {
		if p.Kind == verify.History {
			out = append(out, p.What)
		}
	}
	if want := map[bool]string{true: verify.OK, false: verify.Failed}[len(out) == 0]; r.History != want {
		t.Errorf("history is %s with %q", r.History, out)
	}
	return out
}

// alter changes the database as someone with an editor for it would, without the triggers that are in the way.
func alter(t *testing.T, dir, script string) {
	t.Helper()
	c, err := zombiezen.OpenConn(filepath.Join(dir, "plait.db"), zombiezen.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var drop, again string
	err = sqlitex.ExecuteTransient(c, "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'", &sqlitex.ExecOptions{
		ResultFunc: func(s *zombiezen.Stmt) error {
			drop += "DROP TRIGGER " + s.ColumnText(0) + ";"
			again += ";" + s.ColumnText(1)
			return nil
		}})
	if err == nil {
		err = sqlitex.ExecuteScript(c, drop+script+again, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// rewrite makes the tree that is kept that of the entries that are there.
func rewrite(t *testing.T, dir string) {
	t.Helper()
	s := openSQLite(t, dir)
	all, err := s.Entries(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var tree merkle.Tree
	for _, e := range all {
		tree.Append(e.Hash())
	}
	alter(t, dir, fmt.Sprintf("UPDATE tasks SET log = NULL; UPDATE log SET tree = x'%x'", tree.Bytes()))
}

// TestForgedHistory tries forgeries of a history beyond those of TestForgeries: as edits of rows alone, which the tree
// shows, and with the tree made to fit, which only those show who have seen the one before.
func TestForgedHistory(t *testing.T) {
	const gone = "INSERT INTO erased SELECT pos, x'%064x' FROM events WHERE task = 'A' AND pos > 3;" +
		" DELETE FROM events WHERE task = 'A' AND pos > 3;"
	for name, x := range map[string]struct {
		script string
		rows   string // the problem, of rows alone
		fits   string // and with a tree that fits, without a witness; empty: none
	}{
		"type":   {"UPDATE events SET type = 'gate.rejected' WHERE pos = 3", "entries 1 to 16 are not those", ""},
		"last":   {"UPDATE events SET ts = 7 WHERE pos = 20", "entries 17 to 20 are not those", ""},
		"proof":  {"UPDATE events SET proof = x'7b7d' WHERE pos = 5", "entries 1 to 16 are not those", ""},
		"secret": {"UPDATE tasks SET secret = zeroblob(32)", "entries 1 to 16 are not those", ""},
		"redacted more": {"UPDATE events SET payload = x'7b7d' WHERE pos = 2",
			"entry 2 was changed, and no entry says so", "entry 2 was changed, and no entry says so"},
		"redacted another": {"INSERT INTO erased SELECT pos, x'" + strings.Repeat("22", 32) + "' FROM events WHERE pos = 7;" +
			" UPDATE events SET payload = x'7b7d' WHERE pos = 7", "entries 1 to 16 are not those",
			"entry 7 was changed, and no entry says so"},
		"taken out": {fmt.Sprintf(gone, 7), "entries 4 to 20 were taken out, and no entry says so",
			"entries 4 to 20 were taken out, and no entry says so"},
		"a hole":     {"DELETE FROM events WHERE pos = 4", "entry 4 is gone", "entry 4 is gone"},
		"reached by": {"UPDATE erased SET leaf = x'" + strings.Repeat("11", 32) + "' WHERE pos = 14", "entries 1 to 16", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, s := history(t)
			log, err := s.Log(ctx)
			if err != nil {
				t.Fatal(err)
			}
			seen := verify.Seen{By: "this machine", Size: log.Tree.Size(), Root: log.Tree.Root()}
			if got := judged(t, s, seen); got != nil {
				t.Fatalf("a history that nobody changed: %q", got)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			alter(t, dir, x.script)
			s = openSQLite(t, dir)
			if got := strings.Join(judged(t, s), "\n"); !strings.Contains(got, x.rows) {
				t.Errorf("rows alone: %q, want %q", got, x.rows)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			rewrite(t, dir)
			s = openSQLite(t, dir)
			if got := strings.Join(judged(t, s), "\n"); x.fits == "" && got != "" || !strings.Contains(got, x.fits) {
				t.Errorf("with a tree that fits: %q, want %q", got, x.fits)
			}
			if got := strings.Join(judged(t, s, seen), "\n"); x.fits == "" && !strings.Contains(got, "this machine has seen") {
				t.Errorf("with a witness: %q", got)
			}
		})
	}
}

// TestOlderHistory tells a record that grew from one that an older copy has taken the place of.
func TestOlderHistory(t *testing.T) {
	_, s := history(t)
	var states []verify.Seen
	for i := range 20 {
		if err := s.Commit(ctx, store.Batch{Events: []store.Event{{Type: "x", Task: "A", TS: int64(i)}}}); err != nil {
			t.Fatal(err)
		}
		log, err := s.Log(ctx)
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, verify.Seen{By: "a file", Size: log.Tree.Size(), Root: log.Tree.Root()})
	}
	if got := judged(t, s, states...); got != nil {
		t.Errorf("a history that grew: %q", got)
	}
	last := states[19]
	last.Size += 5
	got := strings.Join(judged(t, s, last), "\n")
	if want := "the last 5 are gone"; !strings.Contains(got, want) {
		t.Errorf("an older copy: %q, want %q", got, want)
	}
}

// TestVerdict says in a phrase what is known of a history, from what was seen and what the signatures are worth.
func TestVerdict(t *testing.T) {
	dir, s := history(t)
	var at [20]verify.Seen // what was seen of each size, less one
	all, err := s.Entries(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var tree merkle.Tree
	for i, e := range all {
		tree.Append(e.Hash())
		at[i] = verify.Seen{By: "a file", Size: tree.Size(), Root: tree.Root()}
	}
	worth := func(size int, standing string) verify.Seen {
		seen := at[size-1]
		seen.Standing = signatures.Standing(standing)
		return seen
	}
	other := worth(16, "vouched")
	other.Root = at[3].Root
	longer := worth(20, "vouched")
	longer.Size = 22
	for name, x := range map[string]struct {
		seen  []verify.Seen
		since int
		want  string
	}{
		"nothing seen":       {nil, 0, "unsigned since 1"},
		"seen, unsigned":     {[]verify.Seen{worth(20, "")}, 0, "unsigned since 1"},
		"all signed":         {[]verify.Seen{worth(20, "vouched")}, 0, "ok"},
		"the first signed":   {[]verify.Seen{worth(18, "vouched"), worth(7, "vouched")}, 0, "unsigned since 19"},
		"by an unknown key":  {[]verify.Seen{worth(20, "unvouched")}, 0, "signed by a key nobody vouches for"},
		"by a revoked key":   {[]verify.Seen{worth(20, "revoked")}, 0, "signed by a key nobody vouches for"},
		"by both":            {[]verify.Seen{worth(18, "vouched"), worth(20, "unvouched")}, 0, "unsigned since 19"},
		"of before a log":    {[]verify.Seen{worth(20, "vouched")}, 5, "unproven before 6"},
		"that, and unsigned": {[]verify.Seen{worth(19, "vouched")}, 5, "unsigned since 20"},
		"rewritten":          {[]verify.Seen{worth(7, "vouched"), other}, 0, "rewritten at 8"},
		"shorter":            {[]verify.Seen{longer}, 0, "shorter than seen"},
		"shorter, rewritten": {[]verify.Seen{other, longer}, 0, "rewritten at 1"},
	} {
		alter(t, dir, fmt.Sprintf("UPDATE log SET since = %d", x.since))
		r, err := verify.Entries(ctx, verify.Config{Store: s, Seen: x.seen})
		if err != nil || r.Log.Verdict != x.want {
			t.Errorf("%s: got %+v, %v, want %s", name, r.Log, err, x.want)
		}
		fails := strings.HasPrefix(x.want, "rewritten") || strings.HasPrefix(x.want, "shorter")
		if r.OK() == fails {
			t.Errorf("%s: found %+v", name, r.Problems)
		}
	}
}

// TestAnswerAsWitness checks that whoever signed an answer has seen the log: one that begins otherwise is found, without
// a checkpoint. The answer to a gate that was imported says nothing of this log.
func TestAnswerAsWitness(t *testing.T) {
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		origin string
		root   byte // added to that of the log
		want   string
	}{
		"as it was":       {"", 0, ""},
		"another history": {"", 1, "the first 20 entries are not those that who answered gate g-1 has seen"},
		"another log":     {"01KDVDTC00000000000000000B", 1, ""},
	} {
		_, s := history(t)
		log, err := s.Log(ctx)
		if err != nil {
			t.Fatal(err)
		}
		head := signatures.Head(log)
		head.Root[0] += x.root
		if x.origin != "" {
			head.Origin = signatures.Origin(x.origin)
		}
		g := store.Gate{ID: "g-1", Kind: store.GateApproval, Task: "A", Thread: "A", State: store.GateApproved,
			Grant: store.GrantOnce, AnsweredAt: 7, By: "ann", Via: store.ViaCLI}
		signed, err := signatures.NewApproval(g, head).Sign(key)
		if err != nil {
			t.Fatal(err)
		}
		g.Signature = string(signed)
		err = s.Commit(ctx, store.Batch{Gates: []store.GateChange{{Row: g}}, Events: []store.Event{
			event.New(store.Thread{ID: "A", Task: "A"}, 7, event.GateChanged{Change: event.Change(g.State), Gate: g.ID})}})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(judged(t, s), "\n"); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}
