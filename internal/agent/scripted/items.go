package scripted

import (
	"fmt"
	"net/http"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// usual is the usage of a response whose step sets none, in tokens.
var usual = usage{input: 100, cached: 10, output: 20, reasoning: 5}

const (
	maxTokens = 1 << 40
	maxTimes  = 1 << 20
)

func readTurn(n *yaml.Node) (turn, error) {
	var t turn
	err := fields(n, map[string]reader{
		"when":  t.when.read,
		"steps": list(&t.steps, readStep),
	})
	if err != nil {
		return t, err
	}
	if len(t.steps) == 0 {
		return t, wrong(n, "steps are missing")
	}
	for i, st := range t.steps {
		last := i == len(t.steps)-1
		switch {
		case !last && st.calls() == 0:
			return t, wrong(n, "step %d calls no tool, so the turn ends there and step %d is never reached", i+1, i+2)
		case last && st.calls() > 0:
			return t, wrong(n, "step %d calls a tool, so a step for what comes then is missing", i+1)
		}
	}
	return t, nil
}

func (w *when) read(n *yaml.Node) error {
	var schema bool
	err := fields(n, map[string]reader{
		"contains": list(&w.contains, readText),
		"context":  list(&w.context, readText),
		"schema": func(n *yaml.Node) error {
			w.schema = &schema
			return boolean(&schema)(n)
		},
		"nth": number(&w.nth, 1, maxTimes),
	})
	return err
}

func readStep(n *yaml.Node) (step, error) {
	st := step{usage: usual}
	err := fields(n, map[string]reader{
		"items":      list(&st.items, readItem),
		"usage":      st.usage.read,
		"slow":       duration(&st.slow),
		"fail":       st.readFail,
		"cut":        st.readCut,
		"broken":     st.readBroken,
		"silent":     boolean(&st.silent),
		"incomplete": textField(&st.incomplete),
	})
	if err != nil {
		return st, err
	}
	faults := 0
	for _, is := range []bool{st.fail != nil, st.cut != nil, st.broken != nil, st.silent, st.incomplete != ""} {
		if is {
			faults++
		}
	}
	f := st.failure()
	switch {
	case faults > 1:
		return st, wrong(n, "only one of fail, cut, broken, silent and incomplete can be")
	case len(st.items) == 0 && faults == 0:
		return st, wrong(n, "a step needs items, or one of fail, cut, broken, silent and incomplete")
	case len(st.items) == 0 && st.cut != nil:
		return st, wrong(n, "cut needs items to begin with")
	case len(st.items) == 0 && f != nil && f.times > 0:
		return st, wrong(n, "times needs items for what comes after the failures")
	}
	return st, nil
}

func (u *usage) read(n *yaml.Node) error {
	return fields(n, map[string]reader{
		"input":     number(&u.input, 0, maxTokens),
		"cached":    number(&u.cached, 0, maxTokens),
		"output":    number(&u.output, 0, maxTokens),
		"reasoning": number(&u.reasoning, 0, maxTokens),
	})
}

func (st *step) readFail(n *yaml.Node) error {
	f := &httpError{status: http.StatusInternalServerError}
	st.fail = f
	err := fields(n, map[string]reader{
		"status":  number(&f.status, 400, 599),
		"body":    textField(&f.body),
		"headers": textMap(&f.headers),
		"times":   number(&f.times, 1, maxTimes),
	})
	if err != nil {
		return err
	}
	for name, value := range f.headers {
		if name == "" || strings.ContainsAny(name, " \t\r\n:") || strings.ContainsAny(value, "\r\n") {
			return wrong(n, "%q is no header", name)
		}
	}
	return nil
}

func (st *step) readCut(n *yaml.Node) error {
	var f fault
	if n.Kind == yaml.ScalarNode {
		var yes bool
		if err := boolean(&yes)(n); err != nil || !yes {
			return err
		}
	} else if err := fields(n, map[string]reader{"times": number(&f.times, 1, maxTimes)}); err != nil {
		return err
	}
	st.cut = &f
	return nil
}

func (st *step) readBroken(n *yaml.Node) error {
	b := &brokenError{code: "server_error", message: "the scenario wants this response to fail"}
	st.broken = b
	return fields(n, map[string]reader{
		"code":    textField(&b.code),
		"message": textField(&b.message),
		"times":   number(&b.times, 1, maxTimes),
	})
}

func readItem(n *yaml.Node) (item, error) {
	var it item
	text := func(k kind) reader {
		return func(n *yaml.Node) error { it.kind = k; return textField(&it.text)(n) }
	}
	if n.Kind == yaml.MappingNode && len(n.Content) != 2 {
		return it, wrong(n, "an item is one key and its value; write the next one as an item of its own")
	}
	err := fields(n, map[string]reader{
		"reason": text(reason),
		"say":    text(say),
		"patch":  text(patch),
		"run":    it.readRun,
		"wait":   func(n *yaml.Node) error { it.kind = wait; return number(&it.output, 1, maxTimes)(n) },
		"call":   it.readCall,
		"answer": func(n *yaml.Node) error { it.kind = answer; return it.answer.read(n) },
	})
	return it, err
}

func (it *item) readRun(n *yaml.Node) error {
	it.kind = run
	var cmd, workdir, justification string
	var escalate bool
	var yield int
	if n.Kind == yaml.ScalarNode {
		if err := textField(&cmd)(n); err != nil {
			return err
		}
	} else if err := fields(n, map[string]reader{
		"cmd":           textField(&cmd),
		"workdir":       textField(&workdir),
		"escalate":      boolean(&escalate),
		"justification": textField(&justification),
		"yield_ms":      number(&yield, 1, 3_600_000),
	}); err != nil {
		return err
	}
	if cmd == "" {
		return wrong(n, "a command is missing")
	}
	args := object{"cmd": cmd}
	if workdir != "" {
		args["workdir"] = workdir
	}
	if escalate {
		args["sandbox_permissions"] = "require_escalated"
	}
	if justification != "" {
		args["justification"] = justification
	}
	if yield > 0 {
		args["yield_time_ms"] = yield
	}
	it.value = args
	return nil
}

func (it *item) readCall(n *yaml.Node) error {
	it.kind = call
	arguments := map[string]any{}
	err := fields(n, map[string]reader{
		"namespace": textField(&it.namespace),
		"name":      textField(&it.name),
		"arguments": anyMap(&arguments),
	})
	if err == nil && it.name == "" {
		err = wrong(n, "the name of the tool is missing")
	}
	it.value = arguments
	return err
}

func (f *final) read(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		if n.Value == "auto" && n.Style == 0 {
			f.auto = true
			return nil
		}
		return textField(&f.said)(n)
	}
	given := map[string]bool{}
	err := fields(n, map[string]reader{
		"json": func(n *yaml.Node) (err error) {
			given["json"] = true
			f.json, err = yamldoc.Value(n, maxNesting)
			return err
		},
		"auto": boolean(&f.auto),
		"text": func(n *yaml.Node) error { given["text"] = true; return textField(&f.said)(n) },
		"with": func(n *yaml.Node) error { given["with"] = true; return anyMap(&f.with)(n) },
	})
	switch {
	case err != nil:
		return err
	case given["json"] && (f.auto || given["text"] || given["with"]):
		return wrong(n, "json stands alone")
	case !given["json"] && !f.auto:
		return wrong(n, "want a text, json: {…} or auto: true")
	case given["json"] && f.json == nil:
		return wrong(n, "json: null is no answer; write %s", fmt.Sprintf("answer: %q", "null"))
	}
	return nil
}
