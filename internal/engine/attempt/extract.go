package attempt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/sys/text"
)

// extract reads the output of an attempt and collects its artifacts. If the output is invalid, the error is an
// *agent.Failure that tells the agent what to fix.
func (r *run) extract(ctx context.Context, result agent.Result) (answer, error) {
	begins := ""
	if result.Plain {
		begins = r.e.beginning(result)
	}
	if r.p.strict {
		result.Plain = false // a planner's or an action's output has a fixed form
	}
	most := int64(r.c.Limits.MaxOutput)
	if r.p.Role.Chat {
		ans, err := talk(result, most)
		if err == nil {
			ans, err = r.e.discreetAnswer(ans)
		}
		if err != nil {
			return answer{}, err
		}
		return ans, r.collect(context.WithoutCancel(ctx), r.desk.Artifacts(), &ans)
	}
	ans, err := parse(result, most, r.p.Role, r.p.worker.Text && !r.p.strict)
	tree := cmp.Or(result.Tree, r.before)
	if _, until := flow.UntilOf(r.row.Role); until && err == nil && tree != "" {
		ans.fields["tree"] = tree // a failure on the same files is no other one
		ans.meta, err = dag.Marshal(ans.fields)
	}
	var odd *badStatus
	if errors.As(err, &odd) {
		if odd.answer, err = r.e.discreetAnswer(odd.answer); err == nil {
			err = cmp.Or(r.c.Def.Validate(r.row.Role, odd.fields), error(odd)) // the schema says which there are
		}
	} else if err == nil {
		ans, err = r.e.discreetAnswer(ans)
	}
	if err != nil {
		return answer{}, &agent.Failure{Kind: agent.InvalidOutput, Message: misfit(r.row.Role, err, false) + begins}
	}
	bad := r.c.Def.Validate(r.row.Role, ans.fields)
	if bad != nil && !r.p.Role.Plan {
		return answer{}, &agent.Failure{Kind: agent.InvalidOutput, Message: misfit(r.row.Role, bad, ans.assumed) + begins}
	}
	if r.p.Role.Plan {
		ans.text = planText(ans.fields, ans.text)
		wrong, err := r.e.validatePlan(context.WithoutCancel(ctx), r.c, ans.fields, bad)
		if err != nil {
			return answer{}, err
		}
		if len(wrong) > 0 {
			bad = flow.PlanError(wrong)
		}
	}
	if said, _ := ans.fields["status"].(string); r.p.acts() && result.Status == "" && said != "" && said != ans.status {
		kept, err := r.accepted(ctx, &ans)
		if err != nil {
			return answer{}, err
		}
		if !kept {
			bad = fmt.Errorf("status is %q and $status is %q: they must be the same", said, ans.status)
		}
	}
	if bad != nil {
		return answer{}, &agent.Failure{Kind: agent.InvalidOutput, Message: bad.Error()}
	}
	err = r.collect(context.WithoutCancel(ctx), r.desk.Artifacts(), &ans)
	if err == nil {
		err = r.collectRefs(context.WithoutCancel(ctx), &ans)
	}
	return ans, err
}

// accepted reports whether an answer was accepted when it was recorded, by the rules of that time.
func (r *run) accepted(ctx context.Context, ans *answer) (bool, error) {
	if r.e.cfg.Player == nil {
		return false, nil
	}
	return r.e.cfg.Player.Accepted(ctx, r.c.Row, r.row.Role, r.c.Visits[r.row.Role], ans.meta, ans.text)
}

// misfit says what a role returned that its schema refuses. The lines of bad begin with a place, as in "/a/b: ".
// assumed says that its output has no $status.
func misfit(role string, bad error, assumed bool) string {
	if !strings.HasPrefix(bad.Error(), "/") {
		return bad.Error()
	}
	lines := strings.Split(bad.Error(), "\n")
	for i, line := range lines {
		at, what, _ := strings.Cut(line, ": ")
		switch key := strings.TrimPrefix(at, "/"); {
		case key == "":
			lines[i] = "an answer: " + what
		case key == "$status" && assumed:
			lines[i] = "no $status, which is taken for " + what
		case !strings.Contains(key, "/"):
			lines[i] = key + ": " + what
		}
	}
	return role + " returned " + strings.Join(lines, "\n")
}

// beginning returns the first lines of an output, for people who are told that it cannot be used.
func (e *Runner) beginning(result agent.Result) string {
	const most, chars = 5, 120
	head := string(result.Output[:min(len(result.Output), headBytes)])
	var lines []string
	for line := range strings.Lines(e.cfg.Host.Secrets.Text(strings.ToValidUTF8(head, "\ufffd"))) {
		if line = strings.TrimRight(line, " \t\r\n"); line == "" && len(lines) == 0 {
			continue
		}
		if len(lines) == most {
			break
		}
		lines = append(lines, text.Clip(line, chars))
	}
	if len(lines) == 0 {
		return "\nThe output is empty."
	}
	return "\nThe output begins:\n" + strings.Join(lines, "\n")
}

// parse finds meta and text in an output. The forms are: front matter between
// "---" lines and a body; one JSON object; and, for agents that may answer so,
// plain text, whose meta is the status and the exit code. If the output is only a text, it is not looked at.
func parse(result agent.Result, most int64, role flow.Role, text bool) (answer, error) {
	most = atMost(most)
	why := unfit(result, most)
	if why != nil && !result.Plain {
		return answer{}, why
	}
	ans, err := answer{}, error(nil)
	if text {
		ans, err = plain(result, string(result.Output))
	} else if ans, err = read(string(result.Output), result, role, why); err != nil && result.Plain {
		err = fmt.Errorf("%w; if the output is only a text, set output: text on the agent", err)
	}
	if err == nil && why != nil {
		ans.text, ans.headOnly = head([]byte(ans.text), min(most, headBytes)), true
	}
	return ans, err
}

// turn is the reason that a conversation waits.
const turn = "waits for what the person says next"

// talk makes an answer of what was said in a conversation, without parsing it.
func talk(result agent.Result, most int64) (answer, error) {
	most = atMost(most)
	ans := answer{status: flow.Suspend, text: string(result.Output), headOnly: unfit(result, most) != nil}
	if ans.headOnly {
		ans.text = head(result.Output, min(most, headBytes))
	}
	var err error
	ans.meta, err = dag.Marshal(map[string]any{"$status": ans.status, "reason": turn})
	return ans, err
}
