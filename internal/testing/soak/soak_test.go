package soak

import (
	"fmt"
	"slices"
	"testing"
)

func TestPortion(t *testing.T) {
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
