package codex

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/shape"
	"github.com/plait-run/plait/internal/sys/jsonrpc"
)

// An openedSession describes a session that app-server began, resumed or forked.
type openedSession struct {
	Thread struct {
		ID   string `json:"id"`
		Path string `json:"path"`
	} `json:"thread"`
	Model   string `json:"model"`
	Sandbox struct {
		Type string `json:"type"`
	} `json:"sandbox"`
	Profile struct {
		ID string `json:"id"`
	} `json:"activePermissionProfile"`
}

// sandboxNames maps the sandboxes that app-server names to the spelling of Codex's settings.
var sandboxNames = map[string]string{
	"readOnly": "read-only", "workspaceWrite": "workspace-write", "dangerFullAccess": "danger-full-access",
	"externalSandbox": "external-sandbox",
}

// approvals is the policy for what the sandbox does not allow: Codex asks, also if there is no person who can answer.
// It then declines, and the items of the turn say so. With the policy never Codex would not tell of such a command.
const approvals = "on-request"

// sessionParams returns the settings of the session: directory, sandbox, approvals, model
// and configuration. Codex forgets them at each resume and fork, so they are sent every time.
func (t *turn) sessionParams() map[string]any {
	settings := map[string]any{"shell_environment_policy": t.cfg.shellPolicy(t.setup, t.req, commandTag(t.req))}
	for key, value := range t.setup.settings {
		settings[key] = value
	}
	// Codex trusts the directory of a session that may write, unless it is told
	// not to, and then runs what the project's own settings name. It identifies
	// the directory by its repository's root, so all its parents are listed too.
	projects := map[string]any{}
	for _, dir := range []string{t.setup.dir, resolve(t.setup.dir)} {
		for ; ; dir = filepath.Dir(dir) {
			projects[dir] = map[string]any{"trust_level": "untrusted"}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	settings["projects"] = projects
	terms := map[string]any{
		"cwd": t.setup.dir, "approvalPolicy": approvals, "config": settings,
	}
	if t.req.Access == agent.Full {
		terms["sandbox"] = sandboxes[agent.Full]
	} else {
		maps.Copy(settings, t.setup.profile.settings)
		terms["permissions"] = t.setup.profile.name
	}
	if model, ok := t.setup.settings["model"].(string); ok {
		terms["model"] = model
	}
	if provider, ok := t.setup.settings["model_provider"].(string); ok {
		terms["modelProvider"] = provider
	}
	return terms
}

// commandTag returns the tag of an attempt's commands. It differs from the server's own, so
// that they can be swept while the server continues for other attempts.
func commandTag(req agent.Request) string {
	if req.Tag == "" {
		return ""
	}
	return req.Tag + "-commands"
}

// open begins, resumes or forks the session.
func (t *turn) open(ctx context.Context) error {
	var o openedSession
	params := t.sessionParams()
	method := "thread/start"
	switch {
	case t.req.Session != "":
		method, params["threadId"], params["excludeTurns"] = "thread/resume", t.req.Session, true
		if err := t.srv.claim(t, t.req.Session); err != nil { // its events come before the answer does
			return err
		}
		if err := t.unload(ctx); err != nil {
			return err
		}
		t.record.rollout = findRollout(t.setup.home, t.req.Session)
		if t.record.rollout != "" {
			t.record.offset = size(t.record.rollout)
		}
	case t.req.From != nil:
		session, err := t.fork(ctx, *t.req.From, params)
		if err != nil {
			return err
		}
		t.sessionOpened(session)
		return nil
	}
	if err := t.srv.conn.Call(ctx, t, method, params, &o); err != nil {
		return err
	}
	if o.Thread.ID == "" {
		return fmt.Errorf("%s: Codex named no thread", method)
	}
	t.sessionOpened(o)
	return nil
}

// unload makes the server forget the session if an earlier attempt left it loaded: a
// session that is resumed while loaded keeps the settings of that attempt. Codex has no
// call for it, but archiving a session unloads it.
func (t *turn) unload(ctx context.Context) error {
	if !t.srv.isLoaded(t.req.Session) {
		return nil
	}
	id := map[string]any{"threadId": t.req.Session}
	var said *jsonrpc.Error
	if err := t.srv.conn.Call(ctx, t, "thread/archive", id, nil); errors.As(err, &said) {
		return nil // it is resumed as it is
	} else if err != nil {
		return err
	}
	return t.srv.conn.Call(ctx, t, "thread/unarchive", id, nil)
}

func (t *turn) sessionOpened(o openedSession) {
	t.session.Store(o.Thread.ID)
	t.srv.markLoaded(o.Thread.ID)
	if t.req.Opened != nil {
		t.req.Opened(t.sessionID())
	}
	t.record.model, t.record.sandbox = o.Model, t.setup.enforced(t.req, o.Profile.ID, sandboxNames[o.Sandbox.Type])
	if o.Thread.Path != "" && o.Thread.Path != t.record.rollout {
		t.record.rollout, t.record.offset = o.Thread.Path, size(o.Thread.Path)
	}
}

// fork makes a session in this home that branches off from another one.
func (t *turn) fork(ctx context.Context, b agent.Branch, terms map[string]any) (openedSession, error) {
	var o openedSession
	if from := codexHome(b.Home); from != t.setup.home {
		err := copyRollout(from, t.setup.home, b.Session)
		if errors.Is(err, fs.ErrNotExist) {
			return o, &agent.Failure{Kind: agent.Infra, Message: "Codex could not branch off: session " + b.Session +
				" is not there any more"}
		}
		if err != nil {
			return o, err
		}
	}
	params := map[string]any{"threadId": b.Session, "excludeTurns": true}
	for key, value := range terms {
		params[key] = value
	}
	if b.Turn != "" {
		params["lastTurnId"] = b.Turn
	}
	if err := t.srv.conn.Call(ctx, t, "thread/fork", params, &o); err != nil {
		return o, err
	}
	if o.Thread.ID == "" {
		return o, errors.New("thread/fork: Codex named no thread")
	}
	return o, nil
}

// begin starts the turn.
func (t *turn) begin(ctx context.Context) error {
	params := map[string]any{
		"threadId": t.sessionID(), "cwd": t.setup.dir, "approvalPolicy": approvals,
		"input": []any{map[string]any{"type": "text", "text": t.req.Prompt}},
	}
	// Sent with each turn too: a session that another attempt left loaded keeps the terms it
	// was opened with.
	if t.req.Access == agent.Full {
		params["sandboxPolicy"] = map[string]any{"type": "dangerFullAccess"}
	} else {
		params["permissions"] = t.setup.profile.name
	}
	if model, ok := t.setup.settings["model"].(string); ok {
		params["model"] = model
	}
	if t.cfg.Effort != "" {
		params["effort"] = t.cfg.Effort
	}
	if t.req.Shaped {
		if form, err := shape.Strict(t.req.Schema); err == nil {
			params["outputSchema"] = form
		}
	}
	var started struct {
		Turn struct {
			ID string `json:"id"`
		} `json:"turn"`
	}
	// The turn may begin whether or not we wait for the answer, so a cancelled attempt waits
	// up to grace longer for the turn's id, without which it cannot be interrupted.
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(t.srv.grace, cancel) })()
	if err := t.srv.conn.Call(patient, t, "turn/start", params, &started); err != nil {
		var said *jsonrpc.Error
		t.end.runaway = !errors.As(err, &said)
		return err
	}
	t.id = started.Turn.ID
	if t.id == "" {
		return errors.New("turn/start: Codex named no turn")
	}
	return nil
}

// startFailure explains why a session or turn could not be begun.
func (t *turn) startFailure(ctx context.Context, err error) error {
	var fail *agent.Failure
	var said *jsonrpc.Error
	broke := &agent.Failure{Kind: agent.Infra, Session: t.sessionID()}
	switch {
	case ctx.Err() != nil:
		return stopFailure(ctx)
	case errors.As(err, &fail):
		return fail
	case errors.Is(err, jsonrpc.ErrGone):
		<-t.srv.done
		broke.Message = "Codex ended before its turn began: " + t.srv.how
		return broke
	case errors.Is(err, jsonrpc.ErrFull):
		broke.Kind, broke.Message = agent.Limit, "Codex does not read its input"
		return broke
	case t.srv == nil, t.req.Timeout > 0 && time.Since(t.began) >= t.req.Timeout:
		return t.stopped(agent.ErrTimeout)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		broke.Message = fmt.Sprintf("Codex did not begin its turn within %v", t.srv.startup)
		return broke
	case errors.As(err, &said) && strings.Contains(said.Message, "active writer"): // it has the code of any other error
		broke.Message = "session " + t.req.Session + " is in use by another Codex: " + said.Message
		return broke
	case errors.As(err, &said):
		return &agent.Failure{Kind: agent.Infra, Message: "Codex did not begin its turn: " + said.Message,
			Final: said.Code == jsonrpc.InvalidRequest && t.req.Session == ""}
	}
	return err
}

// steer passes on what a person adds while the turn runs.
func (t *turn) steer(ctx context.Context, more agent.Addition) error {
	params := map[string]any{
		"threadId": t.sessionID(), "expectedTurnId": t.id,
		"input": []any{map[string]any{"type": "text", "text": more.Text}},
	}
	t.added = append(t.added, more)
	soon, cancel := context.WithTimeout(ctx, t.srv.grace)
	defer cancel()
	err := t.srv.conn.Call(soon, t, "turn/steer", params, nil)
	var said *jsonrpc.Error
	if errors.As(err, &said) {
		// The turn has ended. The addition is in the record, for the next turn.
		return t.send(agent.Event{Kind: agent.EventError, Text: "could not pass on the added message: " + said.Message})
	}
	if err != nil && soon.Err() != nil && ctx.Err() == nil {
		return t.send(agent.Event{Kind: agent.EventError, Text: "could not pass on the added message: Codex " +
			"does not answer"})
	}
	if err != nil {
		return nil // the caller sees the end of ctx or of the server
	}
	return t.send(agent.Event{Kind: agent.EventProgress, Text: "told: " + more.Text})
}

// delivered reports a message as delivered: Codex makes it an item of the turn when the model
// receives it. One that was accepted shortly before an interrupt is lost.
func (t *turn) delivered(it item) {
	for _, said := range it.Content {
		i := slices.IndexFunc(t.added, func(a agent.Addition) bool { return a.Text == said.Text })
		if i >= 0 {
			t.added[i].Delivered()
			t.added = slices.Delete(t.added, i, i+1)
		}
	}
}

// writeDiff writes the turn's whole diff to the artifacts.
func (t *turn) writeDiff() error {
	if t.output.diff == "" || t.req.Desk.Artifacts == "" {
		return nil
	}
	return writeArtifact(t.req.Desk.Artifacts, "patch.diff", []byte(t.output.diff))
}

// writeArtifact writes a file to the artifacts, replacing whatever the agent put there.
func writeArtifact(dir, name string, data []byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("leave %s: %w", name, pathCause(err))
	}
	defer root.Close()
	if err := root.RemoveAll(name); err != nil {
		return fmt.Errorf("leave %s: %w", name, pathCause(err))
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("leave %s: %w", name, pathCause(err))
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// forkSession makes a session in the home of req that branches off from b, for an agent that
// cannot fork at a turn itself.
func (h *Host) forkSession(ctx context.Context, cfg Config, req agent.Request, b agent.Branch) (string, error) {
	session := ""
	// On a separate server: a server that continues would keep the new session loaded.
	alone := func(s *setup) string { return serverKey(s) + "\x00" + rand.Text() }
	err := h.withServer(ctx, cfg, req, alone, func(ctx context.Context, t *turn) error {
		o, err := t.fork(ctx, b, t.sessionParams())
		session = o.Thread.ID
		return err
	})
	return session, err
}

// withServer joins the server that key names and calls do, without making an attempt.
func (h *Host) withServer(ctx context.Context, cfg Config, req agent.Request, key func(*setup) string,
	do func(context.Context, *turn) error) error {
	t, err := h.newTurn(ctx, cfg, req, func(agent.Event) error { return nil })
	if err != nil {
		return err
	}
	if t.srv, err = h.join(ctx, key(t.setup), t); err != nil {
		return err
	}
	defer t.leave()
	ctx, cancel := context.WithTimeout(ctx, h.startup)
	defer cancel()
	if err := do(ctx, t); err != nil {
		return fmt.Errorf("session %s: %w", filepath.Base(req.Session), err)
	}
	return t.fault(nil)
}

// decode reads a message's parameters. Fields that do not fit are left empty.
func decode[T any](m message) (v T) {
	json.Unmarshal(m.Params, &v)
	return v
}
