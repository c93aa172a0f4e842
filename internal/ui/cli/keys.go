package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/sys/secret"
	"github.com/plait-run/plait/internal/sys/text"
)

// A keyring holds the keys printed by the person's programs; see keys: in the configuration. It keeps them only in
// memory. Its zero value is ready to use.
type keyring struct {
	secrets  secret.Set // these keys and other secrets that Plait holds
	mu       sync.Mutex // protects the rest
	read     bool
	commands map[string][]string
	values   map[string]string // what was printed, "" after an error
}

const (
	keyTime = time.Minute // for a keyring that asks its owner
	maxKey  = 64 << 10
)

// secret returns the value of a variable for the hosts of agents: from the environment, or else the output of the
// program that the person's own configuration names for it, which is run once. They never get one that is withheld.
func (a *app) secret(name string) string {
	if a.withholds(name) {
		return ""
	}
	if value := a.getenv(name); value != "" {
		if isSecret(name) {
			a.keys.secrets.Add(value)
		}
		return value
	}
	k := &a.keys
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.read {
		k.read, k.values = true, map[string]string{}
		if s, err := config.Load(config.UserFile(), "", a.getenv); err == nil { // its errors are reported elsewhere
			k.commands = s.Keys.V
		}
	}
	argv := k.commands[name]
	if value, asked := k.values[name]; asked || argv == nil {
		return value
	}
	value, err := printed(argv)
	if err != nil {
		fmt.Fprintf(a.err, "plait: keys.%s: %s\n", name, text.Safe(a.keys.secrets.Text(err.Error())))
		if a.worker != "" { // it serves until someone has mended that
			return ""
		}
	}
	a.keys.secrets.Add(value)
	k.values[name] = value
	return value
}

// isSecret reports whether the name of a variable says that its value is secret.
func isSecret(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc([]string{"KEY", "TOKEN", "SECRET", "PASSWORD"}, func(end string) bool {
		return strings.HasSuffix(name, end)
	})
}

// holdSecrets notes the secrets of an agent's definition: the key of its model, whatever its variable is called, what
// is passed to it, and passwords of proxies, which every agent gets.
func (a *app) holdSecrets(def flow.Agent) {
	if def.KeyEnv != "" {
		a.keys.secrets.Add(a.secret(def.KeyEnv))
	}
	pass := def.Pass
	if def.Sandbox != nil {
		pass = slices.Concat(pass, def.Sandbox.Pass)
	}
	for _, name := range pass {
		if isSecret(name) {
			a.keys.secrets.Add(a.getenv(name))
		}
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		for _, name := range []string{name, strings.ToLower(name)} {
			if u, err := url.Parse(a.getenv(name)); err == nil {
				password, _ := u.User.Password()
				a.keys.secrets.Add(password)
			}
		}
	}
}

// printed runs a program and returns the line that it prints, which never appears in an error.
func printed(argv []string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), keyTime)
	defer stop()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &said, time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("run %s: %w %s", argv[0], err, text.FirstLine(said.String(), 200))
	}
	value := strings.TrimRight(out.String(), "\r\n")
	switch {
	case value == "":
		return "", fmt.Errorf("%s printed nothing", argv[0])
	case len(value) > maxKey || strings.ContainsAny(value, "\r\n\x00"):
		return "", errors.New(argv[0] + " printed more than one line")
	}
	return value, nil
}
