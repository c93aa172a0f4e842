package web

import (
	"net/http"
	"slices"
)

// Fields shared by several routes.
var (
	taskField  = field{Name: "task", Type: "string", About: "the id of a task"}
	stateField = field{Name: "state", Type: "string",
		About: "only tasks in this state: needs you, running, queued, done, failed or cancelled"}
	flowField   = field{Name: "flow", Type: "string", About: "only tasks of this flow"}
	allField    = field{Name: "all", Type: "boolean", About: "of every workspace"}
	titleField  = field{Name: "q", Type: "string", About: "only tasks whose title has this"}
	beforeField = field{Name: "before", Type: "string",
		About: "only tasks older than this one: the next value of a response"}
	manyField  = field{Name: "n", Type: "integer", About: "at most this many, from 1 to 1000; 100 by default"}
	afterField = field{Name: "after", Type: "string", About: "an older name of before"}
	limitField = field{Name: "limit", Type: "integer", About: "at most this many"}
	nameField  = field{Name: "name", Type: "string", About: "what to call it"}
	fromField  = field{Name: "from", Type: "integer", About: "the first step that is shown"}
	atField    = field{Name: "at", Type: "string",
		About: "a step: its number, or its hash; without it the last one before the end"}
	agentField = field{Name: "agent", Type: "string", About: "the agent that does it; without it the one of the task"}
	callField  = field{Name: "call", Type: "integer", About: "only this request, from 1, with its response"}
	textField  = field{Name: "text", Type: "string", About: "what the person says"}
)

// routes returns all routes.
func (s *Server) routes() []route {
	return slices.Concat(s.pageRoutes(), s.taskRoutes(), s.threadRoutes(), s.otherRoutes())
}

type handler = func(http.ResponseWriter, *http.Request) error

func get(path, about, answers string, do handler, query ...field) route {
	return route{Method: http.MethodGet, Path: path, About: about, Answer: answers, Query: query, do: do}
}

func post(path, about, answers string, do handler, body ...field) route {
	return route{Method: http.MethodPost, Path: path, About: about, Answer: answers, Body: body, do: do}
}

// pageRoutes are the pages, and the files that they link to.
func (s *Server) pageRoutes() []route {
	return []route{
		get("/{$}", "what needs you, what runs, and what failed", "", s.inboxPage),
		get("/answers", "past questions and approvals, and who answered them", "", s.answersPage),
		get("/new", "the form of a new task", "", s.newPage,
			field{Name: "flow", Type: "string", About: "the flow that is chosen"},
			field{Name: "prompt", Type: "string", About: "the prompt that is filled in"}),
		get("/tasks", "tasks, newest first", "", s.tasksPage, stateField, flowField, titleField, allField, beforeField,
			manyField, afterField, limitField),
		get("/tasks/{id}", "a task", "", s.taskPage, field{Name: "tab", Type: "string",
			About: "overview, reports, sessions, evidence or events"},
			field{Name: "at", Type: "string", About: "what is chosen: a step's hash, an attempt or a gate"}),
		get("/tasks/{id}/export", "a task as a ZIP file, with its record, as a download", "", s.exportTask),
		get("/tasks/{id}/files/{path...}", "a file of a task's directory, as a download", "", s.taskFile),
		get("/tasks/{id}/read/{path...}", "a file of a task's directory, to be read", "", s.readPage),
		get("/threads/{id}", "a thread", "", s.threadPage, fromField),
		get("/threads/{id}/verify", "whether the record of a thread is unchanged and complete", "", s.verifyPage),
		get("/hosts", "the machines that agents of tasks work on", "", s.hostsPage),
		get("/chats", "conversations", "", s.chatsPage),
		get("/chats/{id}", "a conversation", "", s.chatPage, fromField),
		get("/flows", "flows that can be run", "", s.flowsPage),
		get("/flows/{name}", "a flow", "", s.flowPage),
		get("/compare", "two tasks compared, as a whole or up to a step", "", s.comparePage,
			field{Name: "a", Type: "string", About: "a task, a thread or a step"},
			field{Name: "b", Type: "string", About: "the other"},
			field{Name: "sa", Type: "string", About: "the step that a is compared up to"},
			field{Name: "sb", Type: "string", About: "the step that b is compared up to"}),
		get("/steps/{hash}", "a step", "", s.stepPage, field{Name: "thread", Type: "string",
			About: "the thread it is viewed from"}),
		get("/steps/{hash}/calls", "the requests of a step to its model, or one of them with its response", "",
			s.stepCallsPage, callField, field{Name: "thread", Type: "string", About: "the thread it is viewed from"}),
		get("/blobs/{hash}", "the object with this hash, as a download", "", s.blob, nameField),
		get("/static/{file}", "page assets", "", s.static),
	}
}

// taskRoutes are the API routes for tasks.
func (s *Server) taskRoutes() []route {
	return []route{
		get("/api/v1/tasks", "one page of tasks, newest first; next is the before of the page after it, or empty",
			"task.list", s.listTasks, stateField, flowField, titleField, allField, beforeField, manyField, afterField, limitField),
		post("/api/v1/tasks", "start a task, driven by this server", "run", s.beginTask,
			field{Name: "flow", Type: "string", About: "the name of a flow, or the hash of a bundle", Required: true},
			field{Name: "prompt", Type: "string", About: "what should be done; required unless check is set"},
			field{Name: "agent", Type: "string", About: "the agent of every role; by default those that the flow names"},
			field{Name: "approve", Type: "string", About: "approval policy: ask (default), sandboxed or never"},
			field{Name: "merge", Type: "string", About: "how agents' changes are merged: auto (default), ask or keep"},
			field{Name: "limits", Type: "string", About: "limits over the flow's, as NAME=VALUE, separated by spaces"},
			field{Name: "worktree", Type: "string",
				About: "a git worktree of this repository to work in; by default the workspace"},
			field{Name: "check", Type: "boolean", About: "only check whether the task could start"}),
		post("/api/v1/demo", "start the demo that the inbox offers before the first task", "run", s.beginDemo),
		get("/api/v1/tasks/{id}", "a task", "task.show", s.showTask),
		get("/api/v1/tasks/{id}/timeline", "a task on an axis of time: lanes of agents and paths, attempts, steps and questions",
			"task.timeline", s.showTimeline),
		get("/api/v1/tasks/{id}/evidence", "the evidence of a task", "task.evidence.list", s.listEvidence),
		post("/api/v1/tasks/{id}/cancel", "request that a task be cancelled", "task.cancel", s.cancelTask),
		post("/api/v1/tasks/{id}/resume", "continue a task, driven by this server; "+
			"text for a task that is driven already, or for a part of one, is passed on there",
			"resume", s.resumeTask, textField),
		post("/api/v1/tasks/{id}/stop", "stop what this server does with a task; it can be resumed", "task.stop", s.stopTask),
		post("/api/v1/tasks/{id}/revert", "revert a conversation to one of its steps; files stay as they are", "fork",
			s.revertTask, atField),
	}
}

// threadRoutes are the API routes for threads and steps.
func (s *Server) threadRoutes() []route {
	return []route{
		get("/api/v1/threads", "threads, newest first", "thread.list", s.listThreads, allField,
			field{Name: "parts", Type: "boolean", About: "paths, calls and actions too"},
			field{Name: "since", Type: "string",
				About: "started then or later: a date, a time (RFC 3339) or how long ago (36h)"},
			field{Name: "until", Type: "string", About: "started before then; a date includes the whole day"},
			field{Name: "before", Type: "string",
				About: "only those that come after this id in the list: the next value of a response"},
			limitField),
		get("/api/v1/threads/{id}", "a thread and its steps", "thread.show", s.showThread,
			field{Name: "before", Type: "integer",
				About: "only steps before the one of this number: the next value of a response"},
			field{Name: "limit", Type: "integer", About: "only this many of the newest"}),
		get("/api/v1/threads/{id}/tree", "a thread and everything below it", "thread.tree", s.showTree,
			field{Name: "depth", Type: "integer", About: "this many levels down; all by default"}),
		get("/api/v1/threads/{id}/stack", "the call stack of a thread, from its head to the top of its task", "thread.stack",
			s.showStack),
		get("/api/v1/threads/{id}/diff/{other}", "two threads, from where they diverge", "thread.diff", s.diffThreads),
		get("/api/v1/threads/{id}/verify",
			"whether a thread is intact and complete; for a task's main thread, all threads of the task", "verify",
			s.verifyThread),
		post("/api/v1/threads/{id}/fork", "start a new task from a step, driven by this server", "fork",
			s.forkThread, atField, textField, agentField,
			field{Name: "inPlace", Type: "boolean", About: "in the working tree of the thread"}),
		post("/api/v1/threads/{id}/compact", "let an agent summarise the conversation", "thread.compact", s.compactThread,
			agentField),
		get("/api/v1/steps/{hash}", "one step", "thread.show", s.showStep),
		get("/api/v1/steps/{hash}/prompt", "the exact prompt of a step", "thread.prompt", s.showPrompt),
		get("/api/v1/steps/{hash}/calls", "the recorded requests of a step to its model", "thread.calls", s.stepCalls, callField),
	}
}

// otherRoutes are the other API routes: the server itself, events, gates and flows.
func (s *Server) otherRoutes() []route {
	return []route{
		get("/api/v1/openapi.json", "this document", "", s.openAPI),
		get("/api/v1/events", "the journal as server-sent events, from now on or after Last-Event-ID", "",
			s.events, taskField,
			field{Name: "thread", Type: "string", About: "only events of this thread"},
			field{Name: "type", Type: "string", About: "only events of this type; may be given more than once", Many: true},
			field{Name: "after", Type: "integer", About: "begin after this position"}),
		get("/api/v1/hosts", "the machines that unfinished tasks run on, or were interrupted on", "host.list",
			s.listHosts),
		get("/api/v1/gates", "open gates", "gate.list", s.listGates, taskField, allField),
		get("/api/v1/gates/{id}", "a gate", "gate.show", s.showGate),
		post("/api/v1/gates/{id}/approve", "approve exactly what the gate asks", "gate.approve", s.approve, textField,
			field{Name: "input", Type: "string", About: "approve this input instead of the requested one: a JSON " +
				"object, as text; only where options has edit"}),
		post("/api/v1/gates/{id}/deny", "deny what the gate asks", "gate.deny", s.deny, textField),
		post("/api/v1/gates/{id}/answer", "answer a question", "gate.answer", s.answerGate,
			field{Name: "text", Type: "string", About: "the answer", Required: true}),
		get("/api/v1/flows", "registered flows", "flow.list", s.listFlows),
		get("/api/v1/flows/{name}", "a flow and all that it calls", "flow.show", s.showFlow),
		get("/api/v1/flows/{name}/graph", "the graphs of a flow and of those that it calls", "flow.graph", s.showFlowGraph),
	}
}
