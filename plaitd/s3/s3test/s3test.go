// Package s3test is an S3 server within a test's process that can be made to fail.
package s3test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/plait-run/plait/plaitd/s3"
)

// The credentials of clients, which no error may ever reveal.
const (
	KeyID  = "AKIATESTTESTTEST"
	Secret = "s3cr3t-of-a-t3st-th4t-nobody-s33s"
)

const bucket = "record"

// A Fault may answer a request instead of the server, and then returns true.
type Fault func(w http.ResponseWriter, r *http.Request) bool

// A Server has one empty bucket.
type Server struct {
	t     testing.TB
	http  *httptest.Server
	good  http.Handler
	kept  *s3mem.Backend
	mu    sync.Mutex
	fault Fault
	asked []string
}

// Start starts a server that is stopped when the test ends.
func Start(t testing.TB) *Server {
	s := &Server{t: t, kept: s3mem.New()}
	if err := s.kept.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	s.good = gofakes3.New(s.kept, gofakes3.WithLogger(gofakes3.DiscardLog()), gofakes3.WithHostBucket(false)).Server()
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		fault := s.fault
		s.asked = append(s.asked, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		if fault == nil || !fault(w, r) {
			s.good.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Config returns the config of the server's bucket with a prefix.
func (s *Server) Config(prefix string) s3.Config {
	c, err := s3.Parse(s.Name(prefix))
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// Name returns the same as users write it.
func (s *Server) Name(prefix string) string {
	return "s3://" + bucket + "/" + prefix + "?endpoint=" + s.http.URL
}

// Bucket opens the server's bucket with valid credentials.
func (s *Server) Bucket(prefix string) *s3.Bucket {
	s.t.Helper()
	Login()
	b, err := s3.Open(s.t.Context(), s.Config(prefix))
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// Login sets the credentials of this process, and hides all others of this machine: tests that run
// concurrently share one environment.
var Login = sync.OnceFunc(func() {
	for k, v := range map[string]string{
		"AWS_ACCESS_KEY_ID": KeyID, "AWS_SECRET_ACCESS_KEY": Secret, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "AWS_PROFILE": "",
		"AWS_SESSION_TOKEN": "",
	} {
		os.Setenv(k, v)
	}
})

// Fail passes each request from now on to f first; nil ends it.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Served stores what is put and signals done, but the client never receives an answer.
func (s *Server) Served(done chan<- struct{}) Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		s.good.ServeHTTP(httptest.NewRecorder(), r)
		select {
		case done <- struct{}{}:
		default:
		}
		<-r.Context().Done()
		return true
	}
}

// Asked returns the requests since the last call, as "GET /bucket/key".
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// Keys returns the keys of the bucket, sorted.
func (s *Server) Keys() []string {
	s.t.Helper()
	list, err := s.kept.ListBucket(bucket, nil, gofakes3.ListBucketPage{MaxKeys: 1 << 20})
	if err != nil {
		s.t.Fatal(err)
	}
	var keys []string
	for _, c := range list.Contents {
		keys = append(keys, c.Key)
	}
	slices.Sort(keys)
	return keys
}

// Lose removes a key without the client's knowledge.
func (s *Server) Lose(key string) {
	s.t.Helper()
	if _, err := s.kept.DeleteObject(bucket, key); err != nil {
		s.t.Fatal(err)
	}
}

// Refuse answers as S3 does when access is denied.
func Refuse(w http.ResponseWriter, _ *http.Request) bool {
	return Answer(w, http.StatusForbidden, "AccessDenied")
}

// Answer writes an S3 error.
func Answer(w http.ResponseWriter, status int, code string) bool {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>so it is</Message></Error>", code)
	return true
}

// Stall gives no answer until the client gives up, and signals that it was asked.
func Stall(asked chan<- struct{}) Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case asked <- struct{}{}:
		default:
		}
		io.Copy(io.Discard, r.Body) // until then it goes unnoticed that the client is gone
		<-r.Context().Done()
		return true
	}
}

// Cut announces some bytes, sends fewer, and hangs up.
func Cut(announced, sent int) Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		c, out, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return false
		}
		fmt.Fprintf(out, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", announced, strings.Repeat("x", sent))
		out.Flush()
		c.Close()
		return true
	}
}
