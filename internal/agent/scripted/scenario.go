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
// A command without yield_ms is waited for as long as it takes. A fault with times happens that many times in a
// thread; after that the items are served. In say, run, call, patch and answer, {{output 1}} is replaced by the text
// of the first tool output since the prompt, and {{prompt REGEXP}} by the match in the prompt: the last group of the
// expression, or the whole match if it has no groups.
type Scenario struct {
	name string // the name of a built-in, or the path of a file
	script
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
			names[i] += "\t" + s.About
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
