package thread

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A Calls node holds requests of an attempt to its model, in the order they were sent.
type Calls struct {
	Calls []*ModelCall `json:"calls"`
	Prev  dag.Hash     `json:"prev"` // the previous calls node
}

// A ModelCall is one request to a model and its response. The body is split at its messages and
// shared with the previous call, so storage grows linearly with a conversation, not quadratically.
type ModelCall struct {
	At     int64      `json:"at"`   // Unix ms
	Lane   string     `json:"lane"` // requests of one conversation share a lane; see lane
	Method string     `json:"method"`
	Path   string     `json:"path"`  // below the base of the API
	Model  string     `json:"model"` // as requested
	Type   string     `json:"type"`  // media type of the body
	SHA256 dag.Hash   `json:"sha256"`
	Parts  []dag.Hash `json:"parts"` // blobs: the body without its messages, then the new messages
	Head   int        `json:"head"`  // bytes of the first part that precede the messages
	Keep   int        `json:"keep"`  // how many leading messages it shares with the previous call in the lane

	Status    int         `json:"status"`
	ReplyType string      `json:"replyType"` // media type of the response
	Response  dag.Hash    `json:"response"`
	Cut       bool        `json:"cut"` // the response was interrupted, or only its beginning is kept
	Usage     store.Usage `json:"usage"`
	Estimated bool        `json:"estimated"` // the response reports no usage
}

// A CallRecorder builds the calls nodes of an attempt.
type CallRecorder struct {
	calls []*ModelCall // in no node yet
	open  map[*ModelCall]bool
	last  dag.Hash // the last node
	lanes map[string]laneEnd
	order []string // the lanes, the one that was used last at the end
	held  int      // the sizes of lanes
	seen  map[dag.Hash]bool
}

// maxLanes limits the sizes of all lanes together. Of the lane that was used last, the body is always kept.
const maxLanes = 64 << 20

// A laneEnd is the last body of a lane.
type laneEnd struct {
	messages [][]byte
	hashes   []dag.Hash
	size     int // of the body and its division, in bytes
}

// Request adds a request. c says when and how it was sent, and names the model if the body does
// not. Request returns the call to pass to Response, and the blobs of the body that were not
// returned before.
func (b *CallRecorder) Request(c ModelCall, body []byte) (*ModelCall, []store.Object) {
	if b.lanes == nil {
		b.lanes, b.seen, b.open = map[string]laneEnd{}, map[dag.Hash]bool{}, map[*ModelCall]bool{}
	}
	frame, head, messages := CutBody(body)
	var named string
	c.Lane, named = lane(c.Path, frame, messages)
	c.Model = cmp.Or(named, c.Model)
	last := b.lanes[c.Lane]
	for c.Keep < min(len(messages), len(last.messages)) && bytes.Equal(messages[c.Keep], last.messages[c.Keep]) {
		c.Keep++
	}
	c.SHA256, c.Head = dag.Sum(body), head
	var blobs []store.Object
	c.Parts, blobs = b.blob(nil, blobs, frame)
	for _, m := range messages[c.Keep:] {
		c.Parts, blobs = b.blob(c.Parts, blobs, m)
	}
	size := len(body) + 64*len(messages)
	b.lanes[c.Lane] = laneEnd{messages, slices.Concat(last.hashes[:c.Keep], c.Parts[1:]), size}
	b.held += size - last.size
	b.order = append(slices.DeleteFunc(b.order, func(l string) bool { return l == c.Lane }), c.Lane)
	for b.held > maxLanes && len(b.order) > 1 { // a lane that goes on without its last body shares nothing with it
		b.held -= b.lanes[b.order[0]].size
		delete(b.lanes, b.order[0])
		b.order = b.order[1:]
	}
	b.calls, b.open[&c] = append(b.calls, &c), true
	return &c, blobs
}

// Response records the response to a request, and returns the blob if it was not returned before.
func (b *CallRecorder) Response(c *ModelCall, response []byte) []store.Object {
	hashes, blobs := b.blob(nil, nil, response)
	c.Response = hashes[0]
	delete(b.open, c)
	return blobs
}

func (b *CallRecorder) blob(hashes []dag.Hash, blobs []store.Object, data []byte) ([]dag.Hash, []store.Object) {
	h := dag.Sum(data)
	if !b.seen[h] {
		b.seen[h] = true
		blobs = append(blobs, store.Object{Hash: h, Data: bytes.Clone(data)}) // a part must not keep the body alive
	}
	return append(hashes, h), blobs
}

// maxCallsNode roughly limits a calls node in bytes, well below the limit for any node.
const maxCallsNode = 4 << 20

// maxCallText limits each text of a call in bytes: agents and servers choose them.
const maxCallText = 256

// Answered returns nodes for the leading run of answered requests that are in no node yet. needs
// are the blobs that they refer to.
func (b *CallRecorder) Answered() (last dag.Hash, nodes []store.Object, needs map[dag.Hash]bool, err error) {
	n := 0
	for n < len(b.calls) && !b.open[b.calls[n]] {
		n++
	}
	needs = map[dag.Hash]bool{}
	for _, c := range b.calls[:n] {
		needs[c.Response] = true
		for _, h := range c.Parts {
			needs[h] = true
		}
	}
	last, nodes, err = b.nodes(n)
	return last, nodes, needs, err
}

// Nodes returns nodes for all requests that are in none yet, and the hash of the last node, zero
// if there is none.
func (b *CallRecorder) Nodes() (last dag.Hash, nodes []store.Object, err error) {
	return b.nodes(len(b.calls))
}

// nodes builds nodes from the first n calls that are in none.
func (b *CallRecorder) nodes(n int) (last dag.Hash, nodes []store.Object, err error) {
	for rest := b.calls[:n]; len(rest) > 0; {
		n, size := 0, 0
		for ; n < len(rest) && (n == 0 || size < maxCallsNode); n++ {
			c := rest[n]
			size += 1024 + 70*len(c.Parts)
			for _, text := range []*string{&c.Path, &c.Model, &c.Type, &c.ReplyType} {
				*text = strings.ToValidUTF8((*text)[:min(len(*text), maxCallText)], "")
				size += len(dag.AppendString(nil, *text))
			}
		}
		obj, err := NewNode(dag.TypeCalls, Calls{rest[:n], b.last})
		if err != nil {
			return dag.Hash{}, nil, err
		}
		nodes, b.last, rest = append(nodes, obj), obj.Hash, rest[n:]
	}
	b.calls = b.calls[n:]
	return b.last, nodes, nil
}

// An Exchange is a request to a model and the reply, byte for byte.
type Exchange struct {
	ModelCall
	Body  []byte
	Reply []byte
}

// Exchanges yields the requests of an attempt in order, byte for byte, up to the calls node h. It
// ends at the first error, which matches dag.ErrMalformed if the parts do not yield what was sent.
func (r *Reader) Exchanges(ctx context.Context, h dag.Hash) iter.Seq2[Exchange, error] {
	return func(yield func(Exchange, error) bool) {
		nodes, err := r.callsNodes(ctx, h)
		lanes := map[string][][]byte{}
		for _, node := range slices.Backward(nodes) {
			for i, c := range node.Calls {
				var x Exchange
				if x, err = r.exchange(ctx, c, lanes); err != nil {
					yield(x, fmt.Errorf("read call %d of %s: %w", i+1, h.Short(), err))
					return
				}
				if !yield(x, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(Exchange{}, fmt.Errorf("read calls %s: %w", h.Short(), err))
		}
	}
}

// ModelCalls returns the requests of an attempt in order, up to the calls node h, without bodies
// and replies.
func (r *Reader) ModelCalls(ctx context.Context, h dag.Hash) ([]*ModelCall, error) {
	nodes, err := r.callsNodes(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("read calls %s: %w", h.Short(), err)
	}
	var calls []*ModelCall
	for _, node := range slices.Backward(nodes) {
		calls = append(calls, node.Calls...)
	}
	return calls, nil
}

// callsNodes returns a calls node and those before it, newest first. There can be no cycle: a
// node cannot hold the hash of a later one.
func (r *Reader) callsNodes(ctx context.Context, h dag.Hash) (nodes []*Calls, err error) {
	for !h.IsZero() {
		n, err := r.Node(ctx, h)
		if err != nil {
			return nil, err
		}
		c := new(Calls)
		switch {
		case n.Type == dag.TypeCalls:
		case nodes == nil:
			return nil, fmt.Errorf("it is of type %s: %w", n.Type, store.ErrNotFound)
		default:
			return nil, fmt.Errorf("%s before it is of type %s: %w", h.Short(), n.Type, dag.ErrMalformed)
		}
		if err := n.Unmarshal(c); err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
		}
		nodes, h = append(nodes, c), c.Prev
	}
	return nodes, nil
}

// exchange reassembles a request. lanes holds the messages of the previous request in each lane.
func (r *Reader) exchange(ctx context.Context, c *ModelCall, lanes map[string][][]byte) (Exchange, error) {
	x := Exchange{ModelCall: *c}
	last := lanes[c.Lane]
	if len(c.Parts) == 0 || c.Keep < 0 || c.Keep > len(last) {
		return x, fmt.Errorf("it has %d parts, and keeps %d of %d messages: %w", len(c.Parts), c.Keep, len(last),
			dag.ErrMalformed)
	}
	messages := slices.Clone(last[:c.Keep])
	var frame []byte
	for i, h := range c.Parts {
		obj, err := r.objects.Get(ctx, h)
		if err != nil {
			return x, err
		}
		if i == 0 {
			frame = obj.Data
		} else {
			messages = append(messages, obj.Data)
		}
	}
	lanes[c.Lane] = messages
	frame, redacted := store.Unredacted(frame)
	if c.Head < 0 || c.Head > len(frame) {
		return x, fmt.Errorf("byte %d of a part of %d bytes: %w", c.Head, len(frame), dag.ErrMalformed)
	}
	x.Body = slices.Clone(frame[:c.Head])
	for _, m := range messages {
		m, was := store.Unredacted(m)
		x.Body, redacted = append(x.Body, m...), redacted || was
	}
	x.Body = append(x.Body, frame[c.Head:]...)
	if !redacted && dag.Sum(x.Body) != c.SHA256 {
		return x, fmt.Errorf("the parts do not hash to %s: %w", c.SHA256, dag.ErrMalformed)
	}
	if !c.Response.IsZero() {
		obj, err := r.objects.Get(ctx, c.Response)
		if err != nil {
			return x, err
		}
		x.Reply = obj.Data
	}
	return x, nil
}

// maxMessages limits the messages that a body is split into; the last one holds the rest.
const maxMessages = 20_000

// CutBody splits a request at the elements of its messages, input or contents list. For any
// input, frame with the messages inserted at head equals body. It scans bytes and does not decode
// JSON: bodies are long, and an agent is waiting.
func CutBody(body []byte) (frame []byte, head int, messages [][]byte) {
	depth, key, list, from := 0, "", false, 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			end := i + 1
			for end < len(body) && body[end] != '"' {
				if body[end] == '\\' {
					end++
				}
				end++
			}
			if depth == 1 && end < len(body) {
				key = string(body[i+1 : min(end, i+1+len("messages"))])
			}
			i = end
		case '{', '[':
			if depth++; depth == 2 && body[i] == '[' && (key == "messages" || key == "input" || key == "contents") {
				list, head, from = true, i+1, i+1
			}
		case '}', ']':
			if depth--; list && depth < 2 {
				if rest := body[from:i]; len(bytes.TrimSpace(rest)) > 0 {
					messages, from = append(messages, rest), i
				}
				return slices.Concat(body[:head], body[from:]), head, messages
			}
		case ',':
			if list && depth == 2 && len(messages) < maxMessages-1 {
				messages, from = append(messages, body[from:i]), i
			}
		}
	}
	return body, len(body), nil
}

// lane names the conversation that a request belongs to by what stays the same in it: the path,
// the model, the names of its tools, and the words of its instructions. Words with a digit, a
// slash or an equals sign are left out, since they differ from run to run.
func lane(path string, frame []byte, messages [][]byte) (name, model string) {
	var f struct {
		Model string
		Tools []struct {
			Name                 string
			Function             struct{ Name string }
			FunctionDeclarations []struct{ Name string }
		}
		System       json.RawMessage
		Instructions json.RawMessage
		// Of the Gemini API.
		SystemInstruction struct{ Parts json.RawMessage }
	}
	_ = json.Unmarshal(frame, &f) // best effort
	text := []string{textOf(f.System), textOf(f.Instructions)}
	if words := textOf(f.SystemInstruction.Parts); words != "" {
		text = append(text, words)
	}
	for _, m := range messages {
		var first struct {
			Role    string
			Content json.RawMessage
		}
		if json.Unmarshal(bytes.TrimPrefix(m, []byte(",")), &first) != nil || first.Role != "system" &&
			first.Role != "developer" {
			break
		}
		text = append(text, textOf(first.Content))
	}
	var tools []string
	for _, t := range f.Tools {
		tools = append(tools, t.Name+t.Function.Name)
		for _, d := range t.FunctionDeclarations {
			tools = append(tools, d.Name)
		}
	}
	slices.Sort(tools)
	words := slices.DeleteFunc(strings.Fields(strings.Join(text, "\n")), func(w string) bool {
		return strings.ContainsAny(w, `/\=`) || strings.ContainsFunc(w, unicode.IsDigit)
	})
	sum := sha256.Sum256([]byte(strings.Join([]string{path, f.Model, strings.Join(tools, " "), strings.Join(words, " ")},
		"\n")))
	return hex.EncodeToString(sum[:8]), f.Model
}

// textOf returns the text of a string, or of a list of parts that have a text.
func textOf(raw json.RawMessage) string {
	var text string
	var parts []struct{ Text string }
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	_ = json.Unmarshal(raw, &parts)
	for _, p := range parts {
		text += p.Text + "\n"
	}
	return text
}
