package actions

import (
	"context"
	"time"
)

// Call is a call of an action that is about to be made: with the entities that
// the action will get.
type Call struct {
	Action   *Action
	Entities map[string]any
	// Salvaged says that the plan stood in the middle of prose, so that it is
	// less certain that the model meant it.
	Salvaged bool
}

// Approval says whether a person has to approve a call before it is made. The
// zero value asks nobody.
type Approval struct {
	Required bool
	// Approvers are those who may approve, by the id or the aadObjectId of their
	// account. None: the person whose message led to the call.
	Approvers []string
	// Within is how long the approval may take; after that it is refused. 0: as
	// long as the bot is configured for.
	Within time.Duration
	// Reason is shown to who is asked, as it is and without markup; may be empty.
	Reason string
	// Bind is what the approval is for beside the action and its entities, such as the
	// digest of what will run. The policy is asked again just before an approved call is
	// made: with another Bind it is not the call that was approved.
	Bind string
	// Standing says that who approves may also say that the very same call, with the same
	// Bind and for the same person, need not be approved again in this conversation.
	Standing bool
	// Denied says why the call may not be made at all, in words that the model and the
	// person may read. "": it may.
	Denied string
}

// Policy decides which calls a person has to approve, and which may not be made. It is
// asked before each call, and once more when one that was approved is about to be made.
// An error ends the turn: nothing runs of which it is not known. It may be called by
// several turns at once.
type Policy func(ctx context.Context, turn *Turn, call Call) (Approval, error)

// DefaultPolicy asks for actions that are marked with [NeedsApproval], and for
// destructive ones in a plan that was salvaged from prose.
func DefaultPolicy(_ context.Context, _ *Turn, call Call) (Approval, error) {
	a := call.Action
	return Approval{Required: a.Approval || a.Destructive && call.Salvaged}, nil
}
