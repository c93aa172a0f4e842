package acp

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// TestDeliveredAmongOddLines checks that an answer is taken although the agent's client writes lines that are no
// messages, and closes its end at once.
func TestDeliveredAmongOddLines(t *testing.T) {
	d, err := newDelivery(json.RawMessage(`{"type":"object","properties":{"$status":{"enum":["done"]}},` +
		`"required":["$status"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.offer(t.TempDir(), "a1"); err != nil {
		t.Fatal(err)
	}
	line := d.line([]string{""})
	var out strings.Builder
	err = Deliver(t.Context(), line[0], line[1], io.NopCloser(strings.NewReader("\uFEFFstarting up...\n"+
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"initialize","params":{"protocolVersion":"2025-06-18",`+
		`"capabilities":{},`+
		`"clientInfo":{"name":"t","version":"1"}}}`+"\n[]\n\x00\n"+
		`{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"deliver","arguments":{"status":"done",`+
		`"text":"It is."}}}`)),
		unclosed{&out})
	if answer, _ := d.answer(""); err != nil || string(answer) != "---\n{\"$status\":\"done\"}\n---\n\nIt is." {
		t.Errorf("%q, %v", answer, err)
	}
	for _, want := range []string{`"id":9007199254740993,"result"`, `"id":1.5,"result"`, `-32700`, `-32600`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
