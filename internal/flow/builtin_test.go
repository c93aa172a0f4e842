package flow

import "testing"

func TestBuiltIns(t *testing.T) {
	names := BuiltIns()
	if len(names) == 0 {
		t.Fatal("no flow is built in")
	}
	for _, name := range names {
		def, ok := BuiltIn(name)
		if !ok {
			t.Errorf("%s cannot be loaded", name)
			continue
		}
		if def.Name != name {
			t.Errorf("file %s.yaml holds flow %s", name, def.Name)
		}
	}
	for _, name := range []string{"", "none", "../solo", "solo.yaml"} {
		if _, ok := BuiltIn(name); ok {
			t.Errorf("BuiltIn(%q) found a flow", name)
		}
	}
}
