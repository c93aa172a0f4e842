package web

import (
	"net/http"
	"slices"

	"github.com/plait-run/plait/internal/engine/gate"
)

// Fields shared by several routes.
var (
	taskField   = str("task", "the id of a task")
	stateField  = str("state", "only tasks in this state: needs you, running, queued, done, failed or cancelled")
	flowField   = str("flow", "only tasks of this flow")
	allField    = boolean("all", "of every workspace")
	titleField  = str("q", "only tasks whose title has this")
	beforeField = str("before", "only tasks older than this one: the next value of a response")
	manyField   = integer("n", "at most this many, from 1 to 1000; 100 by default")
	afterField  = str("after", "an older name of before")
	limitField  = integer("limit", "at most this many")
	nameField   = str("name", "what to call it")
	fromField   = integer("from", "the first step that is shown")
	atField     = str("at", "a step: its number, or its hash; without it the last one before the end")
	agentField  = str("agent", "the agent that does it; without it the one of the task")
	callField   = integer("call", "only this request, from 1, with its response")
	textField   = str("text", "what the person says")
	aboutField  = str("about", "the lines that text is about: FILE:LINE, or FILE:LINE-LINE")
	yesField    = boolean("yes", "also change files from which programs or instructions are taken")
	treeField   = str("tree", "the git tree that has that file; without it, as the newest step left it")

	fromTree    = str("from", "the git tree before")
	toTree      = str("to", "the git tree after")
	fileField   = str("file", "only this file, with all changed lines")
	blamedField = field{Name: "file", Type: "string", About: "its path in the repository", Required: true}
	diffField   = str("diff", "unified (default), or split: side by side")

	searchFields = []field{
		{Name: "q", Type: "string", About: "words, \"a phrase\", wor*, and filters: flow:, state:, agent:, file:, since:", Required: true},
		allField, integer("limit", "at most this many, from 1 to 100; 20 by default")}
	costFields = []field{str("by", "day, flow, agent, model or person; day by default"),
		integer("days", "only attempts begun in so many days before now; 0 for any, the default"),
		str("flow", "only tasks of this flow"), allField}

	digestField    = str("digest", "answer only if the gate has this digest: what the person saw")
	signatureField = str("signature", "where answers must be signed: the message and its signature, see format.md")
)

// routes returns all routes.
func (s *Server) routes() (all []route) {
	self := serve("/api/v1/openapi.json", "this document", func(w http.ResponseWriter, _ *http.Request) error {
		return sendJSON(w, http.StatusOK, openAPI(all))
	})
	all = slices.Concat(s.pageRoutes(), s.taskRoutes(), s.threadRoutes(), s.otherRoutes(), []route{self})
	return all
}

// pageRoutes are the pages, and the files that they link to.
func (s *Server) pageRoutes() []route {
	return []route{
		serve("/{$}", "what needs you, what stopped, what runs, and what is done", s.inboxPage,
			str("at", "what is chosen: a gate or a task")),
		serve("/answers", "past questions and approvals, and who answered them", s.answersPage),
		serve("/new", "the form of a new task", s.newPage,
			str("flow", "the flow that is chosen"),
			str("prompt", "the prompt that is filled in")),
		serve("/tasks", "tasks, newest first", s.tasksPage, stateField, flowField, titleField, allField, beforeField,
			manyField, afterField, limitField, str("sort", "began (default), state, title, flow, agents or cost, of the tasks on "+
				"this page; -began and so on: the other way round")),
		{Method: http.MethodPost, Path: "/tasks", About: "the form of that list: the same with all chosen tasks", do: s.manyTasks,
			Body: []field{{Name: "task", Type: "string", About: "the id of a task", Many: true},
				str("do", "cancel, dismiss or remove"), boolean("sure", "it was asked whether to remove them")}},
		serve("/tasks/{id}", "a task", of(s.taskRow, s.taskPage),
			str("at", "what is chosen: a step's hash, an attempt or a gate"),
			str("tab", "of what is chosen: changes, log, prompt, output or evidence; without it, of the task: "+
				"overview, changes, prompt, evidence, reports, sessions or events"),
			str("state", "only agents and paths in this state, as of tasks")),
		serve("/tasks/{id}/export", "a task as a ZIP file, with its record, as a download",
			of(s.taskRow, s.exportTask)),
		serve("/tasks/{id}/files/{path...}", "a file of a task's directory, as a download", of(s.taskRow, s.taskFile)),
		serve("/tasks/{id}/read/{path...}", "a file of a task's directory, to be read", of(s.taskRow, s.readPage)),
		serve("/threads/{id}", "a thread", of(s.row, s.threadPage), fromField),
		serve("/threads/{id}/changes", "what changed from one git tree to another", of(s.row, s.changesPage), fromTree, toTree,
			fileField, diffField, boolean("whole", "with the lines of the file that are unchanged")),
		serve("/threads/{id}/blame", "a file, with the steps that wrote its lines", of(s.row, s.blamePage), blamedField, treeField),
		serve("/threads/{id}/patch", "the same as a patch, as a download", of(s.row, s.threadPatch), fromTree, toTree),
		serve("/gates/{id}/changes", "the change that an approval is about", of(s.gateOf, s.gateChangesPage), fileField,
			diffField),
		serve("/gates/{id}/patch", "the same as a patch, as a download", of(s.gateOf, s.gatePatch)),
		serve("/threads/{id}/verify", "whether the record of a thread is unchanged and complete",
			of(s.row, s.verifyPage)),
		serve("/search", "steps by their words", s.searchPage, searchFields...),
		serve("/cost", "what agents used, by day, flow, agent, model or person", s.costPage, costFields...),
		serve("/hosts", "the machines that agents of tasks work on", s.hostsPage),
		serve("/chats", "conversations", s.chatsPage),
		serve("/chats/{id}", "a conversation", of(s.taskRow, s.chatPage), fromField),
		serve("/flows", "flows that can be run", s.flowsPage),
		serve("/flows/{name}", "a flow", s.flowPage),
		serve("/compare", "two tasks compared, as a whole or up to a step", s.comparePage,
			str("a", "a task, a thread or a step"),
			str("b", "the other"),
			str("sa", "the step that a is compared up to"),
			str("sb", "the step that b is compared up to"), integer("from", "the first step after the shared ones that is shown")),
		serve("/steps/{hash}", "a step", of(hash, s.stepPage), str("thread", "the thread it is viewed from")),
		serve("/steps/{hash}/calls", "the requests of a step to its model, or one of them with its response",
			of(hash, s.stepCallsPage), callField, str("thread", "the thread it is viewed from")),
		serve("/blobs/{hash}", "the object with this hash, as a download", of(hash, s.blob), nameField),
		serve("/static/{file}", "page assets", s.static),
	}
}

// taskRoutes are the API routes for tasks.
func (s *Server) taskRoutes() []route {
	return []route{
		get("/api/v1/tasks", "one page of tasks, newest first; next is the before of the page after it, or empty",
			"task.list", s.listTasks, stateField, flowField, titleField, allField, beforeField, manyField, afterField,
			limitField),
		post("/api/v1/tasks", "start a task, driven by this server", "run", s.beginTask,
			field{Name: "flow", Type: "string", About: "the name of a flow, or the hash of a bundle", Required: true},
			str("prompt", "what should be done; required unless check is set"),
			str("agent", "the agent of every role; by default those that the flow names"),
			str("set", "the agents of single roles, as ROLE.agent=NAME, separated by spaces"),
			str("approve", "approval policy: ask (default), sandboxed or never"),
			str("merge", "how agents' changes are merged: auto (default), ask or keep"),
			str("limits", "limits over the flow's, as NAME=VALUE, separated by spaces"),
			str("worktree", "a git worktree of this repository to work in; by default the workspace"),
			boolean("check", "only check whether the task could start")),
		get("/api/v1/search", "steps by their words: prompts, outputs, commands, names of changed files and titles of tasks",
			"search", s.searchSteps, searchFields...),
		get("/api/v1/cost", "what agents used, in tokens and millionths of a dollar", "cost", s.showCosts, costFields...),
		post("/api/v1/demo", "start the demo that the inbox offers before the first task", "run", s.beginDemo),
		get("/api/v1/tasks/{id}", "a task", "task.show", about(s.taskRow, s.showTask)),
		get("/api/v1/tasks/{id}/timeline",
			"a task on an axis of time: lanes of agents and paths, attempts, steps and questions",
			"task.timeline", about(s.taskRow, s.showTimeline)),
		get("/api/v1/tasks/{id}/evidence", "the evidence of a task", "task.evidence.list",
			about(s.taskRow, s.listEvidence)),
		post("/api/v1/tasks/{id}/cancel", "request that a task be cancelled", "task.cancel",
			about(s.taskRow, s.cancelTask)),
		post("/api/v1/dismiss", "take tasks that have stopped out of the inbox", "task.dismiss", s.dismissTasks,
			field{Name: "tasks", Type: "string", About: "their ids, separated by spaces", Required: true}),
		post("/api/v1/tasks/{id}/resume", "continue a task, driven by this server; "+
			"text for a task that is driven already, or for a part of one, is passed on there",
			"resume", withBody(s.row, s.resumeTask), textField, aboutField, treeField),
		post("/api/v1/tasks/{id}/retry", "try again what failed, driven by this server: "+
			"the task itself if it can go on, otherwise a fork of it before what failed; text is more input",
			"retry", withBody(s.taskRow, s.retryTask), textField, aboutField, treeField),
		post("/api/v1/tasks/{id}/commit", "commit what a task changed to a branch of its own, as plait task commit does",
			"task.commit", withBody(s.taskRow, s.publish(false)), yesField),
		post("/api/v1/tasks/{id}/pr",
			"open a draft pull request with what a task changed, or update it, as plait task pr does", "task.pr",
			withBody(s.taskRow, s.publish(true)), yesField),
		post("/api/v1/tasks/{id}/stop", "stop what this server does with a task; it can be resumed", "task.stop",
			about(s.taskRow, s.stopTask)),
		post("/api/v1/tasks/{id}/revert", "revert a conversation to one of its steps; files stay as they are", "fork",
			withBody(s.taskRow, s.revertTask), atField),
	}
}

// threadRoutes are the API routes for threads and steps.
func (s *Server) threadRoutes() []route {
	return []route{
		get("/api/v1/threads", "threads, newest first", "thread.list", s.listThreads, allField,
			boolean("parts", "paths, calls and actions too"),
			str("since", "started then or later: a date, a time (RFC 3339) or how long ago (36h)"),
			str("until", "started before then; a date includes the whole day"),
			str("before", "only those that come after this id in the list: the next value of a response"),
			limitField),
		get("/api/v1/threads/{id}", "a thread and its steps", "thread.show", about(s.row, s.showThread),
			integer("before", "only steps before the one of this number: the next value of a response"),
			integer("limit", "only this many of the newest")),
		get("/api/v1/threads/{id}/tree", "a thread and everything below it", "thread.tree", about(s.row, s.showTree),
			integer("depth", "this many levels down; all by default")),
		get("/api/v1/threads/{id}/stack", "the call stack of a thread, from its head to the top of its task",
			"thread.stack", about(s.row, s.showStack)),
		get("/api/v1/threads/{id}/diff/{other}", "two threads, from where they diverge", "thread.diff", s.diffThreads),
		get("/api/v1/threads/{id}/blame", "which steps wrote the lines of a file", "blame", about(s.row, s.showBlame),
			blamedField, treeField),
		get("/api/v1/threads/{id}/verify",
			"whether a thread is intact and complete; for a task's main thread, all threads of the task", "verify",
			about(s.row, s.verifyThread)),
		post("/api/v1/threads/{id}/fork", "start a new task from a step, driven by this server", "fork",
			withBody(s.row, s.forkThread), atField, textField, aboutField, treeField,
			agentField,
			boolean("inPlace", "in the working tree of the thread")),
		post("/api/v1/threads/{id}/compact", "let an agent summarize the conversation", "thread.compact",
			withBody(s.row, s.compactThread), agentField),
		get("/api/v1/steps/{hash}", "one step", "thread.show", about(hash, s.showStep)),
		get("/api/v1/steps/{hash}/prompt", "the exact prompt of a step", "thread.prompt", about(hash, s.showPrompt)),
		get("/api/v1/steps/{hash}/calls", "the recorded requests of a step to its model", "thread.calls",
			about(hash, s.stepCalls), callField),
	}
}

// otherRoutes are the other API routes: the server itself, events, gates and flows.
func (s *Server) otherRoutes() []route {
	return []route{
		serve("/api/v1/events", "the journal as server-sent events, from now on or after Last-Event-ID", s.events,
			taskField, str("thread", "only events of this thread"),
			field{Name: "type", Type: "string", About: "only events of this type; may be given more than once", Many: true},
			integer("after", "begin after this position")),
		get("/api/v1/hosts", "the machines that unfinished tasks run on, or were interrupted on", "host.list",
			s.listHosts),
		get("/api/v1/gates", "open gates", "gate.list", s.listGates, taskField, allField),
		get("/api/v1/gates/{id}", "a gate", "gate.show", s.showGate),
		post("/api/v1/gates/{id}/approve", "approve exactly what the gate asks", "gate.approve",
			s.answerGate(gate.Answer{Approve: true}), textField, digestField,
			boolean("session", "approve the same action for the rest of the thread"),
			str("input", "approve this input instead of the requested one: a JSON object, as text; "+
				"only where options has edit"), signatureField),
		post("/api/v1/gates/{id}/deny", "deny what the gate asks", "gate.deny",
			s.answerGate(gate.Answer{Reject: true}), textField, digestField, signatureField),
		post("/api/v1/gates/{id}/answer", "answer a question", "gate.answer", s.answerGate(gate.Answer{}),
			field{Name: "text", Type: "string", About: "the answer", Required: true}),
		get("/api/v1/flows", "registered flows", "flow.list", s.listFlows),
		get("/api/v1/flows/{name}", "a flow and all that it calls", "flow.show", about(s.flowIn, s.showFlow)),
		get("/api/v1/flows/{name}/graph", "the graphs of a flow and of those that it calls", "flow.graph",
			about(s.flowIn, s.showFlowGraph)),
	}
}
