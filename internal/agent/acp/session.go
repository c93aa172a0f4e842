package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
)

// An opened session, as reported by the agent.
type opened struct {
	SessionID string `json:"sessionId"`
	Modes     struct {
		Available []struct {
			ID string `json:"id"`
		} `json:"availableModes"`
	} `json:"modes"`
	Options []struct {
		ID string `json:"id"`
	} `json:"configOptions"`
	Models struct {
		Current string `json:"currentModelId"`
	} `json:"models"`
}

// open initializes the connection, opens or loads the session, and sets its mode.
func (t *conversation) open(ctx context.Context) error {
	var agentIs struct {
		Version      int `json:"protocolVersion"`
		Capabilities struct {
			Load    bool `json:"loadSession"`
			Session struct {
				Resume json.RawMessage `json:"resume"`
			} `json:"sessionCapabilities"`
		} `json:"agentCapabilities"`
	}
	if err := t.conn.Call(ctx, t, "initialize", map[string]any{
		"protocolVersion": version, "clientCapabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "plait", "title": "Plait", "version": "1"},
	}, &agentIs); err != nil {
		return err
	}
	if agentIs.Version != version {
		return agent.Final("%s speaks version %d of the Agent Client Protocol, Plait speaks %d", t.title(), agentIs.Version,
			version)
	}
	a := t.setup.agent
	params := map[string]any{"cwd": t.setup.Dir, "mcpServers": t.setup.delivery.servers(a.kind, a.cfg.Deliver)}
	method := "session/new"
	if t.req.Session != "" {
		params["sessionId"] = t.req.Session
		switch {
		case len(agentIs.Capabilities.Session.Resume) > 0:
			method = "session/resume"
		case agentIs.Capabilities.Load:
			method = "session/load"
		default:
			return &agent.Failure{Kind: agent.Infra,
				Message: t.title() + " cannot continue a session; the next attempt begins a new conversation"}
		}
	}
	var o opened
	if err := t.conn.Call(ctx, t, method, params, &o); err != nil {
		return err
	}
	if t.req.Session != "" {
		o.SessionID = t.req.Session
	}
	if o.SessionID == "" {
		return fmt.Errorf("%s opened a session without a name", t.title())
	}
	t.mu.Lock()
	t.session, t.updates.model = o.SessionID, o.Models.Current
	t.mu.Unlock()
	if err := t.setMode(ctx, o); err != nil {
		return err
	}
	if err := a.known(t.req, o.SessionID); err != nil {
		return err
	}
	if t.req.Opened != nil {
		t.req.Opened(o.SessionID)
	}
	return nil
}

// setMode sets how the agent asks for approval. A failure is an error: the agent would decide for
// itself when to ask.
func (t *conversation) setMode(ctx context.Context, o opened) error {
	set := t.setup.setting
	if set.Mode != "" {
		if err := t.conn.Call(ctx, t, "session/set_mode", map[string]any{"sessionId": o.SessionID, "modeId": set.Mode},
			nil); err != nil {
			return fmt.Errorf("set the mode %s: %w", set.Mode, err)
		}
	}
	for name, value := range set.Options {
		if err := t.conn.Call(ctx, t, "session/set_config_option", map[string]any{
			"sessionId": o.SessionID, "configId": name, "value": value}, nil); err != nil {
			return fmt.Errorf("set the option %s: %w", name, err)
		}
	}
	return nil
}

// known records that a session was opened in the task's home.
func (a *Agent) known(req agent.Request, session string) error {
	home := a.SessionHome(req.Home)
	name, err := filepath.Rel(home, a.mark(req.Home, session))
	if err != nil {
		return fmt.Errorf("note the session: %w", err)
	}
	root, err := agent.OpenHome(home)
	if err != nil {
		return fmt.Errorf("note the session: %w", err)
	}
	defer root.Close()
	if _, err := root.Lstat(name); err == nil {
		return nil
	}
	if err := agent.ReplaceIn(root, name, strings.NewReader("")); err != nil {
		return fmt.Errorf("note the session: %w", err)
	}
	return nil
}

// Continues reports whether the session was opened in the task's home and can be loaded.
func (a *Agent) Continues(req agent.Request) bool {
	if req.Session == "" {
		return false
	}
	info, err := os.Stat(a.mark(req.Home, req.Session))
	if err != nil || !a.kept(req.Home, req.Session) {
		return false
	}
	opened, now := info.ModTime().Truncate(time.Minute), time.Now().Truncate(time.Minute)
	return !a.kind.LoadsLater || !opened.Equal(now)
}

// kept reports whether the agent has saved a session: one that is killed early has not.
func (a *Agent) kept(home, session string) bool {
	if a.kind.Kept == "" {
		return true
	}
	name := strings.ReplaceAll(a.kind.Kept, "{id}", session)
	if !filepath.IsLocal(name) {
		return false
	}
	dir := a.SessionHome(home)
	files, err := fs.Glob(os.DirFS(dir), name)
	return err == nil && slices.ContainsFunc(files, func(file string) bool {
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(file)))
		return err == nil && info.Size() > 0
	})
}

// SessionHome returns the directory of an agent's own state for a task.
func (a *Agent) SessionHome(home string) string { return filepath.Join(home, "acp-"+a.kind.Name) }

// mark returns the file that records that a session was opened in a home.
func (a *Agent) mark(home, session string) string {
	return filepath.Join(a.SessionHome(home), "plait-sessions", strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == 0 {
			return '_'
		}
		return r
	}, session))
}
