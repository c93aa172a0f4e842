package pgtest

import (
	"io"
	"net"
	"net/url"
	"testing"
	"time"
)

// Far returns a URL that leads to the same database, with a round trip that takes away longer.
func Far(t testing.TB, at string, away time.Duration) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	server := u.Host
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			beyond, err := net.Dial("tcp", server)
			if err != nil {
				near.Close()
				continue
			}
			go carry(near, beyond, away/2)
			go carry(beyond, near, away/2)
		}
	}()
	u.Host = l.Addr().String()
	return u.String()
}

// carry takes bytes from one side to the other, each part delayed by late.
func carry(from, to net.Conn, late time.Duration) {
	type part struct {
		due  time.Time
		data []byte
	}
	parts := make(chan part, 1<<10)
	go func() {
		defer from.Close()
		defer to.Close()
		for p := range parts {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.data); err != nil {
				io.Copy(io.Discard, from)
			}
		}
	}()
	defer close(parts)
	for {
		buf := make([]byte, 64<<10)
		n, err := from.Read(buf)
		if n > 0 {
			parts <- part{time.Now().Add(late), buf[:n]}
		}
		if err != nil {
			return
		}
	}
}
