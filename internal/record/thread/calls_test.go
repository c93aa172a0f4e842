package thread_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/mem"
)

// kept records bodies and reads them back from a store.
func kept(t testing.TB, path string, bodies ...[]byte) (hash dag.Hash, s *mem.Store, size int) {
	t.Helper()
	var b thread.CallRecorder
	var objects []store.Object
	for i, body := range bodies {
		c, blobs := b.Request(thread.ModelCall{At: int64(i), Method: "POST", Path: path}, body)
		objects = append(append(objects, blobs...), b.Response(c, fmt.Append(nil, "reply ", i))...)
	}
	hash, nodes, err := b.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	objects = append(objects, nodes...)
	for _, o := range objects {
		size += len(o.Data)
	}
	s = mem.New(mem.Config{})
	if err := s.Commit(t.Context(), store.Batch{Objects: objects}); err != nil {
		t.Fatal(err)
	}
	return hash, s, size
}

func TestExchangesAreWhatWasSent(t *testing.T) {
	for name, bodies := range map[string][]string{
		"chat": {`{"model":"m","messages":[{"role":"user","content":"a,]\"}"}],"stream":true}`,
			`{"model":"m","messages":[{"role":"user","content":"a,]\"}"},` + "\n" + `{"role":"assistant"}],"stream":false}`},
		"responses": {`{"input":[ ],"id":1}`, `{"id":2,"input":[ {"a":[1,{"b":2}]} , 3 ]}`,
			`{"id":3,"input":[ {"a":[1,{"b":2}]} , 4 ]}`},
		"one": {`{"input":"text"}`, `[1,2,3]`, `"messages"`, ``, `{"messages":[1,`, `]}{"messages":[1]}`, "\x00\xff",
			`{"x":{"messages":[1,2]}}`},
		"cut short": {`{"messages":[1,2,3]}`, `{"messages":[1]}`, `{"messages":[]}`, `{"messages":[1,2,4]}`},
		"odd":       {`{"messages":[1,2}`, `{"messages`, `{"messages":[1,"]`, `{"messages":[,,]}`},
		"two models": {`{"model":"a","messages":[1,2]}`, `{"model":"b","messages":[1,2]}`,
			`{"model":"a","messages":[1,2,3]}`},
	} {
		t.Run(name, func(t *testing.T) {
			var all [][]byte
			for _, b := range bodies {
				all = append(all, []byte(b))
			}
			h, s, _ := kept(t, "/messages", all...)
			i := 0
			for x, err := range thread.NewReader(s).Exchanges(t.Context(), h) {
				if err != nil {
					t.Fatal(err)
				}
				if string(x.Body) != bodies[i] || string(x.Reply) != fmt.Sprint("reply ", i) || x.At != int64(i) {
					t.Errorf("call %d: %q, %q", i, x.Body, x.Reply)
				}
				i++
			}
			if i != len(bodies) {
				t.Errorf("%d of %d", i, len(bodies))
			}
		})
	}
}

func FuzzExchanges(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"a":"]"},2],"x":1}`), []byte(`{"model":"m","messages":[{"a":"]"},2,3],"x":2}`))
	f.Add([]byte(`{"input":["\"",{}]`), []byte(`{"input":[[],`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		h, s, _ := kept(t, "/responses", a, b, a)
		want := [][]byte{a, b, a}
		for x, err := range thread.NewReader(s).Exchanges(t.Context(), h) {
			if err != nil || !bytes.Equal(x.Body, want[0]) {
				t.Fatalf("%q, want %q, %v", x.Body, want[0], err)
			}
			want = want[1:]
		}
		if len(want) > 0 {
			t.Errorf("%d are missing", len(want))
		}
	})
}

// conversation returns the body of a turn: everything said before, and a frame that changes.
func conversation(turn int) []byte {
	messages := []any{}
	for i := range 2*turn + 1 {
		messages = append(messages, map[string]any{"role": "user",
			"content": fmt.Sprintf("%d %s", i, strings.Repeat("said ", 200))})
	}
	data, _ := json.Marshal(map[string]any{"metadata": turn, "messages": messages, "model": "m", "system": "Be brief.",
		"tools": []any{}})
	return data
}

// TestConversationIsKeptOnce checks that each turn takes as many bytes as the one before, although each body has
// everything that was said.
func TestConversationIsKeptOnce(t *testing.T) {
	size := func(turns int) int {
		var bodies [][]byte
		for i := range turns {
			bodies = append(bodies, conversation(i))
		}
		_, _, n := kept(t, "/messages", bodies...)
		return n
	}
	first, second := size(25), size(50)
	if second > 2*first+first/10 {
		t.Errorf("25 turns take %d bytes, 50 take %d", first, second)
	}
	if last := len(conversation(49)); second > 3*last {
		t.Errorf("50 turns take %d bytes, the last body has %d", second, last)
	}
}

// TestManyCalls checks that nodes stay below their limit, and that lanes continue from one to the next.
func TestManyCalls(t *testing.T) {
	var bodies [][]byte
	for i := range 5000 {
		bodies = append(bodies, fmt.Appendf(nil, `{"messages":[1,2,%d]}`, i))
	}
	h, s, _ := kept(t, "/messages", bodies...)
	i, nodes := 0, 0
	for next := h; !next.IsZero(); nodes++ {
		n, err := thread.NewReader(s).Node(t.Context(), next)
		if err != nil {
			t.Fatal(err)
		}
		var c thread.Calls
		if err := json.Unmarshal(n.Payload, &c); err != nil {
			t.Fatal(err)
		}
		next = c.Prev
	}
	for x, err := range thread.NewReader(s).Exchanges(t.Context(), h) {
		if err != nil || !bytes.Equal(x.Body, bodies[i]) {
			t.Fatalf("call %d: %q, %v", i, x.Body, err)
		}
		i++
	}
	if i != len(bodies) || nodes < 2 {
		t.Errorf("%d calls in %d nodes", i, nodes)
	}
	calls, err := thread.NewReader(s).ModelCalls(t.Context(), h)
	if err != nil || len(calls) != len(bodies) || calls[1].Keep != 2 {
		t.Errorf("%d calls, %v", len(calls), err)
	}
}

// TestFewLanesAreHeld checks that bodies of old lanes are let go of, since an agent can begin as many as it likes, and
// that such a lane goes on: its next request shares nothing with the one before.
func TestFewLanesAreHeld(t *testing.T) {
	var b thread.CallRecorder
	ask := func(model int) *thread.ModelCall {
		body := fmt.Appendf(nil, `{"model":"m%d","messages":[1%s]}`, model, strings.Repeat(",1", 18_000))
		c, _ := b.Request(thread.ModelCall{Path: "/messages"}, body)
		return c
	}
	const many = 80 // of more than a megabyte each
	for i := range many {
		ask(i)
	}
	for _, tt := range []struct{ model, keep, parts int }{{many - 1, 18_001, 1}, {0, 0, 18_002}, {0, 18_001, 1}} {
		if c := ask(tt.model); c.Keep != tt.keep || len(c.Parts) != tt.parts {
			t.Errorf("model %d: keeps %d, has %d parts; want %d, %d", tt.model, c.Keep, len(c.Parts), tt.keep, tt.parts)
		}
	}
}

// TestLongTextsOfCalls checks that texts that an agent or a server chose do not keep a call from being recorded.
func TestLongTextsOfCalls(t *testing.T) {
	long := "x" + strings.Repeat("é", 5<<20)
	escaped := strings.Repeat(`\u0001`, 500)
	var b thread.CallRecorder
	var objects []store.Object
	for i := range 5000 {
		body := fmt.Appendf(nil, `{"model":"%s","messages":[]}`, escaped)
		m := thread.ModelCall{Path: "/models/" + strings.Repeat("\x02", 500), Type: strings.Repeat("\x03", 500)}
		if i == 0 {
			body, m = fmt.Appendf(nil, `{"model":"%s","messages":[]}`, long), thread.ModelCall{Type: "a\xff/b", Path: long}
		}
		c, blobs := b.Request(m, body)
		if i == 0 {
			c.ReplyType = long
		}
		objects = append(append(objects, blobs...), b.Response(c, nil)...)
	}
	h, nodes, err := b.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	s := mem.New(mem.Config{})
	if err := s.Commit(t.Context(), store.Batch{Objects: append(objects, nodes...)}); err != nil {
		t.Fatal(err)
	}
	calls, err := thread.NewReader(s).ModelCalls(t.Context(), h)
	if err != nil || len(calls) != 5000 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	short := "x" + strings.Repeat("é", 127) // half a letter more is left out
	if c := calls[0]; c.Model != short || c.Path != short || c.ReplyType != short || c.Type != "a/b" {
		t.Errorf("model %q, path %q, types %q and %q", c.Model, c.Path, c.Type, c.ReplyType)
	}
}

func TestLanes(t *testing.T) {
	ask := func(path, body string) string {
		c, _ := new(thread.CallRecorder).Request(thread.ModelCall{Path: path}, []byte(body))
		return c.Lane
	}
	base := ask("/messages", `{"model":"m","system":[{"text":"Work in /a/b on day 12."}],"tools":[{"name":"x"},`+
		`{"name":"y"}],"messages":[1]}`)
	same := []string{
		ask("/messages", `{"model":"m","system":[{"text":"Work in /c on day 13."}],"tools":[{"name":"y"},{"name":"x"}],`+
			`"messages":[1,2]}`),
		ask("/messages", `{"metadata":{"user_id":"q"},"model":"m","system":"Work in /c on day 1","tools":[{"name":"y"},`+
			`{"name":"x"}],"messages":[]}`),
	}
	other := []string{
		ask("/chat/completions", `{"model":"m","system":"Work in /c on day 1","tools":[{"name":"y"},{"name":"x"}]}`),
		ask("/messages", `{"model":"n","system":"Work in /c on day 1","tools":[{"name":"y"},{"name":"x"}]}`),
		ask("/messages", `{"model":"m","system":"Work in /c on day 1","tools":[{"name":"y"}]}`),
		ask("/messages", `{"model":"m","system":"Rest","tools":[{"name":"y"},{"name":"x"}]}`),
		ask("/messages", `nothing`),
	}
	if slices.ContainsFunc(same, func(l string) bool { return l != base }) || slices.Contains(other, base) {
		t.Errorf("%s: same %v, other %v", base, same, other)
	}
	a := ask("/chat/completions", `{"messages":[{"role":"system","content":"Title it"},{"role":"user","content":"x"}]}`)
	b := ask("/chat/completions", `{"messages":[{"role":"system","content":"Do it"},{"role":"user","content":"x"}]}`)
	if a == b {
		t.Error("the instructions of a chat do not matter")
	}
}

func TestDamagedCalls(t *testing.T) {
	h, s, _ := kept(t, "/messages", []byte(`{"messages":[1,2]}`), []byte(`{"messages":[1,2,3]}`))
	n, err := thread.NewReader(s).Node(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*thread.Calls){
		"keep":   func(c *thread.Calls) { c.Calls[1].Keep = 3 },
		"before": func(c *thread.Calls) { c.Calls[1].Keep = 1 },
		"head":   func(c *thread.Calls) { c.Calls[0].Head = 99 },
		"moved":  func(c *thread.Calls) { c.Calls[0].Head-- },
		"parts":  func(c *thread.Calls) { c.Calls[0].Parts = nil },
		"lane":   func(c *thread.Calls) { c.Calls[1].Lane = "other" },
	} {
		var c thread.Calls
		if err := json.Unmarshal(n.Payload, &c); err != nil {
			t.Fatal(err)
		}
		edit(&c)
		obj, err := thread.NewNode(dag.TypeCalls, c)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), store.Batch{Objects: []store.Object{obj}}); err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range thread.NewReader(s).Exchanges(t.Context(), obj.Hash) {
			last = err
		}
		if last == nil {
			t.Errorf("%s: nothing is wrong", name)
		}
	}
}
