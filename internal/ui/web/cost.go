package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// costPeriods are the days that the page of costs can show: all of them are 0.
var costPeriods = []int{7, 30, 0}

// costs adds up what a request asks for.
func (s *Server) costs(r *http.Request) (c view.Costs, days int, err error) {
	q := r.URL.Query()
	by := q.Get("by")
	if by == "" {
		by = view.CostByDay
	}
	if !slices.Contains(view.CostKeys(), by) {
		return c, 0, badRequest("invalid by %q: use day, flow, agent, model or person", by)
	}
	f := view.TaskFilter{Flow: q.Get("flow")}
	if f.All, err = boolParam(r, "all"); err != nil {
		return c, 0, err
	}
	if days, err = number(r, "days", 0, 0, 3650); err != nil {
		return c, 0, err
	}
	if days > 0 {
		f.Since = time.Now().AddDate(0, 0, -days).UnixMilli()
	}
	c, err = s.views.Costs(r.Context(), f, by)
	return c, days, err
}

func (s *Server) showCosts(r *http.Request) (any, error) {
	c, _, err := s.costs(r)
	return c, err
}

// A costBar is a row of the page of costs: its bar is drawn by cost, or by tokens if nothing has a price.
type costBar struct {
	view.Cost
	Width float64 // of 100
}

func (s *Server) costPage(w http.ResponseWriter, r *http.Request) error {
	c, days, err := s.costs(r)
	if err != nil {
		return err
	}
	body := struct {
		view.Costs
		Bars    []costBar
		Keys    []choice
		Periods []choice
	}{Costs: c}
	measure := func(c view.Cost) int64 { return c.Usage.CostMicroUSD }
	if c.Total.Usage.CostMicroUSD == 0 {
		measure = func(c view.Cost) int64 { return c.UnpricedTokens }
	}
	most := int64(1)
	for _, row := range c.Rows {
		most = max(most, measure(row))
	}
	for _, row := range c.Rows {
		body.Bars = append(body.Bars, costBar{row, 100 * float64(measure(row)) / float64(most)})
	}
	link := func(name, value string) string {
		q := url.Values{}
		for _, kept := range []string{"by", "days", "flow", "all"} {
			if v := r.URL.Query().Get(kept); v != "" {
				q.Set(kept, v)
			}
		}
		q.Set(name, value)
		return "/cost?" + q.Encode()
	}
	for _, key := range view.CostKeys() {
		body.Keys = append(body.Keys, choice{key, link("by", key), key == c.By})
	}
	for _, n := range costPeriods {
		name := "all time"
		if n > 0 {
			name = text.Count(n, "day")
		}
		body.Periods = append(body.Periods, choice{name, link("days", strconv.Itoa(n)), n == days})
	}
	return s.show(w, r, http.StatusOK, "cost", page{Title: "Cost", Nav: "cost", Types: stateEvents, Body: body})
}
