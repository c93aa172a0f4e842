package verify_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/store"
)

// Whatever is planned, however its actions end, and wherever the task is left, the record is
// sound.
func TestAnyPlanIsSound(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		g := newGrove(r, rapid.SampledFrom([][]string{goal, {pathFlow}, {hireFlow, goalFlow, leafFlow}}).Draw(r, "flows")...)
		g.answers["dig"] = []string{"---\n$status: found\n---\nGold."}
		g.answers["boss"] = nil
		made := 0
		for range rapid.IntRange(0, 3).Draw(r, "plans") {
			answer := rapid.SampledFrom([]string{"plan", "plan", "plan", "ask", "fails"}).Draw(r, "answer")
			switch answer {
			case "ask":
				g.answers["boss"] = append(g.answers["boss"], `{"ask": {"question": "Which?"}}`)
			case "fails":
				g.answers["boss"] = append(g.answers["boss"], fails)
			default:
				g.answers["boss"] = append(g.answers["boss"], g.anyPlan(r, &made))
			}
		}
		g.answers["boss"] = append(g.answers["boss"], finished)
		row := g.drive(g.plant().ID)
		g.whole()
		if rapid.Bool().Draw(r, "restart") {
			g.restart()
		}
		clear(g.held)
		for range 4 {
			if row = g.drive(row.ID); row.Ended() {
				break
			}
			g.unblock(r)
			g.whole()
		}
		if from, at, ok := g.drawStep(r, 0); ok {
			f := g.byHand(from, at)
			g.whole()
			g.drive(f.ID)
			g.whole()
		}
		if row = g.row(row.ID); !row.Ended() {
			g.cancel(row.ID)
			g.whole()
		}
	})
}

// anyPlan draws a plan, and the outcomes of its actions.
func (g *grove) anyPlan(r *rapid.T, made *int) string {
	var actions [][2]string
	var ids []string
	for range rapid.IntRange(1, 3).Draw(r, "actions") {
		*made++
		id, more := fmt.Sprintf("a%d", *made), ""
		if rapid.Bool().Draw(r, "fork "+id) {
			more += forked
		}
		if len(ids) > 0 && rapid.Bool().Draw(r, "waits "+id) {
			more += fmt.Sprintf(`, "dependsOn": [%q]`, rapid.SampledFrom(ids).Draw(r, "for"))
		}
		for range rapid.IntRange(0, 2).Draw(r, "answers of "+id) {
			g.answers[id] = append(g.answers[id], rapid.SampledFrom([]string{
				output("success",
					""), output("failed", ""), output("blocked", asks), fails, `{"$status": "$SUSPEND", "reason": "which?"}`,
			}).Draw(r, id))
		}
		g.answers[id] = append(g.answers[id], output("success", ""))
		if rapid.IntRange(0, 3).Draw(r, "hold "+id) == 0 {
			g.held[id] = 0
		}
		ids, actions = append(ids, id), append(actions, [2]string{id, more})
	}
	join := rapid.SampledFrom([]string{
		`"joinStrategy": "ALL_COMPLETED"`, `"joinStrategy": "ANY_COMPLETED"`,
		`"joinStrategy": "ALL_FAILED"`, `"joinStrategy": "ANY_FAILED"`,
		`"joinStrategy": "SUCCESS_COUNT_THRESHOLD", "threshold": 1`,
	}).Draw(r, "strategy")
	join += rapid.SampledFrom([]string{"", `, "losers": "wait"`, `, "losers": "cancel"`}).Draw(r, "losers")
	if rapid.Bool().Draw(r, "timeout") {
		join, g.late = join+`, "timeout": 60`, true
	}
	more := rapid.SampledFrom([]string{"", `, "then": "end"`}).Draw(r, "then")
	more += rapid.SampledFrom([]string{"", `, "onFailed": "plan"`}).Draw(r, "on failure")
	return plan(`, "join": {`+join+`}`+more, actions...)
}

// unblock does what a person would for everything that waits for one.
func (g *grove) unblock(r *rapid.T) {
	rows, err := g.s.Threads(ctx, store.ThreadFilter{})
	g.must(err)
	for _, t := range rows {
		t = g.row(t.ID) // handling the rows before it may have moved it
		if t.Status != store.Blocked {
			continue
		}
		switch {
		case t.Reason.Kind == "join":
			err := g.engine.RetryPaths(ctx, t.ID, t.Head)
			g.must(err)
		case t.Reason.Kind == "gate" && t.Path != nil && t.Path.Join == "__join__":
			g.replyTo(t, "this one")
		case t.Reason.Kind == "input", t.Reason.Kind == "gate":
			g.input(t, "that one")
		default: // attempts: no one tries again
			if rapid.Bool().Draw(r, "give up") {
				g.cancel(t.ID)
			}
		}
	}
}
