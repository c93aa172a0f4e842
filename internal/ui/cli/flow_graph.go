package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) flowGraphCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "graph FLOW",
		Short: "Draw a flow",
		Long: `Draw a flow: on a terminal as a tree of what can follow what, where ↑ is a way back to a node that is
drawn already. Elsewhere, print it as a Mermaid diagram: text that many editors and code hosts can draw.`,
		Example: `  plait flow graph orchestrate
  plait flow graph orchestrate > orchestrate.mmd`,
		Args: exactly(1, "one flow"), ValidArgsFunction: a.completeFlows,
		RunE: read(a, func(ctx context.Context, w *workplace, args []string) (v flowChart, err error) {
			found, err := w.control.Find(ctx, w.dir, args[0])
			if err != nil {
				return v, w.noFlow(ctx, args[0], err)
			}
			var d flow.Definition
			err = json.Unmarshal(found.Bundle.Flows[found.Bundle.Name], &d)
			return flowChart{Mermaid: mermaid(&d), Name: d.Name, graph: view.FlowGraph(&d)}, err
		}, func(out page, v flowChart) {
			if isTerminal(out.Writer) {
				drawFlow(out, v.graph)
				return
			}
			fmt.Fprint(out, text.Safe(v.Mermaid))
		}),
	}
}

// A flowChart is what flow graph prints.
type flowChart struct {
	Mermaid string `json:"mermaid"`
	Name    string `json:"name"`
	graph   *view.Graph
}

// drawFlow draws a flow as a tree: each node once, below the first that leads to it.
func drawFlow(out page, g *view.Graph) {
	nodes, next := map[string]view.GraphNode{}, map[string][]view.GraphEdge{}
	for _, n := range g.Nodes {
		nodes[n.ID] = n
	}
	for _, e := range g.Edges {
		next[e.From] = append(next[e.From], e)
	}
	drawn := map[string]bool{}
	var draw func(id, margin string)
	draw = func(id, margin string) {
		drawn[id] = true
		for i, e := range next[id] {
			branch, deeper := "├─ ", "│  "
			if i == len(next[id])-1 {
				branch, deeper = "└─ ", "   "
			}
			n := nodes[e.To]
			line := out.dim(margin+branch) + out.dim(text.Safe(e.Label)+" → ") + text.Safe(n.Label)
			switch about := strings.Join(slices.DeleteFunc([]string{n.Note, n.Agent}, func(s string) bool { return s == "" }),
				", "); {
			case drawn[e.To] && n.Kind != view.NodeEnd:
				line += out.dim(" ↑")
			case about != "":
				line += out.dim("  " + text.OneLine(about, 60))
			}
			out.line("%s", line)
			if !drawn[e.To] {
				draw(e.To, margin+deeper)
			}
		}
	}
	for _, n := range g.Nodes { // besides the start, those that nothing leads to
		if !drawn[n.ID] && (n.Kind == view.NodeStart || len(next[n.ID]) > 0) {
			out.line("%s", text.Safe(n.Label))
			draw(n.ID, "")
		}
	}
}

// mermaid returns a flow as a Mermaid flowchart.
func mermaid(d *flow.Definition) string {
	var b strings.Builder
	ids := map[string]string{}
	node := func(name string) string {
		if ids[name] == "" {
			ids[name] = fmt.Sprintf("n%d", len(ids))
			shape := [2]string{"[", "]"}
			switch _, gate := d.Gates[name]; {
			case name == flow.Start || name == flow.EndNode:
				shape = [2]string{"([", "])"}
			case gate:
				shape = [2]string{"{{", "}}"}
			}
			fmt.Fprintf(&b, "  %s%s%s%s\n", ids[name], shape[0], quoted(name), shape[1])
		}
		return ids[name]
	}
	edge := func(from, label, to string) {
		fromID, toID := node(from), node(to)
		if label == "" {
			fmt.Fprintf(&b, "  %s --> %s\n", fromID, toID)
			return
		}
		fmt.Fprintf(&b, "  %s -->|%s| %s\n", fromID, quoted(label), toID)
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(d.Graph)), func(n string) bool { return n == flow.Start })
	names = append([]string{flow.Start}, names...)
	for _, from := range names {
		for _, status := range slices.Sorted(maps.Keys(d.Graph[from])) {
			edge(from, status, d.Graph[from][status].Role)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Forks)) {
		for _, p := range d.Forks[name].Paths {
			edge(name, p.ID, p.Child)
		}
	}
	return "flowchart TD\n" + b.String()
}

// quoted returns text that Mermaid takes literally.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`"`, "#quot;", "\n", " ", "#", "#35;").Replace(text) + `"`
}
