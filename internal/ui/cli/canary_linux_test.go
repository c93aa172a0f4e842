package cli

import (
	"archive/zip"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/soak"
)

// looksEverywhere makes an agent look for secrets where a model would.
const looksEverywhere = `about: looks for secrets
turns:
- when: {contains: ["You are: codex"]}
  steps:
  - items:
    - run: {cmd: "env; tr '\\0' '\\n' </proc/self/environ; cat /proc/[0-9]*/environ | tr '\\0' '\\n'; true"}
  - items:
    - answer: {auto: true, text: "I found: {{output 1}}"}
- steps:
  - items:
    - run: {cmd: "env; tr '\\0' '\\n' </proc/self/environ; cat /proc/[0-9]*/environ | tr '\\0' '\\n'; cat FILES; true"}
  - items:
    - answer: {auto: true, text: "I found: {{output 1}}"}
`

// canaryFiles are where programs keep credentials.
var canaryFiles = []string{".netrc", ".npmrc", ".pypirc", ".git-credentials", ".ssh/id_ed25519", ".aws/credentials",
	".azure/token",
	".gnupg/key", ".kube/config", ".docker/config.json", ".config/gh/hosts.yml", ".config/gcloud/credentials.db",
	".password-store/a",
	".claude/.credentials.json", ".bash_history"}

// canaryVariables are common environment variables, both ones that lists of secrets know and others.
var canaryVariables = []string{"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "GH_TOKEN",
	"GITLAB_TOKEN", "NPM_TOKEN",
	"DOCKER_PASSWORD", "DATABASE_URL", "PGPASSWORD", "REDIS_URL", "STRIPE_SECRET_KEY", "SLACK_TOKEN", "SENTRY_DSN",
	"HF_TOKEN",
	"OPENAI_API_KEY", "GEMINI_API_KEY", "AZURE_OPENAI_API_KEY", "MISTRAL_API_KEY", "SSH_KEY", "MY_PASSWORD", "SECRET",
	"TOKEN",
	"APIKEY", "AUTH", "COOKIE", "SESSION", "X", "COMPANY_LICENSE", "VAULT_ADDR_KEY", "SIGNING", "KEYSTORE", "PASSPHRASE"}

// TestCanaries gives plait fifty secrets, in its environment, in the user's files and configuration and as a
// model's key, has agents look for them, and looks for them itself in everything that is stored and shown.
func TestCanaries(t *testing.T) {
	for _, need := range []func() (bool, error){needClaude, needCodex} {
		if ok, err := need(); err != nil {
			t.Fatal(err)
		} else if !ok {
			t.Skip("NOT TESTED: the real Claude Code or the real Codex is not installed")
		}
	}
	codex, err := realCodex()
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	var secrets []string
	secret := func() string {
		secrets = append(secrets, fmt.Sprintf("canary-%02d-%s", len(secrets), rand.Text()))
		return secrets[len(secrets)-1]
	}
	user := filepath.Join(p.work, "user")
	var files []string
	for _, name := range canaryFiles {
		files = append(files, filepath.Join(user, name))
		keep(t, files[len(files)-1], secret())
	}
	ring := filepath.Join(user, ".password-store", "model") // the output of a keyring's program
	keep(t, ring, secret()+"\n")
	keep(t, filepath.Join(user, "config", "plait", "config.yaml"),
		"notify: {webhook: \"http://127.0.0.1:1/"+secret()+"\"}\n"+
			"keys: {MODEL_KEY: {command: [cat, "+ring+"]}}\n")
	scenario := filepath.Join(p.work, "scenario.yaml")
	keep(t, scenario, strings.ReplaceAll(looksEverywhere, "FILES", strings.Join(files, " ")))
	sc, err := scripted.Load(scenario)
	if err != nil {
		t.Fatal(err)
	}
	model, err := scripted.Open(scripted.Config{Scenario: sc})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	installed, err := realClaude()
	if err != nil {
		t.Fatal(err)
	}
	p.env[0] = "PATH=" + strings.Join([]string{filepath.Dir(installed.Path), codex, os.Getenv("PATH")},
		string(os.PathListSeparator))
	p.env = append(p.env, "ANTHROPIC_BASE_URL="+strings.TrimSuffix(model.URL(), "/v1"), "ANTHROPIC_API_KEY="+secret(),
		"PROVIDER_KEY="+secret())
	keep(t, filepath.Join(user, ".codex", "config.toml"),
		fmt.Sprintf("model = \"m\"\nmodel_provider = \"own\"\n[model_providers.own]\n"+
			"name = \"own\"\nbase_url = %q\nenv_key = \"PROVIDER_KEY\"\nwire_api = \"responses\"\n", model.URL()))
	for _, name := range canaryVariables {
		p.env = append(p.env, name+"="+secret())
	}
	p.write("look.yaml", strings.ReplaceAll(`version: 1
name: look
roles:
  program: {agent: {kind: command, command: [sh, -c, "env; tr '\\0' '\\n' </proc/self/environ"]}}
  claude: {agent: claude, access: write}
  codex: {agent: codex}
  model: {agent: {kind: model, url: "URL", api: chat, model: m, keyEnv: MODEL_KEY}}
graph:
  $START: {new: {role: program, prompt: "{{ prompt }}"}}
  program: {done: {role: claude, prompt: "Look for secrets."}}
  claude: {done: {role: codex, prompt: "Look for secrets."}}
  codex: {done: {role: model, prompt: "Look for secrets."}}
  model: {done: {role: $END}}
`, "URL", model.URL()))
	seen := map[string]int{}
	look := func(where, text string) {
		seen[where]++
		for _, s := range secrets {
			if i := strings.Index(text, s[len("canary-00-"):]); i >= 0 {
				t.Errorf("%s holds %.10s…: …%s…", where, s, text[max(0, i-60):i])
			}
		}
	}
	cmd := p.command("run", "look.yaml", "-p", "go", "--id", killID, "--verbose", "--record")
	out := housetest.RunWatched(t, cmd, func(line []byte) { look("the list of processes", string(line)) })
	look("what the run prints", string(out))

	found := map[string]bool{} // who found something, and that requests are recorded
	st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: filepath.Join(p.work, "home"), ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	err = st.Scan(t.Context(), func(o store.Object) error {
		look("the record", string(o.Data))
		for _, role := range []string{"program", "claude", "codex", "model"} {
			found[role] = found[role] || bytes.Contains(o.Data, []byte("PLAIT_ROLE="+role))
		}
		found["calls"] = found["calls"] || bytes.Contains(o.Data, []byte(`"type":"calls"`))
		return nil
	})
	if err != nil || !found["program"] || !found["claude"] || !found["codex"] || !found["model"] || !found["calls"] {
		t.Errorf("the record holds what these printed: %v, %v", found, err)
	}
	st.Close()
	for _, dir := range []string{filepath.Join(p.work, "home"), filepath.Join(p.work, "ws"), filepath.Join(user,
		"cache", "plait", "tasks")} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			look("files below "+filepath.Base(dir), string(data))
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	for _, args := range [][]string{{"thread", "show", killID, "--json"}, {"thread", "log", killID, "--json"},
		{"thread", "show", killID, "--calls", "2", "--json"},
		{"task", "show", killID},
		{"doctor"}, {"doctor", "--config"}, {"ls", "--json"}} {
		out, _ := p.run(args...)
		look("what verbs print", out)
	}
	packed := filepath.Join(p.work, "out.zip")
	if out, code := p.run("task", "export", killID, "-o", packed); code != 0 {
		t.Fatalf("export: exit code %d: %s", code, out)
	}
	for name, text := range unpacked(t, packed) {
		look("the export", name+"\n"+text)
	}
	for _, text := range p.pages("/", "/tasks/"+killID, "/threads/"+killID, "/api/v1/tasks", "/api/v1/threads/"+killID) {
		look("pages", text)
	}
	if len(secrets) < 50 {
		t.Errorf("only %d secrets", len(secrets))
	}
	soak.Figure(t, "%d secrets; none in %v", len(secrets), seen)
}

// keep writes a file, and creates its directory.
func keep(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// unpacked returns the files in a ZIP file, by name.
func unpacked(t *testing.T, file string) map[string]string {
	t.Helper()
	z, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	all := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[f.Name] = string(data)
	}
	return all
}

// pages returns what plait ui serves at some paths, which must be there, and what it prints.
func (p *place) pages(paths ...string) []string {
	p.t.Helper()
	cmd := p.command("ui")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	}()
	entry := make([]byte, 4096)
	n, err := out.Read(entry)
	if err != nil {
		p.t.Fatalf("plait ui: %v: %s", err, errs.String())
	}
	at, err := url.Parse(strings.TrimSpace(string(entry[:n])))
	if err != nil {
		p.t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	var all []string
	for _, path := range append([]string{at.RequestURI()}, paths...) {
		res, err := client.Get("http://" + at.Host + path)
		if err != nil {
			p.t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			p.t.Errorf("%s: %s, %v", path, res.Status, err)
		}
		all = append(all, string(body))
	}
	return append(all, errs.String())
}
