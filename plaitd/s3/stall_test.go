package s3

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func setCredentials(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// TestStalls tries servers that stop in the middle of a body.
func TestStalls(t *testing.T) {
	setCredentials(t)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	large := make([]byte, 64<<20) // more than the buffers of a connection hold
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Write(large[:1<<20])
			w.(http.Flusher).Flush()
		} else {
			io.CopyN(io.Discard, r.Body, 1<<20)
		}
		<-over
	}))
	defer server.Close()
	defer close(over)
	b, err := open(t.Context(), Config{Bucket: "record", Endpoint: server.URL, PathStyle: true}, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]io.Reader{
		"seekable": bytes.NewReader(large), "a stream": struct{ io.Reader }{bytes.NewReader(large)},
	} {
		if err := b.Put(t.Context(), "k", r, int64(len(large))); err == nil {
			t.Errorf("put, %s: no error", name)
		}
	}
	body, err := b.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if n, err := io.Copy(io.Discard, body); n != 1<<20 || !errors.Is(err, errStalled) {
		t.Errorf("get: %d bytes, %v", n, err)
	}
}

// TestSlowButSteady takes longer than the limit for the whole of a body, in both directions.
func TestSlowButSteady(t *testing.T) {
	setCredentials(t)
	const wait, pause = 3 * time.Second, 300 * time.Millisecond // 16 pauses
	var kept []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			for part := kept; len(part) > 0; part = part[min(len(part), 4<<20):] {
				w.Write(part[:min(len(part), 4<<20)])
				w.(http.Flusher).Flush()
				time.Sleep(pause)
			}
			return
		}
		for {
			var part bytes.Buffer
			n, err := io.CopyN(&part, r.Body, 4<<20)
			kept = append(kept, part.Bytes()...)
			if n == 0 || err != nil {
				return
			}
			time.Sleep(pause)
		}
	}))
	defer server.Close()
	b, err := open(t.Context(), Config{Bucket: "record", Endpoint: server.URL, PathStyle: true}, wait)
	if err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 4<<20)
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
}
