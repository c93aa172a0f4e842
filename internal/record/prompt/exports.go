package prompt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

// MaxExported limits the steps left out of a prompt that the agent can still read: the newest ones.
const MaxExported = 512

// Limits on the files that a prompt names. Artifacts beyond them are named without a file.
const (
	maxExportedFiles = 128
	maxExportedBytes = 64 << 20
)

// An ExportedFile is an artifact that a prompt offers as a file, in the directory PLAIT_CONTEXT.
type ExportedFile struct {
	Path     string // with slashes
	Artifact dag.Hash
	Blob     dag.Hash
}

// A Chain is the steps after After up to and including To.
type Chain struct{ To, After dag.Hash }

// Exports lists what else the agent can read, according to a prompt.
type Exports struct {
	Files  []ExportedFile
	Chains []Chain // of called flows and joined paths

	bytes int64 // of the files
}

// references is what a prompt says about a step besides its content.
type references struct {
	text    string
	exports Exports
}

// add appends what a refers to.
func (l *Exports) add(a references) {
	l.Files, l.Chains = append(l.Files, a.exports.Files...), append(l.Chains, a.exports.Chains...)
	l.bytes += a.exports.bytes
}

// ExportName returns the path of the file for an artifact of a step.
func ExportName(step, artifact dag.Hash, name string) string {
	return path.Join("step-"+step.Short(), FileName(artifact, name))
}

// maxBase is how many bytes FileName keeps of a name that it changes: file systems allow 255 in all.
const maxBase = 200

// FileName returns the name of an artifact as a relative path, without characters that a shell or
// a terminal would interpret.
func FileName(artifact dag.Hash, name string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-+=@/", r) {
			return r
		}
		return '_'
	}, name)
	if clean := path.Clean("/" + safe)[1:]; clean != name {
		base := path.Base("/" + clean)
		return artifact.Short() + "-" + base[max(0, len(base)-maxBase):]
	}
	return safe
}

// refer returns the artifacts of a step, and the steps that it called or joined. given is what the
// prompt already refers to.
func refer(ctx context.Context, nodes *thread.Reader, given Exports, s thread.Step) (references, error) {
	a := references{exports: Exports{bytes: given.bytes}}
	var b strings.Builder
	name := s.Hash.Short()
	files := len(given.Files)
	left := func(who string, of thread.Step) error {
		content, err := nodes.Content(ctx, of.State.Content)
		if err != nil {
			return err
		}
		for _, h := range content.Artifacts {
			art, err := nodes.Artifact(ctx, h)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s left %s (%s, %d bytes), artifact:%s", who, quoted(art.Name), quoted(art.MediaType),
				art.Size, h)
			if files < maxExportedFiles && a.exports.bytes+art.Size <= maxExportedBytes {
				file := ExportedFile{ExportName(of.Hash, h, art.Name), h, art.Blob}
				a.exports.Files, a.exports.bytes, files = append(a.exports.Files, file), a.exports.bytes+art.Size, files+1
				fmt.Fprintf(&b, ": \"$PLAIT_CONTEXT/%s\"", file.Path)
			}
			b.WriteByte('\n')
		}
		return nil
	}
	if err := left(name, s); err != nil {
		return a, err
	}
	if child := s.State.ChildThread; !child.IsZero() {
		a.exports.Chains = append(a.exports.Chains, Chain{To: child})
		fmt.Fprintf(&b, "%s called a flow: %s lists its steps.\n", name, walkCommand(child))
	}
	for _, p := range s.State.Paths {
		if p.Head == s.Parent() || p.Head == s.State.Fork {
			continue // its steps are themselves in the prompt, or it has none
		}
		a.exports.Chains = append(a.exports.Chains, Chain{p.Head, s.State.Fork})
		for own, err := range nodes.Walk(ctx, p.Head) {
			if err != nil {
				return a, err
			}
			if own.Hash == s.State.Fork {
				break
			}
			if err := left(p.ID, own); err != nil {
				return a, err
			}
		}
		fmt.Fprintf(&b, "%s: %s lists its steps.\n", p.ID, walkCommand(p.Head))
	}
	a.text = b.String()
	a.exports.bytes -= given.bytes
	return a, nil
}

// walkCommand returns the command with which an agent lists the chain at h.
func walkCommand(h dag.Hash) string { return "`\"$PLAIT_BIN\" cas walk " + h.Short() + "`" }

// getCommand is the command with which an agent reads one object of a chain.
const getCommand = "`\"$PLAIT_BIN\" cas get HASH`"

// summarizes follows the name of a summary in the line that says how to read what it summarizes.
const summarizes = " stands for the steps before it; "

// summarized returns how many steps a summary stands for.
func summarized(s *thread.State) int {
	var meta struct{ Steps int }
	_ = json.Unmarshal(s.Meta, &meta) // zero if it does not say
	return meta.Steps
}

// readCommands returns how an agent reads n steps, the newest of which is at h.
func readCommands(h dag.Hash, n int) string {
	them := "them"
	if n > MaxExported {
		them = fmt.Sprintf("the newest %d of them", MaxExported)
	}
	return fmt.Sprintf("%s lists %s, with what they left, and %s prints one.\n", walkCommand(h), them, getCommand)
}

// OlderForm reports whether then is the prompt that a release before this one made where this one makes now: it
// repeated the task before the words of the route, and did not say how to read what a summary stands for.
func OlderForm(then, now, task string) bool {
	var kept strings.Builder
	for line := range strings.Lines(now) {
		name, rest, _ := strings.Cut(line, " ")
		if len(name) != 12 || !strings.HasPrefix(" "+rest, summarizes) {
			kept.WriteString(line)
		}
	}
	before, after, _ := strings.Cut(then, "# The task\n\n"+strings.TrimRight(task, "\n")+"\n\n")
	return then != now && (before+after == kept.String() || then == kept.String())
}

// NamedAgents begins the part of a planner's prompt that lists the agents it may name, one a line.
const NamedAgents = "\nAgents that actions may name:\n"

// WithAgents returns the prompt now with the agents that the prompt then lists.
func WithAgents(now, then string) string {
	_, list, listed := strings.Cut(then, NamedAgents)
	before, after, lists := strings.Cut(now, NamedAgents)
	if !listed || !lists {
		return now
	}
	return before + NamedAgents + list[:len(list)-len(afterList(list))] + afterList(after)
}

// afterList returns what follows the items of a list at the beginning of a text.
func afterList(text string) string {
	for strings.HasPrefix(text, "- ") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

// quoted quotes a name if it would not be safe on a line of a prompt.
func quoted(name string) string {
	if q := strconv.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}

// missingMeta returns the fields of meta that text does not contain as JSON, "" for none.
func missingMeta(s thread.Step, text string) string {
	if s.State.Role == thread.RoleInput {
		return ""
	}
	if s.State.Role != thread.RoleJoin && !strings.HasPrefix(text, "{") {
		if string(s.State.Meta) == "{}" {
			return ""
		}
		return string(s.State.Meta)
	}
	var fields, said map[string]json.RawMessage
	if json.Unmarshal(s.State.Meta, &fields) != nil {
		return ""
	}
	if strings.HasPrefix(text, "{") {
		if canon, err := dag.Canonical([]byte(text)); err == nil {
			json.Unmarshal(canon, &said) // if it is not an object, it contains no field
		}
	}
	if s.State.Role == thread.RoleJoin {
		delete(fields, "paths") // the text has them
	}
	for name, value := range said {
		if bytes.Equal(fields[name], value) {
			delete(fields, name)
		}
	}
	if len(fields) == 0 {
		return ""
	}
	meta, err := dag.Marshal(fields)
	if err != nil {
		return string(s.State.Meta)
	}
	return string(meta)
}

// Instructions is a file in which people tell agents how to work.
type Instructions struct {
	Name string
	Text string
}

// instruct adds instructions to a prompt, each fenced with the hash of its content. The contents
// must be stored with the prompt.
func (a *Assembled) instruct(all []Instructions) error {
	for i, one := range all {
		content, err := thread.NewContent(one.Text, nil)
		if err != nil {
			return err
		}
		a.Contents = append(a.Contents, content)
		name := content.Hash.Short()
		if i > 0 {
			a.add("\n")
		}
		a.add("--- " + name + " (" + one.Name + ") ---\n")
		a.pieces = append(a.pieces, piece{text: strings.TrimRight(one.Text, "\n"), content: content.Hash, named: true})
		a.add("\n--- end " + name + " ---\n")
	}
	return nil
}
