package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/plaitd/postgres"
	"github.com/plait-run/plait/plaitd/s3"
	"github.com/plait-run/plait/plaitd/s3/s3test"
)

// stream hides that a reader can seek.
type stream struct{ io.Reader }

func put(t *testing.T, b *s3.Bucket, key, text string) {
	t.Helper()
	if err := b.Put(t.Context(), key, strings.NewReader(text), int64(len(text))); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, b *s3.Bucket, key string) (string, error) {
	t.Helper()
	r, err := b.Get(t.Context(), key)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

func list(t *testing.T, b *s3.Bucket, after string) (keys []string) {
	t.Helper()
	for k, err := range b.List(t.Context(), after) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k.Key)
	}
	return keys
}

// buckets tests what a store needs of any server.
func buckets(t *testing.T, open func(prefix string) *s3.Bucket) {
	b := open("team/a")
	if err := b.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for name, r := range map[string]io.Reader{"seekable": bytes.NewReader(large),
		"stream": stream{bytes.NewReader(large)}} {
		err := b.Put(t.Context(), name, r, int64(len(large)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := get(t, b, name); err != nil || got != string(large) {
			t.Errorf("%s: %d bytes back of %d (%v)", name, len(got), len(large), err)
		}
	}
	for i := range 30 {
		put(t, b, fmt.Sprintf("k/%02d", i), "x")
	}
	if got := list(t, b, "k/27"); !slices.Equal(got, []string{"k/28", "k/29", "seekable", "stream"}) {
		t.Errorf("after k/27 there are %q", got)
	}
	other := open("team/ab")
	put(t, other, "k/00", "somebody else's")
	if got := list(t, other, ""); !slices.Equal(got, []string{"k/00"}) {
		t.Errorf("another prefix has %q", got)
	}
	if err := b.Delete(t.Context(), append(list(t, b, ""), "never-there")...); err != nil {
		t.Fatal(err)
	}
	if got := list(t, b, ""); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
	if _, err := get(t, b, "k/00"); !errors.Is(err, postgres.ErrNoKey) {
		t.Errorf("what was deleted: %v", err)
	}
	if got, err := get(t, other, "k/00"); err != nil || got != "somebody else's" {
		t.Errorf("another prefix lost what it had: %q, %v", got, err)
	}
}

func TestBucket(t *testing.T) {
	buckets(t, s3test.Start(t).Bucket)
}

func TestPages(t *testing.T) {
	s := s3test.Start(t)
	b := s.Bucket("")
	var want []string
	for i := range 2345 {
		want = append(want, fmt.Sprintf("%04d", i))
		put(t, b, want[i], "x")
	}
	if d := cmp.Diff(want, list(t, b, "")); d != "" {
		t.Error(d)
	}
	if got := list(t, b, "2300"); len(got) != 44 {
		t.Errorf("after 2300 there are %d", len(got))
	}
	if err := b.Delete(t.Context(), want...); err != nil {
		t.Fatal(err)
	}
	if got := s.Keys(); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
}

// TestSizes puts more and fewer bytes than announced: no key may be left behind.
func TestSizes(t *testing.T) {
	const text = "some bytes"
	for _, announced := range []int64{0, 3, 9, 11, 4000} {
		for _, r := range []io.Reader{strings.NewReader(text), stream{strings.NewReader(text)}} {
			s := s3test.Start(t)
			if err := s.Bucket("").Put(t.Context(), "key", r, announced); err == nil {
				t.Errorf("%T: %d bytes announced as %d were taken", r, len(text), announced)
			}
			if got := s.Keys(); len(got) > 0 {
				t.Errorf("%T announced as %d: %q is kept", r, announced, got)
			}
		}
	}
}

// TestFaults tries what a bucket may do to a client: each call ends with an error that says
// what failed, reveals no secret, and is never taken for a missing key.
func TestFaults(t *testing.T) {
	asked := make(chan struct{}, 1)
	faults := map[string]s3test.Fault{
		"refuses":   s3test.Refuse,
		"no bucket": func(w http.ResponseWriter, _ *http.Request) bool { return s3test.Answer(w, 404, "NoSuchBucket") },
		"forged": func(w http.ResponseWriter, _ *http.Request) bool {
			return s3test.Answer(w, 403, "SignatureDoesNotMatch")
		},
		"is slow":  s3test.Stall(asked),
		"hangs up": func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		"nonsense": func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(418); return true },
	}
	calls := map[string]func(context.Context, *s3.Bucket) error{
		"put":    func(ctx context.Context, b *s3.Bucket) error { return b.Put(ctx, "k", strings.NewReader("x"), 1) },
		"get":    func(ctx context.Context, b *s3.Bucket) error { _, err := b.Get(ctx, "k"); return err },
		"delete": func(ctx context.Context, b *s3.Bucket) error { return b.Delete(ctx, "k") },
		"list": func(ctx context.Context, b *s3.Bucket) error {
			for _, err := range b.List(ctx, "") {
				return err
			}
			return nil
		},
	}
	for name, fault := range faults {
		for verb, call := range calls {
			if name == "hangs up" && (verb == "get" || verb == "delete") {
				continue // each is retried for seconds
			}
			t.Run(verb+" "+name, func(t *testing.T) {
				s := s3test.Start(t)
				b := s.Bucket("")
				put(t, b, "k", "kept")
				s.Fail(fault)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if name == "is slow" {
					go func() { <-asked; cancel() }()
				}
				err := call(ctx, b)
				if err == nil || errors.Is(err, postgres.ErrNoKey) {
					t.Fatalf("got error %v", err)
				}
				if name == "is slow" && !errors.Is(err, context.Canceled) {
					t.Errorf("got error %v, want that of the context", err)
				}
				said := err.Error()
				if !strings.Contains(said, verb) || !strings.Contains(said, "s3://record") {
					t.Errorf("says neither what nor where: %v", err)
				}
				if strings.Contains(said, s3test.Secret) || strings.Contains(said, s3test.KeyID) {
					t.Errorf("says what nobody may see: %v", err)
				}
				s.Fail(nil)
				if got, err := get(t, b, "k"); err != nil || got != "kept" {
					t.Errorf("afterwards: %q, %v", got, err)
				}
			})
		}
	}
}

// TestBriefly has a server that is briefly busy: the client sends the whole body again.
func TestBriefly(t *testing.T) {
	s := s3test.Start(t)
	b := s.Bucket("")
	busy := 2
	s.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if busy--; busy < 0 {
			return false
		}
		io.Copy(io.Discard, r.Body)
		return s3test.Answer(w, 503, "SlowDown")
	})
	put(t, b, "k", "all of it")
	if got, err := get(t, b, "k"); err != nil || got != "all of it" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestCut reads a body that ends too early.
func TestCut(t *testing.T) {
	s := s3test.Start(t)
	b := s.Bucket("")
	s.Fail(s3test.Cut(1000, 400))
	if got, err := get(t, b, "k"); err == nil || len(got) != 400 {
		t.Errorf("%d bytes of 1000, and error %v", len(got), err)
	}
}

func TestParse(t *testing.T) {
	good := map[string]s3.Config{
		"s3://record":                          {Bucket: "record"},
		"s3://record/a/b/?region=eu-central-1": {Bucket: "record", Prefix: "a/b", Region: "eu-central-1"},
		"s3://record?endpoint=http://127.0.0.1:9000/": {Bucket: "record", Endpoint: "http://127.0.0.1:9000",
			PathStyle: true},
		"s3://record?endpoint=https://x.example&path-style=false": {Bucket: "record", Endpoint: "https://x.example"},
		"s3://record?path-style=true":                             {Bucket: "record", PathStyle: true},
	}
	for text, want := range good {
		if got, err := s3.Parse(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	bad := []string{
		"", "record", "https://record.s3.amazonaws.com", "s3://", "s3://a",
		"s3://" + s3test.KeyID + ":" + s3test.Secret + "@record",
		"s3://record?endpoint=ftp://x", "s3://record?endpoint=https://" + s3test.KeyID + ":" + s3test.Secret + "@x",
		"s3://record?path-style=perhaps",
		"s3://record?secret=" + s3test.Secret, "s3://record?" + s3test.Secret + "=1;%zz", "s3://re cord", "s3://record#x",
	}
	for _, text := range bad {
		got, err := s3.Parse(text)
		if err == nil {
			t.Errorf("%q was taken: %+v", text, got)
		} else if strings.Contains(err.Error(), s3test.Secret) {
			t.Errorf("says what nobody may see: %v", err)
		}
	}
}
