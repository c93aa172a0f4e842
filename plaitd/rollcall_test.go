package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A rollCall knows which agents are at work: each has a connection open as long as any of its processes lives.
type rollCall struct {
	port int

	mu    sync.Mutex
	begun []string                // what agents have said: user, thread and attempt
	work  map[string]*net.TCPConn // the last agent of a thread
	users map[*net.TCPConn]string
	both  []string      // what those said that began while another one of their thread was at work
	hold  chan struct{} // agents go on once it is closed
}

func newRollCall(t *testing.T) *rollCall {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c := &rollCall{port: l.Addr().(*net.TCPAddr).Port, work: map[string]*net.TCPConn{},
		users: map[*net.TCPConn]string{}, hold: make(chan struct{})}
	close(c.hold)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go c.answer(conn.(*net.TCPConn))
		}
	}()
	return c
}

// command is an agent that answers the call, in a cell through its proxy, and then runs a script of the shell.
func (c *rollCall) command(script string) string {
	begin := fmt.Sprintf("if (exec 3<>/dev/tcp/127.0.0.1/%[1]d) 2>/dev/null; then exec 3<>/dev/tcp/127.0.0.1/%[1]d; "+
		"else exec 3<>/dev/tcp/127.0.0.1/4950; printf 'CONNECT 127.0.0.1:%[1]d HTTP/1.0\\r\\n\\r\\n' >&3; "+
		"read -r _ <&3; read -r _ <&3; fi; echo $(id -u) $PLAIT_THREAD $PLAIT_ATTEMPT >&3; read -r go <&3; ", c.port)
	return fmt.Sprintf("{kind: command, command: [bash, -ec, %q], private: [127.0.0.1]}", begin+script)
}

func (c *rollCall) answer(conn *net.TCPConn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	said, err := in.ReadString('\n')
	words := strings.Fields(said)
	if err != nil || len(words) != 3 {
		return
	}
	c.mu.Lock()
	c.begun = append(c.begun, strings.TrimSpace(said))
	if other := c.work[words[1]]; other != nil && !hungUp(other) {
		c.both = append(c.both, said)
	}
	c.work[words[1]], c.users[conn] = conn, words[0]
	hold := c.hold
	c.mu.Unlock()
	<-hold
	fmt.Fprintln(conn, "go")
	in.ReadByte() // nothing more is said
}

// hungUp reports whether the other side of a connection is closed.
func hungUp(conn *net.TCPConn) (closed bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = n <= 0 && err != syscall.EAGAIN
	})
	return closed || err != nil
}

// holds has agents that begin from now on wait until they are told to go on.
func (c *rollCall) holds() (goOn func()) {
	hold := make(chan struct{})
	c.mu.Lock()
	c.hold = hold
	c.mu.Unlock()
	return sync.OnceFunc(func() { close(hold) })
}

// atWork returns the users of agents that are at work.
func (c *rollCall) atWork() (users []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.work {
		if !hungUp(conn) {
			users = append(users, c.users[conn])
		}
	}
	return users
}

// count returns how many agents of a user have begun.
func (c *rollCall) count(user uint32) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, said := range c.begun {
		if strings.HasPrefix(said, fmt.Sprint(user, " ")) {
			n++
		}
	}
	return n
}
