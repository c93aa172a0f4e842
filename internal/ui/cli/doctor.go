package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/agent/claude"
	"github.com/plait-run/plait/internal/agent/codex"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/model"
	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A Finding is one line of doctor.
type Finding struct {
	What    string `json:"what"`
	OK      bool   `json:"ok"`
	Warning bool   `json:"warning,omitempty"` // something does not work, but may not be needed
	Unused  bool   `json:"unused,omitempty"`  // it does not work, and no setting names it
	Text    string `json:"text"`
	Do      string `json:"do,omitempty"` // what to do about it
	// Steps are those that are meant, as people type them.
	Steps []string `json:"steps,omitempty"`
}

func (a *app) doctorCmd() *cobra.Command {
	var showConfig bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this installation",
		Long: `Check PLAIT_HOME, the record, the workspace and the programs that Plait uses. It changes no setting and
no task; opening an older record upgrades it. --config prints every setting in effect and its source.`,
		Example: `  plait doctor
  plait doctor --config`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if showConfig {
				workspace, err := config.Workspace(".")
				if err != nil {
					return err
				}
				settings, err := config.Load(config.UserFile(), config.ProjectFile(workspace), a.getenv)
				if err != nil {
					return err
				}
				origins := settings.Origins()
				return a.print(cmd, map[string]any{"config": origins}, func(out page) {
					for _, o := range origins {
						out.line("%-24s %-30s %s", text.Safe(o.Key), text.Safe(o.Value), text.Safe(o.From))
					}
				})
			}
			findings := a.examine(cmd.Context())
			for i, f := range findings {
				findings[i].Text, findings[i].Do = a.keys.secrets.Text(a.says(f.Text)), a.says(f.Do)
				if !f.OK && !f.Warning {
					a.code = exitFailed
				}
			}
			return a.print(cmd, map[string]any{"findings": findings}, func(out page) {
				for _, f := range findings {
					mark := out.paint("32", "ok  ")
					switch {
					case f.Unused:
						mark = out.dim("-   ")
					case f.Warning:
						mark = out.paint("33", "warn")
					case !f.OK:
						mark = out.paint("31", "bad ")
					}
					out.line("%s %-12s %s", mark, f.What, text.Safe(f.Text))
					if f.Do != "" {
						out.line("     %-12s %s", "", f.Do)
					}
				}
			})
		},
	}
	cmd.Flags().BoolVar(&showConfig, "config", false, "print every setting and where it came from")
	return cmd
}

// sayer returns a function that adds what was found to out.
func sayer(out *[]Finding) func(what string, err error, text, do string) {
	return func(what string, err error, text, do string) {
		f := Finding{What: what, OK: err == nil, Text: text}
		if err != nil {
			f.Text, f.Do = err.Error(), do
		}
		*out = append(*out, f)
	}
}

// examine checks everything once; a fault in one part does not hide another.
func (a *app) examine(ctx context.Context) []Finding {
	var out []Finding
	say := sayer(&out)
	home, err := a.findHome()
	say("home", err, home, "set PLAIT_HOME")
	if err == nil {
		out = append(out, a.examineHome(home)...)
	}
	if err == nil && a.program.Doctor != nil {
		out = append(out, a.program.Doctor(ctx, home)...)
	}
	if err == nil && a.program.Doctor == nil && !exists(filepath.Join(home, "plait.db")) {
		say("record", nil, "does not exist yet", "")
		return slices.Concat(out, a.examinePlace(ctx, home), a.examineForge(ctx), a.examineAgents(ctx))
	}
	s, err := a.openStore(ctx)
	todo := "run plait verify once it opens; a newer record needs a newer Plait"
	if a.program.Doctor == nil {
		todo = cmp.Or(a.hint(err), todo)
	}
	say("record", err, "opens", todo)
	if err == nil {
		out = append(out, examineStore(ctx, s)...)
		out = append(out, examineHistory(ctx, s, home))
	}
	out = append(out, a.examinePlace(ctx, home)...)
	out = append(out, a.examineForge(ctx)...)
	if a.program.Team != nil {
		out = append(out, a.examineTeam(ctx, home)...)
	}
	return append(out, a.examineAgents(ctx)...)
}

// examineAgents looks for the agents of all kinds.
func (a *app) examineAgents(ctx context.Context) []Finding {
	agents, named := map[string]flow.Agent{"model": {Kind: "model"}}, map[string]bool{"codex": true}
	if dir, err := os.Getwd(); err == nil {
		if dir, err = config.Workspace(dir); err == nil {
			if s, err := config.Load(config.UserFile(), config.ProjectFile(dir), a.getenv); err == nil {
				named = map[string]bool{s.Default.V: true}
				for name, v := range s.Agents {
					agents[name], named[name], named[v.V.Agent] = v.V, true, true
					if v.V.Kind != "model" { // each of these has its own server
						named[v.V.Kind] = true
					}
				}
			}
		}
	}
	return slices.Concat(needed(named["codex"] || named["codex-exec"], a.examineCodex(ctx)),
		needed(named["claude"], a.examineClaude(ctx)), a.examineACP(ctx, named), a.examineModels(ctx, agents, named))
}

// needed returns findings about an agent. What is wrong with one that no setting names is no warning.
func needed(named bool, all []Finding) []Finding {
	for i := range all {
		if f := &all[i]; f.Warning && !named {
			f.OK, f.Warning, f.Unused = true, false, true
		}
	}
	return all
}

// examineCodex looks for Codex. If it is missing, or not logged in, that is a warning: other agents and --offline
// do not need it. A Codex that is installed and cannot be used is a fault.
func (a *app) examineCodex(ctx context.Context) []Finding {
	h, err := a.codexHost()
	if err != nil {
		return []Finding{{What: "codex", Text: err.Error()}}
	}
	p, err := h.Find(ctx, "")
	found := examineProgram(codex.Package, p, err)
	if !found.OK {
		return []Finding{found}
	}
	found.Text += " (found in " + p.From + ")"
	out := []Finding{found}
	login, err := h.Login(ctx, p)
	if err != nil {
		login = host.Login{Text: err.Error()}
	}
	out = append(out, Finding{What: "codex login", OK: login.OK, Warning: !login.OK, Text: login.Text, Do: login.Do})
	out = append(out, examineReads(h.CanRead(ctx, p))...)
	if _, err := exec.LookPath("bwrap"); err != nil && runtime.GOOS == "linux" {
		out = append(out, Finding{What: "sandbox", OK: true, Text: "bubblewrap is not installed; Codex uses its own",
			Do: "install bubblewrap if commands of agents fail to start"})
	}
	return out
}

// examineProgram reports the program of a package, as it was found.
func examineProgram(pkg host.Package, p host.Program, err error) Finding {
	if errors.As(err, new(*host.MissingError)) {
		return Finding{What: pkg.Name, Warning: true, Text: "not found in PATH or " + pkg.CacheDir() +
			"; flows with agents of kind " + pkg.Name + " need it", Do: pkg.Install()}
	}
	found := Finding{What: pkg.Name, OK: true, Text: p.Version + ", " + p.Path}
	if err == nil {
		found.Do, err = pkg.Advice(p)
	}
	if err != nil {
		return Finding{What: pkg.Name, Text: err.Error()}
	}
	return found
}

// examineReads reports what the sandbox hides from agents' commands here, according to a test.
func examineReads(reads []codex.Read, err error) []Finding {
	if err != nil {
		return []Finding{{What: "agent reads", Warning: true, Text: err.Error(),
			Do: "see docs/security.md; without a sandbox only access: full works"}}
	}
	var out []Finding
	for _, r := range reads {
		f := Finding{What: "agent reads", OK: r.Denied, Warning: !r.Denied}
		if f.Text = "the sandbox hides " + r.Path + " from agents' commands (access: full has no sandbox)"; !r.Denied {
			f.Text = "agents' commands can read " + r.Path + ": the sandbox does not prevent it here"
			f.Do = "run agents that you do not trust as another user"
		}
		out = append(out, f)
	}
	return out
}

// examineClaude looks for Claude Code, as examineCodex does for Codex.
func (a *app) examineClaude(ctx context.Context) []Finding {
	h, err := a.agentHost()
	if err != nil {
		return []Finding{{What: "claude", Text: err.Error()}}
	}
	p, err := h.Find(ctx, claude.Package, "", nil)
	found := examineProgram(claude.Package, p, err)
	if !found.OK {
		return []Finding{found}
	}
	login := claude.Login(h, claude.Config{})
	out := []Finding{found, {What: "claude login", OK: login.OK, Warning: !login.OK, Text: login.Text, Do: login.Do}}
	if proc.Bubblewrap() == "" && runtime.GOOS == "linux" {
		out = append(out, Finding{What: "sandbox", Warning: true, Do: "install bubblewrap",
			Text: "bubblewrap is not installed; agents of kind claude ask before each command and each change"})
	}
	return out
}

// examinePlace checks the workspace and the programs.
func (a *app) examinePlace(ctx context.Context, home string) []Finding {
	var out []Finding
	say := sayer(&out)
	dir, err := os.Getwd()
	if err == nil {
		dir, err = config.Workspace(dir)
	}
	say("workspace", err, dir, "")
	if err == nil {
		say("place", config.Outside(dir, home), "the record is outside the workspace", "set PLAIT_HOME elsewhere")
		_, err = config.Load(config.UserFile(), config.ProjectFile(dir), a.getenv)
		say("settings", err, "valid", "fix the file")
		if old, _ := filepath.Glob(filepath.Join(dir, "*.data.jsonl")); len(old) > 0 {
			out = append(out, Finding{What: "old data", OK: true,
				Text: fmt.Sprintf("%d *.data.jsonl files of an older format are here; they are ignored", len(old))})
		}
	}
	path, err := exec.LookPath("git")
	do := "install git: flows that look at repositories need it"
	if _, unusable := worktree.UnderGit(ctx, dir); unusable != nil {
		err, do = unusable, "" // it says what to do
	}
	say("git", err, path, do)
	return out
}

// examineHome checks where the record is stored, or, if it is elsewhere, what agents keep.
func (a *app) examineHome(home string) []Finding {
	kept := "the record"
	if a.program.Doctor != nil {
		kept = "sessions of agents"
	}
	out := []Finding{examineRights(home)}
	if dir := os.TempDir(); config.Outside(dir, home) != nil {
		out = append(out, Finding{What: "homes", Warning: true, Text: "PLAIT_HOME is below " + dir +
			", which the system empties from time to time: " + kept + " would be lost", Do: "move PLAIT_HOME"})
	}
	return out
}

func examineRights(home string) Finding {
	info, err := os.Stat(home)
	switch {
	case os.IsNotExist(err):
		return Finding{What: "rights", OK: true, Text: "does not exist yet"}
	case err != nil:
		return Finding{What: "rights", Text: err.Error()}
	case info.Mode().Perm()&0o077 != 0:
		return Finding{What: "rights", Text: fmt.Sprintf("%s is open to others (%v)", home, info.Mode().Perm()),
			Do: "chmod 700 " + home}
	}
	return Finding{What: "rights", OK: true, Text: "only you can read it"}
}

// mostCounted limits the tasks that doctor counts.
const mostCounted = 1000

func examineStore(ctx context.Context, s store.Store) []Finding {
	var out []Finding
	problems, err := s.Check(ctx)
	switch {
	case err != nil:
		out = append(out, Finding{What: "container", Text: err.Error(), Do: "run plait verify"})
	case len(problems) > 0:
		out = append(out, Finding{What: "container", Text: problems[0], Do: "run plait verify"})
	default:
		out = append(out, Finding{What: "container", OK: true, Text: "intact"})
	}
	v := view.Reader{Store: s, Nodes: thread.NewReader(s), ReadOnly: true}
	rows, err := v.Tasks(ctx, view.TaskFilter{All: true, Limit: mostCounted})
	if err != nil {
		return append(out, Finding{What: "tasks", Text: err.Error(), Do: "run plait verify"})
	}
	count := map[string]int{}
	for _, t := range rows {
		count[string(t.Display.State)]++
	}
	text := fmt.Sprintf("%d", len(rows))
	if len(rows) == mostCounted {
		text = "the newest " + text
	}
	for _, status := range slices.Sorted(maps.Keys(count)) {
		text += fmt.Sprintf(", %d %s", count[status], status)
	}
	out = append(out, Finding{What: "tasks", OK: true, Text: text})
	return append(out, examineAnswers(ctx, s, v.Nodes)...)
}

// examineHistory compares the log with the checkpoint that this machine keeps, and reports what of it is signed.
func examineHistory(ctx context.Context, s store.Store, home string) Finding {
	kept := view.KeptOf(s, home)
	v := view.Reader{Store: s, ReadOnly: true, Vouches: vouching}
	h, err := v.History(ctx, kept)
	if err == nil {
		err = kept.Check(ctx, s)
	}
	if err != nil {
		return Finding{What: "history", Text: err.Error(), Do: "run plait verify"}
	}
	f := Finding{What: "history", OK: true, Text: h.Says(time.Now())}
	if h.Signed != nil && h.Signed.Standing == history.Unvouched {
		f.Do = "vouch for it with plait proof sign, or on a machine with your SSH key with plait proof sign KEY: plait proof show has it"
	}
	if exists(config.LogKeyFile()) {
		if _, err := history.OpenLogKey(config.LogKeyFile()); err != nil {
			f.OK, f.Warning, f.Do = false, true, "what is recorded from now on is not signed: "+err.Error()
		}
	}
	return f
}

// ollama is the default address of Ollama.
const ollama = "127.0.0.1:11434"

// examineModels reports on the model servers that the environment and the settings name. It calls no others.
func (a *app) examineModels(ctx context.Context, agents map[string]flow.Agent, named map[string]bool) []Finding {
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		if def := agents[name]; def.Kind == "model" {
			out = append(out, needed(named[name], []Finding{a.examineModel(ctx, name, def)})...)
		}
	}
	if slices.ContainsFunc(out, func(f Finding) bool { return f.OK && !f.Unused }) {
		return out
	}
	if c, err := net.DialTimeout("tcp4", ollama, 200*time.Millisecond); err == nil {
		c.Close()
		out = append(out, Finding{What: "ollama", OK: true, Unused: true,
			Text: "something listens at " + ollama + "; it is used only if an agent says so",
			Do:   "set OPENAI_BASE_URL=http://" + ollama + "/v1 and OPENAI_MODEL, or url: and model: of an agent of kind model"})
	}
	return out
}

// examineModel checks one agent.
func (a *app) examineModel(ctx context.Context, name string, def flow.Agent) Finding {
	f := Finding{What: "model", Warning: true}
	if name != "model" {
		f.What = name
	}
	a.holdSecrets(def)
	s, err := model.Find(a.secret, model.Config{URL: def.URL, API: def.API, Model: def.Model, KeyEnv: def.KeyEnv})
	if err != nil {
		f.Text, f.Do = err.Error(), "flows with agents of kind model need a server and its key; see docs/model.md"
		return f
	}
	if err := model.Check(ctx, s); err != nil {
		f.Text = err.Error()
		return f
	}
	f.OK, f.Warning, f.Text = true, false, fmt.Sprintf("%s at %s (%s)", s.Model, s.URL, s.API)
	return f
}
