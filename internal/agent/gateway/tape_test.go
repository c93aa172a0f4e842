package gateway

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/agent"
)

// said returns an exchange of the Messages API.
func said(body, reply string) Exchange {
	return Exchange{Call: calling(body), Reply: agent.Reply{Status: 200, Type: "application/json", Body: []byte(reply)}}
}

func calling(body string) agent.Call {
	return agent.Call{Method: "POST", Path: "/messages", Type: "application/json", Body: []byte(body)}
}

// asking returns a body whose last message is text.
func asking(text string) string {
	return fmt.Sprintf(`{"model":"m","system":"You are s","tools":[{"name":"Bash"}],`+
		`"messages":[{"role":"user","content":%q}]}`, text)
}

func TestTape(t *testing.T) {
	then := Known{"workspace": "/home/ann/project", "task": "/home/ann/project/.plait/tasks/t1"}
	now := Known{"workspace": "/srv/copy", "task": "/var/t2"}
	titling := func(what string) string {
		return `{"model":"m","system":"You title talks","messages":[{"role":"user","content":"` + what + `"}]}`
	}
	recorded := []Exchange{
		said(asking("in /home/ann/project: one"), "1"),
		said(asking("see /home/ann/project/.plait/tasks/t1/a: two"), "2"),
		said(titling("a title"), "title"),
		said(asking("again"), "3"), said(asking("again"), "4"),
	}
	for _, tt := range []struct {
		name   string
		calls  []string
		want   []string // replies, or the beginning of the refusal
		drifts []string
	}{
		{"the same, in another place", []string{asking("in /srv/copy: one"), asking("see /var/t2/a: two")},
			[]string{"1", "2"}, nil},
		{"what names the run is passed over",
			[]string{strings.Replace(asking("in /srv/copy: one"), "{", `{"metadata":{"user_id":"x"},`, 1)},
			[]string{"1"}, nil},
		{"in another order", []string{asking("see /var/t2/a: two"), asking("in /srv/copy: one")}, []string{"2", "1"}, nil},
		{"the same twice", []string{asking("again"), asking("again"), asking("again")}, []string{"3", "4", "1"},
			[]string{`call 3 differs at /messages/0/content: recorded "in <workspace>: one", now "again"`}},
		{"another conversation in between",
			[]string{asking("other"), titling("b title")},
			[]string{"1", "title"}, []string{
				`call 1 differs at /messages/0/content: recorded "in <workspace>: one", now "other"`,
				`call 2 differs at /messages/0/content: recorded "a title", now "b title"`}},
		{"another model", []string{strings.Replace(asking("in /srv/copy: one"), `"m"`, `"n"`, 1)},
			[]string{`call 1 of the model was not recorded; from the most similar recording it differs at /model: ` +
				`recorded "m", now "n"`}, nil},
		{"more than was recorded", []string{asking("a"), asking("b"), asking("c"), asking("d"), asking("again")},
			[]string{"1", "2", "3", "4", "call 5 of the model was not recorded: it asks again what has been answered"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tape := NewTape(recorded, then, now)
			for i, body := range tt.calls {
				c := calling(body)
				reply, err := tape.Begin(t.Context(), &c)
				switch {
				case err != nil && (!strings.HasPrefix(err.Error(), tt.want[i]) || tape.Missed() == nil):
					t.Errorf("call %d is refused: %v", i+1, err)
				case err == nil && (string(reply.Body) != tt.want[i] || reply.Status != 200):
					t.Errorf("call %d is answered %q, want %q", i+1, reply.Body, tt.want[i])
				}
			}
			var drifts []string
			for _, d := range tape.Drifts() {
				drifts = append(drifts, d.String())
			}
			if diff := cmp.Diff(tt.drifts, drifts); tt.drifts != nil && diff != "" {
				t.Errorf("drifts (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := NewTape(nil, nil, nil).Begin(t.Context(), &recorded[0].Call); err == nil {
		t.Error("an empty tape answers")
	}
}

func TestNormalises(t *testing.T) {
	for _, tt := range []struct{ a, b string }{
		{"id 0f8fad5b-d9cb-469f-a165-70867728950e.", "id 7c9e6679-7425-40de-944b-e07fc1f90ae7."},
		{"at " + strings.Repeat("ab", 20), "at " + strings.Repeat("0f", 32)},
		{"Wall time: 0.038 seconds\nOutput", "Wall time: 1.2 seconds\nOutput"},
		{"Chunk ID: 1f3a9c", "Chunk ID: 00aa11"},
		{"Process Group PGID: 4012", "Process Group PGID: 9"},
		{"KEY=plait-RZVWBJHJW5FIKKZDOJGKF77QJV", "KEY=plait-BPCFFU2OOYXSYTJPAFP7QW43O4"},
		{"Today's date is Sunday, November 22, 2026.", "Today's date is Mon, Jan 5, 2027."},
		{"on 2026-11-22T10:00:01.5Z", "on 2027-01-02"},
		{"http://127.0.0.1:40123/v1", "http://127.0.0.1:5/v1"},
		{"task 01JAZ5R9W1C8Q2V6H3K7M4N0PX", "task 01K0000000000000000000000A"},
	} {
		a, b := Known(nil).Text(tt.a), Known(nil).Text(tt.b)
		if a != b || a == tt.a {
			t.Errorf("%q and %q: got %q and %q", tt.a, tt.b, a, b)
		}
	}
	for _, stays := range []string{"abc1234 fix", "port 8080", "2026", "May be", strings.Repeat("a", 39), "1.2 seconds"} {
		if got := Known(nil).Text(stays); got != stays {
			t.Errorf("%q became %q", stays, got)
		}
	}
}

// TestSurroundings checks that what Codex says about its sandbox is not compared: it may differ, or be repeated.
func TestSurroundings(t *testing.T) {
	said := func(items ...string) asked {
		return Known(nil).of(agent.Call{Body: []byte(`{"input":[` + strings.Join(items, ",") + `]}`)})
	}
	message := func(parts ...string) string {
		for i, text := range parts {
			parts[i] = fmt.Sprintf(`{"type":"input_text","text":%q}`, text)
		}
		return `{"type":"message","content":[` + strings.Join(parts, ",") + `]}`
	}
	first := message("Be brief.", "<permissions instructions>\n- path `/a`")
	want := said(first, message("<environment_context>\n/a"), message("Begin."))
	got := said(message("Be brief."), message("Begin."), message("<permissions instructions>\n- path `/b`"))
	if got.whole != want.whole {
		t.Errorf("got %v, want %v", got.value, want.value)
	}
	if got := said(first, message("Begin now.")); got.whole == want.whole {
		t.Error("another prompt is taken for the same")
	}
	if got := said(first, message(), message("Begin.")); got.whole == want.whole {
		t.Error("an empty message is taken for what Codex says of its sandbox")
	}
}

// TestTapeModel plays recordings of several conversations, interleaved in any order, and some calls that
// drifted: each recording answers once, and an unchanged call gets its own recording.
func TestTapeModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lanes := rapid.IntRange(1, 3).Draw(t, "lanes")
		var list []Exchange
		var calls [][]string // by lane
		for lane := range lanes {
			calls = append(calls, nil)
			for n := range rapid.IntRange(1, 5).Draw(t, "calls") {
				body := fmt.Sprintf(`{"model":"m%d","messages":["%d-%d"]}`, lane, lane, n)
				list, calls[lane] = append(list, said(body, body)), append(calls[lane], body)
			}
		}
		list = rapid.Permutation(list).Draw(t, "recorded in")
		tape, used := NewTape(list, nil, nil), map[string]bool{}
		drifted := map[int]bool{}
		for range len(list) {
			open := slices.DeleteFunc(slices.Collect(func(yield func(int) bool) {
				for i := range calls {
					if !yield(i) {
						return
					}
				}
			}), func(i int) bool { return len(calls[i]) == 0 })
			lane := rapid.SampledFrom(open).Draw(t, "lane")
			body := calls[lane][0]
			calls[lane] = calls[lane][1:]
			asked := body
			if rapid.IntRange(0, 3).Draw(t, "drifts") == 0 {
				asked, drifted[lane] = strings.Replace(body, "-", "+", 1), true
			}
			c := calling(asked)
			reply, err := tape.Begin(t.Context(), &c)
			if err != nil {
				t.Fatalf("%s: %v", asked, err)
			}
			got := string(reply.Body)
			if used[got] {
				t.Fatalf("%s is given twice", got)
			}
			used[got] = true
			if !strings.Contains(got, fmt.Sprintf(`"m%d"`, lane)) || !drifted[lane] && got != body {
				t.Fatalf("%s is answered %s", asked, got)
			}
		}
		c := calling(`{"model":"m0","messages":["more"]}`)
		if reply, err := tape.Begin(t.Context(), &c); err == nil {
			t.Fatalf("what is used up gives %s", reply.Body)
		}
	})
}

// TestTapeConcurrently checks that concurrent calls are each answered by their own recording.
func TestTapeConcurrently(t *testing.T) {
	const n = 50
	var list []Exchange
	for i := range n {
		list = append(list, said(asking(fmt.Sprint("call ", i)), fmt.Sprint(i)))
	}
	tape := NewTape(list, nil, nil)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c := list[n-1-i].Call
			reply, err := tape.Begin(t.Context(), &c)
			if err != nil || string(reply.Body) != fmt.Sprint(n-1-i) {
				t.Errorf("call %d: %v, %v", n-1-i, reply, err)
			}
		})
	}
	wg.Wait()
	if d := tape.Drifts(); len(d) > 0 {
		t.Errorf("drifts %v", d)
	}
}

// FuzzNormal checks that a normalized value is still JSON, that normalizing it again changes nothing, and that
// the refusal of a changed call is remembered.
func FuzzNormal(f *testing.F) {
	f.Add([]byte(asking("in /home/ann on 2026-11-22, Wall time: 0.5 seconds")))
	f.Add([]byte(`{"input":[{"id":"a","type":"message"},1],"instructions":"\ud83d","metadata":[1e400,-0]}`))
	f.Add([]byte(`{"messages":[{"role":"system","content":[{"text":"x"}]}],"tools":[{"function":{"name":"f"}},null]}`))
	f.Add([]byte("127.0.0.1:1 0f8fad5b-d9cb-469f-a165-70867728950e"))
	f.Fuzz(func(t *testing.T, body []byte) {
		known := Known{"home": "/home/ann"}
		once := known.of(calling(string(body)))
		text := encoded(once.value)
		if !json.Valid(text) {
			t.Fatalf("no JSON: %q", text)
		}
		if again := known.of(calling(string(text))); again.whole != once.whole || again.lane != once.lane {
			t.Errorf("%q\nonce:  %q\ntwice: %q", body, text, encoded(again.value))
		}
		tape := NewTape([]Exchange{{Call: calling(string(body))}}, known, known)
		c := calling(string(body) + "x")
		if _, err := tape.Begin(t.Context(), &c); err != nil && tape.Missed() == nil {
			t.Error("a miss is not remembered")
		}
	})
}
