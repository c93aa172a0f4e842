package attest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/plait-run/plait/internal/sys/sshsig"
)

// A Policy says what a bundle must prove. Its first lines are those of C2SP's tlog-policy, the others are Plait's.
type Policy struct {
	logs     []note.Verifier
	quorum   *group // nil: no cosignature is needed
	signers  sshsig.Signers
	requires []rule
	denies   []Gap
}

// A group is witnesses of whom some must have signed: a single witness is a group of itself.
type group struct {
	witness note.Verifier // nil for a group of others
	need    int
	members []*group
}

// A rule is a line that begins with require.
type rule struct {
	line  int
	what  string   // complete, record, evidence, approval, agent
	names []string // of people or agents; of evidence the command
	exit  int
	tree  bool // evidence: on the files of the change
	other bool // approval: not by the one who signed the statement
}

const (
	ruleComplete = "complete"
	ruleRecord   = "record"
	ruleEvidence = "evidence"
	ruleApproval = "approval"
	ruleAgent    = "agent"
)

// Limits on a policy.
const (
	maxPolicy      = 1 << 20 // bytes
	maxPolicyNames = 1000    // lines that define something
)

// A policyParser reads the lines of a policy.
type policyParser struct {
	policy *Policy
	named  map[string]*group // witnesses and groups
	member map[string]bool   // names that a group has
	keys   map[string]bool   // of logs and witnesses
	quorum bool
}

// ParsePolicy reads a policy. Errors name the line, counted from 1.
func ParsePolicy(text []byte) (*Policy, error) {
	if len(text) > maxPolicy {
		return nil, fmt.Errorf("policy: longer than %d bytes", maxPolicy)
	}
	p := policyParser{new(Policy), map[string]*group{}, map[string]bool{}, map[string]bool{}, false}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if bytes.ContainsFunc(bytes.TrimSuffix(line, []byte("\n")), func(r rune) bool {
			return r < ' ' && r != '\t' || r == 0x7f
		}) {
			return nil, fmt.Errorf("policy: line %d: it has a control character", n)
		}
		if err := p.line(n, strings.TrimSpace(string(line))); err != nil {
			return nil, fmt.Errorf("policy: line %d: %w", n, err)
		}
	}
	switch {
	case len(p.policy.signers) == 0:
		return nil, errors.New("policy: nobody may sign: it has no line: signer NAME KEY")
	case !p.quorum && len(p.named) > 0:
		return nil, errors.New("policy: it has witnesses, and no line: quorum NAME")
	}
	return p.policy, nil
}

func (p *policyParser) line(n int, line string) error {
	if line == "" || line[0] == '#' {
		return nil
	}
	if len(p.named)+len(p.policy.logs)+len(p.policy.signers)+len(p.policy.requires) > maxPolicyNames {
		return fmt.Errorf("more than %d definitions", maxPolicyNames)
	}
	verb, rest, _ := strings.Cut(line, " ")
	verb, tab, _ := strings.Cut(verb, "\t")
	rest = strings.TrimSpace(tab + " " + rest)
	words := strings.Fields(rest)
	switch verb {
	case "log":
		return p.log(words)
	case "witness":
		return p.witness(words)
	case "group":
		return p.group(words)
	case "quorum":
		return p.setQuorum(words)
	case "signer":
		s, err := sshsig.ParseSigners([]byte(rest))
		if err == nil && len(s) == 0 {
			err = errors.New("a signer is NAME KEY, as in an allowed_signers file, and no authority")
		}
		p.policy.signers = append(p.policy.signers, s...)
		return err
	case "require":
		r, err := parseRule(rest)
		r.line = n
		p.policy.requires = append(p.policy.requires, r)
		return err
	case "deny":
		if !slices.Contains(gaps(), Gap(rest)) {
			return fmt.Errorf("deny %q: want one of %v", rest, gaps())
		}
		p.policy.denies = append(p.policy.denies, Gap(rest))
		return nil
	}
	return fmt.Errorf("unknown word %q: want log, witness, group, quorum, signer, require or deny", verb)
}

func (p *policyParser) log(words []string) error {
	if len(words) != 1 && len(words) != 2 {
		return errors.New("want: log KEY [URL]")
	}
	v, err := note.NewVerifier(words[0])
	if err != nil {
		return fmt.Errorf("%q is no key of a log", words[0])
	}
	p.policy.logs = append(p.policy.logs, v)
	return p.once(words[0])
}

// once refuses the second use of a public key.
func (p *policyParser) once(vkey string) error {
	key := vkey[strings.LastIndex(vkey, "+")+1:]
	if raw, err := base64.StdEncoding.DecodeString(key); err == nil && len(raw) > 1 {
		key = string(raw[1:])
	}
	if p.keys[key] {
		return errors.New("its key is that of another line")
	}
	p.keys[key] = true
	return nil
}

func (p *policyParser) witness(words []string) error {
	if len(words) != 2 && len(words) != 3 {
		return errors.New("want: witness NAME KEY [URL]")
	}
	v, err := newCosigner(words[1])
	if err != nil {
		return err
	}
	if err := p.once(words[1]); err != nil {
		return err
	}
	return p.define(words[0], &group{witness: v, need: 1})
}

func (p *policyParser) define(name string, g *group) error {
	if name == "none" || p.named[name] != nil {
		return fmt.Errorf("the name %q is taken", name)
	}
	p.named[name] = g
	return nil
}

func (p *policyParser) group(words []string) error {
	if len(words) < 3 {
		return errors.New("want: group NAME all|any|NUMBER MEMBER…")
	}
	g := &group{}
	for _, name := range words[2:] {
		m := p.named[name]
		if m == nil {
			return fmt.Errorf("%q is not defined before", name)
		}
		if p.member[name] {
			return fmt.Errorf("%q is a member of a group already", name)
		}
		p.member[name] = true
		g.members = append(g.members, m)
	}
	switch words[1] {
	case "all":
		g.need = len(g.members)
	case "any":
		g.need = 1
	default:
		k, err := strconv.Atoi(words[1])
		if err != nil || k < 1 || k > len(g.members) || strconv.Itoa(k) != words[1] {
			return fmt.Errorf("%q is no threshold of %d members", words[1], len(g.members))
		}
		g.need = k
	}
	return p.define(words[0], g)
}

func (p *policyParser) setQuorum(words []string) error {
	if len(words) != 1 || p.quorum {
		return errors.New("want one line: quorum NAME")
	}
	p.quorum = true
	if words[0] == "none" {
		return nil
	}
	if p.policy.quorum = p.named[words[0]]; p.policy.quorum == nil {
		return fmt.Errorf("%q is not defined before", words[0])
	}
	return nil
}

// parseRule reads what follows require.
func parseRule(text string) (rule, error) {
	what, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	r := rule{what: what}
	switch what {
	case ruleComplete, ruleRecord:
		if rest != "" {
			return r, fmt.Errorf("unexpected %q after require %s", rest, what)
		}
	case ruleEvidence:
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return r, errors.New(`want: require evidence "COMMAND" exit N [on tree]`)
		}
		command, err := strconv.Unquote(quoted)
		if err != nil {
			return r, err
		}
		words := strings.Fields(rest[len(quoted):])
		r.names = []string{command}
		if len(words) == 4 && words[2] == "on" && words[3] == "tree" {
			r.tree, words = true, words[:2]
		}
		if len(words) != 2 || words[0] != "exit" {
			return r, errors.New(`want: require evidence "COMMAND" exit N [on tree]`)
		}
		if r.exit, err = strconv.Atoi(words[1]); err != nil {
			return r, fmt.Errorf("%q is no exit code", words[1])
		}
	case ruleApproval:
		rest, r.other = strings.CutSuffix(rest, " not signer")
		names, ok := strings.CutPrefix(rest, "by ")
		if !ok {
			return r, errors.New("want: require approval by NAME,… [not signer]")
		}
		return r.named(names)
	case ruleAgent:
		names, ok := strings.CutPrefix(rest, "in ")
		if !ok {
			return r, errors.New("want: require agent in NAME,…")
		}
		return r.named(names)
	default:
		return r, fmt.Errorf("unknown rule %q: want complete, record, evidence, approval or agent", what)
	}
	return r, nil
}

func (r rule) named(list string) (rule, error) {
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if name == "" || strings.ContainsAny(name, " \t") {
			return r, fmt.Errorf("%q is no list of names, separated by commas", list)
		}
		r.names = append(r.names, name)
	}
	return r, nil
}

// verifiers returns the keys of logs and witnesses.
func (p *Policy) verifiers() note.Verifiers {
	all := slices.Clone(p.logs)
	var add func(g *group)
	add = func(g *group) {
		if g.witness != nil {
			all = append(all, g.witness)
		}
		for _, m := range g.members {
			add(m)
		}
	}
	if p.quorum != nil {
		add(p.quorum)
	}
	return note.VerifierList(all...)
}

// signed reports whether enough of g have signed.
func (g *group) signed(by []note.Signature) bool {
	if g.witness != nil {
		return slices.ContainsFunc(by, func(s note.Signature) bool {
			return s.Name == g.witness.Name() && s.Hash == g.witness.KeyHash()
		})
	}
	n := 0
	for _, m := range g.members {
		if m.signed(by) {
			n++
		}
	}
	return n >= g.need
}

// A cosigner is a witness of C2SP's tlog-cosignature with an Ed25519 key: it signs a checkpoint with the time at which
// it saw it.
type cosigner struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

const cosignatureType = 0x04

func newCosigner(vkey string) (*cosigner, error) {
	bad := fmt.Errorf("%q is no key of a witness", vkey)
	name, rest, _ := strings.Cut(vkey, "+")
	hash, key, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.Strict().DecodeString(key)
	if err != nil || len(raw) != 1+ed25519.PublicKeySize || raw[0] != cosignatureType || name == "" {
		return nil, bad
	}
	// The hash of a key depends on its type, so note.NewVerifier, which knows type 1 only, cannot check it.
	id := keyHash(name, raw)
	if fmt.Sprintf("%08x", id) != hash {
		return nil, bad
	}
	return &cosigner{name, id, raw[1:]}, nil
}

func (c *cosigner) Name() string    { return c.name }
func (c *cosigner) KeyHash() uint32 { return c.hash }

// Verify checks a cosignature: 8 bytes of time, and the signature.
func (c *cosigner) Verify(text, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	at := binary.BigEndian.Uint64(sig)
	return ed25519.Verify(c.key, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, text), sig[8:])
}
