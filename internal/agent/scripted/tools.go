package scripted

import (
	"encoding/json"
	"slices"
	"strings"
)

// A tool is a tool that an agent offers to its model.
type tool struct {
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
}

// shells are the names that agents give the tool that runs a command, in lower case.
var shells = []string{"bash", "shell", "run", "exec_command", "run_command", "run_shell_command", "execute_command",
	"execute", "terminal"}

// asOffered returns a tool call with the name and arguments of the tool that the agent offers. shell is the name to
// use for commands if the agent offers no known tool for them.
func (r *Request) asOffered(namespace, name string, arguments any, shell string) (string, any) {
	if patch, ok := arguments.(string); ok {
		name, arguments = r.change(patch)
	}
	args, _ := arguments.(object)
	switch {
	case name == "exec_command":
		return r.shell(args, shell)
	case name == "write_stdin": // a command has ended once its output arrives
		return r.shell(object{"cmd": "true"}, shell)
	case namespace == "":
		return name, arguments
	}
	full := namespace + "__" + name
	server := namespace[strings.LastIndex(namespace, "__")+1:]
	for _, t := range r.tools { // some omit a prefix, or use a dash as separator
		if t.Name != full && strings.HasSuffix(t.Name, name) && strings.Contains(t.Name, strings.Trim(server, "_")) {
			full = t.Name
		}
	}
	return full, arguments
}

// shell returns the call that runs a command.
func (r *Request) shell(args object, otherwise string) (string, any) {
	with := object{"description": "Run a command"}
	for _, name := range []string{"command", "cmd", "script"} {
		with[name] = args["cmd"]
	}
	if args["sandbox_permissions"] == "require_escalated" {
		with["outside"], with["reason"] = true, args["justification"]
	}
	at := slices.IndexFunc(r.tools, func(t tool) bool { return slices.Contains(shells, strings.ToLower(t.Name)) })
	if at < 0 {
		return otherwise, object{"command": args["cmd"], "description": "Run a command"}
	}
	t := r.tools[at]
	call, _ := instance(t.Parameters, with, "") // the agent says what is wrong with it
	return t.Name, call
}

// change returns the call that makes the change of a patch: with a tool that replaces a text, if there is one
// and the patch is simple enough, otherwise with git.
func (r *Request) change(patch string) (string, any) {
	for _, t := range r.tools {
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		json.Unmarshal(t.Parameters, &schema) // a schema without properties does not fit
		p := schema.Properties
		if path, old, text, ok := replacement(patch); ok && p["path"] != nil && p["old"] != nil && p["new"] != nil {
			return t.Name, object{"path": path, "old": old, "new": text}
		}
	}
	const mark = "END_OF_PATCH"
	return "exec_command", object{"cmd": "git apply --unidiff-zero -p0 - <<'" + mark + "'\n" + unified(patch) + mark}
}

// replacement returns a patch as a single replacement in a single file, if it is one.
func replacement(patch string) (path, old, text string, ok bool) {
	files, hunks := 0, 0
	for line := range strings.Lines(patch) {
		switch {
		case strings.HasPrefix(line, "*** Add File: "), strings.HasPrefix(line, "*** Update File: "):
			_, path, _ = strings.Cut(strings.TrimSpace(line), "File: ")
			files++
			if strings.HasPrefix(line, "*** Add") {
				hunks++
			}
		case strings.HasPrefix(line, "@@"):
			hunks++
		case strings.HasPrefix(line, "*** ") && strings.Contains(line, "File"): // the file is removed or moved
			return "", "", "", false
		default:
			if !strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "***") && len(line) > 1 {
				old += line[1:]
			}
			if !strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "***") && len(line) > 1 {
				text += line[1:]
			}
		}
	}
	return path, old, text, files == 1 && hunks == 1
}
