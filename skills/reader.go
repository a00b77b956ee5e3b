package skills

import (
	"context"
	"errors"

	"github.com/planbot-go/planbot/actions"
)

// Reader reads resources of skills for actions of the bot, as bytes. Ask for it with a
// field of the entities:
//
//	type attach struct {
//		Skill    string        `json:"skill"`
//		Resource string        `json:"resource"`
//		Skills   skills.Reader `host:"skills"`
//	}
//
// It reads what the turn may use, and is good for that turn only. Nobody is asked to approve
// that: it is the action that can be marked.
type Reader struct {
	provider *Provider
	turn     *actions.Turn
}

// Read returns a resource. Names are found as [ReadResource] finds them. An error that wraps
// [ErrUnknown] says in words for models and people what there is not.
func (r Reader) Read(ctx context.Context, skill, resource string) (Data, error) {
	u, fault, err := r.provider.useResource(ctx, r.turn, skill, resource)
	if err != nil {
		return Data{}, err
	}
	if fault != "" {
		return Data{}, unknownError(fault)
	}
	return u.skill.Resources[u.part].Read(ctx)
}

// ErrUnknown is wrapped by the error of a skill or resource that is not there, or not for
// this turn.
var ErrUnknown = errors.New("unknown")

type unknownError string

func (e unknownError) Error() string        { return string(e) }
func (e unknownError) Is(target error) bool { return target == ErrUnknown }
