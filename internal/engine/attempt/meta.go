package attempt

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/sys/text"
)

// headBytes is how much of an output becomes a text when the whole cannot.
const headBytes = 1 << 20

// An answer is what was extracted from an attempt's output.
type answer struct {
	meta      json.RawMessage // canonical
	fields    map[string]any  // of meta; nil: the output was not parsed
	status    string
	assumed   bool // the output has no status
	text      string
	headOnly  bool // text is only the head: the whole output becomes an artifact
	artifacts []dag.Hash
	names     []string
	skipped   []string
}

// Limits of meta. A node has room for it, and for what surrounds it when paths are joined.
const (
	maxMeta      = dag.MaxBytes - 8192
	maxMetaDepth = dag.MaxDepth - 8
)

// withStatus adds $status to meta, which is canonical, from the exit code: the agent's configuration decides
// first, and a program that exits with 0 is done. A property named status, or the form of a plan, can take the
// place of $status.
func withStatus(canon json.RawMessage, text string, result agent.Result, plans bool) (answer, error) {
	var fields map[string]any
	if err := json.Unmarshal(canon, &fields); err != nil {
		return answer{}, err
	}
	status, assumed := result.Status, false
	if s, ok := fields["$status"]; ok && status == "" {
		if status, _ = s.(string); status == "" {
			return answer{}, &badStatus{answer{meta: canon, fields: fields}}
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
		status, assumed = "done", true
	}
	if deep(fields, maxMetaDepth) {
		return answer{}, fmt.Errorf("the fields are nested deeper than %d levels", maxMetaDepth)
	}
	if len(canon) > maxMeta {
		return answer{}, fmt.Errorf("the fields are %d bytes long; at most %d bytes can be kept", len(canon), maxMeta)
	}
	if fields["$status"] != status {
		fields["$status"] = status
		var err error
		if canon, err = setField(canon, "$status", status); err != nil {
			return answer{}, err
		}
	}
	return answer{meta: canon, fields: fields, status: status, assumed: assumed, text: text}, nil
}

// badStatus is the error for an answer whose $status is not a text, or empty.
type badStatus struct{ answer }

func (e *badStatus) Error() string {
	data, err := json.Marshal(e.fields["$status"])
	if err != nil {
		return err.Error()
	}
	return "/$status: " + text.Clip(string(data), 80) + "; it must be a text that is not empty"
}

// deep reports whether v is nested deeper than most levels.
func deep(v any, most int) bool {
	below := func(v any) bool { return deep(v, most-1) }
	switch v := v.(type) {
	case map[string]any:
		return most == 0 || slices.ContainsFunc(slices.Collect(maps.Values(v)), below)
	case []any:
		return most == 0 || slices.ContainsFunc(v, below)
	}
	return false
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

const bom = "\uFEFF"

// plain makes an answer of a program's output.
func plain(result agent.Result, text string) (answer, error) {
	text = strings.TrimPrefix(text, bom)
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

// atMost returns the largest output, in bytes, that becomes a text.
func atMost(most int64) int64 {
	if most <= 0 || most > agent.MaxOutput {
		return agent.MaxOutput
	}
	return most
}

// unfit returns why an output cannot be a step's text, or nil.
func unfit(result agent.Result, most int64) error {
	out := result.Output
	switch {
	case result.Truncated || int64(len(out)) > most || jsonSize(out) > maxMeta:
		return fmt.Errorf("the answer is %d bytes long or more; at most %d bytes of text can be kept", len(out), most)
	case !utf8.Valid(out):
		return errors.New("the answer is not UTF-8")
	}
	return nil
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
	return strings.ToValidUTF8(string(text.Head(out, int(most))), "\uFFFD")
}
