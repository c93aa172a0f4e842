package sqlite

import (
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// For every table: its columns, in the order in which a row is read and
// written.

const (
	threadColumns = "id, task, root, kind, bundle, flow, start, head, status, wanted, inflight, tree, workspace, " +
		"steps, created, updated, ended, decision, options, links, short"
	attemptColumns = "id, thread, origin, role, n, agent, instance, prompt, status, failure, session, " +
		"pid, pidstart, tag, started, ended, input, cached, output, reasoning, cost, " +
		"transcript, stderr, kept, turn, waited, calls, host, boot"
	gateColumns = "id, kind, state, source, task, thread, node, instance, attempt, origin, question, " +
		"options, action, digest, grantee, opened, expires, ontimeout, answered, author, via, answer, used, diff, ref, " +
		"edited, editeddigest, signature"
	flowColumns    = "name, hash, changed, history"
	requestColumns = "id, task, thread, kind, text, options, author, via, at, taken"

	putThread = "INSERT OR REPLACE INTO threads (" + threadColumns + ") " +
		"VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
	// moveThread compares and swaps in one statement. It is for the common change,
	// which leaves the start and the indexed columns, and so the indexes, alone.
	moveThread = "UPDATE threads SET kind=?, flow=?, head=?, wanted=?, inflight=?, tree=?, " +
		"steps=?, created=?, updated=?, ended=?, decision=?, options=?, links=? " +
		"WHERE id=? AND head IS ? AND status=? AND wanted=? " +
		"AND start IS ? AND task=? AND root=? AND bundle IS ? AND workspace=? AND short=?"
	addAttempt = "INSERT INTO attempts (" + attemptColumns + ") " +
		"VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING"
	putAttempt = "INSERT OR REPLACE INTO attempts (" + attemptColumns + ") " +
		"VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
	// moveAttempt is for the common change, which leaves the indexed columns alone. It takes the values
	// of putAttempt, and the status that the row had.
	moveAttempt = "UPDATE attempts SET origin=?3, role=?4, agent=?6, instance=?7, prompt=?8, status=?9, failure=?10, " +
		"session=?11, pid=?12, pidstart=?13, tag=?14, started=?15, ended=?16, input=?17, cached=?18, output=?19, " +
		"reasoning=?20, cost=?21, transcript=?22, stderr=?23, kept=?24, turn=?25, waited=?26, calls=?27, host=?28, " +
		"boot=?29 WHERE id=?1 AND thread=?2 AND n=?5 AND status=?30"
	putGate = "INSERT OR REPLACE INTO gates (" + gateColumns + ") " +
		"VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
	putFlow     = "INSERT OR REPLACE INTO flows (" + flowColumns + ") VALUES (?,?,?,?)"
	addRequest  = "INSERT INTO wishes (" + requestColumns + ") VALUES (?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING"
	takeRequest = "UPDATE wishes SET taken = ? WHERE id = ? AND taken = 0"
	// takeLease returns the token of the new holder.
	takeLease = "INSERT INTO leases (name, token) VALUES (?, 1) ON CONFLICT DO UPDATE SET token = token + 1 RETURNING " +
		"token"
	putEvent = "INSERT INTO events (" + eventColumns + ") VALUES (?,?,?,?,?,?,?,?,?,?)"
)

// links are the parts of a thread that most threads lack.
type links struct {
	Reason     *store.Reason     `json:"reason,omitempty"`
	Parent     *store.Parent     `json:"parent,omitempty"`
	Path       *store.Path       `json:"path,omitempty"`
	ForkedFrom *store.ForkedFrom `json:"forkedFrom,omitempty"`
	Files      dag.Hash          `json:"files,omitzero"`
	Host       string            `json:"host,omitempty"`
}

func linksOf(t store.Thread) any {
	if t.Reason == nil && t.Parent == nil && t.Path == nil && t.ForkedFrom == nil && t.Files.IsZero() && t.Host == "" {
		return nil
	}
	return inJSON{links{t.Reason, t.Parent, t.Path, t.ForkedFrom, t.Files, t.Host}}
}

func threadValues(t store.Thread) []any {
	return []any{t.ID, t.Task, t.Root, string(t.Kind), t.Bundle, t.Flow, t.Start, t.Head,
		string(t.Status), string(t.Intent), t.InFlight, t.Tree, t.Workspace, t.Steps,
		t.CreatedAt, t.UpdatedAt, t.EndedAt, t.Decision, t.Options, linksOf(t), t.Short}
}

func moveValues(t store.Thread, from store.ThreadState) []any {
	return []any{string(t.Kind), t.Flow, t.Head, string(t.Intent), t.InFlight, t.Tree,
		t.Steps, t.CreatedAt, t.UpdatedAt, t.EndedAt, t.Decision, t.Options, linksOf(t),
		t.ID, from.Head, string(from.Status), string(from.Intent), t.Start, t.Task, t.Root, t.Bundle, t.Workspace,
		t.Short}
}

func scanThread(r *row) store.Thread {
	t := store.Thread{
		ID: r.text(), Task: r.text(), Root: r.text(), Kind: store.ThreadKind(r.text()), Bundle: r.hash(),
		Flow: r.text(), Start: r.hash(), Head: r.hash(), Status: store.Status(r.text()),
		Intent: store.Intent(r.text()), InFlight: r.text(), Tree: r.text(), Workspace: r.text(), Steps: int(r.int()),
		CreatedAt: r.int(), UpdatedAt: r.int(), EndedAt: r.int(), Decision: r.bytes(), Options: r.bytes(),
	}
	var l links
	r.json(&l)
	t.Reason, t.Parent, t.Path, t.ForkedFrom, t.Files, t.Host = l.Reason, l.Parent, l.Path, l.ForkedFrom, l.Files, l.Host
	t.Short = r.text()
	return t
}

func attemptValues(a store.Attempt) []any {
	u := a.Usage
	return []any{a.ID, a.Thread, a.From, a.Role, a.N, a.Agent, a.Instance, a.Prompt, string(a.Status),
		inJSON{a.Failure}, a.Session, a.PID, a.PIDStart, a.Tag,
		a.StartedAt, a.EndedAt, u.InputTokens, u.CachedInputTokens, u.OutputTokens, u.ReasoningTokens, u.CostMicroUSD,
		a.Transcript, a.Stderr, inJSON{a.Pins}, a.Turn, a.Waited, a.Calls, a.Host, a.Boot}
}

func scanAttempt(r *row) store.Attempt {
	a := store.Attempt{
		ID: r.text(), Thread: r.text(), From: r.hash(), Role: r.text(), N: int(r.int()), Agent: r.text(),
		Instance: r.text(), Prompt: r.hash(), Status: store.AttemptStatus(r.text()),
	}
	r.json(&a.Failure)
	a.Session, a.PID, a.PIDStart, a.Tag = r.text(), int(r.int()), r.int(), r.text()
	a.StartedAt, a.EndedAt = r.int(), r.int()
	a.Usage = store.Usage{
		InputTokens: r.int(), CachedInputTokens: r.int(), OutputTokens: r.int(), ReasoningTokens: r.int(),
		CostMicroUSD: r.int(),
	}
	a.Transcript, a.Stderr = r.hash(), r.hash()
	r.json(&a.Pins)
	a.Turn, a.Waited, a.Calls, a.Host, a.Boot = r.text(), r.int(), r.hash(), r.text(), r.text()
	return a
}

func gateValues(g store.Gate) []any {
	return []any{g.ID, string(g.Kind), string(g.State), string(g.Source), g.Task, g.Thread, g.Node, g.Instance,
		g.Attempt, g.From, g.Question, inJSON{g.Options}, g.Action, g.Digest, string(g.Grant),
		g.OpenedAt, g.ExpiresAt, g.OnTimeout, g.AnsweredAt, g.By, string(g.Via), g.Text, g.UsedAt, g.Diff, g.Ref,
		g.Edited, g.EditedDigest, g.Signature}
}

func scanGate(r *row) store.Gate {
	g := store.Gate{
		ID: r.text(), Kind: store.GateKind(r.text()), State: store.GateState(r.text()),
		Source: store.GateSource(r.text()), Task: r.text(), Thread: r.text(), Node: r.text(),
		Instance: r.text(), Attempt: r.text(), From: r.hash(), Question: r.text(),
	}
	r.json(&g.Options)
	g.Action, g.Digest, g.Grant = r.bytes(), r.hash(), store.Grant(r.text())
	g.OpenedAt, g.ExpiresAt, g.OnTimeout = r.int(), r.int(), r.text()
	g.AnsweredAt, g.By, g.Via, g.Text, g.UsedAt = r.int(), r.text(), store.Via(r.text()), r.text(), r.int()
	g.Diff, g.Ref = r.hash(), r.text()
	g.Edited, g.EditedDigest, g.Signature = r.bytes(), r.hash(), r.text()
	return g
}

func scanFlow(r *row) store.Flow {
	f := store.Flow{Name: r.text(), Hash: r.hash(), Timestamp: r.int()}
	r.json(&f.History)
	return f
}

func scanRequest(r *row) store.Request {
	return store.Request{
		ID: r.text(), Task: r.text(), Thread: r.text(), Kind: store.RequestKind(r.text()), Text: r.text(),
		Options: r.bytes(), By: r.text(), Via: store.Via(r.text()), At: r.int(), TakenAt: r.int(),
	}
}
