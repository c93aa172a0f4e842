package web

import "net/http"

// Fields that several routes have.
var (
	taskField  = field{Name: "task", Type: "string", About: "the id of a task"}
	stateField = field{Name: "state", Type: "string", About: "only tasks in this state"}
	allField   = field{Name: "all", Type: "boolean", About: "of every workspace"}
	titleField = field{Name: "q", Type: "string", About: "words of the title"}
	afterField = field{Name: "after", Type: "string", About: "only tasks that stand after this one"}
	limitField = field{Name: "limit", Type: "integer", About: "at most so many"}
	nameField  = field{Name: "name", Type: "string", About: "what to call it"}
	fromField  = field{Name: "from", Type: "integer", About: "the first step that is shown"}
	atField    = field{Name: "at", Type: "string",
		About: "a step: its number, or its hash; without it the last one before the end"}
	agentField = field{Name: "agent", Type: "string", About: "the agent that does it; without it the one of the task"}
	textField  = field{Name: "text", Type: "string", About: "what the person says"}
)

// routes is everything that can be asked for.
func (s *Server) routes() []route {
	get := func(path, about, answers string, do func(http.ResponseWriter, *http.Request) error, query ...field) route {
		return route{Method: http.MethodGet, Path: path, About: about, Answer: answers, Query: query, do: do}
	}
	post := func(path, about, answers string, do func(http.ResponseWriter, *http.Request) error, body ...field) route {
		return route{Method: http.MethodPost, Path: path, About: about, Answer: answers, Body: body, do: do}
	}
	return []route{
		get("/{$}", "what waits for a person, failures, and what runs", "", s.inboxPage),
		get("/tasks", "tasks", "", s.tasksPage, stateField, allField, titleField, afterField),
		get("/tasks/{id}", "a task", "", s.taskPage, field{Name: "tab", Type: "string",
			About: "overview, reports, sessions, evidence or events"},
			field{Name: "at", Type: "string", About: "what is chosen: a step's hash, an attempt or a gate"}),
		get("/tasks/{id}/export", "a task as a ZIP file, with its record, as a download", "", s.exportTask),
		get("/tasks/{id}/files/{path...}", "a file of a task's directory, as a download", "", s.taskFile),
		get("/tasks/{id}/read/{path...}", "a file of a task's directory, to be read", "", s.readPage),
		get("/threads/{id}", "a thread", "", s.threadPage, fromField),
		get("/threads/{id}/verify", "whether a thread is what was written, and all there", "", s.verifyPage),
		get("/chats", "conversations", "", s.chatsPage),
		get("/chats/{id}", "a conversation", "", s.chatPage, fromField),
		get("/flows", "flows that can be run", "", s.flowsPage),
		get("/flows/{name}", "a flow", "", s.flowPage),
		get("/compare", "two threads or the chains of two steps side by side", "", s.comparePage,
			field{Name: "a", Type: "string", About: "a thread or a step"}, field{Name: "b", Type: "string", About: "the other"}),
		get("/steps/{hash}", "a step", "", s.stepPage, field{Name: "thread", Type: "string",
			About: "the thread that it is looked at from"}),
		get("/blobs/{hash}", "the bytes under a hash, as a download", "", s.blob, nameField),
		get("/static/{file}", "what pages are drawn with", "", s.static),

		get("/api/v1/openapi.json", "this document", "", s.openAPI),
		get("/api/v1/events", "the journal from now on, or from where Last-Event-ID says, as server-sent events", "",
			s.events, taskField,
			field{Name: "thread", Type: "string", About: "only events of this thread"},
			field{Name: "type", Type: "string", About: "only events of this type; may be given more than once"},
			field{Name: "after", Type: "integer", About: "begin after this position"}),
		get("/api/v1/tasks", "tasks, newest first", "task.list", s.listTasks, stateField, allField, titleField, afterField,
			limitField),
		post("/api/v1/tasks", "begin a task, driven by this server", "run", s.beginTask,
			field{Name: "flow", Type: "string", About: "the name of a flow, or the hash of a bundle", Required: true},
			field{Name: "prompt", Type: "string", About: "what is to be done", Required: true},
			field{Name: "agent", Type: "string", About: "the agent of every role; without it those that the flow names"}),
		get("/api/v1/tasks/{id}", "a task", "task.show", s.showTask),
		get("/api/v1/tasks/{id}/timeline", "a task on an axis of time: lanes of agents and paths, attempts, steps and questions",
			"task.timeline", s.showTimeline),
		get("/api/v1/tasks/{id}/evidence", "the evidence of a task", "task.evidence.list", s.listEvidence),
		post("/api/v1/tasks/{id}/cancel", "ask for a task to be cancelled", "task.cancel", s.cancelTask),
		post("/api/v1/tasks/{id}/resume", "let a task go on, driven by this server; what is said to a driven task, or to a part of one, is told there",
			"resume", s.resumeTask, textField),
		post("/api/v1/tasks/{id}/stop", "stop what this server does with a task; it can be resumed", "task.stop", s.stopTask),
		post("/api/v1/tasks/{id}/revert", "take a conversation back to one of its steps; files stay as they are", "fork",
			s.revertTask, atField),
		get("/api/v1/threads", "threads, newest first", "thread.list", s.listThreads, allField,
			field{Name: "parts", Type: "boolean", About: "paths, calls and actions too"},
			field{Name: "since", Type: "string", About: "begun then or later: a date, a time (RFC 3339), or so long ago (36h)"},
			field{Name: "until", Type: "string", About: "begun before then; a date counts whole"},
			field{Name: "before", Type: "string", About: "those that come after this id in the list: next of an answer"},
			limitField),
		get("/api/v1/threads/{id}", "a thread and its steps", "thread.show", s.showThread,
			field{Name: "before", Type: "integer", About: "only steps before the one of this number: next of an answer"},
			field{Name: "limit", Type: "integer", About: "only the newest so many"}),
		get("/api/v1/threads/{id}/tree", "a thread and everything below it", "thread.tree", s.showTree,
			field{Name: "depth", Type: "integer", About: "so many levels down; without it, all"}),
		get("/api/v1/threads/{id}/stack", "the way from a thread's head up to the top of its task", "thread.stack",
			s.showStack),
		get("/api/v1/threads/{id}/diff/{other}", "two threads, from where they part", "thread.diff", s.diffThreads),
		get("/api/v1/threads/{id}/verify",
			"whether a thread is what was written, and all there; of a task's own thread, all threads of the task", "verify",
			s.verifyThread),
		post("/api/v1/threads/{id}/fork", "go on from a step in a task of its own, driven by this server", "fork",
			s.forkThread, atField, textField, agentField,
			field{Name: "inPlace", Type: "boolean", About: "in the working tree of the thread"}),
		post("/api/v1/threads/{id}/compact", "let an agent summarise the conversation", "thread.compact", s.compactThread,
			agentField),
		get("/api/v1/steps/{hash}", "one step", "thread.show", s.showStep),
		get("/api/v1/steps/{hash}/prompt", "the exact prompt of a step", "thread.prompt", s.showPrompt),
		get("/api/v1/gates", "open gates", "gate.list", s.listGates, taskField, allField),
		get("/api/v1/gates/{id}", "a gate", "gate.show", s.showGate),
		post("/api/v1/gates/{id}/approve", "approve exactly what the gate asks", "gate.approve", s.approve, textField),
		post("/api/v1/gates/{id}/deny", "deny what the gate asks", "gate.deny", s.deny, textField),
		post("/api/v1/gates/{id}/answer", "answer a question", "gate.answer", s.answerGate,
			field{Name: "text", Type: "string", About: "the answer", Required: true}),
		get("/api/v1/flows", "registered flows", "flow.list", s.listFlows),
		get("/api/v1/flows/{name}", "a flow and all that it calls", "flow.show", s.showFlow),
		get("/api/v1/flows/{name}/graph", "the graphs of a flow and of those that it calls", "flow.graph", s.showFlowGraph),
	}
}
