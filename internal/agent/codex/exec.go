package codex

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/shape"
	"github.com/plait-run/plait/internal/sys/proc"
)

// errExecStartup is why a run that did not begin was stopped.
var errExecStartup = errors.New("startup")

// execStartup is how long codex exec may take to name its session.
const execStartup = 60 * time.Second

// An execRun is one run of codex exec. After the start its fields belong to the
// goroutine that reads stdout, and after that to Run.
type execRun struct {
	req          agent.Request
	cfg          Config
	setup        *setup
	shut         func() // closes the gateway
	prompt       string
	args         []string
	redactedArgs []string // args for the log
	emit         func(agent.Event) error
	session      string      // to continue, or ""
	rollout      string      // its file, or ""
	offset       int64       // the size of that file before the run
	before       agent.Usage // the session's usage before the run, if known

	watchdog *agent.Watchdog
	startup  *time.Timer // ends a run that does not begin
	stderr   headWriter
	out      execOutput
	emitErr  error // the first error of emit
}

// Run runs codex exec once. See [agent.Agent].
func (a *ExecAgent) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, stopFailure(ctx)
	}
	r := &execRun{req: req, cfg: a.cfg, emit: emit, prompt: strings.ToValidUTF8(req.Prompt, "\uFFFD")}
	if err := a.prepare(ctx, r); err != nil {
		if ctx.Err() != nil {
			return agent.Result{}, stopFailure(ctx)
		}
		return agent.Result{}, err
	}
	defer r.shut()
	if r.setup.warning != "" {
		if err := emit(agent.Event{Kind: agent.EventProgress, Text: "warning: " + r.setup.warning}); err != nil {
			return agent.Result{}, err
		}
	}
	if err := r.logRequest(); err != nil {
		return agent.Result{}, err
	}
	startup := a.startup
	if startup == 0 {
		startup = execStartup
	}
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.startup = time.AfterFunc(startup, func() { cancel(errExecStartup) })
	r.watchdog = agent.NewWatchdog(agent.Limits{Idle: req.Idle}) // proc limits the whole time
	r.stderr = headWriter{to: req.Desk.Stderr, watchdog: r.watchdog}
	var watching sync.WaitGroup
	watching.Go(func() { r.watchdog.Watch(watched, cancel) })
	path, args := req.CommandLine(r.setup.program.Path, r.args, r.setup.needs())
	res, err := proc.Run(watched, proc.Config{
		Path: path, Args: args, Dir: r.setup.dir, Env: r.setup.env,
		Stdin: strings.NewReader(r.prompt), Stdout: req.Desk.Raw, Stderr: &r.stderr, Line: r.line,
		Wall: req.Timeout, Grace: a.host.grace(), Tag: req.Tag,
		// SIGTERM would leave Codex's commands running.
		Signals: []syscall.Signal{syscall.SIGINT},
		Started: func(pid int, start int64) {
			if req.Started != nil {
				req.Started(agent.Process{PID: pid, Start: start})
			}
		},
	})
	r.startup.Stop()
	why := context.Cause(watched)
	cancel(nil)
	watching.Wait()
	r.closeItems()
	return r.outcome(why, res, err)
}

// prepare finds the program, prepares its home, and sets what to run.
func (a *ExecAgent) prepare(ctx context.Context, r *execRun) error {
	p, err := a.host.Find(ctx, a.cfg.Path)
	if err != nil {
		return agent.OfMachine("%v", err)
	}
	if r.setup, err = a.cfg.setup(a.host, p, r.req); err != nil {
		return err
	}
	r.session = r.req.Session
	if r.session != "" && !isSession(r.session) {
		return &agent.Failure{Kind: agent.Infra, Message: "the session to continue is not a valid Codex session id"}
	}
	if r.session == "" && r.req.From != nil {
		if r.session, err = a.fork(ctx, r.req); err != nil {
			return err
		}
	}
	if r.session != "" {
		r.rollout = findRollout(r.setup.home, r.session)
		if r.rollout != "" {
			seen, _ := readRollout(r.rollout, 0, nil)
			r.offset, r.before = seen.Bytes, seen.Total
		}
	}
	if r.shut, err = r.setup.open(r.req, true); err != nil {
		return err
	}
	if err = r.arguments(); err != nil {
		r.shut()
	}
	return err
}

// fork makes the session to continue. codex exec can fork a session only at its end, so an
// app-server makes the fork at a turn.
func (a *ExecAgent) fork(ctx context.Context, req agent.Request) (string, error) {
	req.Started = nil // the attempt's process is yet to come
	session, err := a.host.forkSession(ctx, a.cfg, req, *req.From)
	var f *agent.Failure
	switch {
	case err == nil, errors.As(err, &f):
		return session, err
	}
	return "", &agent.Failure{Kind: agent.Infra, Message: fmt.Sprintf("Codex could not branch off from session %s: %s",
		req.From.Session, vendorText(err.Error()))}
}

// arguments sets the arguments of the program.
func (r *execRun) arguments() error {
	args := []string{"exec", "--json", "--skip-git-repo-check", "-C", r.setup.dir}
	shown := slices.Clone(args)
	add := func(more ...string) { args, shown = append(args, more...), append(shown, more...) }
	for _, key := range slices.Sorted(maps.Keys(r.setup.settings)) {
		pairs, err := execSettings(key, r.setup.settings[key])
		if err != nil {
			return agent.Final("config %s cannot be given to Codex: %v", key, err)
		}
		for _, pair := range pairs {
			args, shown = append(args, "-c", pair), append(shown, "-c", redactedSetting(pair))
		}
	}
	ours := map[string]any{"approval_policy": "never",
		"shell_environment_policy": r.cfg.shellPolicy(r.setup, r.req, r.req.Tag)}
	if r.req.Access == agent.Full {
		add("-s", sandboxes[agent.Full])
	} else {
		maps.Copy(ours, r.setup.profile.settings)
	}
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		pairs, err := execSettings(key, ours[key])
		if err != nil {
			return fmt.Errorf("run Codex: %w", err)
		}
		for _, pair := range pairs {
			args, shown = append(args, "-c", pair), append(shown, "-c", redactedSetting(pair))
		}
	}
	if r.req.Shaped {
		file, err := r.schemaFile()
		if err != nil {
			return err
		}
		add("--output-schema", file)
	}
	if r.session != "" {
		add("resume", r.session)
	}
	add("-")
	r.args, r.redactedArgs = args, shown
	return nil
}

// schemaFile writes the strict form of the schema to a file that Codex reads.
func (r *execRun) schemaFile() (string, error) {
	schema, err := shape.Strict(r.req.Schema)
	if err != nil {
		return "", agent.Final("the role's schema cannot be asked for: %v", err)
	}
	sum := sha256.Sum256(schema)
	file := filepath.Join("schemas", hex.EncodeToString(sum[:])+".json")
	home, err := agent.OpenHome(r.setup.home)
	if err == nil {
		err = errors.Join(writeIfChanged(home, file, schema), home.Close())
	}
	if err != nil {
		return "", fmt.Errorf("write schema for Codex: %w", pathCause(err))
	}
	return filepath.Join(r.setup.home, file), nil
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// execSettings returns a setting as arguments of -c: KEY=VALUE with the value in
// TOML. Tables become dotted keys, so that they add to the home's settings.
func execSettings(key string, value any) ([]string, error) {
	if table, ok := value.(map[string]any); ok && len(table) > 0 {
		bare := true
		for k := range table {
			bare = bare && bareKey.MatchString(k)
		}
		if bare {
			var pairs []string
			for _, k := range slices.Sorted(maps.Keys(table)) {
				more, err := execSettings(key+"."+k, table[k])
				if err != nil {
					return nil, err
				}
				pairs = append(pairs, more...)
			}
			return pairs, nil
		}
	}
	text, err := execTOML(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return []string{key + "=" + text}, nil
}

// execTOML returns a value as TOML on one line.
func execTOML(value any) (string, error) {
	var b bytes.Buffer
	enc := toml.NewEncoder(&b)
	enc.SetTablesInline(true)
	enc.SetArraysMultiline(false)
	if err := enc.Encode(map[string]any{"v": value}); err != nil {
		return "", err
	}
	text, ok := strings.CutPrefix(strings.TrimSuffix(b.String(), "\n"), "v = ")
	if !ok || strings.Contains(text, "\n") {
		return "", errors.New("it has no form in TOML")
	}
	return text, nil
}

// redactedSetting hides the value of a setting, unless it never contains a secret.
func redactedSetting(pair string) string {
	key, _, _ := strings.Cut(pair, "=")
	top, _, _ := strings.Cut(key, ".")
	if slices.Contains(plainSettings, top) {
		return pair
	}
	return key + "=…"
}

// logRequest logs how the program is called.
func (r *execRun) logRequest() error {
	if r.req.Desk.Requests == nil {
		return nil
	}
	line, err := json.Marshal(struct {
		TS    int64    `json:"ts"`
		Dir   string   `json:"dir"`
		Argv  []string `json:"argv"`
		Bytes int      `json:"prompt bytes"`
	}{time.Now().UnixMilli(), "out", append([]string{r.setup.program.Path}, r.redactedArgs...), len(r.prompt)})
	if err == nil {
		_, err = r.req.Desk.Requests.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("log request to Codex: %w", err)
	}
	return nil
}

// send emits an event. After the first error it emits nothing and returns that error.
func (r *execRun) send(e agent.Event) error {
	if r.emitErr == nil {
		r.emitErr = r.emit(e)
	}
	return r.emitErr
}
