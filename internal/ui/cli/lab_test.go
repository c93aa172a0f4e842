package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// serveLab is an MCP server on stdin and stdout with two tools: echo returns its input, and fail
// fails.
func serveLab() {
	type object = map[string]any
	tool := func(name string) object {
		return object{"name": name, "description": "for tests", "inputSchema": object{"type": "object",
			"properties": object{"text": object{"type": "string"}}}}
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				ProtocolVersion, Name string
				Arguments             struct{ Text string }
			}
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || len(m.ID) == 0 {
			continue
		}
		var result any = object{}
		switch m.Method {
		case "initialize":
			result = object{"protocolVersion": m.Params.ProtocolVersion, "capabilities": object{"tools": object{}},
				"serverInfo": object{"name": "lab", "version": "1"}}
		case "tools/list":
			result = object{"tools": []object{tool("echo"), tool("fail")}}
		case "tools/call":
			result = object{"isError": m.Params.Name == "fail",
				"content": []object{{"type": "text", "text": m.Params.Name + " says " + m.Params.Arguments.Text}}}
		}
		data, _ := json.Marshal(object{"jsonrpc": "2.0", "id": m.ID, "result": result})
		fmt.Printf("%s\n", data)
	}
}
