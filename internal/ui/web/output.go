package web

import (
	"encoding/json"
	"html/template"
	"strings"

	"github.com/plait-run/plait/internal/view"
)

// An output is the output of a step or a task, formatted for display.
type output struct {
	Prose  template.HTML
	Fields []outputField
	Plan   *planCard
	Raw    string // what could not be formatted
	Cut    bool
}

// maxSaid limits the text of a result or a step, in bytes.
const maxSaid = 256 << 10

// newOutput formats the text and the fields of a step. by is the instance that made it; plain says that the text is
// not Markdown. Unless whole is set, the text is shortened.
func newOutput(text string, meta []byte, task, by string, plain, whole bool) (*output, error) {
	o := &output{Fields: outputFields(meta, "$status", view.FormatField)}
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		trimmed = strings.TrimSpace(string(meta))
	}
	if o.Plan = parsePlan(trimmed); o.Plan != nil {
		o.Fields = nil
		return o, nil
	}
	if set := pretty(trimmed); set == pretty(string(meta)) {
		if len(o.Fields) == 0 && len(outputFields(meta)) == 0 && len(meta) > 2 {
			o.Raw = pretty(string(meta))
		}
		return o, nil
	}
	if o.Cut = !whole && len(text) > maxSaid; o.Cut {
		text = strings.ToValidUTF8(text[:maxSaid], "")
	}
	if fields := outputFields([]byte(trimmed), "$status"); len(fields) > 0 {
		o.Fields = fields
		return o, nil
	}
	o.Fields = withoutText(o.Fields, trimmed)
	var err error
	o.Prose, err = utterance(text, task, by, plain)
	return o, err
}

// A planCard is a planner's output, formatted for display.
type planCard struct {
	SessionGoal string
	Actions     []struct {
		ID, Title, Prompt, Access, Agent string
		DependsOn                        []string
	}
}

// parsePlan parses a plan. It returns nil if the text is not one.
func parsePlan(text string) *planCard {
	var p planCard
	if len(text) > maxPretty || !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &p) != nil {
		return nil
	}
	if len(p.Actions) == 0 || p.Actions[0].ID == "" {
		return nil
	}
	return &p
}
