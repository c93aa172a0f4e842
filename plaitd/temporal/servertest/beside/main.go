// Command beside runs a command next to a Temporal server: the server's own library, with its state in memory. Only
// tests use it, and nothing else builds it, since that takes minutes.
//
//	beside COMMAND ARG…      # with TEMPORAL_ADDRESS=HOST:PORT
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/temporaltest"
	"google.golang.org/protobuf/types/known/durationpb"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "beside: want a command")
		os.Exit(2)
	}
	server := temporaltest.NewServer()
	err := register(server.GetFrontendHostPort())
	if err == nil {
		cmd := exec.Command(os.Args[1], os.Args[2:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+server.GetFrontendHostPort())
		err = cmd.Run()
	}
	server.Stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "beside:", err)
		os.Exit(1)
	}
}

// register registers the default namespace.
func register(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.NewNamespaceClient(client.Options{HostPort: address})
	if err == nil {
		defer c.Close()
		err = c.Register(ctx, &workflowservice.RegisterNamespaceRequest{Namespace: client.DefaultNamespace,
			WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)})
	}
	if err != nil {
		return fmt.Errorf("register namespace %s: %w", client.DefaultNamespace, err)
	}
	return nil
}
