package notify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/sys/text"
)

// desktop are the variables with which a program finds the person's screen. It gets these and the
// ones that every child process gets, and no others.
var desktop = []string{"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"}

// Limits on the output of a program, and on the time it may take to end.
const (
	maxSaid   = 64 << 10
	stopGrace = 500 * time.Millisecond
)

// command runs the person's program with body on its standard input.
func (s *Sender) command(n Notification, body []byte) error {
	argv := s.cfg.To.Command
	res, err := proc.Run(s.ctx, proc.Config{
		Path: argv[0], Args: argv[1:], Dir: s.cfg.Dir, Env: proc.Environ(desktop, nil, variables(n), ""),
		Stdin: bytes.NewReader(body), MaxBytes: maxSaid, Wall: s.cfg.Patience, Grace: stopGrace,
		Signals: []syscall.Signal{syscall.SIGTERM},
	})
	switch {
	case err != nil:
		return fmt.Errorf("run the command: %w", err)
	case res.Reason != "":
		return fmt.Errorf("run the command: it was stopped: %s", res.Reason)
	case res.Exit != 0:
		return fmt.Errorf("run the command: exit code %d", res.Exit)
	}
	return nil
}

// variables returns environment variables for a program that does not read standard input, each
// value on one line.
func variables(n Notification) []string {
	var q Question
	if n.Question != nil {
		q = *n.Question
	}
	const most = 1000
	return []string{
		"PLAIT_NOTIFY_EVENT=" + n.Event, "PLAIT_NOTIFY_TASK=" + n.Task, "PLAIT_NOTIFY_SHORT=" + n.Short,
		"PLAIT_NOTIFY_TITLE=" + text.OneLine(n.Title, most), "PLAIT_NOTIFY_FLOW=" + n.Flow,
		"PLAIT_NOTIFY_REASON=" + text.OneLine(n.Reason, most),
		"PLAIT_NOTIFY_QUESTION_ID=" + q.ID, "PLAIT_NOTIFY_QUESTION_KIND=" + string(q.Kind),
		"PLAIT_NOTIFY_QUESTION=" + text.OneLine(q.Text, most),
		"PLAIT_NOTIFY_WORKSPACE=" + text.OneLine(n.Workspace, most),
	}
}

// post sends body to the person's webhook.
func (s *Sender) post(body []byte) error {
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.cfg.To.Webhook, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("call the webhook: %w", withoutAddress(err))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "plait")
	res, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("call the webhook: %w", withoutAddress(err))
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxSaid)) // so that the connection can be reused
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("call the webhook: status %d", res.StatusCode)
	}
	return nil
}

// withoutAddress removes the address from an error of a request: it may be secret.
func withoutAddress(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}
