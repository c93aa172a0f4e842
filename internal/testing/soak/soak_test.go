package soak

import (
	"fmt"
	"slices"
	"testing"
)

func TestRounds(t *testing.T) {
	for speed, want := range map[string]int{"": 25, "1": 25, "0.5": 13, "0.01": 1, "0": 25, "2": 25, "x": 25} {
		t.Setenv(SpeedEnv, speed)
		if got := Rounds(t, 25); got != want {
			t.Errorf("at speed %q there are %d rounds, want %d", speed, got, want)
		}
	}
	t.Setenv(Env, "7")
	if got := Rounds(t, 25); got != 7 {
		t.Errorf("%d rounds, want 7", got)
	}
}

func TestPortion(t *testing.T) {
	t.Setenv(SpeedEnv, "1")
	all := []string{}
	for i := range 1000 {
		all = append(all, fmt.Sprint("change ", i))
	}
	if some := Portion(t, all, 10); len(some) != 10 || slices.Equal(some, Portion(t, all, 10)) {
		t.Errorf("at random there are %v, and the same again", some)
	}
	var tried []string
	for k := range 20 {
		t.Setenv(PortionEnv, fmt.Sprintf("%d/20", k))
		portion := Portion(t, all, 10)
		if len(portion) < 20 || len(portion) > 90 {
			t.Errorf("portion %d has %d of %d", k, len(portion), len(all))
		}
		tried = append(tried, portion...)
	}
	slices.Sort(tried)
	slices.Sort(all)
	if !slices.Equal(tried, all) {
		t.Errorf("of %d all portions have %d", len(all), len(tried))
	}
}
