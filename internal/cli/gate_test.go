package cli

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/store/sqlite"
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
