package cli

import "testing"

// TestEndpoints checks that each scenario has its own model, for as long as the program runs.
func TestEndpoints(t *testing.T) {
	a := &app{}
	defer a.close()
	urls := map[string]string{}
	for _, scenario := range []string{"work", "chat", "work", "chat"} {
		s, err := a.openEndpoint(scenario)
		if err != nil {
			t.Fatal(err)
		}
		if was := urls[scenario]; was != "" && was != s.URL() {
			t.Errorf("%s is at %s and %s", scenario, was, s.URL())
		}
		urls[scenario] = s.URL()
	}
	if urls["work"] == urls["chat"] {
		t.Error("two scenarios share a model")
	}
	if _, err := a.openEndpoint("nobody"); err == nil {
		t.Error("there is a model of no scenario")
	}
}
