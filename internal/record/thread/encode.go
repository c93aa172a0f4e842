package thread

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// The codecs of the nodes that every step writes. They are written by hand, in key order; tests
// compare them with dag.Encode.

// Encode returns the state's node.
func (s *State) Encode() ([]byte, error) {
	if len(s.Meta) == 0 || s.Meta[0] != '{' {
		return nil, fmt.Errorf("encode state of %s: meta is not an object", s.Role)
	}
	p := dag.Open(len(s.Meta) + 2*67*(len(s.Ancestors)+7) + 300 + 250*len(s.Paths))
	p = append(p, `{"ancestors":`...)
	p = dag.AppendHashes(p, s.Ancestors)
	p = append(p, `,"childThread":`...)
	p = s.ChildThread.Append(p)
	p = append(p, `,"compact":`...)
	p = s.Compact.Append(p)
	p = append(p, `,"content":`...)
	p = s.Content.Append(p)
	p = append(p, `,"detail":`...)
	p = s.Detail.Append(p)
	p = append(p, `,"fork":`...)
	p = s.Fork.Append(p)
	p = append(p, `,"meta":`...)
	p = append(p, s.Meta...)
	if s.Path.Present {
		p = s.Path.append(append(p, `,"path":`...))
	}
	p = append(p, `,"paths":`...)
	if s.Paths == nil {
		p = append(p, "null"...)
	} else {
		p = append(p, '[')
		for i, ph := range s.Paths {
			if i > 0 {
				p = append(p, ',')
			}
			p = append(p, `{"head":`...)
			p = ph.Head.Append(p)
			p = append(p, `,"id":`...)
			p = dag.AppendString(p, ph.ID)
			p = append(p, `,"status":`...)
			p = dag.AppendString(p, string(ph.Status))
			p = append(p, `,"thread":`...)
			p = dag.AppendString(p, ph.Thread)
			p = append(p, '}')
		}
		p = append(p, ']')
	}
	p = append(p, `,"role":`...)
	p = dag.AppendString(p, s.Role)
	p = append(p, `,"start":`...)
	p = s.Start.Append(p)
	p = append(p, `,"timestamp":`...)
	p = strconv.AppendInt(p, s.Timestamp, 10)
	p = append(p, '}')
	return dag.Close(p, dag.TypeState, s.refs())
}

// refs lists the state's references, in the order that dag derives.
func (s *State) refs() []dag.Hash {
	refs := make([]dag.Hash, 0, len(s.Ancestors)+7+len(s.Paths))
	add := func(h dag.Hash) {
		if h.IsZero() {
			return
		}
		for _, r := range refs {
			if r == h {
				return
			}
		}
		refs = append(refs, h)
	}
	add(s.Start)
	add(s.Content)
	for _, a := range s.Ancestors {
		add(a)
	}
	add(s.Compact)
	add(s.ChildThread)
	add(s.Detail)
	add(s.Fork)
	for _, p := range s.Paths {
		add(p.Head)
	}
	return refs
}

// Encode returns the detail's node.
func (d *Detail) Encode() ([]byte, error) {
	names := len(d.Agent) + len(d.Model) + len(d.Session)
	b := dag.Open(names + 900 + 100*len(d.Context) + 300*len(d.Attempts) + 134*len(d.Evidence) + 67*len(d.Approvals.Hashes))
	b = text(b, `{"agent":`, d.Agent)
	if d.Approvals.Present {
		b = d.Approvals.append(append(b, `,"approvals":`...))
	}
	b = text(b, `,"attempt":`, d.Attempt)
	b = earlier(b, `,"attempts":`, d.Attempts)
	b = append(b, `,"by":`...)
	b = optional(b, d.By)
	b = hash(b, `,"calls":`, d.Calls)
	b = append(b, `,"context":[`...)
	for i, u := range d.Context {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(b, `{"form":`, u.Form)
		b = hash(b, `,"from":`, u.From)
		b = hash(b, `,"to":`, u.To)
		b = append(b, '}')
	}
	b = number(b, `],"endedAt":`, d.EndedAt)
	if len(d.Evidence) > 0 {
		b = dag.AppendHashes(append(b, `,"evidence":`...), d.Evidence)
	}
	if d.Exit == nil {
		b = append(b, `,"exit":null`...)
	} else {
		b = number(b, `,"exit":`, int64(*d.Exit))
	}
	if len(d.Failures) > 0 {
		b = failures(b, `,"failures":`, d.Failures)
	}
	b = hash(b, `,"files":`, d.Files)
	b = text(b, `,"instance":`, d.Instance)
	if m := d.Memory; m != nil {
		b = number(b, `,"memory":{"bare":`, m.Bare)
		b = hash(b, `,"summary":`, m.Summary)
		b = append(number(b, `,"tokens":`, m.Tokens), '}')
	}
	if d.Merge != nil {
		merge, err := dag.Marshal(d.Merge)
		if err != nil {
			return nil, fmt.Errorf("encode detail: merge: %w", err)
		}
		b = append(append(b, `,"merge":`...), merge...)
	}
	b = text(b, `,"model":`, d.Model)
	b = hash(b, `,"prompt":`, d.Prompt)
	b = text(b, `,"sandbox":`, d.Sandbox)
	b = text(b, `,"session":`, d.Session)
	b = hash(b, `,"sessionFiles":`, d.SessionFiles)
	b = number(b, `,"startedAt":`, d.StartedAt)
	b = hash(b, `,"stderr":`, d.Stderr)
	b = hash(b, `,"transcript":`, d.Transcript)
	b = append(b, `,"treeAfter":`...)
	b = optional(b, d.TreeAfter)
	b = append(b, `,"treeBefore":`...)
	b = optional(b, d.TreeBefore)
	b = number(b, `,"usage":{"cachedInputTokens":`, d.Usage.CachedInputTokens)
	b = number(b, `,"costMicroUSD":`, d.Usage.CostMicroUSD)
	b = number(b, `,"inputTokens":`, d.Usage.InputTokens)
	b = number(b, `,"outputTokens":`, d.Usage.OutputTokens)
	b = number(b, `,"reasoningTokens":`, d.Usage.ReasoningTokens)
	b = append(b, "}}"...)
	return dag.Close(b, dag.TypeDetail, d.refs())
}

func earlier(b []byte, key string, attempts []EarlierAttempt) []byte {
	b = append(append(b, key...), '[')
	for i, a := range attempts {
		if i > 0 {
			b = append(b, ',')
		}
		b = hash(b, `{"calls":`, a.Calls)
		b = append(b, `,"failure":`...)
		b = failure(b, a.Failure)
		b = text(b, `,"id":`, a.ID)
		b = hash(b, `,"transcript":`, a.Transcript)
		b = append(b, '}')
	}
	return append(b, ']')
}

func failures(b []byte, key string, list []PathFailure) []byte {
	b = append(append(b, key...), '[')
	for i, f := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(b, `{"kind":`, string(f.Kind))
		b = text(b, `,"message":`, f.Message)
		b = text(b, `,"path":`, f.Path)
		b = append(b, '}')
	}
	return append(b, ']')
}

// refs lists the detail's references, in the order that dag derives.
func (d *Detail) refs() []dag.Hash {
	var refs []dag.Hash
	add := func(h dag.Hash) {
		if !h.IsZero() && !slices.Contains(refs, h) {
			refs = append(refs, h)
		}
	}
	add(d.Prompt)
	add(d.Transcript)
	for _, a := range d.Attempts {
		add(a.Transcript)
	}
	add(d.Stderr)
	for _, h := range d.Evidence {
		add(h)
	}
	add(d.Calls)
	for _, a := range d.Attempts {
		add(a.Calls)
	}
	add(d.Files)
	add(d.SessionFiles)
	return refs
}

// Encode returns the prompt's node.
func (p *PromptNode) Encode() ([]byte, error) {
	size := 200
	for _, part := range p.Parts {
		size += 130 + len(part.Text)
	}
	b := append(dag.Open(size), `{"parts":[`...)
	var refs []dag.Hash
	for i, part := range p.Parts {
		if i > 0 {
			b = append(b, ',')
		}
		if part.Content.IsZero() {
			b = append(text(b, `{"text":`, part.Text), '}')
			continue
		}
		if !slices.Contains(refs, part.Content) {
			refs = append(refs, part.Content)
		}
		b = hash(b, `{"content":`, part.Content)
		b = number(b, `,"from":`, part.From)
		b = number(b, `,"to":`, part.To)
		b = append(b, '}')
	}
	b = hash(b, `],"sha256":`, p.SHA256)
	b = number(b, `,"size":`, p.Size)
	return dag.Close(append(b, '}'), dag.TypePrompt, refs)
}

func failure(b []byte, f *store.Failure) []byte {
	if f == nil {
		return append(b, "null"...)
	}
	b = text(b, `{"kind":`, string(f.Kind))
	b = text(b, `,"message":`, f.Message)
	b = number(b, `,"resetAt":`, f.ResetAt)
	return append(b, '}')
}

func text(b []byte, key, s string) []byte          { return dag.AppendString(append(b, key...), s) }
func hash(b []byte, key string, h dag.Hash) []byte { return h.Append(append(b, key...)) }
func number(b []byte, key string, n int64) []byte  { return strconv.AppendInt(append(b, key...), n, 10) }

func optional(b []byte, s *string) []byte {
	if s == nil {
		return append(b, "null"...)
	}
	return dag.AppendString(b, *s)
}
