package s3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

const part = 64 << 10 // more than a client writes at once

// TestStalls tries servers that stop in the middle of a body.
func TestStalls(t *testing.T) {
	setCredentials(t)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	large := make([]byte, 64*part)
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		b := openInMemory(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w.Write(large[:part])
				w.(http.Flusher).Flush()
			} else {
				io.CopyN(io.Discard, r.Body, part)
			}
			<-over
		})
		defer close(over)
		for name, r := range map[string]io.Reader{
			"seekable": bytes.NewReader(large), "a stream": struct{ io.Reader }{bytes.NewReader(large)},
		} {
			if err := b.Put(t.Context(), "k", r, int64(len(large))); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("put, %s: %v", name, err)
			}
		}
		body, err := b.Get(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		defer body.Close()
		if n, err := io.Copy(io.Discard, body); n != part || !errors.Is(err, errStalled) {
			t.Errorf("get: %d bytes, %v", n, err)
		}
	})
}

// TestSlowButSteady takes longer than the limit for the whole of a body, in both directions.
func TestSlowButSteady(t *testing.T) {
	setCredentials(t)
	large := bytes.Repeat([]byte("0123456789abcdef"), 4*part) // of 64 parts
	const pause = answerWait / 2
	synctest.Test(t, func(t *testing.T) {
		var kept []byte
		b := openInMemory(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				for rest := kept; len(rest) > 0; rest = rest[part:] {
					w.Write(rest[:part])
					w.(http.Flusher).Flush()
					time.Sleep(pause)
				}
				return
			}
			for {
				next := make([]byte, part)
				if _, err := io.ReadFull(r.Body, next); err != nil {
					return
				}
				kept = append(kept, next...)
				time.Sleep(pause)
			}
		})
		if err := b.Put(t.Context(), "k", bytes.NewReader(large), int64(len(large))); err != nil {
			t.Fatal(err)
		}
		body, err := b.Get(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		defer body.Close()
		if got, err := io.ReadAll(body); err != nil || !bytes.Equal(got, large) {
			t.Errorf("got %d bytes of %d: %v", len(got), len(large), err)
		}
	})
}

func setCredentials(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// openInMemory returns a bucket of a server with a handler. They are connected without the network and its buffers,
// so that their clock can be faked.
func openInMemory(t *testing.T, handler http.HandlerFunc) *Bucket {
	t.Helper()
	l := listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: handler}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	c := Config{Bucket: "record", Endpoint: "http://bucket.test", PathStyle: true}
	b, err := open(t.Context(), c, func(context.Context, string, string) (net.Conn, error) {
		mine, its := net.Pipe()
		l.conns <- its
		return mine, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type listener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error {
	close(l.closed)
	return nil
}

func (listener) Addr() net.Addr { return &net.TCPAddr{} }
