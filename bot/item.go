package bot

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

// itemVersion is the form of [item].
const itemVersion = 1

var errItem = errors.New("it was written by another version of this program")

// item is what the inbox keeps of a turn that has not begun: all that any replica
// needs to do it.
type item struct {
	Version int `json:"v"`
	// Awaited says that somebody waits for the answer, which is kept for them.
	Awaited bool `json:"awaited,omitzero"`
	// Approval is the approval whose decision the turn follows.
	Approval string `json:"approval,omitempty"`
	// Trace is the traceparent of what brought it in; "": it is not traced.
	Trace string `json:"trace,omitempty"`
	// After is the traceparent of the turn that left it for later.
	After string `json:"after,omitempty"`
	// Signed says that its channel vouches for the address that replies go to.
	Signed bool `json:"signed,omitzero"`
	// CallerID is who delivered the activity, which does not say so itself.
	CallerID string `json:"caller,omitempty"`
	// Notice is what the turn sends, of one that answers nothing.
	Notice *notice `json:"notice,omitempty"`
	// Activity is what came in: the click, of a turn that follows one.
	Activity jsontext.Value `json:"activity"`
}

// encode writes the item around the activity, which is JSON already.
func (i *item) encode() []byte {
	raw := i.Activity
	i.Activity = nil
	head, err := json.Marshal(i)
	if err != nil {
		panic(fmt.Sprintf("encode item: %v", err)) // it holds nothing that JSON does not
	}
	i.Activity = raw
	const null = "null}"
	out := make([]byte, 0, len(head)+len(raw))
	out = append(out, head[:len(head)-len(null)]...)
	out = append(out, raw...)
	return append(out, '}')
}

// readItem reads what encode wrote. An activity that can be read comes with an error
// about the rest.
func readItem(body []byte) (i item, a *activity.Activity, err error) {
	if err := json.Unmarshal(body, &i); err != nil {
		return i, nil, fmt.Errorf("read item: %w", err)
	}
	if a, err = activity.Decode(i.Activity); a != nil {
		a.CallerID = i.CallerID
	}
	if i.Version != itemVersion {
		err = fmt.Errorf("%w: version %d, this one knows %d", errItem, i.Version, itemVersion)
	}
	if err != nil {
		err = fmt.Errorf("read item: %w", err)
	}
	return i, a, err
}

// open makes the turn of an item that this process did not accept itself. With an
// error it makes one that nothing can be done of but to tell the person, or nil.
func (b *Bot) open(of state.Item) (*Turn, error) {
	i, a, err := readItem(of.Body)
	if a == nil {
		return nil, err
	}
	t := b.newTurn(a)
	t.ID, t.awaited, t.resumes, t.notice = of.Turn, i.Awaited, i.Approval, i.Notice
	t.trace, t.after = i.Trace, i.After
	t.vouch(i.Signed)
	return t, err
}
