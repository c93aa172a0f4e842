// Package notify notifies a person who is elsewhere that a task needs them or has ended.
//
// It follows the journal of a task while it is driven, and runs the configured program and sends
// the configured request, once for each event. Laws:
//
//   - Notifications never delay a task or make it fail. Errors go to the debug log only.
//   - The process that drives a task reports what happens while it does, never what
//     happened before.
//   - Sending is limited: in time, in concurrency, and in the length of the queue.
//   - The program gets no credentials from Plait's environment, and the request follows no
//     redirects.
//
// The package reads no configuration file, and decides nothing about a task.
package notify

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/record/store"
)

// Schema names the format of a Notification, with its version.
const Schema = "plait.notification/1"

// Limits on sending.
const (
	defaultPatience = 10 * time.Second
	atOnce          = 4
	maxPending      = 64
)

// A Notification is the JSON that is sent.
type Notification struct {
	Schema    string    `json:"schema"`
	Event     string    `json:"event"` // config.OnNeedsYou, config.OnDone or config.OnFailed
	Task      string    `json:"task"`
	Short     string    `json:"short"`
	Title     string    `json:"title"`
	Flow      string    `json:"flow"`
	Reason    string    `json:"reason"`   // one line, "" if there is none
	Question  *Question `json:"question"` // null if there is none
	Workspace string    `json:"workspace"`
	At        int64     `json:"at"` // Unix ms
}

// A Question is what a task asks.
type Question struct {
	ID   string         `json:"id"`
	Kind store.GateKind `json:"kind"`
	Text string         `json:"text"` // of an approval without a question, the action
}

// Config configures a Sender.
type Config struct {
	To       config.Notify
	Dir      string        // where the program runs
	Log      *slog.Logger  // nil: none
	Patience time.Duration // limit for a program or a request; zero: 10 s
}

// A Sender sends notifications concurrently.
type Sender struct {
	cfg    Config
	client *http.Client
	slots  chan struct{}

	ctx   context.Context // for everything that is being sent
	stop  context.CancelFunc
	under sync.WaitGroup

	mu      sync.Mutex
	pending int
	closed  bool
}

// NewSender returns a Sender. Close stops it.
func NewSender(cfg Config) *Sender {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Patience <= 0 {
		cfg.Patience = defaultPatience
	}
	s := &Sender{cfg: cfg, slots: make(chan struct{}, atOnce)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.client = &http.Client{
		Timeout:       cfg.Patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// Send sends n if the person wants to be notified of it, and returns immediately. If the queue is
// full, n is dropped.
func (s *Sender) Send(n Notification) {
	if !slices.Contains(s.cfg.To.On, n.Event) {
		return
	}
	body, err := json.Marshal(n)
	if err != nil {
		s.failed("notification", n, err)
		return
	}
	if len(s.cfg.To.Command) > 0 {
		s.begin("command", n, func() error { return s.command(n, body) })
	}
	if s.cfg.To.Webhook != "" {
		s.begin("webhook", n, func() error { return s.post(body) })
	}
}

func (s *Sender) begin(way string, n Notification, send func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.pending == maxPending {
		s.cfg.Log.Warn("notification dropped", "way", way, "task", n.Task, "event", n.Event)
		return
	}
	s.pending++
	s.under.Go(func() {
		defer s.sent()
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		case <-s.ctx.Done():
			s.failed(way, n, s.ctx.Err())
			return
		}
		if err := send(); err != nil {
			s.failed(way, n, err)
			return
		}
		s.cfg.Log.Info("notification sent", "way", way, "task", n.Task, "event", n.Event)
	})
}

func (s *Sender) sent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending--
}

func (s *Sender) failed(way string, n Notification, err error) {
	s.cfg.Log.Warn("notification failed", "way", way, "task", n.Task, "event", n.Event, "error", err.Error())
}

// Close waits for notifications being sent, for at most the time that one may take, and then
// cancels the rest.
func (s *Sender) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.under.Wait()
	}()
	late := time.NewTimer(s.cfg.Patience)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
	s.stop()
	<-done
}
