package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/testing/mem"
)

// usage: opengate VAR THREAD [NAME=VALUE…] opens a gate for a thread and sets VAR
// to its id. Names: kind source node instance question option command cwd diff
// params expires (ms from now). Go's escapes are read in values.
func openGateFor(ts *testscript.TestScript, neg bool, args []string) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: ts.Getenv("PLAIT_HOME")})
	ts.Check(err)
	defer s.Close()
	row, err := s.Thread(ctx, args[1])
	ts.Check(err)
	g := store.Gate{Kind: store.GateApproval, Source: store.SourceAgent, Task: row.Task, Thread: row.ID, From: row.Head}
	act := gate.Action{Type: gate.Command}
	set := map[string]func(string){
		"kind":     func(v string) { g.Kind = store.GateKind(v) },
		"source":   func(v string) { g.Source = store.GateSource(v) },
		"node":     func(v string) { g.Node = v },
		"instance": func(v string) { g.Instance = v },
		"question": func(v string) { g.Question = v },
		"option":   func(v string) { g.Options = append(g.Options, v) },
		"command":  func(v string) { act.Command = v },
		"cwd":      func(v string) { act.Cwd = v },
		"diff":     func(v string) { act.Diff = v },
		"params":   func(v string) { act.Params = json.RawMessage(v) },
		"expires": func(v string) {
			ms, err := strconv.Atoi(v)
			ts.Check(err)
			g.ExpiresAt = time.Now().Add(time.Duration(ms) * time.Millisecond).UnixMilli()
		},
	}
	for _, arg := range args[2:] {
		name, value, _ := strings.Cut(arg, "=")
		if set[name] == nil {
			ts.Fatalf("opengate: no name %q", name)
		}
		if name != "params" {
			value, err = strconv.Unquote(`"` + value + `"`)
			ts.Check(err)
		}
		set[name](value)
	}
	if g.Kind == store.GateApproval {
		g.Action, err = json.Marshal(act)
		ts.Check(err)
	}
	g, err = gate.New(gate.Config{Store: s}).Open(ctx, g)
	ts.Check(err)
	ts.Setenv(args[0], g.ID)
}

// A countedGates counts the gates that are read.
type countedGates struct {
	store.Store
	read int
}

func (s *countedGates) Gates(ctx context.Context, f store.GateFilter) ([]store.Gate, error) {
	rows, err := s.Store.Gates(ctx, f)
	s.read += len(rows)
	return rows, err
}

// TestGateID checks which gate the beginning of an id means, and that those of all other tasks are not read for that.
func TestGateID(t *testing.T) {
	s := &countedGates{Store: mem.New(mem.Config{})}
	w := &workplace{store: s}
	var b store.Batch
	for i := range 200 {
		b.Gates = append(b.Gates, store.GateChange{Row: store.Gate{ID: fmt.Sprintf("g-%02x00000000", i),
			State: store.GateApproved}})
	}
	b.Gates = append(b.Gates, store.GateChange{Row: store.Gate{ID: "g-aa000000001", State: store.GateOpen}})
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for typed, want := range map[string]string{
		"g-01": "g-0100000000", "C7": "g-c700000000", "g-aa00000000": "g-aa00000000", "aa000000001": "g-aa000000001",
		"aa": "", "c8": "", "g-": "", "": "", "0": "",
	} {
		s.read = 0
		id, err := w.gateID(t.Context(), typed)
		if id != want || (err == nil) != (want != "") || want == "" && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%q is %q, %v; want %q", typed, id, err, want)
		}
		if s.read > 16 {
			t.Errorf("for %q it reads %d gates", typed, s.read)
		}
	}
}
