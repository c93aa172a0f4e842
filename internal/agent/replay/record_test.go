package replay

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAnswered writes answers as an agent could have given them.
func TestAnswered(t *testing.T) {
	zero := 0
	for _, try := range []struct {
		meta, text string
		want       Attempt
	}{
		{`{"$status":"done","exitCode":0}`, "ok\n", Attempt{Output: Bytes("ok\n"), Plain: true, Exit: &zero, Status: "done"}},
		{`{"$status":"done","exitCode":null}`, "", Attempt{Output: Bytes(""), Plain: true, Status: "done"}},
		{`{"$status":"ready","files":["a\n"],"it is: odd":{"b":1}}`, "The plan.",
			Attempt{Output: Bytes("---\n$status: \"ready\"\nfiles: [\"a\\n\"]\n\"it is: odd\": {\"b\":1}\n---\nThe plan.")}},
		{`{"$status":"done"}`, "", Attempt{Output: Bytes("---\n$status: \"done\"\n---\n")}},
	} {
		got, err := answered([]byte(try.meta), try.text)
		if diff := cmp.Diff(try.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", try.meta, err, diff)
		}
	}
}
