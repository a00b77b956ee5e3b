package actions

import "errors"

// Request is a call of an action that another program asks for in the name of a person, such as an agent
// that has their token. It runs as a turn in the person's own conversation with the bot: with the same
// checks, policy, hooks and audit as any other call.
type Request struct {
	// Tenant and Person are the ids of the person in Microsoft Entra. Required.
	Tenant, Person string
	// Subject is who asks. Only they may have the result. Required.
	Subject string
	// By is the program that asks, as the operator calls it. The person reads it.
	By string
	// Action and Entities are the call.
	Action   string
	Entities map[string]any
	// Key makes requests of one Subject with the same Key one request, for a day. "": each is its own.
	Key string
}

// RequestStatus says how far a [Request] is.
type RequestStatus string

// The states of a request. All but the first are final.
const (
	RequestPending  RequestStatus = "pending"  // it runs, or waits for the person
	RequestDone     RequestStatus = "done"     // with the result in Text
	RequestFailed   RequestStatus = "failed"   // with the reason in Text
	RequestRejected RequestStatus = "rejected" // by a person: it was not done
	RequestExpired  RequestStatus = "expired"  // nobody decided in time: it was not done
	RequestUnknown  RequestStatus = "unknown"  // nobody knows whether it was done
)

// Requested is what came of a [Request].
type Requested struct {
	ID     string        `json:"id"`
	Status RequestStatus `json:"status"`
	Text   string        `json:"text,omitempty"`
}

// ErrNoRequest says that there is no such request of that person and subject, or none any more.
var ErrNoRequest = errors.New("there is no such request")
