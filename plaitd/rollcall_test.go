package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
)

// A rollCall knows which agents are at work: each has a connection open as long as any of its processes lives.
type rollCall struct {
	port int

	mu    sync.Mutex
	begun []string       // what agents have said: user, thread and role
	work  map[string]int // agents at work, by thread
	both  []string       // of threads with two agents at work
	hold  chan struct{}  // agents go on once it is closed
}

func newRollCall(t *testing.T) *rollCall {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c := &rollCall{port: l.Addr().(*net.TCPAddr).Port, work: map[string]int{}, hold: make(chan struct{})}
	close(c.hold)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go c.answer(conn)
		}
	}()
	return c
}

// command is an agent that answers the call and then runs a script of the shell.
func (c *rollCall) command(script string) string {
	begin := fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d; echo $(id -u) $PLAIT_THREAD $PLAIT_ROLE >&3; read -r go <&3; ", c.port)
	return fmt.Sprintf("{kind: command, command: [bash, -ec, %q]}", begin+script)
}

func (c *rollCall) answer(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	said, err := in.ReadString('\n')
	words := strings.Fields(said)
	if err != nil || len(words) != 3 {
		return
	}
	thread := words[1]
	c.mu.Lock()
	c.begun = append(c.begun, strings.TrimSpace(said))
	if c.work[thread]++; c.work[thread] > 1 {
		c.both = append(c.both, said)
	}
	hold := c.hold
	c.mu.Unlock()
	<-hold
	fmt.Fprintln(conn, "go")
	in.ReadByte() // nothing more is said
	c.mu.Lock()
	c.work[thread]--
	c.mu.Unlock()
}

// holds has agents that begin from now on wait until they are told to go on.
func (c *rollCall) holds() (goOn func()) {
	hold := make(chan struct{})
	c.mu.Lock()
	c.hold = hold
	c.mu.Unlock()
	return sync.OnceFunc(func() { close(hold) })
}

// count returns how many agents have begun, and how many of them as a user.
func (c *rollCall) count(user uint32) (all, own int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, said := range c.begun {
		if strings.HasPrefix(said, fmt.Sprint(user, " ")) {
			own++
		}
	}
	return len(c.begun), own
}
