package pgtest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// A Message is a message that passes through a proxy.
type Message struct {
	Conn int  // which connection, from 1
	Back bool // from the server to the client
	Type byte // as Postgres names them; 0 for a client's first message
	Body []byte
}

// String names a message as traces do: "frontend E" or "backend Z".
func (m Message) String() string {
	side := "frontend"
	if m.Back {
		side = "backend"
	}
	if m.Type == 0 {
		return side + " startup"
	}
	return side + " " + string(m.Type)
}

// An Act is what happens to a message.
type Act int

// The acts. After a cut the connection is gone for both sides; a stalled one stays open, but
// passes nothing any more in either direction; after a drop it passes nothing in the direction of
// the message, and everything in the other. A parted one is as after a stall, and the server does
// not even learn that the client has gone until its keepalives detect it: see Silence.
const (
	Pass Act = iota
	Cut
	Stall
	Drop
	Part
)

func (a Act) String() string { return [...]string{"pass", "cut", "stall", "drop", "part"}[a] }

// Silence is how long a server takes to detect a client that was parted from it.
const Silence = 1500 * time.Millisecond

// A Proxy is between a server and its clients without TLS. It knows where a message of
// Postgres's protocol ends.
type Proxy struct {
	to   string
	door net.Listener

	mu    sync.Mutex
	see   func(Message) Act
	conns map[int]*pair
	made  int
	over  bool
}

// A pair is a connection with a client and the one with the server behind it.
type pair struct {
	n              int
	client, server net.Conn
	once           sync.Once

	mu   sync.Mutex
	deaf [2]bool // directions in which nothing passes any more: to the server, and back
	part bool
}

// NewProxy starts a proxy in front of a server. It ends with the test.
func NewProxy(t testing.TB, s *Server) *Proxy {
	t.Helper()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{to: s.Addr(), door: door, conns: map[int]*pair{}}
	go p.serve()
	t.Cleanup(func() {
		p.mu.Lock()
		p.over = true
		p.mu.Unlock()
		door.Close()
		p.CutAll()
	})
	return p
}

// URL returns a database's URL through the proxy.
func (p *Proxy) URL(direct string) string {
	u, err := url.Parse(direct)
	if err != nil {
		panic(err) // not one of a Server
	}
	u.Host = p.door.Addr().String()
	return u.String()
}

// See has f look at each message from now on, one at a time, before it is passed on; nil ends it.
func (p *Proxy) See(f func(Message) Act) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.see = f
}

// CutAll cuts all open connections.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	var all []*pair
	for _, c := range p.conns {
		all = append(all, c)
	}
	p.mu.Unlock()
	for _, c := range all {
		c.end()
	}
}

// Open returns the number of open connections.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

func (p *Proxy) serve() {
	for {
		client, err := p.door.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			abort(client) // as the server's own port refuses
			continue
		}
		p.mu.Lock()
		p.made++
		c := &pair{n: p.made, client: client, server: server}
		p.conns[c.n] = c
		over := p.over
		p.mu.Unlock()
		if over {
			c.end()
		}
		go p.pump(c)
	}
}

// pump carries messages in both directions until one of them ends.
func (p *Proxy) pump(c *pair) {
	var wait sync.WaitGroup
	for _, back := range []bool{false, true} {
		wait.Go(func() {
			p.carry(c, back)
			if !back && c.isParted() {
				abort(c.client)
				time.Sleep(Silence)
			}
			c.end()
		})
	}
	wait.Wait()
	p.mu.Lock()
	delete(p.conns, c.n)
	p.mu.Unlock()
}

// carry takes messages from one side to the other.
func (p *Proxy) carry(c *pair, back bool) {
	from, to := c.client, c.server
	if back {
		from, to = to, from
	}
	in := bufio.NewReader(from)
	for first := !back; ; first = false {
		m, raw, err := read(in, first)
		if err != nil {
			return
		}
		m.Conn, m.Back = c.n, back
		p.mu.Lock()
		act := Pass
		if p.see != nil {
			act = p.see(m)
		}
		p.mu.Unlock()
		if !c.act(act, back) {
			return
		}
		if c.isDeaf(back) {
			continue // read, so that the sender is not held up by a full buffer
		}
		if _, err := to.Write(raw); err != nil {
			return
		}
	}
}

// act applies an act to the connection.
func (c *pair) act(a Act, back bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch a {
	case Cut:
		return false
	case Stall, Part:
		c.deaf = [2]bool{true, true}
		c.part = a == Part
	case Drop:
		c.deaf[direction(back)] = true
	}
	return true
}

func (c *pair) isDeaf(back bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deaf[direction(back)]
}

func (c *pair) isParted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.part
}

func direction(back bool) int {
	if back {
		return 1
	}
	return 0
}

// end cuts both connections, like a router that has forgotten them.
func (c *pair) end() {
	c.once.Do(func() {
		abort(c.client)
		abort(c.server)
	})
}

func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}

// maxMessage is the longest message that Postgres itself takes.
const maxMessage = 1 << 30

// read reads one message: a type, except for a client's first, and a length that counts
// itself.
func read(in *bufio.Reader, first bool) (m Message, raw []byte, err error) {
	head := 5
	if first {
		head = 4
	}
	raw = make([]byte, head)
	if _, err := io.ReadFull(in, raw); err != nil {
		return m, nil, err
	}
	if !first {
		m.Type = raw[0]
	}
	size := binary.BigEndian.Uint32(raw[head-4:])
	if size < 4 || size > maxMessage {
		return m, nil, fmt.Errorf("a message of %d bytes", size)
	}
	m.Body = make([]byte, size-4)
	if _, err := io.ReadFull(in, m.Body); err != nil {
		return m, nil, err
	}
	return m, append(raw, m.Body...), nil
}
