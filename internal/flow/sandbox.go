package flow

// A Sandbox is what the commands of an agent may do in addition to the role's access.
type Sandbox struct {
	// Write lists additional writable places: absolute, below "~/", or in the thread's tree.
	Write []string `json:"write"`
	// Network is NetworkOn, NetworkOff, or "" for the default, which is off.
	Network string            `json:"network"`
	Env     map[string]string `json:"env"`
	Pass    []string          `json:"pass"` // variables of Plait's own environment
}

// The values of Sandbox.Network.
const (
	NetworkOn  = "on"
	NetworkOff = "off"
)

// With returns s overridden by the keys of over. Either may be nil.
func (s *Sandbox) With(over *Sandbox) *Sandbox {
	if s == nil || over == nil {
		if s == nil {
			return over
		}
		return s
	}
	out := *s
	if over.Write != nil {
		out.Write = over.Write
	}
	if over.Network != "" {
		out.Network = over.Network
	}
	if over.Env != nil {
		out.Env = over.Env
	}
	if over.Pass != nil {
		out.Pass = over.Pass
	}
	return &out
}

// Unboxed returns why an agent of a kind cannot have a sandbox, or "" if it can.
func Unboxed(kind string) string {
	if kind == "command" {
		return "an agent of kind command is not restricted and can have no sandbox; its variables are its " +
			"own env and pass"
	}
	return ""
}
