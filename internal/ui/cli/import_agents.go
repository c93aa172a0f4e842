package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/foreign"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/sys/text"
)

// An importedAgent is an agent of another program that the project has.
type importedAgent struct {
	Name     string         `json:"name"`
	From     string         `json:"from"`
	Flow     string         `json:"flow,omitempty"` // the file that was written
	Agent    string         `json:"agent,omitempty"`
	Access   string         `json:"access,omitempty"`
	Why      string         `json:"why,omitempty"` // there is no flow
	Problems []flow.Problem `json:"problems"`
}

func (a *app) importAgentsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "import-agents",
		Short: "Make flows of the agents that a project has for other programs",
		Long: `Find the project's agents of other programs, and write a flow for each: .plait/flows/NAME.yaml,
with one role that is read from the agent's own file. An existing file is never overwritten.

  .claude/agents/*.md                    subagents of Claude Code
  .codex/prompts/*.md                    prompts of Codex
  .codex/config.toml, [profiles.NAME]    profiles of Codex
  .github/agents/*.md                    agents of Copilot

What of a file has no meaning here is listed. A role of any flow can be read from such a file:
see from in docs/flow-format.md.`,
		Example: `  plait import-agents
  plait run code-reviewer -p "Review the last commit"`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := filepath.Abs("")
			if err != nil {
				return fmt.Errorf("find the current directory: %w", err)
			}
			workspace, err := config.Workspace(dir)
			if err != nil {
				return badUsage{err}
			}
			found, err := importAgents(workspace)
			if err != nil {
				return err
			}
			return a.print(cmd, map[string]any{"agents": found}, func(out page) {
				if len(found) == 0 {
					out.line("no agents of other programs in %s", text.Safe(workspace))
				}
				for _, f := range found {
					out.line("%s", text.Safe(f.String()))
					for _, p := range f.Problems {
						out.line("  %s", text.Safe(p.String()))
					}
				}
			})
		},
	}
}

// String returns what became of an agent, as a line.
func (i importedAgent) String() string {
	if i.Why != "" {
		return fmt.Sprintf("%s: not imported: %s", i.From, i.Why)
	}
	return fmt.Sprintf("%s: %s, access %s, from %s", i.Name, i.Agent, i.Access, i.From)
}

// importAgents writes a flow for each agent of another program below a directory.
func importAgents(workspace string) ([]importedAgent, error) {
	found := []importedAgent{}
	dir, err := os.OpenRoot(workspace) // an agent may have left a link to elsewhere
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	root := dir.FS()
	for _, pattern := range foreign.Patterns {
		files, err := fs.Glob(root, pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			data, err := fs.ReadFile(root, file)
			if err != nil {
				return nil, err
			}
			names := []string{file}
			if strings.HasSuffix(file, ".toml") {
				profiles, _ := foreign.Profiles(data) // what is wrong with it is said by Role
				names = names[:0]
				for _, p := range profiles {
					names = append(names, file+"#"+p)
				}
			}
			for _, name := range names {
				one, err := importAgent(workspace, name, file, data)
				if err != nil {
					return nil, err
				}
				found = append(found, one)
			}
		}
	}
	return found, nil
}

func importAgent(workspace, from, file string, data []byte) (importedAgent, error) {
	one := importedAgent{Name: foreign.Name(from), From: from}
	role, problems := foreign.Role(from, file, data)
	one.Problems = append([]flow.Problem{}, problems...)
	switch {
	case flow.Failed(problems):
		one.Why = "its file cannot be read"
		return one, nil
	case !registryName(one.Name):
		one.Why = "its file has no name for a flow"
		return one, nil
	case slices.Contains(parse.BuiltIns(), one.Name):
		one.Why = one.Name + " is a built-in flow"
		return one, nil
	}
	written, err := createFlow(workspace, one.Name, fmt.Sprintf(imported, one.Name, strconv.Quote(from)))
	if errors.Is(err, fs.ErrExist) {
		one.Why = "the flow " + one.Name + " already exists"
		return one, nil
	}
	one.Flow, one.Access, one.Agent = written, string(role.Access), "the default agent"
	if role.Agent != nil {
		one.Agent = strings.TrimSpace(role.Agent.Inline.Kind + " " + role.Agent.Inline.Model)
	}
	return one, err
}

// imported is the flow of an agent: its name, and its file.
const imported = `version: 1
name: %[1]s
roles:
  %[1]s:
    from: %[2]s
    frontmatter: {properties: {$status: {const: done}}, required: [$status]}
graph:
  $START:
    new: {role: %[1]s, prompt: "{{ prompt }}"}
    resume: {role: %[1]s, prompt: "{{ prompt }}"}
  %[1]s: {done: {role: $END, prompt: "{{ _body }}"}}
`
