package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/ui/web"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// openPages is how many pages are open while commits are counted.
const openPages = 20

// pages measures the page of a thread of 1,000 steps with a fork of 20 paths near its end,
// compared with that of a thread of 10 steps: the server's work, and, in Chromium, the
// time until it is visible and until it is updated after an event.
func (b *bench) pages(ctx context.Context) error {
	s, dir, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer s.Close()
	short, err := b.grown(ctx, s, dir, 10, 0)
	if err != nil {
		return err
	}
	long, err := b.grown(ctx, s, dir, 1000, 20)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	c := control.New(control.Config{Store: s, Home: dir, Settings: (&player{}).settings(), Agent: (&player{}).agent})
	srv := web.New(web.Config{Store: s, Control: c, Reader: c.Reader(), Dirs: &taskdir.DirWriter{Store: s, Reader: c.Reader()}})
	l, err := web.Listen("127.0.0.1:0")
	if err != nil {
		stop()
		return err
	}
	over, entry := make(chan error, 1), make(chan string, 1)
	go func() { over <- srv.Serve(ctx, l, func(url string) { entry <- url }) }()
	err = b.visits(ctx, s, <-entry, "http://"+l.Addr().String(), short, long)
	stop()
	return errors.Join(err, <-over)
}

// grown makes a thread of that many steps; the fourth from the end is a join of that
// many paths.
func (b *bench) grown(ctx context.Context, s store.Store, dir string, steps, paths int) (store.Thread, error) {
	p := &player{paths: max(paths, 2), each: 2, turns: []turn{{"step", "", steps - 5}}}
	if paths > 0 {
		p.turns = append(p.turns, turn{"fork", "", 1})
	}
	p.turns = append(p.turns, turn{"step", "", 3})
	bundle, err := p.bundle()
	if err != nil {
		return store.Thread{}, err
	}
	workspace, err := os.MkdirTemp(b.dir, "workspace-")
	if err != nil {
		return store.Thread{}, err
	}
	c := control.New(control.Config{Store: s, Home: dir, Settings: p.settings(), Agent: p.agent})
	row, err := c.Begin(ctx, control.Spec{Bundle: bundle, Prompt: "go", Workspace: workspace})
	if err != nil {
		return row, err
	}
	return drive(ctx, newEngine(s, p), row)
}

// visits requests the pages, and prints what they cost.
func (b *bench) visits(ctx context.Context, s store.Store, entry, base string, short, long store.Thread) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	client := &http.Client{Jar: jar, Transport: &http.Transport{MaxIdleConnsPerHost: openPages}}
	if _, err := get(ctx, client, entry); err != nil {
		return err
	}
	took, size := map[string][]float64{}, map[string]int{}
	ways := map[string]string{"short": base + "/threads/" + short.ID, "long": base + "/threads/" + long.ID}
	for range 10 * b.rounds {
		for name, way := range ways {
			begin := time.Now()
			if size[name], err = get(ctx, client, way); err != nil {
				return err
			}
			took[name] = append(took[name], time.Since(begin).Seconds()*1000)
		}
	}
	row(fmt.Sprintf("page of a thread of %d steps, made by the server", short.Steps), goal{}, "%.1f ms, %d KiB", median(took["short"]), size["short"]>>10)
	each := median(took["long"]) / 100 / (median(took["short"]) / float64(short.Steps))
	row(fmt.Sprintf("page of a thread of %d steps with 20 paths, made by the server", long.Steps), atMost(2, each, " of one of the short page"),
		"%.1f ms, %d KiB; of the 100 steps it shows each **%.2f** of one of the short page", median(took["long"]), size["long"]>>10, each)
	if err := b.crowded(ctx, s, client, base, short); err != nil {
		return err
	}
	change, err := b.changed(ctx, short)
	if err != nil {
		return err
	}
	ways["change"] = base + change
	if err := b.painted(ctx, s, jar, base, ways, long); err != nil {
		return err
	}
	return b.watched(ctx, s, client, base, long)
}

// Records whose pages are compared: few tasks fill a page of the list.
const (
	fewTasks  = 200
	manyTasks = 10_000
)

// crowded measures the pages that list tasks, and one of a task, in a record with few tasks and with many.
func (b *bench) crowded(ctx context.Context, s store.Store, client *http.Client, base string, of store.Thread) error {
	pages := []struct{ name, path string }{{"inbox", "/"}, {"list of tasks", "/tasks"},
		{"list of tasks by cost", "/tasks?sort=cost"}, {"task", "/tasks/" + of.ID}}
	took := map[string][2]float64{}
	for i, n := range []int{fewTasks, manyTasks} {
		if err := copies(ctx, s, of, i*fewTasks, n); err != nil {
			return err
		}
		for _, p := range pages {
			var each []float64
			for range 5 * b.rounds {
				begin := time.Now()
				if _, err := get(ctx, client, base+p.path); err != nil {
					return err
				}
				each = append(each, time.Since(begin).Seconds()*1000)
			}
			t := took[p.name]
			t[i] = median(each)
			took[p.name] = t
		}
	}
	for _, p := range pages {
		t := took[p.name]
		row(fmt.Sprintf("page of the %s among %d tasks", p.name, manyTasks), atMost(2, t[1]/t[0], fmt.Sprintf(" of it among %d", fewTasks)),
			"%.1f ms, **%.2f** of it among %d", t[1], t[1]/t[0], fewTasks)
	}
	return nil
}

// watched measures commits while pages are open, and while none is.
func (b *bench) watched(ctx context.Context, s store.Store, client *http.Client, base string, of store.Thread) error {
	var alone, followed []float64
	for range b.rounds {
		for _, n := range []int{0, openPages} {
			reading, end := context.WithCancel(ctx)
			over := make(chan error)
			for range n {
				go func() {
					_, err := get(reading, client, base+"/api/v1/events?task="+of.Task)
					over <- err
				}()
			}
			time.Sleep(b.slice / 10) // for the streams to begin
			per, err := rate(1, b.slice/2, func(int) error { return happen(ctx, s, of) })
			end()
			for range n {
				<-over
			}
			if err != nil {
				return err
			}
			if n == 0 {
				alone = append(alone, per)
			} else {
				followed = append(followed, per)
			}
		}
	}
	left := median(followed) / median(alone)
	row(fmt.Sprintf("commits of an event a second, with %d pages that follow, to those with none", openPages),
		atLeast(0.5, left, " (the pages' processes share the cores)"), "**%.2f** (%.0f/s)", left, median(followed))
	return nil
}

// happen records an event of a thread.
func happen(ctx context.Context, s store.Store, of store.Thread) error {
	return s.Commit(ctx, store.Batch{Events: []store.Event{event.New(of, 1, event.TaskUpdated{})}})
}

// get reads a response to its end, and returns its length in bytes.
func get(ctx context.Context, client *http.Client, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, res.Status)
	}
	return int(n), err
}

// painted measures what a person sees in Chromium: the first paint of each page, and an
// update from the request for the page to its last change.
func (b *bench) painted(ctx context.Context, s store.Store, jar http.CookieJar, base string, ways map[string]string, long store.Thread) error {
	path, err := exec.LookPath("chromium")
	if err != nil {
		row("first paint and update in Chromium", goal{}, "not measured: there is no chromium")
		return nil
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU)
	all, end := chromedp.NewExecAllocator(ctx, opts...)
	defer end()
	tab, shut := chromedp.NewContext(all, chromedp.WithErrorf(func(string, ...any) {})) // about unknown events
	defer shut()
	defer chromedp.Cancel(tab)
	if err := chromedp.Do(tab, chromedp.Navigate("about:blank")); err != nil {
		return err
	}
	at, err := url.Parse(base)
	if err != nil {
		return err
	}
	for _, c := range jar.Cookies(at) {
		if _, err := chromedp.Call(tab, network.SetCookie, network.SetCookieParams{Name: c.Name, Value: c.Value, URL: base}); err != nil {
			return err
		}
	}
	paints, updates := map[string][]float64{}, map[string][]float64{}
	ways["empty"] = base + "/compare"
	for range 2 * b.rounds {
		for name, way := range ways {
			if err := chromedp.Do(tab, chromedp.Navigate(way)); err != nil {
				return err
			}
			ms, err := number(tab, `(performance.getEntriesByName("first-contentful-paint")[0] || {}).startTime || 0`)
			if err != nil {
				return err
			}
			paints[name] = append(paints[name], ms)
			if name != "long" {
				continue
			}
			if err := happen(ctx, s, long); err != nil {
				return err
			}
			if ms, err = number(tab, `(performance.getEntriesByName("plait-update")[0] || {}).duration || 0`); err != nil {
				return err
			}
			updates[name] = append(updates[name], ms)
		}
	}
	one := median(paints["empty"])
	row("first paint of an empty page in Chromium", goal{}, "%.0f ms", one)
	for _, name := range []string{"short", "long"} {
		paint := median(paints[name])
		row("first paint of the page of the "+name+" thread", atMost(3, paint/one, " empty pages"), "%.0f ms, **%.2f** of the empty one", paint, paint/one)
	}
	paint := median(paints["change"])
	row(fmt.Sprintf("first paint of the page of %d changed lines", changedLines), atMost(3, paint/one, " empty pages"), "%.0f ms, **%.2f** of the empty one", paint, paint/one)
	update := median(updates["long"])
	part := update / median(paints["long"])
	row("update of the page of the long thread, from the request to the last change", atMost(1, part, " first paint"), "%.0f ms, **%.2f** of its first paint", update, part)
	return nil
}

// number polls the page until it has the number.
func number(tab context.Context, expr string) (float64, error) {
	for range 500 {
		ms, err := chromedp.Run(tab, chromedp.Evaluate[float64](expr))
		if err != nil || ms > 0 {
			return ms, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0, fmt.Errorf("the page never knows %s", strings.Fields(expr)[0])
}
