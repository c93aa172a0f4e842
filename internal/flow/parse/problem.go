package parse

import (
	"cmp"
	"github.com/plait-run/plait/internal/flow"
	"slices"
)

// The codes, in the order of docs/flow-format.md.
const (
	codeTooLarge      = "TOO_LARGE"
	codeUnreadable    = "UNREADABLE"
	codeBadUTF8       = "BAD_UTF8"
	codeBadYAML       = "BAD_YAML"
	codeDuplicateKey  = "DUPLICATE_KEY"
	codeUnknownTag    = "UNKNOWN_TAG"
	codeBadInclude    = "BAD_INCLUDE"
	codeUnknownKey    = "UNKNOWN_KEY"
	codeMissingKey    = "MISSING_KEY"
	codeWrongType     = "WRONG_TYPE"
	codeVersionNone   = "VERSION_MISSING"
	codeBadVersion    = "BAD_VERSION"
	codeOldFormat     = "OLD_FORMAT"
	codeBadPlan       = "BAD_PLAN"
	codeBadChat       = "BAD_CHAT"
	codeBadUntil      = "BAD_UNTIL"
	codeBadName       = "BAD_NAME"
	codeNameMismatch  = "NAME_MISMATCH"
	codeReservedRole  = "RESERVED_ROLE"
	codeBadAccess     = "BAD_ACCESS"
	codeBadAgent      = "BAD_AGENT"
	codeBadLimit      = "BAD_LIMIT"
	codeBadDuration   = "BAD_DURATION"
	codeBadCode       = "BAD_CODE"
	codeBadSchema     = "BAD_SCHEMA"
	codeOneOfStatus   = "ONEOF_STATUS"
	codeReservedProp  = "RESERVED_PROPERTY"
	codeStartMissing  = "START_MISSING"
	codeStartNeedsNew = "START_NEEDS_NEW"
	codeEndHasRoutes  = "END_HAS_ROUTES"
	codeSuspendNode   = "SUSPEND_AS_NODE"
	codeUnknownRole   = "UNKNOWN_ROLE"
	codeUnknownAgent  = "UNKNOWN_AGENT"
	codeNotInGraph    = "ROLE_NOT_IN_GRAPH"
	codeUnreachable   = "UNREACHABLE_NODE"
	codeCannotEnd     = "CANNOT_END"
	codeMissingRoute  = "MISSING_ROUTE"
	codeExtraRoute    = "EXTRA_ROUTE"
	codePromptMissing = "PROMPT_MISSING"
	codeBadTemplate   = "BAD_TEMPLATE"
	codeUnknownVar    = "UNKNOWN_VARIABLE"

	codeForkPaths         = "INVALID_FORK_PATHS"
	codeForkPathItem      = "INVALID_FORK_PATH_ITEM"
	codeForkPathTwice     = "DUPLICATE_FORK_PATH_ID"
	codeForkPathIDs       = "INVALID_FORK_PATH_IDS"
	codeMainPath          = "MAIN_PATH_ID_NOT_FOUND"
	codeForkJoinMismatch  = "FORK_JOIN_MISMATCH"
	codeUnpairedFork      = "UNPAIRED_FORK"
	codeUnpairedJoin      = "UNPAIRED_JOIN"
	codeJoinTwice         = "DUPLICATE_JOIN_PAIR_ID"
	codeForkJoinUnreached = "FORK_JOIN_NOT_REACHABLE"
	codePathEscapes       = "PATH_ESCAPES"
	codeBadStrategy       = "BAD_STRATEGY"
	codeBadThreshold      = "BAD_THRESHOLD"
	codeBadGate           = "BAD_GATE"
	codeBadCall           = "BAD_CALL"
	codeCallNotFound      = "CALL_NOT_FOUND"
	codeCallNameTaken     = "CALL_NAME_TAKEN"
)

// Unpackable returns the problem of a flow that cannot be stored, together with all that it includes and calls.
func Unpackable(file string, err error) flow.Problem {
	return flow.Problem{File: file, Line: 1, Col: 1, Code: codeTooLarge, Message: err.Error()}
}

// maxProblems limits a report: no one would read a longer one.
const maxProblems = 500

// sorted orders problems by position, those of the main file first, and drops duplicates: the
// problems of an anchored part that is used twice are listed once.
func sorted(main string, problems []flow.Problem) []flow.Problem {
	slices.SortStableFunc(problems, func(a, b flow.Problem) int {
		if a.File != b.File && (a.File == main || b.File == main) {
			if a.File == main {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(problems)
}
