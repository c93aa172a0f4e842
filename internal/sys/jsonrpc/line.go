package jsonrpc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	rpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxLine is how many bytes a client's message may have.
const maxLine = 16 << 20

// A refusal is the answer to a line that is no message.
type refusal struct {
	id  string // as it was spelled, or null
	err rpc.Error
}

func invalid(id, why string) *refusal {
	return &refusal{cmp.Or(id, "null"), rpc.Error{Code: rpc.CodeInvalidRequest, Message: why}}
}

// parse reads a line of a client. It returns no message for a blank line.
//
// The SDK keeps ids as floats, so it is given their spelling, as texts; so are ids inside params.
func parse(line []byte) (rpc.Message, *refusal) {
	line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\uFEFF")))
	if len(line) == 0 {
		return nil, nil
	}
	var value jsontext.Value
	err := jsonv2.Unmarshal(line, &value, jsontext.AllowInvalidUTF8(true))
	var m map[string]jsontext.Value
	switch {
	case len(line) > maxLine:
		return nil, invalid("", fmt.Sprintf("the line has over %d bytes", maxLine))
	case errors.Is(err, jsontext.ErrDuplicateName):
		return nil, invalid("", "a key is there twice: "+err.Error())
	case err != nil:
		return nil, &refusal{"null", rpc.Error{Code: rpc.CodeParseError, Message: "the line is not JSON: " + err.Error()}}
	case jsonv2.Unmarshal(value, &m, jsontext.AllowInvalidUTF8(true)) != nil || m == nil:
		return nil, invalid("", "a message is one object; batches are not served")
	}
	_, asks := m["method"]
	_, result := m["result"]
	_, failed := m["error"]
	switch {
	case asks:
		return request(m)
	case result || failed:
		return response(line), nil
	}
	return nil, invalid(spelling(m["id"]), "the message has no method")
}

// spelling returns an id as it is spelled, "" if it is neither a text nor a number.
func spelling(id jsontext.Value) string {
	if kind := id.Kind(); kind != '"' && kind != '0' {
		return ""
	}
	return string(id)
}

// request returns a request or a notification.
func request(m map[string]jsontext.Value) (rpc.Message, *refusal) {
	var version, method string
	id, params := spelling(m["id"]), m["params"]
	switch {
	case json.Unmarshal(m["method"], &method) != nil || m["method"].Kind() != '"':
		return nil, invalid(id, "method is not a text")
	case json.Unmarshal(m["jsonrpc"], &version) != nil || version != "2.0":
		return nil, invalid(id, `jsonrpc is not "2.0"`)
	case params != nil && !strings.ContainsRune("{[n", rune(params.Kind())):
		return nil, invalid(id, "params is not an object")
	case m["id"] != nil && id == "" && !(m["id"].Kind() == 'n' && strings.HasPrefix(method, "notifications/")):
		return nil, invalid("", "id is neither a text nor a number")
	}
	r := &rpc.Request{Method: method}
	if params.Kind() != 'n' {
		r.Params = json.RawMessage(params)
	}
	if id != "" {
		r.ID, _ = rpc.MakeID(id)
	}
	r.Params = within(r.Params, quoted, "_meta", "progressToken")
	if method == "notifications/cancelled" {
		r.Params = within(r.Params, quoted, "requestId")
	}
	return r, nil
}

// response returns the answer to one of our requests. The SDK ignores one to none.
func response(line []byte) rpc.Message {
	m, _ := Read(line)
	r := &rpc.Response{Result: m.Result}
	r.ID, _ = rpc.MakeID(float64(m.callID()))
	if e := m.Error; e != nil {
		r.Error = &rpc.Error{Code: int64(e.Code), Message: e.Message, Data: e.Data}
	}
	return r
}

// spelled returns the id of a client's request as the client spelled it.
func spelled(id rpc.ID) string {
	s, _ := id.Raw().(string)
	return s
}

// outgoing returns a message to the client with the client's ids as they were spelled.
func outgoing(m rpc.Message) rpc.Message {
	r, ok := m.(*rpc.Request)
	if !ok || r.Method != "notifications/progress" {
		return m
	}
	out := *r
	out.Params = within(r.Params, unquoted, "progressToken")
	return &out
}

// quoted returns the spelling of an id as a text.
func quoted(id []byte) []byte {
	if string(id) == "null" {
		return id
	}
	return jsonOf(string(id))
}

// unquoted returns an id from its spelling.
func unquoted(text []byte) []byte {
	var s string
	if json.Unmarshal(text, &s) != nil {
		return text
	}
	return []byte(s)
}

// within returns an object with the value at a path replaced, or the object itself if it has none.
func within(object json.RawMessage, by func([]byte) []byte, path ...string) json.RawMessage {
	if len(path) == 0 {
		return by(object)
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(object, &m) != nil || m[path[0]] == nil {
		return object
	}
	m[path[0]] = within(m[path[0]], by, path[1:]...)
	return jsonOf(m)
}

// jsonOf returns a value as JSON, texts in it as they are.
func jsonOf(v any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return nil // cannot happen: these are texts, and values that were read
	}
	return bytes.TrimSpace(out.Bytes())
}
