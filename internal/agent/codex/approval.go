package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/sys/jsonrpc"
)

// asErr is errors.As for the types of this package.
func asErr[T error](err error, target *T) bool { return errors.As(err, target) }

// handleRequest answers a request of the server, or asks a person for the answer. It never
// blocks. Every request is answered while the turn runs, because Codex would wait forever.
func (t *turn) handleRequest(ctx context.Context, m message) {
	switch m.Method {
	case "item/commandExecution/requestApproval":
		p := decode[commandAsked](m)
		t.ask(ctx, m, p.question(), func(a agent.Answer) any { return decision(a) })
	case "item/fileChange/requestApproval":
		p := decode[fileAsked](m)
		t.ask(ctx, m, p.question(t.items.patches[p.ItemID], t), func(a agent.Answer) any { return decision(a) })
	case "mcpServer/elicitation/request":
		p := decode[toolAsked](m)
		if p.Meta.Kind != "mcp_tool_call" {
			// A form of an MCP server, which a person cannot fill in here.
			t.srv.conn.Answer(t, m.ID, map[string]any{"action": "decline", "content": nil, "_meta": nil})
			return
		}
		t.ask(ctx, m, p.question(), func(a agent.Answer) any {
			action := "decline"
			if a.Approved {
				action = "accept"
			}
			return map[string]any{"action": action, "content": nil, "_meta": nil}
		})
	case "item/permissions/requestApproval":
		p := decode[permissionsAsked](m)
		t.ask(ctx, m, p.question(), func(a agent.Answer) any {
			granted := json.RawMessage("{}")
			if a.Approved {
				granted = p.Permissions
			}
			return map[string]any{"permissions": granted, "scope": "turn"}
		})
	case "currentTime/read":
		t.srv.conn.Answer(t, m.ID, map[string]any{"currentTimeAt": time.Now().Unix()})
	case "item/tool/requestUserInput":
		t.srv.conn.Answer(t, m.ID, map[string]any{"answers": map[string]any{}})
	default:
		t.srv.conn.Refuse(t, m.ID, jsonrpc.NoMethod, "not supported: "+m.Method)
	}
}

// decision answers a request to approve a command or a file change. After "decline" the
// turn continues without it; "cancel" would end it.
func decision(a agent.Answer) any {
	if a.Approved {
		return map[string]any{"decision": "accept"}
	}
	return map[string]any{"decision": "decline"}
}

// ask asks a person and sends the answer when it arrives.
func (t *turn) ask(ctx context.Context, m message, q agent.Question, reply func(agent.Answer) any) {
	if t.req.Ask == nil {
		t.srv.conn.Answer(t, m.ID, reply(agent.Answer{}))
		return
	}
	if ctx.Err() != nil {
		return // the turn is interrupted, and its questions with it
	}
	turnCtx := ctx
	ctx, cancel := context.WithCancel(turnCtx)
	id := string(m.ID)
	t.mu.Lock()
	t.questions.cancel[id] = cancel
	t.mu.Unlock()
	answered := t.watchdog.Pause()
	t.questions.running.Go(func() {
		defer cancel()
		a, err := t.req.Ask(ctx, q)
		answered()
		t.mu.Lock()
		delete(t.questions.cancel, id)
		if err != nil && ctx.Err() == nil && t.inbox.askErr == nil {
			t.inbox.askErr = fmt.Errorf("ask: %w", err)
			t.signal()
		}
		t.mu.Unlock()
		if turnCtx.Err() != nil {
			return // the turn is interrupted: declining now would let it continue first
		}
		if err != nil {
			a = agent.Answer{}
		}
		t.srv.conn.Answer(t, m.ID, reply(a)) // harmless if it is too late
	})
}

// cancelAsks withdraws the question with an id, or all of them.
func (t *turn) cancelAsks(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, cancel := range t.questions.cancel {
		if id == "" || key == id {
			cancel()
		}
	}
}

// commandAsked is a request to run a command outside the sandbox.
type commandAsked struct {
	Reason  string          `json:"reason"`
	Command string          `json:"command"`
	Cwd     string          `json:"cwd"`
	Network json.RawMessage `json:"networkApprovalContext"`
	Extra   json.RawMessage `json:"additionalPermissions"`
}

func (p commandAsked) question() agent.Question {
	q := agent.Question{Text: p.Reason, Action: agent.Action{Type: "command", Command: p.Command, Cwd: p.Cwd}}
	if q.Text == "" {
		q.Text = "Run this command outside the sandbox?"
	}
	params := map[string]json.RawMessage{}
	if isSet(p.Network) {
		params["network"] = p.Network
	}
	if isSet(p.Extra) {
		params["permissions"] = p.Extra
	}
	if len(params) > 0 {
		q.Action.Params, _ = json.Marshal(params)
	}
	return q
}

// fileAsked is a request to apply a patch. The patch itself came earlier, with the start of its
// item.
type fileAsked struct {
	ItemID string `json:"itemId"`
	Reason string `json:"reason"`
	Root   string `json:"grantRoot"`
}

// knownChanges are the kinds of changes that name all the files they touch.
var knownChanges = []string{"add", "update", "delete"}

func (p fileAsked) question(it item, t *turn) agent.Question {
	var diff strings.Builder
	inside := len(it.Changes) > 0 && t.req.Access != agent.Read && t.req.Access != "" && p.Root == ""
	for _, c := range it.Changes {
		what := c.Kind.Type + " " + c.Path
		paths := []string{c.Path}
		if to := c.Kind.Move; to != "" {
			what += ", moved to " + to
			paths = append(paths, to)
		}
		fmt.Fprintf(&diff, "%s\n%s\n", what, strings.TrimRight(c.Diff, "\n"))
		for _, path := range paths {
			if !filepath.IsAbs(path) {
				path = filepath.Join(t.setup.dir, path)
			}
			inside = inside && isInside(t.setup.dir, path)
		}
		inside = inside && slices.Contains(knownChanges, c.Kind.Type)
	}
	q := agent.Question{Text: p.Reason, Inside: inside, Action: agent.Action{Type: "file_change", Cwd: t.setup.dir,
		Diff: diff.String()}}
	if p.Root != "" {
		q.Action.Params, _ = json.Marshal(map[string]any{"grantRoot": p.Root})
	}
	if q.Text == "" {
		q.Text = "Apply this change to files?"
	}
	return q
}

// isInside reports whether the file at path is in dir and not protected. The targets of links count as well as their
// names: the agent can plant links.
func isInside(dir, path string) bool {
	root, err1 := agent.Target(dir)
	real, err2 := agent.Target(path)
	return err1 == nil && err2 == nil && isBelow(root, real) && !protected(root, real) && !protected(dir, path) &&
		!slices.Contains(strings.Split(filepath.ToSlash(path), "/"), "..")
}

// protected reports whether the file at path is never approved by policy.
func protected(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err != nil || worktree.Protected(filepath.ToSlash(rel))
}

// toolAsked is a request to call a tool of an MCP server.
type toolAsked struct {
	Server  string `json:"serverName"`
	Message string `json:"message"`
	Meta    struct {
		Kind   string          `json:"codex_approval_kind"`
		Tool   string          `json:"tool_name"`
		Params json.RawMessage `json:"tool_params"`
	} `json:"_meta"`
}

func (p toolAsked) question() agent.Question {
	return agent.Question{Text: p.Message, Action: agent.Action{Type: "tool_call", Tool: p.Server + "/" + p.Meta.Tool,
		Params: p.Meta.Params}}
}

// permissionsAsked is a request for more permissions than the sandbox allows, for the turn.
type permissionsAsked struct {
	Cwd         string          `json:"cwd"`
	Reason      string          `json:"reason"`
	Permissions json.RawMessage `json:"permissions"`
}

func (p permissionsAsked) question() agent.Question {
	q := agent.Question{Text: p.Reason, Action: agent.Action{Type: "permissions", Cwd: p.Cwd, Params: p.Permissions}}
	if q.Text == "" {
		q.Text = "Allow more than the sandbox does, for this turn?"
	}
	return q
}
