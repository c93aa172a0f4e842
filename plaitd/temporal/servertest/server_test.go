package servertest

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/server/temporaltest"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/testing/dispatchtest"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/plaitd/temporal"
)

// namespace is registered at each server: a new server has none of another's workflows.
const namespace = "plait"

// A cluster is a server that engines reach at one address, whatever is behind it.
type cluster struct {
	cfg  temporal.Config
	door *door
}

// open starts a server.
func open(t testing.TB, prefer time.Duration) *cluster {
	c := &cluster{door: newDoor(t), cfg: temporal.Config{
		Prefer: prefer, Again: 50 * time.Millisecond, Heartbeat: 5 * time.Second, Look: time.Second,
	}}
	c.cfg.Client = client.Options{HostPort: c.door.address(), Namespace: namespace, Identity: "test"}
	c.begin(t)
	return c
}

// begin puts a new server behind the door. At the end, its histories of workflows are replayed.
func (c *cluster) begin(t testing.TB) {
	address := serve(t)
	t.Cleanup(func() { c.replay(t, address) })
	c.door.lead(address)
}

// Engine returns an engine with its own connection.
func (c *cluster) Engine(t testing.TB) dispatch.Engine {
	e, err := temporal.New(c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// Wipe replaces the server with an empty one, without warning.
func (c *cluster) Wipe(t testing.TB) {
	c.door.lead("")
	c.begin(t)
}

// Away makes the server unreachable until the function that it returns is called.
func (c *cluster) Away(testing.TB) (back func()) {
	address := c.door.lead("")
	return func() { c.door.lead(address) }
}

// serve starts a server with the namespace, and returns its address.
func serve(t testing.TB) string {
	server := temporaltest.NewServer(temporaltest.WithT(t.(*testing.T)))
	at := server.GetFrontendHostPort()
	register(t, client.Options{HostPort: at})
	return at
}

// register registers the namespace at a server.
func register(t testing.TB, options client.Options) {
	options.Logger = log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	c, err := client.NewNamespaceClient(options)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = c.Register(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A door is an address that leads to a server, or to none.
type door struct {
	listener net.Listener

	mu   sync.Mutex
	to   string
	open map[net.Conn]bool
}

func newDoor(t testing.TB) *door {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{listener: l, open: map[net.Conn]bool{}}
	t.Cleanup(func() {
		l.Close()
		d.lead("")
	})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go d.pass(conn)
		}
	}()
	return d
}

func (d *door) address() string { return d.listener.Addr().String() }

// lead makes the door lead elsewhere, cuts its connections, and returns where it led before.
func (d *door) lead(to string) (before string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, d.to = d.to, to
	for conn := range d.open {
		conn.Close()
	}
	clear(d.open)
	return before
}

// pass carries a connection until one of its ends closes it.
func (d *door) pass(in net.Conn) {
	defer in.Close()
	out := d.dial(in)
	if out == nil {
		return
	}
	defer out.Close()
	go func() {
		io.Copy(out, in)
		out.Close()
	}()
	io.Copy(in, out)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, in)
	delete(d.open, out)
}

// dial returns a connection to where the door leads, or nil if that is nowhere.
func (d *door) dial(in net.Conn) net.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.to == "" {
		return nil
	}
	out, err := net.Dial("tcp", d.to)
	if err != nil {
		return nil
	}
	d.open[in], d.open[out] = true, true
	return out
}

// TestTemporal runs the suite that every engine passes.
func TestTemporal(t *testing.T) {
	rounds := soak.Rounds(t, 1)
	for range rounds {
		dispatchtest.Run(t, func(t *testing.T, prefer time.Duration) dispatchtest.Cluster { return open(t, prefer) })
	}
	soak.Figure(t, "the suite of engines passed %d times", rounds)
}
