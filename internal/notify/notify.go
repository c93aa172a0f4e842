// Package notify tells a person who is elsewhere that a task needs them or has ended.
//
// In go the journal of a task while it is driven, and what the person has configured; out come a
// program that is run and a request that is sent, once for each event.
//
// Laws:
//
//   - Nothing here holds up a task or fails it. What goes wrong is in the debug log and nowhere else.
//   - Whoever drives the task tells of what happens meanwhile, and never of what was before.
//   - What is sent is bounded: in time, in how much at once, and in how much may wait.
//   - The program gets no credential of Plait's environment, and the request follows no redirect.
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

	"github.com/plait-run/plait/internal/config"
	"github.com/plait-run/plait/internal/store"
)

// Schema names the form of a Notification.
const Schema = "plait.notification/1"

// Bounds of what is sent.
const (
	defaultPatience = 10 * time.Second
	atOnce          = 4
	maxPending      = 64
)

// A Notification is what a person is told.
type Notification struct {
	Schema    string    `json:"schema"`
	Event     string    `json:"event"` // config.OnNeedsYou, config.OnDone or config.OnFailed
	Task      string    `json:"task"`
	Short     string    `json:"short"`
	Title     string    `json:"title"`
	Flow      string    `json:"flow"`
	Reason    string    `json:"reason"`   // one line, "" when there is none
	Question  *Question `json:"question"` // null when nothing is asked
	Workspace string    `json:"workspace"`
	At        int64     `json:"at"` // Unix ms
}

// A Question is what a task asks.
type Question struct {
	ID   string         `json:"id"`
	Kind store.GateKind `json:"kind"`
	Text string         `json:"text"` // of an approval without a question, the action
}

// Config says how a person is told.
type Config struct {
	To       config.Notify
	Dir      string        // where the program runs
	Log      *slog.Logger  // nil: none
	Patience time.Duration // how long a program or a request may take; zero: 10 s
}

// A Sender sends notifications, several at once.
type Sender struct {
	cfg    Config
	client *http.Client
	slots  chan struct{}

	ctx   context.Context // of all that is sent
	stop  context.CancelFunc
	under sync.WaitGroup

	mu      sync.Mutex
	pending int
	closed  bool
}

// NewSender returns a sender; it sends nothing yet. Close ends it.
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

// Send sends n if the person wants to hear of it, and returns at once. What is too much is dropped.
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

// Close waits for what is being sent, as long as one notification may take, and ends what is left then.
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
