package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/ui/web"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/search"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// What is searched: so many tasks of one step each, of 2 KB of words.
const (
	searched = 10_000
	distinct = 20_000 // words
)

// search measures the index of a record: what building it and keeping it costs, and what a search takes.
func (b *bench) search(ctx context.Context) error {
	s, dir, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer s.Close()
	text := speech()
	for n := range searched {
		c, err := newChain(ctx, s, n)
		if err != nil {
			return err
		}
		if err := c.say(ctx, text()); err != nil {
			return err
		}
	}
	index := search.New(&view.Reader{Store: s, Nodes: thread.NewReader(s)}, dir, worktree.Changed)
	begin := processor()
	if _, err := index.CatchUp(ctx, time.Hour); err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(dir, "search.db"))
	if err != nil {
		return err
	}
	row(fmt.Sprintf("search index of %d tasks, built from the record", searched), goal{}, "%.2f ms of CPU and %d bytes for each step of 2 KB",
		float64((processor()-begin).Microseconds())/1000/searched, info.Size()/searched)
	if err := b.kept(ctx, s, index, text); err != nil {
		return err
	}
	return b.searches(ctx, s, dir)
}

// speech returns a function that makes texts of 2 KB. Few of their words are frequent.
func speech() func() string {
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.1, 5, distinct-1)
	return func() string {
		var b strings.Builder
		for b.Len() < 2000 {
			fmt.Fprintf(&b, "w%x ", zipf.Uint64())
		}
		return b.String()
	}
}

// say commits a step with a text.
func (c *chain) say(ctx context.Context, text string) error {
	c.n++
	from := c.row.State()
	ch, err := thread.Append(c.row, c.tip, thread.Draft{Role: "work", Meta: json.RawMessage(`{"$status":"done"}`), Text: text, At: int64(c.n)})
	if err != nil {
		return err
	}
	ch.Row.Status = store.Running
	c.row, c.tip = ch.Row, ch.Tip
	return c.s.Commit(ctx, store.Batch{Objects: ch.Objects, Threads: []store.ThreadChange{{Row: ch.Row, From: from}},
		Events: []store.Event{event.New(ch.Row, int64(c.n), event.AttemptCompleted{Role: "work", Step: ch.Row.Head})}})
}

// kept measures commits of steps while the index is kept up to date, and while it is not.
func (b *bench) kept(ctx context.Context, s store.Store, index search.Index, text func() string) error {
	c, err := newChain(ctx, s, searched)
	if err != nil {
		return err
	}
	var with, without []float64
	for range b.rounds {
		for _, keeps := range []bool{false, true} {
			keeping, end := context.WithCancel(ctx)
			over := make(chan struct{})
			go func() {
				defer close(over)
				if keeps {
					index.Keep(keeping, b.slice/10, control.IndexShare)
				}
			}()
			per, err := rate(1, b.slice, func(int) error { return c.say(ctx, text()) })
			end()
			<-over
			if err != nil {
				return err
			}
			if keeps {
				with = append(with, per)
			} else {
				without = append(without, per)
			}
		}
	}
	left := median(with) / median(without)
	row("durable step commits while the search index is kept up to date, to those without", atLeast(0.95, left,
		"the writers do nothing else and keep the cores busy, of which the index needs one"), "**%.2f** (%.0f/s)", left,
		median(with))
	return nil
}

// searches measures the page of a search, by a word of one step and one of nearly all.
func (b *bench) searches(ctx context.Context, s store.Store, dir string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c := control.New(control.Config{Store: s, Home: dir, Settings: (&player{}).settings(), Agent: (&player{}).agent})
	srv := web.New(web.Config{Store: s, Control: c, Reader: c.Reader(), Home: dir, Dirs: &taskdir.DirWriter{Store: s, Reader: c.Reader()}})
	l, err := web.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	over, entry := make(chan error, 1), make(chan string, 1)
	go func() { over <- srv.Serve(ctx, l, func(url string) { entry <- url }) }()
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	client, base := &http.Client{Jar: jar}, "http://"+l.Addr().String()
	if _, err := get(ctx, client, <-entry); err != nil {
		return err
	}
	ways := map[string]string{"empty": "/compare", "one": "/search?all=true&q=w0+w1+w4a11", "all": "/search?all=true&q=w0"}
	took := map[string][]float64{}
	for range 4 * b.rounds {
		for name, way := range ways {
			begin := time.Now()
			if _, err := get(ctx, client, base+way); err != nil {
				return err
			}
			took[name] = append(took[name], time.Since(begin).Seconds()*1000)
		}
	}
	empty := median(took["empty"])
	row("page without content, made by the server", goal{}, "%.1f ms", empty)
	for name, what := range map[string]string{"one": "words that few steps have", "all": "a word that nearly all have"} {
		row(fmt.Sprintf("search in %d tasks by %s, made by the server", searched, what), goal{}, "%.1f ms, **%.1f** empty pages", median(took[name]), median(took[name])/empty)
	}
	stop()
	return errors.Join(err, <-over)
}
