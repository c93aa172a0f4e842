package servertest

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	workflows "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/plait-run/plait/plaitd/temporal"
)

// record is where to keep histories that later code must replay: go test . -run /Chain -record ../testdata
var record = flag.String("record", "", "write the longest history of each type of workflow into this `directory`")

// replay checks that the workflows do the same again when a server's histories are replayed: another host
// does that whenever it takes one over.
func (c *cluster) replay(t testing.TB, address string) {
	if t.Failed() {
		return
	}
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	options := c.cfg.Client
	options.HostPort, options.Logger = address, quiet
	conn, err := client.Dial(options)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	e, err := temporal.New(c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	list, err := conn.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	longest := map[string]*history.History{}
	for _, x := range list.Executions {
		kind := x.GetType().GetName()
		if kind != "plait.task.v1" && kind != "plait.drive.v1" {
			continue
		}
		h := read(ctx, t, conn, x)
		replayer := worker.NewWorkflowReplayer()
		e.Register(replayer)
		if err := replayer.ReplayWorkflowHistory(quiet, h); err != nil {
			t.Errorf("%s: %v", x.GetExecution().GetWorkflowId(), err)
		}
		if len(h.Events) > len(longest[kind].GetEvents()) {
			longest[kind] = h
		}
	}
	if len(longest) == 0 {
		t.Error("the server lists no workflow")
	}
	for kind, h := range longest {
		if *record == "" {
			continue
		}
		host, err := os.Hostname() // names of queues contain it
		if err != nil {
			t.Fatal(err)
		}
		data, err := protojson.Marshal(h)
		if err == nil {
			data = append(bytes.ReplaceAll(data, []byte(host), []byte("host")), '\n')
			err = os.WriteFile(filepath.Join(*record, kind+"-"+filepath.Base(t.Name())+".json"), data, 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// read returns the server's whole history of a workflow.
func read(ctx context.Context, t testing.TB, conn client.Client, x *workflows.WorkflowExecutionInfo) *history.History {
	id, run := x.GetExecution().GetWorkflowId(), x.GetExecution().GetRunId()
	events := conn.GetWorkflowHistory(ctx, id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	h := &history.History{}
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		h.Events = append(h.Events, event)
	}
	return h
}
