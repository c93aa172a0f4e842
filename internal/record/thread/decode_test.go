package thread

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/dag"
)

// A state is decoded as encoding/json would decode it, whatever its fields hold.
func TestStatesReadAsTheLibraryReadsThem(t *testing.T) {
	h := dag.Sum([]byte("h")).String()
	values := []string{
		`null`, `""`, `"x\n\"y"`, `7`, `-7`, `1.5`, `true`, `[]`, `{}`, `"` + h + `"`, `["` + h + `",null]`, `[7]`,
		`[{}]`, `[{"head":"` + h + `","id":"i","status":"completed","thread":"T"}]`, `[{"head":null,"more":1}]`, `[{"id":7}]`, `[null]`,
	}
	fields := []string{"ancestors", "childThread", "compact", "content", "detail", "fork", "fromTheFuture", "meta", "path", "paths",
		"role", "start", "timestamp"}
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		for _, name := range fields {
			if rapid.IntRange(0, 9).Draw(t, "given") > 0 {
				text += fmt.Sprintf(`,%q:%s`, name, rapid.SampledFrom(values).Draw(t, name))
			}
		}
		n := dag.Node{Type: dag.TypeState, Payload: []byte("{" + text[min(1, len(text)):] + "}")}
		var want State
		wantErr := json.Unmarshal(n.Payload, &want)
		got, err := DecodeState(n)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%s: %v, the library says %v", n.Payload, err, wantErr)
		}
		if diff := cmp.Diff(&want, got); err == nil && diff != "" {
			t.Fatalf("%s: -library +got\n%s", n.Payload, diff)
		}
	})
}
