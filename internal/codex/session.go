package codex

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
)

// opened is what app-server says of a session it began, resumed or forked.
type opened struct {
	Thread struct {
		ID   string `json:"id"`
		Path string `json:"path"`
	} `json:"thread"`
	Model   string `json:"model"`
	Sandbox struct {
		Type string `json:"type"`
	} `json:"sandbox"`
}

// words are Codex's own for its sandboxes, in the spelling of its settings.
var words = map[string]string{
	"readOnly": "read-only", "workspaceWrite": "workspace-write", "dangerFullAccess": "danger-full-access", "externalSandbox": "external-sandbox",
}

// approvals is the policy for what the sandbox does not allow. It is asked about
// only if somebody can answer.
func approvals(req agent.Request) string {
	if req.Ask == nil {
		return "never"
	}
	return "on-request"
}

// terms are what every session and turn is held to. Codex forgets them at each
// resume and fork, so they are sent every time.
func (t *turn) terms() map[string]any {
	settings := map[string]any{"shell_environment_policy": shellPolicy(t.req, commandTag(t.req))}
	for key, value := range t.site.settings {
		settings[key] = value
	}
	if t.req.Access == agent.Write {
		settings["sandbox_workspace_write"] = writePolicy()
	}
	// Codex trusts the directory of a session that may write, unless it was told
	// not to, and then runs what the project's own settings name.
	// It names the directory by its repository's root, so all above are told too.
	projects := map[string]any{}
	for _, dir := range []string{t.site.dir, resolve(t.site.dir)} {
		for ; ; dir = filepath.Dir(dir) {
			projects[dir] = map[string]any{"trust_level": "untrusted"}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	settings["projects"] = projects
	terms := map[string]any{
		"cwd": t.site.dir, "sandbox": sandboxes[t.req.Access], "approvalPolicy": approvals(t.req), "config": settings,
	}
	if model, ok := t.site.settings["model"].(string); ok {
		terms["model"] = model
	}
	if provider, ok := t.site.settings["model_provider"].(string); ok {
		terms["modelProvider"] = provider
	}
	return terms
}

// commandTag marks the commands of an attempt, also on a server that goes on
// without it.
func commandTag(req agent.Request) string {
	if req.Tag == "" {
		return ""
	}
	return req.Tag + "-commands"
}

// open begins, resumes or forks the session.
func (t *turn) open(ctx context.Context) error {
	var o opened
	params := t.terms()
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
		if t.rollout = findRollout(t.site.home, t.req.Session); t.rollout != "" {
			t.offset = size(t.rollout)
		}
	case t.req.From != nil:
		session, err := t.fork(ctx, *t.req.From, params)
		if err != nil {
			return err
		}
		t.opened(session)
		return nil
	}
	if err := t.srv.conn.call(ctx, t, method, params, &o); err != nil {
		return err
	}
	if o.Thread.ID == "" {
		return fmt.Errorf("%s: Codex named no thread", method)
	}
	t.opened(o)
	return nil
}

// unload makes a server forget the session if an earlier attempt left it loaded:
// one that is resumed while it is loaded keeps the settings of that attempt.
// Codex has no word for it, but a session in the archive is not loaded.
func (t *turn) unload(ctx context.Context) error {
	if !t.srv.holds(t.req.Session) || !t.srv.can("thread/archive") || !t.srv.can("thread/unarchive") {
		return nil
	}
	id := map[string]any{"threadId": t.req.Session}
	var said *rpcError
	if err := t.srv.conn.call(ctx, t, "thread/archive", id, nil); errors.As(err, &said) {
		return nil // then it is gone on with as it is
	} else if err != nil {
		return err
	}
	return t.srv.conn.call(ctx, t, "thread/unarchive", id, nil)
}

func (t *turn) opened(o opened) {
	t.session.Store(o.Thread.ID)
	t.srv.hold(o.Thread.ID)
	if t.req.Opened != nil {
		t.req.Opened(t.sessionID())
	}
	t.model, t.sandbox = o.Model, words[o.Sandbox.Type]
	if o.Thread.Path != "" && o.Thread.Path != t.rollout {
		t.rollout, t.offset = o.Thread.Path, size(o.Thread.Path)
	}
}

// fork makes a session in this home that knows what another one knew.
func (t *turn) fork(ctx context.Context, b agent.Branch, terms map[string]any) (opened, error) {
	var o opened
	if from := codexHome(b.Home); from != t.site.home {
		err := copyRollout(from, t.site.home, b.Session)
		if errors.Is(err, fs.ErrNotExist) {
			return o, &agent.Failure{Kind: agent.Infra, Message: "Codex could not branch off: session " + b.Session + " is not there any more"}
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
	if err := t.srv.conn.call(ctx, t, "thread/fork", params, &o); err != nil {
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
		"threadId": t.sessionID(), "cwd": t.site.dir, "approvalPolicy": approvals(t.req),
		"input":         []any{map[string]any{"type": "text", "text": t.req.Prompt}},
		"sandboxPolicy": t.policy(),
	}
	if model, ok := t.site.settings["model"].(string); ok {
		params["model"] = model
	}
	if t.cfg.Effort != "" {
		params["effort"] = t.cfg.Effort
	}
	if t.req.Shaped {
		if shape, err := strict(t.req.Schema); err == nil {
			params["outputSchema"] = shape
		}
	}
	var started struct {
		Turn struct {
			ID string `json:"id"`
		} `json:"turn"`
	}
	// A turn that was asked for may begin whether or not we wait for the answer,
	// so a cancelled attempt waits a moment for the name that it is ended by.
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(t.srv.grace, cancel) })()
	if err := t.srv.conn.call(patient, t, "turn/start", params, &started); err != nil {
		var said *rpcError
		t.astray = !errors.As(err, &said)
		return err
	}
	if t.id = started.Turn.ID; t.id == "" {
		return errors.New("turn/start: Codex named no turn")
	}
	return nil
}

// policy is the sandbox in the spelling of turns. It is sent with each turn too:
// a session that another attempt left loaded keeps the terms it was opened with.
func (t *turn) policy() map[string]any {
	switch t.req.Access {
	case agent.Full:
		return map[string]any{"type": "dangerFullAccess"}
	case agent.Write:
		w := writePolicy()
		p := map[string]any{
			"type": "workspaceWrite", "networkAccess": false, "writableRoots": []string{},
			"excludeSlashTmp": w["exclude_slash_tmp"] == true, "excludeTmpdirEnvVar": w["exclude_tmpdir_env_var"] == true,
		}
		if a := t.req.Desk.Artifacts; a != "" && !below(t.site.dir, a) {
			p["writableRoots"] = []string{a}
		}
		return p
	}
	return map[string]any{"type": "readOnly", "networkAccess": false}
}

// unopened explains why a session or turn could not be begun.
func (t *turn) unopened(ctx context.Context, err error) error {
	var fail *agent.Failure
	var said *rpcError
	broke := &agent.Failure{Kind: agent.Infra, Session: t.sessionID()}
	switch {
	case ctx.Err() != nil:
		return stopped(ctx)
	case errors.As(err, &fail):
		return fail
	case errors.Is(err, errGone):
		<-t.srv.done
		broke.Message = "Codex ended before its turn began: " + t.srv.how
		return broke
	case t.srv == nil, t.req.Timeout > 0 && time.Since(t.began) >= t.req.Timeout:
		return t.outOfTime()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		broke.Message = fmt.Sprintf("Codex did not begin its turn within %v", t.srv.startup)
		return broke
	case errors.As(err, &said) && strings.Contains(said.Message, "active writer"):
		broke.Message = "session " + t.req.Session + " is in use by another Codex: " + said.Message
		return broke
	case errors.As(err, &said):
		return &agent.Failure{Kind: agent.Infra, Message: "Codex did not begin its turn: " + said.Message, Final: said.Code == codeInvalidRequest && t.req.Session == ""}
	}
	return err
}

// steer hands on what a person adds to a turn that runs.
func (t *turn) steer(ctx context.Context, text string) error {
	params := map[string]any{
		"threadId": t.sessionID(), "expectedTurnId": t.id, "input": []any{map[string]any{"type": "text", "text": text}},
	}
	soon, cancel := context.WithTimeout(ctx, t.srv.grace)
	defer cancel()
	err := t.srv.conn.call(soon, t, "turn/steer", params, nil)
	var said *rpcError
	if errors.As(err, &said) {
		// It ended meanwhile: what was added is in the record, for the next turn.
		return t.say(agent.Event{Kind: agent.EventError, Text: "could not hand on what was added: " + said.Message})
	}
	if err != nil && soon.Err() != nil && ctx.Err() == nil {
		return t.say(agent.Event{Kind: agent.EventError, Text: "could not hand on what was added: Codex does not answer"})
	}
	if err != nil {
		return nil // the end of ctx or of the server is seen by the caller
	}
	return t.say(agent.Event{Kind: agent.EventProgress, Text: "told: " + text})
}

// keepDiff leaves the turn's whole diff among the artifacts.
func (t *turn) keepDiff() error {
	if t.diff == "" || t.req.Desk.Artifacts == "" {
		return nil
	}
	return leaveFile(t.req.Desk.Artifacts, "patch.diff", []byte(t.diff))
}

// leaveFile puts a file among the artifacts, over whatever the agent put there.
func leaveFile(dir, name string, data []byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("leave %s: %w", name, cause(err))
	}
	defer root.Close()
	if err := root.RemoveAll(name); err != nil {
		return fmt.Errorf("leave %s: %w", name, cause(err))
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("leave %s: %w", name, cause(err))
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// Revert drops turn and all after it from the session of req. See
// [agent.Reverter].
func (a *Agent) Revert(ctx context.Context, req agent.Request, id string) error {
	return a.host.visit(ctx, a.cfg, req, sharing, func(ctx context.Context, t *turn) error {
		if err := t.srv.claim(t, t.req.Session); err != nil {
			return err
		}
		req := map[string]any{"threadId": req.Session, "excludeTurns": true}
		for key, value := range t.terms() {
			req[key] = value
		}
		if err := t.srv.conn.call(ctx, t, "thread/resume", req, nil); err != nil {
			return err
		}
		if t.srv.can("thread/revert") {
			return t.srv.conn.call(ctx, t, "thread/revert", map[string]any{"threadId": t.req.Session, "beforeTurnId": id}, nil)
		}
		return t.rollback(ctx, id)
	})
}

// rollback is how older servers revert: by a number of turns from the end.
func (t *turn) rollback(ctx context.Context, id string) error {
	var read struct {
		Thread struct {
			Turns []struct {
				ID string `json:"id"`
			} `json:"turns"`
		} `json:"thread"`
	}
	if err := t.srv.conn.call(ctx, t, "thread/read", map[string]any{"threadId": t.req.Session, "includeTurns": true}, &read); err != nil {
		return err
	}
	turns := read.Thread.Turns
	for i := range turns {
		if turns[i].ID == id {
			return t.srv.conn.call(ctx, t, "thread/rollback", map[string]any{"threadId": t.req.Session, "numTurns": len(turns) - i}, nil)
		}
	}
	return fmt.Errorf("session %s has no turn %s", t.req.Session, id)
}

// forkSession makes a session in the home of req that knows what b knew, for an
// agent that cannot fork at a turn by itself.
func (h *Host) forkSession(ctx context.Context, cfg Config, req agent.Request, b agent.Branch) (string, error) {
	session := ""
	// On a server of its own: one that goes on would keep the new session for
	// itself.
	alone := func(s *site) string { return sharing(s) + "\x00" + rand.Text() }
	err := h.visit(ctx, cfg, req, alone, func(ctx context.Context, t *turn) error {
		o, err := t.fork(ctx, b, t.terms())
		session = o.Thread.ID
		return err
	})
	return session, err
}

// visit joins the server that key names without making an attempt.
func (h *Host) visit(ctx context.Context, cfg Config, req agent.Request, key func(*site) string, do func(context.Context, *turn) error) error {
	t, err := h.newTurn(ctx, cfg, req, func(agent.Event) error { return nil })
	if err != nil {
		return err
	}
	if t.srv, err = h.join(ctx, key(t.site), t); err != nil {
		return err
	}
	defer t.leave()
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Startup)
	defer cancel()
	if err := do(ctx, t); err != nil {
		return fmt.Errorf("session %s: %w", filepath.Base(req.Session), err)
	}
	return t.fault(nil)
}

// decode reads a message's parameters; what does not fit is as if it were not
// there.
func decode[T any](m message) (v T) {
	json.Unmarshal(m.Params, &v)
	return v
}
