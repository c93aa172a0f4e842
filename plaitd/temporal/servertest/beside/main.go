// Command beside runs a command beside a Temporal server: the server's own library, with its state in memory. It is
// for tests, and is built by nothing else, since that takes minutes.
//
//	beside COMMAND ARG…      # with TEMPORAL_ADDRESS=HOST:PORT
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
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
	s, err := start()
	if err == nil {
		defer s.close()
		cmd := exec.Command(os.Args[1], os.Args[2:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+s.address())
		err = cmd.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "beside:", err)
		os.Exit(1)
	}
}

// A server is one that can be replaced by an empty one, at the same address.
type server struct {
	listener net.Listener

	mu    sync.Mutex
	now   *temporaltest.TestServer
	conns map[net.Conn]bool
}

func start() (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{listener: l, conns: map[net.Conn]bool{}}
	if err := s.fresh(); err != nil {
		return nil, err
	}
	go s.serve()
	return s, nil
}

func (s *server) address() string { return s.listener.Addr().String() }

// fresh starts a server that knows nothing, in the place of the one that there was, whose connections end.
func (s *server) fresh() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
	if s.now != nil {
		s.now.Stop()
	}
	s.now = temporaltest.NewServer()
	return namespace(s.now.GetFrontendHostPort())
}

func (s *server) close() {
	s.listener.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Stop()
}

// namespace makes the namespace that is used where none is named, and returns when it is there.
func namespace(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.NewNamespaceClient(client.Options{HostPort: address})
	if err != nil {
		return fmt.Errorf("make namespace: %w", err)
	}
	defer c.Close()
	err = c.Register(ctx, &workflowservice.RegisterNamespaceRequest{Namespace: "default",
		WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)})
	if err != nil {
		return fmt.Errorf("make namespace: %w", err)
	}
	for {
		known, err := client.DialContext(ctx, client.Options{HostPort: address})
		if err == nil {
			_, err = known.DescribeTaskQueue(ctx, "none", 1)
			known.Close()
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("make namespace: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *server) serve() {
	for {
		in, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		out, err := net.Dial("tcp", s.now.GetFrontendHostPort())
		if err == nil {
			s.conns[in], s.conns[out] = true, true
		}
		s.mu.Unlock()
		if err != nil {
			in.Close()
			continue
		}
		go s.carry(in, out)
		go s.carry(out, in)
	}
}

func (s *server) carry(from, to net.Conn) {
	io.Copy(to, from)
	from.Close()
	to.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, from)
}
