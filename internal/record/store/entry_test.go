package store

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"testing"
)

// TestPublishedEntry computes the leaf that docs/format.md has of an event.
func TestPublishedEntry(t *testing.T) {
	page, err := os.ReadFile("../../../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("<!-- entry: (\\S+) (\\S+) -->\n```json\n(.*)\n```\n").FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/format.md has no entry")
	}
	var secret Secret
	var line ExportedEvent
	if _, err := hex.Decode(secret[:], m[1]); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(m[3], &line); err != nil {
		t.Fatal(err)
	}
	e := line.Event
	e.Proof = line.Proof
	if got := e.Leaf(secret).String(); got != string(m[2]) {
		t.Errorf("the leaf is %s, the page says %s", got, m[2])
	}
}
