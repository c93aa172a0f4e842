package prompt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Node lists the parts of a prompt. Together they are Size bytes long and hash to SHA256.
type Node struct {
	SHA256 dag.Hash `json:"sha256"` // of the text; not a ref
	Size   int64    `json:"size"`   // bytes
	Parts  []Part   `json:"parts"`
}

// A Part of a prompt is a text, or bytes From to To (exclusive) of the text of a content or of
// another prompt.
type Part struct {
	Text     string
	Content  dag.Hash // zero: use Text
	From, To int64
}

// UnmarshalJSON reads either form.
func (p *Part) UnmarshalJSON(data []byte) error {
	var v struct {
		Text     string
		Content  dag.Hash
		From, To int64
	}
	err := json.Unmarshal(data, &v)
	*p = Part(v)
	return err
}

// MarshalJSON writes either form.
func (p Part) MarshalJSON() ([]byte, error) {
	if p.Content.IsZero() {
		return json.Marshal(struct {
			Text string `json:"text"`
		}{p.Text})
	}
	return json.Marshal(struct {
		Content dag.Hash `json:"content"`
		From    int64    `json:"from"`
		To      int64    `json:"to"`
	}{p.Content, p.From, p.To})
}

// A Kept prompt is a recorded one that the next one builds on.
type Kept struct {
	Hash  dag.Hash
	Text  string
	Links int // length of the series of prompts that it builds on

	built    bool  // it is a prompt node, not a content
	redacted bool  // it, or a part of it: the text is not what was sent
	heads    []int // offsets in Text of pieces that are heads
}

// Limits on the parts of a prompt.
const (
	MaxLinks = 32  // length of a series of prompts that build on each other
	minRange = 160 // below this many bytes, a text is shorter than a reference to it
)

// Keep returns the node of a prompt, and the prompt for the next one to build on. Parts that are
// already in before are references to it, so the size of the node is proportional to what the
// prompt adds. before may be nil. The error matches dag.ErrTooLarge if the prompt is too long.
func (a *Assembled) Keep(before *Kept) (store.Object, *Kept, error) {
	if len(a.Text) > dag.MaxBytes {
		return store.Object{}, nil, fmt.Errorf("prompt of %d bytes: %w", len(a.Text), dag.ErrTooLarge)
	}
	if before != nil && before.Links >= MaxLinks {
		before = nil
	}
	node := Node{SHA256: dag.SumText(a.Text), Size: int64(len(a.Text)), Parts: []Part{}}
	kept := &Kept{Text: a.Text, built: true}
	spans, heads := a.spans(before)
	kept.heads = heads
	for _, s := range spans {
		part := Part{Text: a.Text[s.begin:s.end]}
		if !s.of.IsZero() {
			part = Part{Content: s.of, From: int64(s.from), To: int64(s.from + s.end - s.begin)}
		}
		if before != nil && s.of == before.Hash {
			kept.Links = before.Links + 1
		}
		node.Parts = append(node.Parts, part)
	}
	obj, err := thread.NewNode(dag.TypePrompt, node)
	if err != nil {
		return store.Object{}, nil, err
	}
	kept.Hash = obj.Hash
	return obj, kept, nil
}

// A span is a range of a prompt, and where else the same bytes are found.
type span struct {
	begin, end int      // in the prompt
	of         dag.Hash // a content or a prompt; zero: nowhere
	from       int      // offset there
	named      bool     // see piece
}

// spans finds the pieces of a prompt in the one before it, and in contents. Adjacent pieces that
// are also adjacent there form one span, as do adjacent texts. The previous prompt is searched by
// its heads only, since searching a long prompt would be the slowest step. spans also returns the
// heads of this prompt.
func (a *Assembled) spans(before *Kept) (spans []span, heads []int) {
	var found []span
	at := 0
	for _, p := range a.pieces {
		s := span{begin: at, end: at + len(p.text), of: p.content, from: p.from, named: p.named}
		at = s.end
		if p.head {
			heads = append(heads, s.begin)
		}
		if before != nil && !p.named {
			if n := len(found); n > 0 && found[n-1].of == before.Hash {
				last := &found[n-1]
				if strings.HasPrefix(before.Text[last.from+last.end-last.begin:], p.text) {
					last.end = s.end
					continue
				}
			}
			if p.head {
				if i, ok := before.head(p.text); ok {
					s.of, s.from = before.Hash, i
				}
			}
		}
		found = append(found, s)
	}
	for _, s := range found {
		if s.end-s.begin < minRange && !s.named {
			s.of = dag.Hash{}
		}
		if n := len(spans); n > 0 && s.of.IsZero() && spans[n-1].of.IsZero() {
			spans[n-1].end = s.end
			continue
		}
		spans = append(spans, s)
	}
	return spans, heads
}

// head returns the offset of the first occurrence of a head.
func (k *Kept) head(text string) (int, bool) {
	for _, at := range k.heads {
		if strings.HasPrefix(k.Text[at:], text) {
			return at, true
		}
	}
	return 0, false
}

// findHeads returns the offsets of heads in the text of a recorded prompt. Every line that looks
// like one counts: what follows it is compared anyway.
func findHeads(text string) (heads []int) {
	for begin := 0; begin < len(text); {
		end := len(text)
		if i := strings.IndexByte(text[begin:], '\n'); i >= 0 {
			end = begin + i + 1
		}
		head, at := text[begin:end], begin
		begin = end
		title := strings.HasPrefix(head, "# ") && strings.HasPrefix(text[end:], "\n")
		if title || strings.HasPrefix(head, fenceHead) {
			heads = append(heads, at)
		}
	}
	return heads
}

// Text assembles a prompt. of returns the whole text of a content or of a prompt. The error
// matches dag.ErrMalformed if the parts do not yield the recorded text; errParts if they yield another, which is
// returned.
func (p *Node) Text(of func(dag.Hash) (string, error)) (string, error) {
	if p.Size < 0 || p.Size > dag.MaxBytes {
		return "", fmt.Errorf("a prompt of %d bytes: %w", p.Size, dag.ErrMalformed)
	}
	var b strings.Builder
	for i, part := range p.Parts {
		text := part.Text
		if !part.Content.IsZero() {
			whole, err := of(part.Content)
			if err != nil {
				return "", err
			}
			if part.From < 0 || part.To < part.From || part.To > int64(len(whole)) {
				return "", fmt.Errorf("part %d is bytes %d to %d of a text of %d bytes: %w", i+1, part.From, part.To, len(whole),
					dag.ErrMalformed)
			}
			text = whole[part.From:part.To]
		}
		if int64(b.Len()+len(text)) > p.Size {
			return "", fmt.Errorf("the parts have more than %d bytes: %w", p.Size, dag.ErrMalformed)
		}
		b.WriteString(text)
	}
	text := b.String()
	if dag.SumText(text) != p.SHA256 {
		return text, fmt.Errorf("%w %s: %w", errParts, p.SHA256, dag.ErrMalformed)
	}
	return text, nil
}

var errParts = errors.New("the parts do not hash to")

// Read returns the exact text of the prompt that the detail of a step names: a prompt node, or a
// content in older records. The error may match store.ErrNotFound or store.ErrCorrupt.
func Read(ctx context.Context, nodes *thread.Reader, h dag.Hash) (string, error) {
	p, err := ReadKept(ctx, nodes, h)
	if err != nil {
		return "", err
	}
	return p.Text, nil
}

// ReadKept is like Read, for a prompt that the next one builds on.
func ReadKept(ctx context.Context, nodes *thread.Reader, h dag.Hash) (*Kept, error) {
	kept, err := readKept(ctx, nodes, h, 0)
	if err != nil {
		return nil, fmt.Errorf("read prompt %s: %w", h.Short(), err)
	}
	kept.heads = findHeads(kept.Text)
	return kept, nil
}

// readKept reads a prompt; above is the length of the series of prompts that build on it.
func readKept(ctx context.Context, nodes *thread.Reader, h dag.Hash, above int) (*Kept, error) {
	obj, err := nodes.Objects().Get(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", h.Short(), err)
	}
	n, err := thread.NodeOf(obj)
	if err != nil {
		return nil, err
	}
	switch {
	case n.Type == dag.TypeContent:
		text, err := nodes.Text(ctx, h)
		return &Kept{Hash: h, Text: text, redacted: obj.Redacted}, err
	case n.Type != dag.TypePrompt:
		return nil, fmt.Errorf("it is of type %s: %w", n.Type, store.ErrNotFound)
	case above > MaxLinks:
		return nil, fmt.Errorf("it builds on more than %d others: %w", MaxLinks, store.ErrCorrupt)
	}
	var p Node
	if err := n.Unmarshal(&p); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	kept := &Kept{Hash: h, built: true, redacted: obj.Redacted}
	seen := map[dag.Hash]string{}
	kept.Text, err = p.Text(func(of dag.Hash) (string, error) {
		if text, ok := seen[of]; ok {
			return text, nil
		}
		below, err := readKept(ctx, nodes, of, above+1)
		if err != nil {
			return "", err
		}
		kept.redacted = kept.redacted || below.redacted
		if below.built {
			kept.Links = max(kept.Links, below.Links+1)
		}
		seen[of] = below.Text
		return below.Text, nil
	})
	if kept.redacted && errors.Is(err, errParts) {
		err = nil
	}
	return kept, err
}

// instructionHead is the heading of the instruction, with which a prompt ends.
const instructionHead = "# Now\n\n"

// Split divides a prompt into what comes before the instruction, "" if there is none, and the instruction.
func Split(text string) (before, instruction string) {
	if at := strings.LastIndex(text, "\n"+instructionHead); at >= 0 {
		return text[:at+1], text[at+1+len(instructionHead):]
	}
	return "", strings.TrimPrefix(text, instructionHead)
}

// Instruction returns the instruction of a prompt, without reading more of the prompt than that takes.
func Instruction(ctx context.Context, nodes *thread.Reader, h dag.Hash) (string, error) {
	n, err := nodes.Node(ctx, h)
	if err != nil {
		return "", err
	}
	var p Node
	if n.Type == dag.TypePrompt && n.Unmarshal(&p) == nil && len(p.Parts) > 0 {
		if before, instruction := Split(p.Parts[len(p.Parts)-1].Text); before != "" {
			return instruction, nil
		}
	}
	text, err := Read(ctx, nodes, h)
	_, instruction := Split(text)
	return instruction, err
}
