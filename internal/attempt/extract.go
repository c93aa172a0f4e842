package attempt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/yamldoc"
)

// headBytes is how much of an output becomes a text when the whole cannot.
const headBytes = 1 << 20

// An answer is what was extracted from an attempt's output.
type answer struct {
	meta      json.RawMessage // canonical
	fields    map[string]any  // of meta; nil: the output was not parsed
	status    string
	text      string
	whole     bool // text is only the head: the whole output becomes an artifact
	artifacts []dag.Hash
	objects   []store.Object
	names     []string
	skipped   []string
	proved    []event.EvidenceAdded
}

// extract reads the output of an attempt and collects its artifacts. If the output is invalid, the error is an
// *agent.Failure that tells the agent what to fix.
func (e *Runner) extract(ctx context.Context, c *Thread, p *Prepared, desk agent.Directory,
	result agent.Result) (answer, error) {
	if p.strict {
		result.Plain = false // a planner's or an action's output has a fixed form
	}
	most := int64(c.Limits.MaxOutput)
	if p.Role.Chat {
		ans, err := talk(result, most)
		if err == nil {
			ans, err = e.discreetAnswer(ans)
		}
		if err != nil {
			return answer{}, err
		}
		return ans, e.collect(context.WithoutCancel(ctx), p, desk.Artifacts(), &ans)
	}
	ans, err := parse(result, most, p.Role.Plan)
	if err == nil {
		ans, err = e.discreetAnswer(ans)
	}
	if err != nil {
		return answer{}, &agent.Failure{Kind: agent.InvalidOutput, Message: err.Error()}
	}
	bad := c.Def.Validate(p.Row.Role, ans.fields)
	if p.Role.Plan {
		ans.text = planText(ans.fields, ans.text)
		wrong, err := e.validatePlan(context.WithoutCancel(ctx), c, ans.fields, bad)
		if err != nil {
			return answer{}, err
		}
		if len(wrong) > 0 {
			bad = flow.PlanError(wrong)
		}
	}
	if bad != nil {
		return answer{}, &agent.Failure{Kind: agent.InvalidOutput, Message: bad.Error()}
	}
	return ans, e.collect(context.WithoutCancel(ctx), p, desk.Artifacts(), &ans)
}

// parse finds meta and text in an output. The forms are: front matter between
// "---" lines and a body; one JSON object; and, for agents that may answer so,
// plain text, whose meta is the status and the exit code.
func parse(result agent.Result, most int64, plans bool) (answer, error) {
	out := result.Output
	most = atMost(most)
	if !fits(result, most) {
		if !result.Plain {
			return answer{}, fmt.Errorf("the answer is %d bytes long or not UTF-8; at most %d bytes of "+
				"text can be used", len(out), most)
		}
		ans, err := plain(result, head(out, min(most, headBytes)))
		ans.whole = true
		return ans, err
	}
	text := strings.TrimPrefix(string(out), "\uFEFF")
	trimmed := strings.TrimLeft(text, " \t\r\n")
	if front, body, ok := cutFrontMatter(trimmed); ok {
		return fromFrontMatter(front, body, result, plans)
	}
	if obj, ok := oneObject(trimmed); ok {
		return withStatus(obj, trimmed, result, plans)
	}
	if !result.Plain {
		return answer{}, errors.New("the answer must begin with front matter (a line of ---, the fields, a line of " +
			"---) or be one JSON object")
	}
	return plain(result, text)
}

// atMost returns the largest output, in bytes, that becomes a text.
func atMost(most int64) int64 {
	if most <= 0 || most > agent.MaxOutput {
		return agent.MaxOutput
	}
	return most
}

// fits reports whether an output can be a step's text.
func fits(result agent.Result, most int64) bool {
	out := result.Output
	return !result.Truncated && int64(len(out)) <= most && utf8.Valid(out) && jsonSize(out) <= dag.MaxBytes-4096
}

// turn is the reason that a conversation waits.
const turn = "waits for what the person says next"

// talk makes an answer of what was said in a conversation, without parsing it.
func talk(result agent.Result, most int64) (answer, error) {
	most = atMost(most)
	ans := answer{status: flow.Suspend, text: string(result.Output), whole: !fits(result, most)}
	if ans.whole {
		ans.text = head(result.Output, min(most, headBytes))
	}
	var err error
	ans.meta, err = dag.Marshal(map[string]any{"$status": ans.status, "reason": turn})
	return ans, err
}

// jsonSize bounds the length of b as a JSON string: control bytes take six.
func jsonSize(b []byte) int {
	n := len(b)
	for _, c := range b {
		if c < 0x20 || c == '"' || c == '\\' {
			n += 5
		}
	}
	return n
}

// head returns the first bytes of out as text. It cuts between characters, and replaces what is not UTF-8.
func head(out []byte, most int64) string {
	if int64(len(out)) > most {
		out = out[:most]
		for i := 1; i <= utf8.UTFMax && i <= len(out); i++ {
			if r := out[len(out)-i]; utf8.RuneStart(r) {
				if !utf8.FullRune(out[len(out)-i:]) {
					out = out[:len(out)-i]
				}
				break
			}
		}
	}
	return strings.ToValidUTF8(string(out), "\uFFFD")
}

// cutFrontMatter splits a text that begins with a line of three dashes.
func cutFrontMatter(text string) (front, body string, ok bool) {
	line, rest, ok := strings.Cut(text, "\n")
	if !ok || strings.TrimRight(line, " \t\r") != "---" {
		return "", "", false
	}
	for at := 0; at < len(rest); {
		line, _, more := strings.Cut(rest[at:], "\n")
		if strings.TrimRight(line, " \t\r") == "---" {
			body := ""
			if more {
				body = rest[at+len(line)+1:]
			}
			return rest[:at], strings.TrimLeft(body, "\r\n"), true
		}
		at += len(line) + 1
	}
	return "", "", false
}

func fromFrontMatter(front, body string, result agent.Result, plans bool) (answer, error) {
	meta, err := decodeFrontMatter(front)
	if err != nil {
		return answer{}, fmt.Errorf("front matter: %w", err)
	}
	canon, err := dag.Marshal(meta)
	if err != nil {
		return answer{}, fmt.Errorf("front matter: %w", err)
	}
	return withStatus(canon, body, result, plans)
}

// decodeFrontMatter reads YAML that has only JSON values. Its errors count lines from the opening "---".
func decodeFrontMatter(front string) (any, error) {
	root, err := yamldoc.Parse([]byte(front))
	var v any
	switch {
	case err != nil:
	case root == nil || root.Kind != yaml.MappingNode:
		return nil, errors.New("want fields, one a line, like $status: done")
	default:
		v, err = yamldoc.Value(root, dag.MaxDepth-8)
	}
	var bad *yamldoc.Error
	if errors.As(err, &bad) {
		bad.Line++
	}
	return v, err
}

// oneObject reports whether text is one JSON object and nothing else. It allows a fence of three backquotes
// around the object, since models add one.
func oneObject(text string) (json.RawMessage, bool) {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "```json"); ok {
		text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "```"))
	}
	if !strings.HasPrefix(text, "{") {
		return nil, false
	}
	canon, err := dag.Canonical([]byte(text))
	if err != nil {
		return nil, false
	}
	return canon, true
}

// withStatus adds $status to meta, which is canonical, from the exit code: the agent's configuration decides
// first, and a program that exits with 0 is done. A property named status, or the form of a plan, can take the
// place of $status.
func withStatus(canon json.RawMessage, text string, result agent.Result, plans bool) (answer, error) {
	var fields map[string]any
	if err := json.Unmarshal(canon, &fields); err != nil {
		return answer{}, err
	}
	status := result.Status
	if s, ok := fields["$status"]; ok && status == "" {
		if status, _ = s.(string); status == "" {
			return answer{}, errors.New("$status must be a text")
		}
	}
	if s, ok := fields["status"].(string); ok && status == "" {
		status = s
	}
	if plans && status == "" {
		if status = flow.PlanStatus(fields); status == "" {
			return answer{}, errors.New("the answer holds neither actions, nor finish, nor ask")
		}
	}
	if status == "" {
		if !result.Plain {
			return answer{}, errors.New("$status is missing")
		}
		status = "done"
	}
	if fields["$status"] != status {
		fields["$status"] = status
		var err error
		if canon, err = setField(canon, "$status", status); err != nil {
			return answer{}, err
		}
	}
	return answer{meta: canon, fields: fields, status: status, text: text}, nil
}

// setField sets a text in a canonical object, and keeps the spelling of everything else.
func setField(canon json.RawMessage, name, text string) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(canon, &fields); err != nil {
		return nil, err
	}
	fields[name] = dag.AppendString(nil, text)
	return dag.Marshal(fields)
}

// plain makes an answer of a program's output.
func plain(result agent.Result, text string) (answer, error) {
	meta := map[string]any{"exitCode": nil}
	if result.Exit != nil {
		meta["exitCode"] = *result.Exit
	}
	canon, err := dag.Marshal(meta)
	if err != nil {
		return answer{}, err
	}
	return withStatus(canon, text, result, false)
}
