package jsonrpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	rpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	hello = `{"jsonrpc":"2.0","id":"h","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":` +
		`{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`
	ping = `{"jsonrpc":"2.0","id":%s,"method":"ping"}`
)

type (
	input  struct{ io.Reader }
	output struct{ io.Writer }
)

func (input) Close() error  { return nil }
func (output) Close() error { return nil }

// serve runs a server with a tool that waits for the end of its context, and returns what it answers to an input.
// began is called when the tool waits.
func serve(t *testing.T, in io.Reader, began ...func()) []string {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "wait", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken()})
			for _, do := range began {
				do()
			}
			<-ctx.Done()
			return &sdk.CallToolResult{}, nil
		})
	var out bytes.Buffer
	if err := s.Run(t.Context(), &Transport{In: input{in}, Out: output{&out}}); err != nil {
		t.Errorf("run: %v", err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for _, line := range lines {
		if line != "" && !json.Valid([]byte(line)) {
			t.Errorf("the answer %q is not JSON", line)
		}
	}
	return lines
}

// TestABadLine checks that each line that is no message is answered, and that the session goes on.
func TestABadLine(t *testing.T) {
	const parsed, asked = `"id":null,"error":{"code":-32700`, `"id":null,"error":{"code":-32600`
	of := func(id string) string { return `"id":` + id + `,"error":{"code":-32600` }
	for _, tt := range []struct{ line, want string }{
		{"warning: hello", parsed},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"`, parsed},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"} {}`, parsed},
		{"\x00", parsed},
		{"{\x00}", parsed},
		{"\xff\xfe{\x00}\x00", parsed},
		{strings.Repeat("[", 1<<20), parsed},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat(`{"a":`, 1<<20), parsed},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("x", maxLine) + `"}}`, asked},
		{`[{"jsonrpc":"2.0","id":6,"method":"ping"}]`, asked},
		{`[]`, asked},
		{`5`, asked},
		{`"text"`, asked},
		{`null`, asked},
		{`{}`, asked},
		{`{"hello":1}`, asked},
		{`{"jsonrpc":"2.0","id":7}`, of("7")},
		{`{"id":24}`, of("24")},
		{`{"id":1e3,"params":{}}`, of("1e3")},
		{`{"id":"\u0061"}`, of(`"\u0061"`)},
		{`{"id":[1]}`, asked},
		{`{"jsonrpc":"2.0","id":8,"method":5}`, of("8")},
		{`{"jsonrpc":"2.0","id":8,"method":null}`, of("8")},
		{`{"jsonrpc":"1.0","id":9,"method":"ping"}`, of("9")},
		{`{"id":"x","method":"ping"}`, of(`"x"`)},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping","params":"text"}`, of("1.5")},
		{`{"jsonrpc":"2.0","id":[1],"method":"ping"}`, asked},
		{`{"jsonrpc":"2.0","id":true,"method":"ping"}`, asked},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, asked},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, asked},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"b":1,"b":2}}}`, asked},
		{``, ""},
		{" \t\r", ""},
		{`{"jsonrpc":"2.0","id":77,"result":{}}`, ""},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`, ""},
		{`{"jsonrpc":"2.0","id":"x","error":5}`, ""},
		{`{"jsonrpc":"2.0","method":"nothing/known"}`, ""},
		{`{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"}`, ""},
	} {
		name := tt.line[:min(len(tt.line), 80)]
		got := serve(t, strings.NewReader(hello+"\n"+tt.line+"\n"+fmt.Sprintf(ping, "2")+"\n"))
		slices.SortFunc(got, strings.Compare) // answers come in any order
		want := 2
		if tt.want != "" {
			want++
		}
		if len(got) != want || !slices.ContainsFunc(got, func(l string) bool { return strings.Contains(l, tt.want) }) ||
			!slices.Contains(got, `{"jsonrpc":"2.0","id":2,"result":{}}`) {
			t.Errorf("%q: %.300q, want %q", name, got, tt.want)
		}
	}
}

// TestIDs checks that ids come back as they were spelled.
func TestIDs(t *testing.T) {
	for _, id := range []string{"0", "-1", "9007199254740993", "-9223372036854775809", "123456789012345678901234567890",
		"1.5", "1.0",
		"1e3", "1E+400", `""`, `"a"`, `"1"`, `"\u0041<&>"`, `"é\n\"\ud800"`, `"null"`, "\"\xff\""} {
		for _, form := range []string{"%s\n", "\uFEFF%s\r\n", "  %s", "%s"} {
			got := serve(t, strings.NewReader(hello+"\n"+fmt.Sprintf(form, fmt.Sprintf(ping, id))))
			if want := `{"jsonrpc":"2.0","id":` + id + `,"result":{}}`; !slices.Contains(got, want) || len(got) != 2 {
				t.Errorf("%q of %s: %q", form, id, got)
			}
		}
	}
}

// TestCancelled checks that a request is cancelled by its id, and its progress known by its token, as spelled.
func TestCancelled(t *testing.T) {
	for _, id := range []string{"9007199254740993", "1.5", `"a"`} {
		r, w := io.Pipe()
		began := make(chan struct{})
		go func() {
			fmt.Fprintln(w, hello)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"wait",`+
				`"_meta":{"progressToken":%s}}}`+"\n", id, id)
			<-began
			fmt.Fprintf(w, ping+"\n", id) // while the other waits
			fmt.Fprintf(w, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`+"\n", id)
			w.Close()
		}()
		got := strings.Join(serve(t, r, func() { close(began) }), "\n")
		for _, want := range []string{`"id":` + id + `,"result":{"content":[]`, `"progressToken":` + id,
			`"id":null,"error":{"code":-32600,"message":"a request with the id `} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s\nhas no %s", id, got, want)
			}
		}
	}
}

// TestEndOfInput checks that a request that takes too long after the end of the input is refused.
func TestEndOfInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := serve(t, strings.NewReader(hello+"\n"+`{"jsonrpc":"2.0","id":4,"method":"tools/call",`+
			`"params":{"name":"wait"}}`))
		if len(got) != 3 || !strings.HasPrefix(got[2], `{"jsonrpc":"2.0","id":4,"error":{"code":-32603,`) {
			t.Errorf("%q", got)
		}
	})
}

// TestAnswersToUs checks that answers to a server's own requests reach it, in the forms that clients give them.
func TestAnswersToUs(t *testing.T) {
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":3,"result":{"a":1}}`:                                     `{"a":1}`,
		`{"id":3.0,"result":null,"error":null}`:                                         `null`,
		`{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"no","data":5}}`:          "-1 no",
		`{"jsonrpc":"2.0","id":3,"result":null,"error":{"code":-1.5,"message":"half"}}`: "0 half",
		`{"jsonrpc":"2.0","id":3,"error":"no"}`:                                         `0 "no"`,
	} {
		m, wrong := parse([]byte(line))
		r, ok := m.(*rpc.Response)
		if !ok || wrong != nil || r.ID.Raw() != int64(3) {
			t.Errorf("%s: %v %v", line, m, wrong)
			continue
		}
		got := string(r.Result)
		if e, ok := r.Error.(*rpc.Error); ok {
			got = fmt.Sprint(e.Code, " ", e.Message)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// FuzzParse checks that any line is a message, is refused, or needs no answer, that an id is kept as it was spelled,
// and that answers are one line of JSON.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{hello, fmt.Sprintf(ping, "1.50"), "[]", "{}", "\uFEFF{}", `{"id":"\ud800","method":""}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"id":1,"error":{"code":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":1e2}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, wrong := parse(line)
		var out bytes.Buffer
		s := &served{Transport: &Transport{Out: output{&out}}, open: map[string]bool{}, answered: make(chan struct{}, 1)}
		id := "null"
		switch r := m.(type) {
		case *rpc.Request:
			if wrong != nil || !r.IsCall() {
				break
			}
			id = spelled(r.ID)
			if wrong := s.begin(r); wrong != nil {
				t.Fatal(wrong)
			}
			if err := s.Write(t.Context(), &rpc.Response{ID: r.ID, Result: json.RawMessage("{}")}); err != nil {
				t.Fatal(err)
			}
			var params any
			if r.Params != nil && json.Unmarshal(r.Params, &params) != nil {
				t.Fatalf("params %q", r.Params)
			}
		}
		if wrong != nil {
			if id = wrong.id; m != nil || s.refuse(wrong) != nil {
				t.Fatal(m, wrong)
			}
		}
		if out.Len() == 0 {
			return
		}
		answer := out.String()
		if !json.Valid(out.Bytes()) || strings.Count(answer, "\n") != 1 || !strings.Contains(answer, `"id":`+id+`,`) ||
			!bytes.Contains(line, []byte(id)) && id != "null" || utf8.Valid(line) && !utf8.ValidString(answer) {
			t.Fatalf("%q: %q", line, answer)
		}
	})
}

// TestReadLine checks that a line that is too long takes no more memory than is allowed.
func TestReadLine(t *testing.T) {
	r := bufio.NewReaderSize(io.MultiReader(strings.NewReader(strings.Repeat("x", 3*maxLine)),
		strings.NewReader("\nnext\nlast")), 64<<10)
	for _, want := range []int{maxLine + 1, len("next\n"), len("last")} {
		if line, err := readLine(r); len(line) != want || (err == nil) == (want == len("last")) {
			t.Errorf("%d bytes: %v, want %d", len(line), err, want)
		}
	}
}
