package acp

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// TestMain makes the test binary also the forwarder between an agent in a sandbox and its gateway, the server of the
// tool deliver, and a fake agent.
func TestMain(m *testing.M) {
	agenttest.FakeMain()
	if len(os.Args) > 1 {
		switch code, err := 0, error(nil); os.Args[1] {
		case "gateway-forward":
			if code, err = gateway.Forward(context.Background(), os.Args[2], os.Args[3], os.Args[4:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 99
			}
			os.Exit(code)
		case "deliver":
			if err := Deliver(context.Background(), os.Args[2], os.Args[3], os.Stdin, os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 99
			}
			os.Exit(code)
		case fakeArg:
			os.Exit(fakeMain(os.Args[2:]))
		}
	}
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// A lab is a place for an agent, and the agent that works there.
type lab struct {
	*agenttest.Lab
	host *host.Host
	cfg  Config
}

type try = agenttest.Try

// need skips a test if a real agent is not installed, or fails it where no test may be skipped.
func need(t *testing.T, kind string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("NOT TESTED with -short: the real %s", kind)
	}
	k, ok := Named(kind)
	if !ok {
		t.Fatalf("no agent is called %s", kind)
	}
	_, err := Find(t.Context(), host.New(host.Config{}), k, "")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skipf("NOT TESTED WITH THE REAL %s: %v", strings.ToUpper(kind), err)
	}
}

func newLab(t *testing.T, kind, scenario string) *lab {
	t.Helper()
	l := &lab{Lab: agenttest.NewLab(t, scenario)}
	l.host = host.New(host.Config{Config: sandbox.Config{Getenv: l.Getenv, Forward: []string{l.Bin, "gateway-forward"},
		Hide: []string{l.Record()}}})
	l.cfg = Config{Kind: kind, Model: scripted.Model, Endpoint: l.Model.URL(), Deliver: []string{l.Bin, "deliver"},
		Terms: host.Terms{Env: map[string]string{"HOME": l.Home()}}} // its shell reads the profile of a login
	return l
}

func (l *lab) run(ctx context.Context, y *try) *try {
	l.T.Helper()
	a, err := New(l.host, l.cfg)
	if err != nil {
		l.T.Fatal(err)
	}
	return l.Run(ctx, a, y)
}

// last returns the last event of a kind, nil if there is none.
func last(y *try, kind string) *agent.Event {
	i := len(y.Events) - 1
	for ; i >= 0 && y.Events[i].Kind != kind; i-- {
	}
	if i < 0 {
		return nil
	}
	return &y.Events[i]
}

// until calls do once holds reports true.
func until(ctx context.Context, holds func() bool, do func()) {
	for ctx.Err() == nil && !holds() {
		time.Sleep(10 * time.Millisecond)
	}
	if ctx.Err() == nil {
		do()
	}
}
