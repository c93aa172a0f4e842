#!/usr/bin/env python3
"""Speaks like Claude Code, Codex (both ways) and an ACP agent, as far as make.sh needs it: it answers at once."""
import json, os, sys

ANSWER = {"$status": "done", "summary": "%s was here." % os.path.basename(sys.argv[0])}
TEXT = json.dumps(ANSWER)
USAGE = {"input_tokens": 7, "cached_input_tokens": 0, "output_tokens": 3, "reasoning_output_tokens": 0}


def say(**message):
    print(json.dumps(message), flush=True)


def codex():
    known = ["initialize", "thread/start", "thread/resume", "thread/fork", "thread/read", "thread/archive",
             "thread/unarchive", "turn/start", "turn/interrupt", "turn/steer"]
    for m in map(json.loads, sys.stdin):
        if "id" not in m or "method" not in m:
            continue
        where, result = {"threadId": "session-1", "turnId": "turn-1"}, {}
        if m["method"] == "plait/methods":
            say(id=m["id"], error={"code": -32600, "message": "one of " + ", ".join("`%s`" % k for k in known)})
            continue
        if m["method"] in ("thread/start", "thread/resume", "thread/fork"):
            result = {"thread": {"id": "session-1", "path": ""}, "model": "fake", "sandbox": {"type": "workspaceWrite"}}
        if m["method"] == "turn/start":
            result = {"turn": {"id": "turn-1"}}
        say(id=m["id"], result=result)
        if m["method"] == "turn/start":
            say(method="item/completed", params={**where, "item": {"type": "agentMessage", "id": "m", "text": TEXT}})
            say(method="turn/completed", params={**where, "turn": {"id": "turn-1", "status": "completed"}})


def codex_exec():
    sys.stdin.read()
    say(type="thread.started", thread_id="01a1fe0b-0000-7000-8000-000000000001")
    say(type="turn.started")
    say(type="item.completed", item={"id": "item_0", "type": "agent_message", "text": TEXT})
    say(type="turn.completed", usage=USAGE)


def acp():
    for m in map(json.loads, sys.stdin):
        if "id" not in m or "method" not in m:
            continue
        result = {}
        if m["method"] == "initialize":
            result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
        if m["method"] == "session/new":
            result = {"sessionId": "s1"}
        if m["method"] == "session/prompt":
            say(jsonrpc="2.0", method="session/update", params={"sessionId": "s1", "update": {
                "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": TEXT}}})
            result = {"stopReason": "end_turn"}
        say(jsonrpc="2.0", id=m["id"], result=result)


def claude():
    for m in map(json.loads, sys.stdin):
        if m.get("type") == "control_request":
            say(type="control_response", response={"subtype": "success", "request_id": m["request_id"], "response": {}})
        if m.get("type") == "user":
            of = {"session_id": m.get("session_id") or "01a1fe0b-0000-4000-8000-000000000002"}
            say(type="system", subtype="init", cwd=os.getcwd(), tools=["Bash", "StructuredOutput"], mcp_servers=[],
                model="fake", permissionMode="bypassPermissions", claude_code_version="2.1.330", **of)
            say(type="result", subtype="success", is_error=False, result=TEXT, structured_output=ANSWER, num_turns=1,
                usage={"input_tokens": 7, "output_tokens": 3}, total_cost_usd=0.0, **of)


if "--version" in sys.argv:
    print("codex-cli 0.169.0" if "codex" in sys.argv[0] else "2.1.330 (Claude Code)")
elif "app-server" in sys.argv:
    codex()
elif "exec" in sys.argv:
    codex_exec()
elif "acp" in sys.argv[0]:
    acp()
else:
    claude()
