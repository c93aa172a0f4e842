package prompt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

// Limits on what a called thread is told about its caller, in bytes. The rest can be read in the
// record.
const (
	callerPrompt = 4 << 10
	callerMeta   = 512
	callerText   = 2 << 10
)

// Caller returns what the prompts of a called thread say about the thread that called it at head:
// where it is, how to read it, and a digest. The digest contains the caller's task, the meta and
// the artifacts of its last steps, and the text of the newest one. Callers further up are only
// named. said returns the text of a step. Caller also returns what the digest says can be read.
func Caller(ctx context.Context, nodes *thread.Reader, head dag.Hash,
	said func(context.Context, *thread.State) (string, error)) (string, Exports, error) {
	var lend Exports
	fail := func(err error) (string, Exports, error) {
		return "", Exports{}, fmt.Errorf("read caller %s: %w", head.Short(), err)
	}
	at, err := nodes.StartOf(ctx, head)
	if err != nil {
		return fail(err)
	}
	start, err := nodes.Start(ctx, at)
	if err != nil {
		return fail(err)
	}
	task, err := nodes.Text(ctx, start.Prompt)
	if err != nil {
		return fail(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "This thread was called by a thread of the flow %s, whose last step is %s.\n", start.Name, head)
	fmt.Fprintf(&b, "%s lists its steps and those of its own callers, the newest %d of each, with what they left; "+
		"%s prints one.\n\n", walkCommand(head), MaxExported, getCommand)
	b.WriteString(block("caller's task", start.Prompt, cut(task, callerPrompt)))
	steps, err := nodes.Page(ctx, head, 0, thread.Window)
	if err != nil {
		return fail(err)
	}
	slices.Reverse(steps)
	for i, s := range steps {
		form, text := "caller, meta only", cut(string(s.State.Meta), callerMeta)
		if i == len(steps)-1 {
			words, err := said(ctx, s.State)
			if err != nil {
				return fail(err)
			}
			form, text = "caller", text+"\n"+cut(words, callerText)
		}
		b.WriteByte('\n')
		for _, p := range fence(s, form, whole(text, dag.Hash{})) {
			b.WriteString(p.text)
		}
		beside, err := refer(ctx, nodes, lend, s)
		if err != nil {
			return fail(err)
		}
		lend.add(beside)
		b.WriteString(beside.text)
	}
	return b.String(), lend, nil
}

// block fences a text that belongs to no step with the hash of its content.
func block(label string, h dag.Hash, text string) string {
	text = strings.TrimRight(text, "\n")
	return "--- " + h.Short() + " (" + label + ") ---\n" + text + "\n--- end " + h.Short() + " ---\n"
}

// cut shortens a text to most bytes at a character boundary, and marks it with "…".
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
