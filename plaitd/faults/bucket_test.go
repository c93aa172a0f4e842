package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
	"github.com/plait-run/plait/plaitd/s3"
	"github.com/plait-run/plait/plaitd/s3/s3test"
)

// large returns bytes for a bucket.
func large(seed byte) []byte {
	data := make([]byte, 300<<10)
	rand.NewChaCha8([32]byte{seed}).Read(data)
	return data
}

// stage stages bytes, pinned as p.
func stage(ctx context.Context, s store.Store, p string, data []byte) (dag.Hash, error) {
	h, n, err := s.Stage(ctx, p, bytes.NewReader(data))
	if err == nil && (h != dag.Sum(data) || n != int64(len(data))) {
		err = fmt.Errorf("staged %d bytes as %s", n, h)
	}
	return h, err
}

// read reads an object both ways, and returns the first error.
func read(ctx context.Context, s store.Store, data []byte) error {
	o, err := s.Get(ctx, dag.Sum(data))
	if err == nil && !bytes.Equal(o.Data, data) {
		err = errors.New("other bytes")
	}
	if err != nil {
		return err
	}
	r, _, err := s.Open(ctx, dag.Sum(data))
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}

// TestStageFaults has a bucket that cannot store what is staged: the new blob is absent, the old
// one stays, and once the bucket is back the new one can be staged.
func TestStageFaults(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	stalled := make(chan struct{}, 1)
	faults := map[string]s3test.Fault{
		"refuses":  s3test.Refuse,
		"is slow":  s3test.Stall(stalled),
		"fails":    func(w http.ResponseWriter, _ *http.Request) bool { return s3test.Answer(w, 501, "NotImplemented") },
		"hangs up": func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bucket := s3test.Start(t)
			url := newRecord(t, server)
			s := open(t, postgres.Config{URL: url, Bucket: bucket.Bucket("")})
			old, young := large(1), large(2)
			if _, err := stage(t.Context(), s, "p", old); err != nil {
				t.Fatal(err)
			}
			bucket.Fail(fault)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if name == "is slow" {
				go func() { <-stalled; cancel() }()
			}
			_, err := stage(ctx, s, "p", young)
			if err == nil || errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound) ||
				strings.Contains(err.Error(), s3test.Secret) {
				t.Errorf("got error %v", err)
			}
			if name == "is slow" && !errors.Is(err, context.Canceled) {
				t.Errorf("got error %v, want that of the context", err)
			}
			if n := uploads(t, url); n != 0 {
				t.Errorf("%d uploads have not ended, so their bytes are never removed", n)
			}
			// A stored blob can be staged again without the bucket.
			if _, err := stage(t.Context(), s, "again", old); err != nil {
				t.Error(err)
			}
			if there, err := s.Has(t.Context(), dag.Sum(young)); err != nil || there {
				t.Errorf("what could not be kept is there: %v, %v", there, err)
			}
			bucket.Fail(nil)
			if _, err := stage(t.Context(), s, "p", young); err != nil {
				t.Error(err)
			}
			for _, data := range [][]byte{old, young} {
				if err := read(t.Context(), s, data); err != nil {
					t.Error(err)
				}
			}
			if wrong, err := s.Check(t.Context()); err != nil || len(wrong) > 0 {
				t.Errorf("check: %q, %v", wrong, err)
			}
		})
	}
}

// uploads returns how many uploads of a record have not ended.
func uploads(t *testing.T, url string) (n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	if err := c.QueryRow(t.Context(), "SELECT count(*) FROM plait.uploads").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestReadFaults has a bucket that cannot return what it stored. Only what can never come back is
// reported as corrupt; nothing is reported as missing, and once the bucket is back everything is there.
func TestReadFaults(t *testing.T) {
	t.Parallel()
	data := large(1)
	const size = 300 << 10
	other := bytes.Clone(data)
	other[size/2] ^= 1
	answer := func(body []byte) s3test.Fault {
		return func(w http.ResponseWriter, _ *http.Request) bool { w.Write(body); return true }
	}
	tests := []struct {
		name    string
		fault   s3test.Fault
		lost    bool
		corrupt bool
	}{
		{"refuses", s3test.Refuse, false, false},
		{"is another's", func(w http.ResponseWriter, _ *http.Request) bool { return s3test.Answer(w, 404, "NoSuchBucket") },
			false, false},
		{"hangs up", func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, false, false},
		{"cuts", s3test.Cut(size, 1000), false, false},
		{"announces more", s3test.Cut(size+1000, size), false, true},
		{"gives less", answer(data[:size-1]), false, true},
		{"gives more", answer(append(bytes.Clone(data), 'x')), false, true},
		{"gives other bytes", answer(other), false, true},
		{"gives nothing", answer(nil), false, true},
		{"lost it", nil, true, true},
	}
	server := pgtest.Shared(t)
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			bucket := s3test.Start(t)
			s := open(t, postgres.Config{URL: newRecord(t, server), Bucket: bucket.Bucket("")})
			if _, err := stage(t.Context(), s, "p", data); err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(t.Context(), store.Batch{Objects: []store.Object{node("small")}}); err != nil {
				t.Fatal(err)
			}
			bucket.Fail(x.fault)
			if x.lost {
				for _, key := range bucket.Keys() {
					bucket.Lose(key)
				}
			}
			for name, ask := range map[string]func() error{
				"get": func() error { _, err := s.Get(t.Context(), dag.Sum(data)); return err },
				"many": func() error {
					_, err := s.Many(t.Context(), []dag.Hash{node("small").Hash, dag.Sum(data)})
					return err
				},
				"open": func() error {
					r, _, err := s.Open(t.Context(), dag.Sum(data))
					if err != nil {
						return err
					}
					defer r.Close()
					_, err = io.Copy(io.Discard, r)
					return err
				},
			} {
				err := ask()
				if err == nil || errors.Is(err, store.ErrNotFound) || strings.Contains(err.Error(), s3test.Secret) {
					t.Errorf("%s: got error %v", name, err)
				}
				if got := errors.Is(err, store.ErrCorrupt); got != x.corrupt && x.name != "announces more" {
					t.Errorf("%s: corrupt: %v, want %v: %v", name, got, x.corrupt, err)
				}
			}
			wrong, err := s.Check(t.Context())
			if x.lost && (err != nil || len(wrong) != 1 || !strings.Contains(wrong[0], dag.Sum(data).String())) {
				t.Errorf("check of a lost key: %q, %v", wrong, err)
			}
			bucket.Fail(nil)
			if !x.lost {
				if err := read(t.Context(), s, data); err != nil {
					t.Errorf("with the bucket back: %v", err)
				}
			}
			if _, err := s.Get(t.Context(), node("small").Hash); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOrphan kills a process that has uploaded bytes but no row for them: they are never visible,
// and Compact removes them once the process is known to be gone, and they are old enough.
func TestOrphan(t *testing.T) {
	t.Parallel()
	bucket := s3test.Start(t)
	s3test.Login()
	url := newRecord(t, pgtest.Shared(t))
	c := hasty(url)
	c.Bucket = bucket.Bucket("")
	s := open(t, c)
	kept := large(1)
	if _, err := stage(t.Context(), s, "p", kept); err != nil {
		t.Fatal(err)
	}
	uploaded := make(chan struct{}, 1)
	bucket.Fail(bucket.Served(uploaded))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), stagerEnv+"="+url, "PLAIT_TEST_BUCKET="+bucket.Name(""))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-uploaded
	if err := s.Compact(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if got := len(bucket.Keys()); got != 2 {
		t.Errorf("while a process that lives has not named its bytes yet there are %d keys, want 2", got)
	}
	cmd.Process.Kill()
	cmd.Wait()
	bucket.Fail(nil)
	if there, err := s.Has(t.Context(), dag.Sum(large(2))); err != nil || there {
		t.Errorf("what was uploaded is named: %v, %v", there, err)
	}
	if err := s.Compact(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := len(bucket.Keys()); got != 2 {
		t.Errorf("young bytes were removed: %d keys", got)
	}
	for end := time.Now().Add(time.Minute); len(bucket.Keys()) > 1; time.Sleep(100 * time.Millisecond) {
		if err := s.Compact(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatal("the orphan stays")
		}
	}
	if err := read(t.Context(), s, kept); err != nil {
		t.Error(err)
	}
}

// stagerEnv is set to the record's URL in the process that stages and is killed.
const stagerEnv = "PLAIT_TEST_STAGER"

func beStager(url string) error {
	named, err := s3.Parse(os.Getenv("PLAIT_TEST_BUCKET"))
	if err != nil {
		return err
	}
	c := hasty(url)
	if c.Bucket, err = s3.Open(context.Background(), named); err != nil {
		return err
	}
	s, err := postgres.Open(context.Background(), c)
	if err != nil {
		return err
	}
	_, err = stage(context.Background(), s, "q", large(2))
	return fmt.Errorf("staged, and not killed: %w", err)
}

// TestSweepBesideStagers stages the same few blobs over and over, on three handles, while another
// sweeps and compacts without any grace: what is pinned can be read.
func TestSweepBesideStagers(t *testing.T) {
	t.Parallel()
	const stagers, contents = 6, 8
	rounds := soak.Rounds(t, 40)
	bucket := s3test.Start(t)
	url := newRecord(t, pgtest.Shared(t))
	var handles []store.Store
	for range 3 {
		handles = append(handles, open(t, postgres.Config{URL: url, Bucket: bucket.Bucket("")}))
	}
	var (
		wait, sweeping sync.WaitGroup
		over           atomic.Bool
		swept          atomic.Int64
	)
	sweeping.Go(func() {
		s := handles[0]
		for !over.Load() {
			gone, err := s.Sweep(t.Context(), 0, func(v store.View) (all []dag.Hash, err error) {
				for i := range contents {
					all = append(all, dag.Sum(large(byte(i))))
				}
				return all, nil
			})
			if err == nil {
				err = s.Compact(t.Context(), 0)
			}
			if err != nil {
				t.Errorf("sweep: %v", err)
				return
			}
			swept.Add(int64(len(gone)))
		}
	})
	for i := range stagers {
		wait.Go(func() {
			s := handles[i%len(handles)]
			rng := rand.New(rand.NewPCG(uint64(i), 0))
			for n := range rounds {
				data := large(byte(rng.IntN(contents)))
				pin := fmt.Sprintf("pin-%d-%d", i, n)
				if _, err := stage(t.Context(), s, pin, data); err != nil {
					t.Errorf("stage: %v", err)
					return
				}
				if err := read(t.Context(), s, data); err != nil {
					t.Errorf("what was just staged, and is pinned: %v", err)
					return
				}
				if err := s.Commit(t.Context(), store.Batch{Unpin: []string{pin}}); err != nil {
					t.Errorf("unpin: %v", err)
					return
				}
			}
		})
	}
	wait.Wait()
	over.Store(true)
	sweeping.Wait()
	if swept.Load() == 0 {
		t.Error("nothing was swept beside the stagers")
	}
	if wrong, err := handles[1].Check(t.Context()); err != nil || len(wrong) > 0 {
		t.Errorf("check: %q, %v", wrong, err)
	}
	soak.Figure(t, "%d blobs staged in a bucket beside %d that were swept, none lost", stagers*rounds, swept.Load())
}
