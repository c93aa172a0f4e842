package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An actor plays a role and returns its answer.
type actor func(ctx context.Context, req agent.Request) (string, error)

// A house is a record with a workspace and a server.
type house struct {
	t       *testing.T
	cfg     Config
	person  *control.Controller // starts tasks as a person does
	elicit  func(*sdk.ElicitParams) *sdk.ElicitResult
	session *sdk.ClientSession
	heard   chan string // progress
}

// driver drives tasks in this process.
type driver struct {
	c       *control.Controller
	leases  store.Leases
	under   *sync.WaitGroup
	ctx     context.Context
	refuses error
}

func (d *driver) Drive(ctx context.Context, root store.Thread) error {
	if d.refuses != nil {
		return d.refuses
	}
	over := make(chan error, 1)
	d.under.Go(func() {
		_, err := d.c.Drive(d.ctx, root.ID, control.Resume{})
		over <- err
	})
	for {
		if _, held, err := d.leases.Holder(ctx, root.ID); held || err != nil {
			return err
		}
		select {
		case err := <-over:
			return err
		case <-time.After(time.Millisecond):
		}
	}
}

func newHouse(t *testing.T, who config.Answering, play map[string]actor) *house {
	t.Helper()
	st, cast := mem.New(mem.Config{}), housetest.Cast{}
	for role, a := range play {
		cast[role] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			text, err := a(ctx, req)
			if err != nil {
				return agent.Result{}, err
			}
			return housetest.Answer(req, emit, text)
		}
	}
	c := control.New(control.Config{
		Store: st, Home: t.TempDir(), Backoff: time.Microsecond,
		Settings: housetest.Settings("actor"),
		Agent: func(string, flow.Agent, control.AgentOptions) (agent.Agent, error) {
			return cast, nil
		},
	})
	workspace := t.TempDir()
	var under sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); under.Wait() })
	return &house{t: t, person: c, heard: make(chan string, 100), cfg: Config{
		Store: st, Control: c, Dirs: &taskdir.DirWriter{Store: st, Reader: c.Reader()}, Workspace: workspace,
		Views:     &view.Reader{Store: st, Nodes: c.Reader(), Workspace: workspace},
		Driver:    &driver{c: c, leases: st, under: &under, ctx: ctx},
		Answering: who, Person: "ann", Version: "test",
		Consent: func(f control.Found) error {
			if len(f.Files) > 0 {
				return fmt.Errorf("nobody agreed to flow %s", f.Bundle.Name)
			}
			return nil
		},
		Offline: func(string) string { return "" },
		Init:    func() error { return nil },
	}}
}

// flow adds a flow to the registry.
func (h *house) flow(name, yaml string) {
	h.t.Helper()
	dir := filepath.Join(h.t.TempDir(), "flows")
	file := write(h.t, dir, name+".yaml", yaml)
	found, err := h.person.Find(h.t.Context(), dir, file)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.person.Register(h.t.Context(), name, found); err != nil {
		h.t.Fatal(err)
	}
}

// connect starts a server and connects a client to it.
func (h *house) connect() {
	h.t.Helper()
	here, there := sdk.NewInMemoryTransports()
	served, err := New(h.cfg).sdk.Connect(h.t.Context(), here, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	opts := &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		h.heard <- r.Params.Message
	}}
	if h.elicit != nil {
		opts.ElicitationHandler = func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return h.elicit(r.Params), nil
		}
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "a program", Version: "1"}, opts)
	if h.session, err = client.Connect(h.t.Context(), there, nil); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { h.session.Close(); served.Wait() })
}

// call calls a tool and decodes its result into out. It returns the message of a refusal.
func (h *house) call(tool string, args map[string]any, out any) string {
	h.t.Helper()
	p := &sdk.CallToolParams{Name: tool, Arguments: args}
	p.SetProgressToken("one")
	res, err := h.session.CallTool(h.t.Context(), p)
	if err != nil {
		return err.Error()
	}
	if res.IsError {
		return res.Content[0].(*sdk.TextContent).Text
	}
	data, err := json.Marshal(res.StructuredContent)
	if err == nil && out != nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return ""
}

// must calls a tool that must not refuse.
func (h *house) must(tool string, args map[string]any, out any) {
	h.t.Helper()
	if why := h.call(tool, args, out); why != "" {
		h.t.Fatalf("%s %v: %s", tool, args, why)
	}
}

// refused calls a tool that must refuse with a message containing words.
func (h *house) refused(tool string, args map[string]any, words ...string) {
	h.t.Helper()
	why := h.call(tool, args, nil)
	if why == "" {
		h.t.Fatalf("%s %v is not refused", tool, args)
	}
	for _, w := range words {
		if !strings.Contains(why, w) {
			h.t.Errorf("%s %v: %q does not say %q", tool, args, why, w)
		}
	}
}

// waited waits until the task needs a person or has ended.
func (h *house) waited(task string) (v taskStatus) {
	h.t.Helper()
	for range 10 {
		h.must("wait_task", map[string]any{"task": task, "seconds": 30}, &v)
		if v.State != "running" && v.State != "queued" {
			return v
		}
	}
	h.t.Fatalf("the task does not come to rest: %+v", v)
	return v
}
