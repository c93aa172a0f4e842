package thread

import "testing"

func TestPlainly(t *testing.T) {
	const id = "01M8C8AQXRNCXAGG9WPR663DCP"
	for message, want := range map[string]string{
		"": "", "no way": "no way", "one: refused: I will not": "one: refused: I will not",
		"one: infra: sh exited with code 3: x": "one: sh exited with code 3: x",
		"one: infra: could not start: ./x does not exist; correct the agent's command": "one could not start: " +
			"./x does not exist; correct the agent's command",
		"count: invalid-output: count returned n: 1; it must be 2": "count returned n: 1; it must be 2",
		"path f1 (thread " + id + ") is blocked: f1: infra: cannot run x; path f2 (thread " + id + ") is blocked: why?": "" +
			"f1: cannot run x; why?",
		"an infra: b": "an infra: b",
	} {
		if got := Plainly(message); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}
