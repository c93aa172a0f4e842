package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/plait-run/plait/internal/sys/proc"
)

// ForwardPort is the port on which an agent without a network reaches its gateway, on its own loopback interface.
const ForwardPort = proc.GatewayPort

// Forward runs a program without a network: its connections to [ForwardPort] on loopback are forwarded to a
// gateway's socket, those to the ports after it to further sockets. sockets is a list like PATH, in which an empty name
// stands for none. It returns the program's exit code, or 128 plus the signal that ended it.
func Forward(ctx context.Context, sockets, path string, args []string) (int, error) {
	for i, socket := range filepath.SplitList(sockets) {
		if socket == "" {
			continue
		}
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(ForwardPort+i)))
		if err != nil {
			return 0, fmt.Errorf("forward to the gateway: %w", err)
		}
		defer l.Close()
		go serve(l, socket)
	}
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("forward to the gateway: %w", err)
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			cmd.Process.Signal(s) // fails if it has ended
		case <-ctx.Done():
			cmd.Process.Kill()
		case err := <-over:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 0, fmt.Errorf("forward to the gateway: %w", err)
			}
			if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
				return 128 + int(s.Signal()), nil
			}
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}

// serve joins every connection to a socket.
func serve(l net.Listener, socket string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go join(c, socket)
	}
}

// join copies bytes both ways until both sides have ended.
func join(c net.Conn, socket string) {
	defer c.Close()
	up, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer up.Close()
	back := make(chan struct{})
	go func() {
		defer close(back)
		io.Copy(c, up)
		c.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(up, c)
	up.(*net.UnixConn).CloseWrite()
	<-back
}
