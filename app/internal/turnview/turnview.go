// Package turnview shows operators what is known about a turn: what is kept about one that is over, and a dead
// letter.
package turnview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/planbot-go/planbot/bot/heads"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/state/inbox"
)

// Count says "1 turn" or "2 turns".
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

// Moment formats a time; "" if it is unknown.
func Moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 MST")
}

const maxTurnID = 64 // limits what may be an id

// ID is the id of a turn in what somebody copied: the id alone, "(turn ID)", or all that the bot
// said, in any of its languages. The id comes last there.
func ID(text string) (string, error) {
	letter := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || r == '-' || r == '_'
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return !letter(r) })
	if len(words) == 0 {
		return "", errors.New("which turn? Its id is at the end of what the bot said, such as (turn 3d7rq2mzk4ab)")
	}
	id := words[len(words)-1]
	if last := strings.TrimSpace(text); len(words) == 2 && strings.HasSuffix(last, words[0]+"."+words[1]) {
		id = words[0] // the key of a call is ID.NUMBER
	}
	if len(id) > maxTurnID {
		return "", fmt.Errorf("%.80q is not the id of a turn", id)
	}
	return strings.ToLower(id), nil
}

// Dead is a dead letter as an operator sees it. The activity is empty if it cannot be read.
type Dead struct {
	Turn     string    `json:"turn"`
	Reason   string    `json:"reason"`
	Since    time.Time `json:"since"`
	Accepted time.Time `json:"accepted"`
	Queue    string    `json:"queue"`

	Type         string `json:"type,omitempty"` // of the activity
	Channel      string `json:"channel,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	From         string `json:"from,omitempty"`
	Text         string `json:"text,omitempty"` // only with content

	Then   string   `json:"then,omitempty"`   // the phase that it continues with
	Done   []string `json:"done,omitempty"`   // actions that finished
	Plan   []Step   `json:"plan,omitempty"`   // the current plan; none: no plan, or it ended
	Sent   []string `json:"sent,omitempty"`   // the ids that the channel gave to its messages
	Unsent int      `json:"unsent,omitempty"` // messages waiting to be sent
	Unread string   `json:"unread,omitempty"` // why some of this is missing
}

// Step is a command of a plan and its progress: "done", "begun" (it may or may not have been
// done), or "" if it has not begun.
type Step struct {
	Command string `json:"command"`
	State   string `json:"state,omitempty"`
}

// ReadDead returns what is known about a dead letter. Only with content does it include what
// people, models and actions wrote: the text that came in, and the commands with their entities.
func ReadDead(w inbox.Waiting, content bool) Dead {
	rec, err := turn.Decode(w.Record)
	t := Dead{
		Turn: w.ID, Reason: turn.Reason(w), Since: w.Since, Accepted: rec.Accepted, Queue: w.Queue.String(),
		Done: rec.Completed(), Sent: rec.Sent, Unsent: len(rec.Outbox),
	}
	a, fault := rec.Read()
	if err := errors.Join(err, fault); err != nil {
		t.Unread = err.Error()
	}
	if a != nil {
		t.Type, t.Channel, t.Conversation = string(a.Type), a.ChannelID, a.Conversation.ID
		t.From = strings.TrimSpace(a.From.Name + " " + a.From.ID)
		if content {
			t.Text = cmp.Or(rec.Text, a.Said())
		}
	}
	if rec.Wait != nil {
		t.Then = string(rec.Wait.Then)
	}
	if rec.Notice != nil && t.Unsent == 0 {
		t.Unsent = len(rec.Notice.Messages)
	}
	if rec.Run == nil || rec.Run.Progress == nil {
		return t
	}
	p := rec.Run.Progress
	lines := strings.Split(p.Plan.Outline(), "\n")
	if content {
		lines = strings.Split(p.Plan.String(), "\n") // String quotes line feeds
	}
	for i, line := range lines {
		step := Step{Command: strings.TrimPrefix(line, "- ")}
		switch {
		case i < p.Next:
			step.State = "done"
		case i < p.Next+rec.Run.InFlight:
			step.State = "begun"
		}
		t.Plan = append(t.Plan, step)
	}
	return t
}

// Rows are names and values of what is known; values may be empty.
func (t Dead) Rows() [][2]string {
	rows := [][2]string{
		{"turn", t.Turn},
		{"reason", t.Reason},
		{"since", Moment(t.Since)},
		{"accepted", Moment(t.Accepted)},
		{"type", t.Type},
		{"channel", t.Channel},
		{"conversation", t.Conversation},
		{"from", t.From},
	}
	if t.Text != "" {
		rows = append(rows, [2]string{"text", strconv.QuoteToGraphic(t.Text)})
	}
	rows = append(rows, [2]string{"goes on with", t.Then}, [2]string{"done", strings.Join(t.Done, ", ")})
	states := map[string]string{"done": " - done", "begun": " - may have begun, nobody knows whether it was done"}
	for _, step := range t.Plan {
		rows = append(rows, [2]string{"plan", step.Command + states[step.State]})
	}
	rows = append(rows, [2]string{"sent", strings.Join(t.Sent, ", ")})
	if t.Unsent > 0 {
		rows = append(rows, [2]string{"to be sent", strconv.Itoa(t.Unsent)})
	}
	return append(rows, [2]string{"not read", t.Unread}, [2]string{"queue", t.Queue})
}

// HeadRows are names and values of what is known; values may be empty.
func HeadRows(h heads.Head) [][2]string {
	outcome := h.Outcome
	if h.Reason != "" {
		outcome += " (" + h.Reason + ")"
	}
	conversation := h.Conversation
	if h.Kind != "" {
		conversation += " (" + h.Kind + ")"
	}
	person := cmp.Or(h.User, h.Account)
	if h.Tenant != "" {
		person += " of tenant " + h.Tenant
	}
	rows := [][2]string{
		{"turn", h.Turn},
		{"outcome", outcome},
		{"accepted", Moment(h.Accepted)},
		{"waited", seconds(h.WaitedMS)},
		{"took", seconds(h.TookMS)},
		{"tries", strconv.Itoa(h.Tries)},
		{"type", h.Type},
		{"channel", h.Channel},
		{"conversation", conversation},
		{"person", person},
	}
	if h.ModelCalls > 0 {
		rows = append(rows, [2]string{"model", fmt.Sprintf("%s, %d + %d tokens", Count(h.ModelCalls, "call"), h.PromptTokens, h.CompletionTokens)})
	}
	if h.Cost > 0 {
		rows = append(rows, [2]string{"cost", strconv.FormatFloat(h.Cost, 'f', -1, 64)})
	}
	return append(rows, [2]string{"sent", Count(h.Sent, "message")}, [2]string{"trace", h.Trace})
}

func seconds(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// FindDead finds the dead letters with these ids, in this order; without ids, all of them. The
// error lists missing ids; the others are still returned.
func FindDead(ctx context.Context, in *inbox.Inbox, ids []string) (found []inbox.Waiting, err error) {
	dead, err := in.Dead(ctx)
	if len(ids) == 0 || err != nil {
		return dead, err
	}
	var missing []error
	for _, id := range ids {
		at := slices.IndexFunc(dead, func(w inbox.Waiting) bool { return w.ID == id })
		if at < 0 {
			missing = append(missing, fmt.Errorf("no such dead letter: %.80q", id))
			continue
		}
		found = append(found, dead[at])
	}
	return found, errors.Join(missing...)
}
