package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A PlayerConfig configures the replay of a task.
type PlayerConfig struct {
	Store interface {
		store.Objects
		store.Index
	}
	Nodes    *thread.Reader
	Trees    *worktree.Trees
	Task     store.Thread // the recorded task
	Home     string       // see attempt.Host
	Scratch  string
	Bwrap    string // see proc.Bubblewrap; must exist
	Programs bool   // run programs again
}

// A Player makes the attempts of a task with the recorded answers of another one: a model's answers, and a
// program's output. See attempt.Player. It may be used concurrently.
type Player struct {
	cfg    PlayerConfig
	script *script

	mu     sync.Mutex
	made   map[scene]int // steps that have begun
	drifts []Drift
}

// A Drift reports that an attempt asked its model something other than what is recorded.
type Drift struct {
	Role string `json:"role"`
	Step int    `json:"step"` // of its thread, from 1
	gateway.Drift
}

// Like reports whether d is the same drift in another call.
func (d Drift) Like(of Drift) bool {
	d.Call = of.Call
	return d == of
}

// NewPlayer reads the record of a task.
func NewPlayer(ctx context.Context, cfg PlayerConfig) (*Player, error) {
	s, err := read(ctx, cfg.Nodes, cfg.Task.Head)
	if err != nil {
		return nil, err
	}
	return &Player{cfg: cfg, script: s, made: map[scene]int{}}, nil
}

// Takes returns the steps that agents did in the recorded task.
func (p *Player) Takes() []Take { return p.script.all }

// Drifts returns the drifts of all attempts.
func (p *Player) Drifts() []Drift {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drifts
}

// Where returns the name of a thread in its task: the same for the corresponding thread in every run of a flow.
func (p *Player) Where(ctx context.Context, row store.Thread) (string, error) {
	if row.Parent == nil {
		return "", nil
	}
	parent, err := p.cfg.Store.Thread(ctx, row.Parent.Thread)
	if err != nil {
		return "", err
	}
	name, err := p.Where(ctx, parent)
	if err != nil {
		return "", err
	}
	steps := 0
	for s, err := range p.cfg.Nodes.Walk(ctx, row.Parent.From) {
		if err != nil {
			return "", err
		}
		if thread.Routed(s.State.Role) {
			steps++
		}
	}
	if row.Path != nil {
		return pathName(name, row.Path.ID, steps), nil
	}
	return childName(name, steps), nil
}

// Points reports whether the join that a path leads to was recorded with a pointer.
func (p *Player) Points(ctx context.Context, path store.Thread) (bool, error) {
	name, err := p.Where(ctx, path)
	return p.script.points[name], err
}

// Play returns the agent that makes an attempt from its recording. If there is none, the error is an
// *agent.Failure.
func (p *Player) Play(ctx context.Context, row store.Thread, a agent.Agent, req agent.Request) (agent.Agent,
	agent.Request, error) {
	name, err := p.Where(ctx, row)
	if err != nil {
		return nil, req, err
	}
	program, isProgram := a.(agent.Program)
	again := isProgram && p.cfg.Programs
	t, ok := p.take(scene{name, req.Role, req.Visit}, req.Try)
	f, failed := p.script.failures[spot{name, row.Steps}]
	id := f.thread
	switch {
	case ok:
		id, _, _ = strings.Cut(t.Detail.Attempt, ".")
	case !failed:
		return nil, req, unrecorded("nothing is recorded of role %s at visit %d of this thread", req.Role, req.Visit+1)
	case !again:
		return nil, req, f.failure()
	}
	then, err := p.cfg.Store.Thread(ctx, id)
	if err != nil {
		return nil, req, fmt.Errorf("find the thread that was recorded: %w", err)
	}
	known := [2]gateway.Known{}
	for i, row := range []store.Thread{then, row} {
		if known[i], err = p.known(ctx, row); err != nil {
			return nil, req, err
		}
	}
	made := &playing{player: p, agent: a, real: worktree.Of(row), seen: worktree.Of(then), step: row.Steps + 1}
	if ok {
		made.memory = t.Detail.Memory
		if req.Prompt, err = p.prompt(ctx, t, req); err != nil {
			return nil, req, err
		}
	}
	if !again && (isProgram || !t.Detail.Calls.IsZero()) {
		told, err := prompt.Read(ctx, p.cfg.Nodes, t.Detail.Prompt)
		if err != nil {
			return nil, req, err
		}
		tries := t.tries(told)
		if req.Try > len(tries) {
			return nil, req, unrecorded("role %s was tried %d times, and no further try is recorded", req.Role, len(tries))
		}
		try := tries[max(req.Try, 1)-1]
		switch {
		case isProgram && try.Failure != nil:
			return nil, req, &agent.Failure{Kind: string(try.Failure.Kind), Message: try.Failure.Message}
		case isProgram:
			a, err = p.program(ctx, row, program, t, req, told, known)
			return a, req, err
		}
		if made.tape, err = p.tape(ctx, try.Calls, known); err != nil {
			return nil, req, err
		}
		req.Traffic = made.tape
	}
	if isProgram { // its caches belong to the task, as does all it can write
		caches, err := sandbox.Caches(req)
		if err != nil {
			return nil, req, err
		}
		for _, name := range slices.Sorted(maps.Keys(caches)) {
			req.Env = append(slices.Clip(req.Env), name+"="+caches[name])
		}
	}
	made.cleanUp, err = p.stage(ctx, then, row, &req)
	return made, req, err
}

// prompt returns the prompt of a step as it was recorded if an older release made it of the same parts, otherwise the
// one of req. A planner may name the agents that it was recorded with: a replay needs no account, and could use more.
func (p *Player) prompt(ctx context.Context, t Take, req agent.Request) (string, error) {
	if t.Detail.Prompt.IsZero() {
		return req.Prompt, nil
	}
	then, err := prompt.Read(ctx, p.cfg.Nodes, t.Detail.Prompt)
	if err != nil {
		return "", err
	}
	start, err := p.cfg.Nodes.Start(ctx, t.State.Start)
	if err != nil {
		return "", err
	}
	task, err := p.cfg.Nodes.Text(ctx, start.Prompt)
	now := prompt.WithAgents(req.Prompt, then)
	if err == nil && prompt.OlderForm(then, now, task) {
		return then, nil
	}
	return now, err
}

func unrecorded(format string, args ...any) error {
	return &agent.Failure{Kind: agent.Infra, Final: true, Message: "replay: " + fmt.Sprintf(format, args...)}
}

// take returns the recording for a scene. If there are several, the first is for the first step there.
func (p *Player) take(at scene, try int) (Take, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if try <= 1 {
		p.made[at]++
	}
	list, n := p.script.takes[at], p.made[at]
	if n > len(list) || n == 0 {
		return Take{}, false
	}
	return list[n-1], true
}

// known returns the directories of a thread's task, and the endings of agents' names in its threads.
func (p *Player) known(ctx context.Context, row store.Thread) (gateway.Known, error) {
	k := gateway.Known{"tree": worktree.Of(row), "workspace": row.Workspace}
	if p.cfg.Home != "" {
		k["home"] = filepath.Join(p.cfg.Home, "homes", row.Task)
		k["codex"] = filepath.Join(k["home"], "codex")
		if apart, err := os.Readlink(k["codex"]); err == nil { // not for root, nor in a cell: see codex
			k["codex"] = apart
		}
	}
	if p.cfg.Scratch != "" {
		k["scratch"] = filepath.Join(p.cfg.Scratch, row.Task)
	}
	rows, err := p.cfg.Store.Threads(ctx, store.ThreadFilter{Task: row.Task})
	if err != nil {
		return nil, err
	}
	for _, t := range rows {
		if t.Parent == nil {
			continue
		}
		name, err := p.Where(ctx, t)
		if err != nil {
			return nil, err
		}
		k["thread "+name] = strings.ToLower(t.ID[len(t.ID)-8:])
	}
	return k, nil
}

// tape returns the tape that answers the calls of an attempt. The agent finds its tree at the recorded path.
func (p *Player) tape(ctx context.Context, calls dag.Hash, known [2]gateway.Known) (*gateway.Tape, error) {
	var list []gateway.Exchange
	for x, err := range p.cfg.Nodes.Exchanges(ctx, calls) {
		if err != nil {
			return nil, err
		}
		list = append(list, gateway.Exchange{
			Call:  agent.Call{Method: x.Method, Path: x.Path, Type: x.Type, Body: x.Body},
			Reply: agent.Reply{Status: x.Status, Type: x.ReplyType, Body: x.Reply, Cut: x.Cut},
		})
	}
	known[1]["tree"], known[1]["workspace"] = known[0]["tree"], known[0]["workspace"]
	return gateway.NewTape(list, known[0], known[1]), nil
}

// playing is an attempt made from a recording.
type playing struct {
	player     *Player
	agent      agent.Agent
	tape       *gateway.Tape // nil: it calls no model
	cleanUp    func()
	real, seen string // its tree
	step       int
	memory     *thread.Memory
}

// Memory returns what the session held after the recorded attempt, nil if that is not recorded.
func (m *playing) Memory() *thread.Memory { return m.memory }

// Run makes the attempt. See [agent.Agent].
func (m *playing) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	defer m.cleanUp()
	res, err := m.agent.Run(ctx, req, func(e agent.Event) error {
		for i, f := range e.Files {
			if below, ok := strings.CutPrefix(f.Path, m.seen+string(filepath.Separator)); ok {
				e.Files[i].Path = filepath.Join(m.real, below)
			}
		}
		return emit(e)
	})
	if m.tape == nil {
		return res, err
	}
	m.player.note(req.Role, m.step, m.tape.Drifts())
	res.Usage, res.Sandbox = agent.Usage{}, res.Sandbox+viaReplay
	if f := (*agent.Failure)(nil); errors.As(err, &f) {
		f.Usage = agent.Usage{}
		if missed := m.tape.Missed(); missed != nil {
			f.Kind, f.Final, f.Message = agent.Infra, true, "replay: "+missed.Error()
		}
	}
	return res, err
}

// viaReplay marks in the record that an answer comes from a recording.
const viaReplay = ", via: replay"

func (p *Player) note(role string, step int, drifts []gateway.Drift) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range drifts {
		p.drifts = append(p.drifts, Drift{role, step, d})
	}
}
