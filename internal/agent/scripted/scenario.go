package scripted

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// A Scenario is the script that the model follows. It never changes once loaded.
// Scenario files are YAML:
//
//	about: a one-line description
//	turns:                          # the first whose when matches answers the prompt
//	- when:                         # all given conditions must hold; without when: always
//	    contains: [text]            # in the prompt
//	    context: [text]             # in any message that is not the model's
//	    schema: true                # an answer of a given shape is, or is not, requested
//	    nth: 2                      # of the thread's prompts, from 1
//	  steps:                        # one response each; all but the last call tools
//	  - items:                      # in order
//	    - reason: text
//	    - say: text
//	    - run: ls -la               # or {cmd, workdir, escalate, justification, yield_ms}
//	    - wait: 1                   # up to 5 minutes for the command with yield_ms still running in output 1
//	    - patch: text               # of apply_patch
//	    - call: {namespace: mcp__lab, name: echo, arguments: {text: ping}}
//	    - answer: text              # or auto, {json: any}, {auto: true, text, with: {field: any}}
//	    usage: {input: 100, cached: 10, output: 20, reasoning: 5}
//	    slow: 50ms                  # before each piece of text
//	    # and at most one of:
//	    fail: {status: 500, body: text, headers: {name: value}, times: 2}
//	    cut: true                   # in the middle of the last item; or {times: 2}
//	    silent: true
//	    broken: {code: text, message: text, times: 2}
//	    incomplete: max_output_tokens
//
// A command without yield_ms is waited for as long as it takes. A fault with times happens that many times in a thread; after that the items are served. In
// say, run, call, patch and answer, {{output 1}} is replaced by the text of the first tool
// output since the prompt, and {{prompt REGEXP}} by the match in the prompt: the last group
// of the expression, or the whole match if it has no groups.
type Scenario struct {
	name  string // the name of a built-in, or the path of a file
	about string // a one-line description
	turns []turn
}

// A turn answers one prompt in steps, one for each request that it leads to.
type turn struct {
	when  when
	steps []step
}

// A when selects the prompts that a turn answers. Unset fields match every prompt.
type when struct {
	contains []string // in the last prompt
	context  []string // in any text that is not the model's
	schema   *bool    // whether an answer of a given shape is requested
	nth      int      // of the prompts, from 1
}

// A step is one response, or a fault instead.
type step struct {
	items      []item
	usage      usage
	slow       time.Duration
	fail       *httpError
	cut        *fault
	broken     *brokenError
	silent     bool
	incomplete string // the reason
}

// A fault happens the given number of times, or always if times is 0.
type fault struct{ times int }

type httpError struct {
	fault
	status  int
	body    string
	headers map[string]string
}

type brokenError struct {
	fault
	code, message string
}

// failure returns the step's fault, nil if it has none.
func (st step) failure() *fault {
	switch {
	case st.fail != nil:
		return &st.fail.fault
	case st.cut != nil:
		return st.cut
	case st.broken != nil:
		return &st.broken.fault
	}
	return nil
}

type kind int

const (
	reason kind = iota
	say
	run
	wait
	patch
	call
	answer
)

// An item is one thing that the model says or asks for.
type item struct {
	kind            kind
	text            string // of reason, say and patch
	namespace, name string // of call
	value           any    // arguments of run and call
	output          int    // of wait: which output came from the command, from 1
	answer          final
}

// final is the answer that ends a turn.
type final struct {
	said string         // verbatim
	json any            // as JSON, if set
	auto bool           // in the requested form: said is its text, with its fields
	with map[string]any // of auto
}

//go:embed scenarios/*.yaml
var builtin embed.FS

// maxFile bounds a scenario file, in bytes.
const maxFile = 1 << 20

// Names returns the names of the built-in scenarios, sorted.
func Names() []string {
	entries, err := fs.ReadDir(builtin, "scenarios")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Described returns the names of the built-in scenarios, each with a tab and a description, as shell
// completions expect them.
func Described() []string {
	names := Names()
	for i, name := range names {
		if s, err := Load(name); err == nil {
			names[i] += "\t" + s.about
		}
	}
	return names
}

// IsFile reports whether the name of a scenario is the path of a file.
func IsFile(name string) bool {
	ext := path.Ext(name)
	return strings.ContainsAny(name, `/\`) || ext == ".yaml" || ext == ".yml"
}

// Load returns a built-in scenario by its name or, if name contains a slash or ends in .yaml or .yml, reads it
// from a file. The error for a file names the faulty line.
func Load(name string) (*Scenario, error) {
	if IsFile(name) {
		data, err := readFile(name)
		if err != nil {
			return nil, fmt.Errorf("read scenario: %w", err)
		}
		return parse(name, name, data)
	}
	data, err := builtin.ReadFile("scenarios/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no scenario %q: use a path of a .yaml file, or one of %s", name, strings.Join(Names(), ", "))
	}
	return parse(name, name+".yaml", data)
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = errors.New(name + " is over 1 MiB")
	}
	return data, err
}
