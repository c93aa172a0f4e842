package attempt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/yamldoc"
	"github.com/plait-run/plait/internal/record/dag"
)

// errForm says what an answer is.
var errForm = errors.New("the answer must begin with front matter (a line of ---, the fields, a line of ---) or be " +
	"one JSON object")

// read returns the meta and the text of an output. What begins like an answer, or has a $status, and cannot be read is
// an error, whoever made it: a program that says failed must not pass for one that says nothing. Anything else is
// plain text, if the agent may answer so. unfit is why the output cannot be kept whole, or nil.
func read(out string, result agent.Result, role flow.Role, unfit error) (answer, error) {
	lead := leading(out)
	text := out[lead:]
	first, rest, _ := cutLine(text)
	inner, fence := unfence(text)
	var err error
	switch {
	case opens(first):
		front, body, closed := cutFrontMatter(rest)
		// YAML that programs print for others begins so, too.
		if closed && result.Plain && role.Frontmatter == nil && areDocuments(front, body) && !hasStatus(text) {
			break
		}
		if closed {
			return fromFrontMatter(front, body, result, role.Plan)
		}
		if root, bad := yamldoc.Parse([]byte(rest)); bad != nil || hasKey(root, "$status") {
			lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(out[:lead])
			return answer{}, fmt.Errorf("the front matter that begins on line %d is never closed by a line of ---",
				strings.Count(lines, "\n")+1)
		}
		err = errors.New("the front matter is never closed by a line of ---")
	case misspelled(first):
		return answer{}, fmt.Errorf("the front matter must begin with a line of --- alone, not %q", first)
	case fence != "" && opens(firstLine(inner)):
		return answer{}, errors.New("the front matter is in a code fence: begin with its line of ---")
	case strings.HasPrefix(inner, "{"):
		canon, why := dag.Canonical([]byte(inner))
		if unfit != nil {
			why = unfit
		}
		if why == nil {
			return withStatus(canon, text, result, role.Plan)
		}
		switch one, more := firstValue(inner); {
		case one && !more:
			return answer{}, fmt.Errorf("the answer is one JSON object that cannot be kept: %w", why)
		case one && fence != "":
			return answer{}, errors.New("text follows the code fence around the JSON object: the answer must be the " +
				"object alone")
		case one:
			err = fmt.Errorf("the answer must be one JSON object and nothing else: %w", why)
		case likeObject(inner) || !result.Plain:
			return answer{}, fmt.Errorf("the answer begins like a JSON object that cannot be read: %w", why)
		}
	}
	switch {
	case hasStatus(text):
		return answer{}, fmt.Errorf("the output has $status, but is not one answer: %w", orForm(err))
	case !result.Plain || err != nil && role.Frontmatter != nil:
		return answer{}, orForm(err)
	}
	return plain(result, out)
}

func orForm(err error) error {
	if err == nil {
		return errForm
	}
	return err
}

// leading returns the length of what may precede an answer: blank lines, byte order marks, and sequences that set up
// a terminal.
func leading(out string) int {
	text := out
	for {
		rest := strings.TrimLeft(text, " \t\r\n"+bom)
		rest = rest[escape(rest):]
		if rest == text {
			return len(out) - len(text)
		}
		text = rest
	}
}

// escape returns the length of the control sequence of a terminal that text begins with, or 0.
func escape(text string) int {
	if !strings.HasPrefix(text, "\x1b[") {
		return 0
	}
	for i := 2; i < len(text); i++ {
		if text[i] >= 0x40 && text[i] <= 0x7e {
			return i + 1
		}
	}
	return 0
}

// cutLine cuts a text after its first line. A carriage return alone ends a line, too.
func cutLine(text string) (line, rest string, more bool) {
	i := strings.IndexAny(text, "\r\n")
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(lineEnd(text[i:])):], true
}

func lineEnd(text string) string {
	if strings.HasPrefix(text, "\r\n") {
		return "\r\n"
	}
	return text[:1]
}

func firstLine(text string) string {
	line, _, _ := cutLine(text)
	return line
}

// opens reports whether a line begins front matter: three dashes, and perhaps a comment of YAML.
func opens(line string) bool {
	rest, ok := strings.CutPrefix(line, "---")
	after := strings.TrimLeft(rest, " \t")
	return ok && (after == "" || after != rest && after[0] == '#')
}

// misspelled reports whether a line is meant to begin front matter, as some programs write it.
func misspelled(line string) bool {
	rest, ok := strings.CutPrefix(line, "---")
	word := strings.Trim(rest, " \t")
	return ok && (strings.EqualFold(word, "yaml") || strings.EqualFold(word, "yml"))
}

// cutFrontMatter splits what follows the opening line at the next line of three dashes.
func cutFrontMatter(text string) (front, body string, closed bool) {
	for rest, more := text, text != ""; more; {
		var line string
		before := len(text) - len(rest)
		line, rest, more = cutLine(rest)
		if strings.TrimRight(line, " \t") == "---" {
			return text[:before], strings.TrimLeft(rest, "\r\n"), true
		}
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
	root, err := yamldoc.Parse([]byte("\n" + front))
	var v any
	switch {
	case err != nil:
	case root == nil || root.Kind != yaml.MappingNode:
		return nil, errors.New("want fields, one a line, like $status: done")
	default:
		v, err = yamldoc.Value(root, maxMetaDepth)
	}
	return v, err
}

// areDocuments reports whether what looks like front matter and text are YAML documents without a status: there is
// another, and each is a mapping with several keys, which text seldom is.
func areDocuments(front, body string) bool {
	root, err := yamldoc.Parse([]byte(front))
	if err != nil || hasKey(root, "status") {
		return false
	}
	found := false
	for more := true; more; {
		doc, rest, closed := cutFrontMatter(body)
		if !closed {
			doc = body
		}
		next, err := yamldoc.Parse([]byte(doc))
		if err != nil || next != nil && (next.Kind != yaml.MappingNode || len(next.Content) < 4) {
			return false
		}
		found = found || next != nil
		body, more = rest, closed
	}
	return found
}

func hasKey(n *yaml.Node, key string) bool {
	if n == nil || n.Kind != yaml.MappingNode {
		return false
	}
	return slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return c.Value == key })
}

// unfence removes a code fence, which models put around a JSON object. A text without one is returned as it is.
func unfence(text string) (inner, fence string) {
	text = strings.TrimSpace(text)
	body := strings.TrimLeft(text, text[:min(1, len(text))])
	fence = text[:len(text)-len(body)]
	if len(fence) < 3 || fence[0] != '`' && fence[0] != '~' {
		return text, ""
	}
	begin := strings.IndexAny(body, "{\r\n")
	if begin < 0 {
		return "", fence
	}
	return strings.Trim(strings.TrimRight(body[begin:], fence[:1]+" \t\r\n"), " \t\r\n"), fence
}

// firstValue reports whether a text begins with a whole JSON value, as RFC 8259 defines it, and whether more follows.
func firstValue(text string) (one, more bool) {
	d := json.NewDecoder(strings.NewReader(text))
	var v json.RawMessage
	if d.Decode(&v) != nil {
		return false, false
	}
	return true, strings.TrimSpace(text[d.InputOffset():]) != ""
}

// likeObject reports whether a text begins like a JSON object: with a brace, a text and a colon, or the beginning of
// those.
func likeObject(text string) bool {
	text = strings.TrimLeft(text[1:], " \t\r\n")
	if !strings.HasPrefix(text, `"`) {
		return false
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			after := strings.TrimLeft(text[i+1:], " \t\r\n")
			return after == "" || after[0] == ':'
		}
	}
	return true
}

// hasStatus reports whether an output that is not one answer has the key $status where an answer would have it: at the
// top of one of several JSON values, or at the beginning of a line. A listing of flows or of code has it further in.
func hasStatus(text string) bool {
	if !utf8.ValidString(text) || strings.Contains(text, "\x00") { // perhaps UTF-16
		text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
	}
	if !strings.Contains(text, "$status") && !strings.Contains(text, `\u0024`) {
		return false
	}
	if statuses, all := jsonStatus(text); all {
		return statuses
	}
	text = unescaped(text)
	for more := true; more; {
		var line string
		line, text, more = cutLine(text)
		for i := strings.Index(line, "$status"); i >= 0; {
			after := line[i+len("$status"):]
			if isStatusKey(line[:i], after) {
				return true
			}
			next := strings.Index(after, "$status")
			if next < 0 {
				break
			}
			i = len(line) - len(after) + next
		}
	}
	return false
}

// isStatusKey reports whether a "$status" is the key of an answer, and not of a schema, given the rest of its line.
func isStatusKey(before, after string) bool {
	first := before == ""
	before, quote := strings.TrimLeft(before, " \t"), ""
	if last := len(before) - 1; last >= 0 && (before[last] == '"' || before[last] == '\'') {
		before, quote = before[:last], before[last:]
	}
	after, ok := strings.CutPrefix(after, quote)
	value, colon := strings.CutPrefix(strings.TrimLeft(after, " \t"), ":")
	if !ok || !colon || strings.HasPrefix(strings.TrimLeft(value, " \t"), "{") {
		return false
	}
	return first || before == "" && quote != "" || strings.HasPrefix(before, "{") || strings.HasPrefix(before, "---")
}

// jsonStatus reports whether text is only JSON values, and whether one of them, or an item of one, has the key
// $status.
func jsonStatus(text string) (found, all bool) {
	var has func(v any) bool
	has = func(v any) bool {
		if list, ok := v.([]any); ok {
			return slices.ContainsFunc(list, has)
		}
		object, _ := v.(map[string]any)
		_, ok := object["$status"]
		return ok
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for {
		var v any
		if err := d.Decode(&v); err != nil {
			return found, errors.Is(err, io.EOF)
		}
		found = found || has(v)
	}
}

// unescaped returns a text without the control sequences of a terminal.
func unescaped(text string) string {
	before, rest, ok := strings.Cut(text, "\x1b")
	if !ok {
		return text
	}
	var b strings.Builder
	for ok {
		b.WriteString(before)
		rest = "\x1b" + rest
		rest = rest[max(1, escape(rest)):]
		before, rest, ok = strings.Cut(rest, "\x1b")
	}
	b.WriteString(before)
	return b.String()
}
