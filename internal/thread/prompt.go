package thread

import (
	"encoding/json"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
)

// A PromptNode says what an exact prompt is made of. Put together, the parts are Size bytes
// and hash to SHA256.
type PromptNode struct {
	SHA256 dag.Hash `json:"sha256"` // of the text; it is no ref
	Size   int64    `json:"size"`   // bytes
	Parts  []Part   `json:"parts"`
}

// A Part of a prompt is a text, or the bytes From … To (not included) of the text of a content
// or of another prompt.
type Part struct {
	Text     string
	Content  dag.Hash // zero: it is Text
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

// A Calls node has requests of an attempt to its model, in order.
type Calls struct {
	Calls []ModelCall `json:"calls"`
	Prev  dag.Hash    `json:"prev"` // the calls node before
}

// A ModelCall is one request to a model and what came back.
type ModelCall struct {
	At       int64             `json:"at"`   // Unix ms
	Lane     string            `json:"lane"` // of a conversation
	Method   string            `json:"method"`
	Path     string            `json:"path"`
	Status   int               `json:"status"`
	Head     map[string]string `json:"head"`
	Keep     int               `json:"keep"`  // leading parts that the call before in the lane has too
	Parts    []dag.Hash        `json:"parts"` // blobs: the further parts of the body
	Response dag.Hash          `json:"response"`
	Usage    store.Usage       `json:"usage"`
}

// A TreeNode has the files of a working tree.
type TreeNode struct {
	Tree   string   `json:"tree"`   // git tree
	Bundle dag.Hash `json:"bundle"` // blob: a git bundle that has it
	Base   dag.Hash `json:"base"`   // tree node on which the bundle builds
	Commit string   `json:"commit"` // in the bundle
}

// A SessionNode has what a vendor keeps of a conversation.
type SessionNode struct {
	Agent string   `json:"agent"`
	ID    string   `json:"id"`    // the vendor's
	Prev  dag.Hash `json:"prev"`  // the session node before
	Bytes dag.Hash `json:"bytes"` // blob: what the session's file has since
}
