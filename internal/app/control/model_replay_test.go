package control

import (
	"bytes"
	"context"
	"io"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/replay"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// loggedDesks are desks whose transcripts are what the agents said.
type loggedDesks struct {
	housetest.BareDesks
	w *world
}

func (d loggedDesks) Open(_ store.Thread, _, attempt string, _ agent.Vendor) (agent.Directory, error) {
	return loggedDesk{housetest.BareDesk(d.BareDesks), d.w, attempt}, nil
}

type loggedDesk struct {
	housetest.BareDesk
	w       *world
	attempt string
}

func (d loggedDesk) Transcript() (io.ReadCloser, int64, error) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	said := d.w.said[d.attempt]
	return io.NopCloser(bytes.NewReader(said)), int64(len(said)), nil
}

// rehearsed plays what agents said as if they were programs.
type rehearsed struct{ *replay.Player }

func (r rehearsed) Play(ctx context.Context, row store.Thread, a agent.Agent, req agent.Request) (agent.Agent,
	agent.Request, error) {
	return r.Player.Play(ctx, row, asProgram{a}, req)
}

type asProgram struct{ agent.Agent }

func (asProgram) String() string    { return "an agent" }
func (asProgram) Status(int) string { return "" }
func (asProgram) Missing() string   { return "" }

var _ agent.Program = asProgram{}

// replays checks that a task replays to the outcome that it had, however far it came, without its agents.
func (w *world) replays(rt *rapid.T, row store.Thread, wrong finding) {
	ctx := context.Background()
	c := w.controller(w.disk)
	player, err := replay.NewPlayer(ctx, replay.PlayerConfig{Store: w.disk, Nodes: c.reader, Trees: c.trees, Task: row})
	if err != nil {
		rt.Fatalf("read what is recorded: %v", err)
	}
	next, err := c.Fork(ctx, Fork{Thread: row.ID, At: "0", Options: Options{Replay: row.ID}})
	if err != nil {
		rt.Fatalf("fork: %v", err)
	}
	cfg := c.engineConfig(true)
	cfg.Player, cfg.Desks = rehearsed{player}, housetest.BareDesks{Empty: w.empty}
	if next, err = engine.New(cfg).Run(ctx, next.ID); err != nil {
		rt.Fatalf("replay: %v", err)
	}
	if then, now := w.digest(rt, row), w.digest(rt, next); then != now {
		wrong("the outcome was %s (%s), replayed it is %s (%s)\n%s", then.Short(), row.Status, now.Short(), next.Status,
			cmp.Diff(w.told(rt, row.Head, ""), w.told(rt, next.Head, "")))
	}
	if drifts := player.Drifts(); len(drifts) > 0 {
		wrong("the replay drifts: %s", drifts[0])
	}
}
