package thread

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/dag"
)

// Bounds of what a called thread is told of its caller, in bytes. The rest can be
// read in the record.
const (
	callerPrompt = 4 << 10
	callerMeta   = 512
	callerText   = 2 << 10
)

// Caller returns what a called thread's prompts say of the thread that called it
// at head: where it is, how to read it, and a digest of it: its task, its last
// steps by their meta and with what they left, and the text of the newest. Callers further
// up are named by the caller's start only. It returns what the digest says can be read, too.
func (r *Reader) Caller(ctx context.Context, head dag.Hash) (string, Lending, error) {
	var lend Lending
	fail := func(err error) (string, Lending, error) {
		return "", Lending{}, fmt.Errorf("read caller %s: %w", head.Short(), err)
	}
	at, err := r.StartOf(ctx, head)
	if err != nil {
		return fail(err)
	}
	start, err := r.Start(ctx, at)
	if err != nil {
		return fail(err)
	}
	task, err := r.Text(ctx, start.Prompt)
	if err != nil {
		return fail(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "This thread was called by a thread of the flow %s, which stands at %s.\n", start.Name, head)
	fmt.Fprintf(&b, "%s lists its steps and those of its own callers, the newest %d of each, with what they left; "+
		"%s prints one.\n\n", walkCommand(head), MaxLent, getCommand)
	b.WriteString(block("caller's task", start.Prompt, cut(task, callerPrompt)))
	steps, err := r.Page(ctx, head, 0, Window)
	if err != nil {
		return fail(err)
	}
	slices.Reverse(steps)
	for i, s := range steps {
		form, text := "caller, meta only", cut(string(s.State.Meta), callerMeta)
		if i == len(steps)-1 {
			said, err := r.Text(ctx, s.State.Content)
			if err != nil {
				return fail(err)
			}
			form, text = "caller", text+"\n"+cut(said, callerText)
		}
		b.WriteByte('\n')
		for _, p := range fence(s, form, text, dag.Hash{}) {
			b.WriteString(p.text)
		}
		beside, err := r.aside(ctx, lend, s)
		if err != nil {
			return fail(err)
		}
		lend.add(beside)
		b.WriteString(beside.text)
	}
	return b.String(), lend, nil
}

// block fences a text that belongs to no step by the hash of its content.
func block(label string, h dag.Hash, text string) string {
	text = strings.TrimRight(text, "\n")
	return "--- " + h.Short() + " (" + label + ") ---\n" + text + "\n--- end " + h.Short() + " ---\n"
}

// cut keeps the first bytes of a text, whole characters, and says so.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
