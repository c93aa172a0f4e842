package event

// KeyAdmitted reports that a person vouches for the key with which a host signs checkpoints of the log. It belongs to
// no task.
type KeyAdmitted struct {
	Key    string `json:"key"`
	Host   string `json:"host"`
	By     string `json:"by"`
	Signed string `json:"signed"` // a message and the person's signature: see history.Admission
}

func (KeyAdmitted) event() string { return "key.admitted" }

// KeyRevoked reports that a person no longer vouches for such a key. It belongs to no task.
type KeyRevoked struct {
	Key    string `json:"key"`
	By     string `json:"by"`
	Reason Text   `json:"reason"`
	Signed string `json:"signed"` // a message and the person's signature: see history.Revocation
}

func (KeyRevoked) event() string { return "key.revoked" }

// HistoryAccepted reports that a person accepts that the log does not continue what someone saw of it, or that the record
// is a copy. It belongs to no task.
type HistoryAccepted struct {
	By     string `json:"by"`
	Reason Text   `json:"reason"`
	Signed string `json:"signed"` // a message and the person's signature: see history.Acceptance
}

func (HistoryAccepted) event() string { return "history.accepted" }
