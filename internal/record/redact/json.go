package redact

import (
	"bytes"
	"encoding/json"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/sys/secret"
)

// cleanJSON returns JSON without the text, which its strings are searched for as they are decoded: so they keep their
// lengths. What is no JSON is searched as it is.
func cleanJSON(set *secret.Set, data []byte) []byte {
	if !json.Valid(data) {
		return set.EvenBytes(data)
	}
	var out []byte // nil: nothing was changed
	done := 0
	for at := 0; at < len(data); at++ {
		if data[at] != '"' {
			continue
		}
		from := at
		for at++; data[at] != '"'; at++ {
			if data[at] == '\\' {
				at++
			}
		}
		var text string
		if json.Unmarshal(data[from:at+1], &text) != nil {
			continue
		}
		if clean := set.EvenBytes([]byte(text)); !bytes.Equal(clean, []byte(text)) {
			out = dag.AppendString(append(out, data[done:from]...), string(clean))
			done = at + 1
		}
	}
	if out == nil {
		return data
	}
	return append(out, data[done:]...)
}
