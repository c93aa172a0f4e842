package jsonrpc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// talk returns a Conn, and a scanner of the lines that it writes.
func talk(t *testing.T, version string) (*Conn, *bufio.Scanner) {
	r, w := io.Pipe()
	c := New(w, version)
	over := make(chan struct{})
	go func() { defer close(over); c.Pump() }()
	t.Cleanup(func() {
		r.Close()
		c.End()
		<-over
	})
	return c, bufio.NewScanner(r)
}

func TestCalls(t *testing.T) {
	c, said := talk(t, "2.0")
	const n = 20
	results := make(chan int, n)
	for range n {
		go func() {
			var got struct{ Twice int }
			if err := c.Call(t.Context(), nil, "double", map[string]int{"x": 1}, &got); err != nil {
				t.Error(err)
			}
			results <- got.Twice
		}()
	}
	for range n {
		var m Message
		if !said.Scan() || json.Unmarshal(said.Bytes(), &m) != nil || m.Version != "2.0" || !m.IsRequest() {
			t.Fatalf("said %q", said.Text())
		}
		m.Result, m.Method, m.Params = json.RawMessage(`{"twice":`+string(m.ID)+`}`), "", nil
		c.Resolve(m)
		c.Resolve(m) // a second time, which must change nothing
	}
	seen := map[int]bool{}
	for range n {
		seen[<-results] = true
	}
	if len(seen) != n {
		t.Errorf("the answers are %v", seen)
	}
}

func TestErrors(t *testing.T) {
	c, said := talk(t, "")
	for _, tt := range []struct{ answer, want string }{
		{`{"id":1,"error":{"code":-32600,"message":"no such thing"}}`, "no such thing"},
		{`{"id":2,"result":"a text"}`, "read the answer to ask"},
		{`{"id":3,"error":"a text"}`, "a text"},
		{`{"id":"4","error":{"code":"E","text":"no message"}}`, `{"code":"E","text":"no message"}`},
	} {
		ends := make(chan error, 1)
		go func() { ends <- c.Call(t.Context(), nil, "ask", nil, &struct{ A int }{}) }()
		said.Scan()
		m, ok := Read([]byte(tt.answer))
		if !ok {
			t.Fatalf("%s cannot be read", tt.answer)
		}
		c.Resolve(m)
		if err := <-ends; err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got error %v, want %q in it", err, tt.want)
		}
	}
}

// TestForms checks that an answer counts although its form is a little different.
func TestForms(t *testing.T) {
	c, said := talk(t, "")
	for _, answer := range []string{"\uFEFF" + `{"id":1,"result":{"a":5}}`,
		`{"id":2.0,"jsonrpc":2.0,"result":{"a":5,"b":7}}`,
		`{"id":"3","result":{"b":[],"a":5},"error":null,"method":null}`} {
		var got struct {
			A int
			B string
		}
		ends := make(chan error, 1)
		go func() { ends <- c.Call(t.Context(), nil, "ask", nil, &got) }()
		said.Scan()
		m, _ := Read([]byte(answer))
		if !m.IsResponse() {
			t.Fatalf("%s is no answer", answer)
		}
		c.Resolve(m)
		if err := <-ends; err != nil || got.A != 5 {
			t.Errorf("%s: %+v, %v", answer, got, err)
		}
	}
}

func TestEnd(t *testing.T) {
	c, said := talk(t, "")
	ends := make(chan error, 1)
	go func() { ends <- c.Call(t.Context(), nil, "wait", nil, nil) }()
	said.Scan()
	c.End()
	c.End()
	if err := <-ends; !errors.Is(err, ErrGone) {
		t.Errorf("the call ended with %v", err)
	}
	if err := c.Call(t.Context(), nil, "more", nil, nil); !errors.Is(err, ErrGone) {
		t.Errorf("a call after the end ended with %v", err)
	}
	if err := c.Notify(nil, "more", nil); !errors.Is(err, ErrGone) {
		t.Errorf("a notification after the end ended with %v", err)
	}
}

// A program that does not read its stdin must not block a caller.
func TestNotRead(t *testing.T) {
	c, _ := talk(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.Call(ctx, nil, "one", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call ended with %v", err)
	}
	if err := c.Notify(nil, "two", nil); err != nil {
		t.Error(err)
	}
}

// What was sent before the end is written.
func TestHangUp(t *testing.T) {
	c, said := talk(t, "")
	var got, want []string
	for range 100 {
		if err := c.Notify(nil, "note", nil); err != nil {
			t.Fatal(err)
		}
		want = append(want, `{"method":"note"}`)
	}
	c.HangUp()
	for said.Scan() {
		got = append(got, said.Text())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

// TestDeaf checks that a program that reads nothing ends its conversation, and that one that reads does not.
func TestDeaf(t *testing.T) {
	c, said := talk(t, "2.0")
	text := strings.Repeat("x", 1<<20)
	said.Buffer(nil, 2<<20)
	for range 20 {
		if err := c.Notify(nil, "take", text); err != nil || !said.Scan() {
			t.Fatalf("said %d bytes: %v", len(said.Bytes()), err)
		}
	}
	ends := make(chan error, 1)
	go func() { ends <- c.Call(t.Context(), nil, "ask", nil, nil) }()
	n := 0
	for c.Notify(nil, "take", text) == nil {
		if n++; n > 20 {
			t.Fatal("it takes everything")
		}
	}
	if err := <-ends; !errors.Is(err, ErrFull) || n < 16 {
		t.Errorf("after %d MiB: %v", n, err)
	}
	if err := c.Call(t.Context(), nil, "ask", nil, nil); !errors.Is(err, ErrFull) {
		t.Errorf("then: %v", err)
	}
}
