package scenario

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
)

// seen is what the bot did for an event, or for all of a step.
type seen struct {
	calls     []made
	replies   []reply
	asked     []bottest.ModelCall
	sends     int
	typing    bool
	delivered []*bottest.Delivery
}

// judge compares what the bot did in a step with what it had to do.
func (r *run) judge(step *Step, s *stage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := &seen{}
	each := map[*scene]*seen{}
	for _, e := range s.events {
		each[e] = &seen{}
	}
	s.sort(all, each)
	for _, group := range s.groups() {
		r.judgeGroup(s, group, each)
	}
	if len(step.Parallel) > 0 {
		v := &verdict{run: r, stage: s, expect: &step.Expect, seen: all, conversation: s.events[0].Event.Conversation, events: s.events}
		v.compareWork()
		v.compareRest()
		v.sendings(s.whole)
	}
}

// sort gives each event what belongs to it.
func (s *stage) sort(all *seen, each map[*scene]*seen) {
	for _, c := range s.run.calls()[s.calls:] {
		all.calls = append(all.calls, c)
		one := each[s.owner(c.Of)]
		one.calls = append(one.calls, c)
	}
	for _, c := range s.run.kit.Model.Calls()[s.asked:] {
		all.asked = append(all.asked, c)
		one := each[s.owner(c.Of)]
		one.asked = append(one.asked, c)
	}
	for _, sent := range s.run.kit.Connector.Sent()[s.sent:] {
		all.took(sent, s.run)
		each[s.owner(ofSent(sent))].took(sent, s.run)
	}
	for _, e := range s.events {
		all.answered(e.delivered)
		each[e].answered(e.delivered)
	}
}

// answered notes the answer to a delivery, which may show a text to who clicked.
func (o *seen) answered(d *bottest.Delivery) {
	if d == nil {
		return
	}
	o.delivered = append(o.delivered, d)
	if text := shown(d); text != "" {
		o.replies = append(o.replies, reply{text: text})
	}
}

// ofSent says whose a request to the connector is: where it went is certain.
func ofSent(sent bottest.Sent) bottest.Of {
	of := sent.Of
	of.Conversation = sent.To
	of.Activity = cmp.Or(of.Activity, sent.ReplyTo)
	return of
}

func (o *seen) took(sent bottest.Sent, r *run) {
	switch {
	case sent.Method != http.MethodPost:
	case sent.Activity.Type == activity.Typing:
		o.typing = o.typing || sent.Status < http.StatusBadRequest
	case sent.Activity.Type == activity.Message:
		o.sends++
		if sent.Message() {
			o.replies = append(o.replies, reply{sent.Activity.Text, r.kit.Conversation(sent.To, "", "").Card(sent), sent.Turn})
		}
	}
}

// verdict compares one list of expectations.
type verdict struct {
	*run
	stage        *stage
	place        string
	expect       *Expect
	rest         *Expect // where this says nothing, there may be more; nil: there may not
	seen         *seen
	conversation string
	events       []*scene
}

func (v *verdict) fault(field, format string, args ...any) {
	v.Errorf(v.place+"expect."+field+": "+format, args...)
}

// number compares a count that may not be expected at all. There may be more of what is not
// exact.
func (v *verdict) number(field string, want *int, got int, exact bool) {
	switch {
	case want == nil || *want == got:
	case exact:
		v.fault(field, "got %d, want %d", got, *want)
	case got < *want:
		v.fault(field, "got %d, want %d at least", got, *want)
	}
}

// compareWork compares what the bot did for an activity.
func (v *verdict) compareWork() {
	e, o := v.expect, v.seen
	v.actions()
	v.replies()
	rest := cmp.Or(v.rest, e)
	if e.Typing != nil && *e.Typing != o.typing && (*e.Typing || rest.Typing != nil) {
		v.fault("typing", "got %t, want %t", o.typing, *e.Typing)
	}
	v.number("model_calls", e.ModelCalls, len(o.asked), rest.ModelCalls != nil)
	v.prompts()
	v.number("sends", e.Sends, o.sends, rest.Sends != nil)
}

// compareRest compares what there is after the step, and how deliveries were answered.
func (v *verdict) compareRest() {
	v.state()
	v.number("tickets", v.expect.Tickets, v.book.opened(), true)
	v.answers()
	v.order()
	v.together()
}

func (v *verdict) replies() {
	e, got := v.expect, v.seen.replies
	if e.Replies != nil && !v.matches(e.Replies, got) {
		v.fault("replies", "got %s, want %s", inLines(texts(got)), inLines(e.Replies))
	}
	joined := strings.Join(texts(got), "")
	if e.JoinedReplyEquals != nil && joined != *e.JoinedReplyEquals {
		v.fault("joined_reply_equals", "got %d bytes, want %d; they differ from byte %d on", len(joined), len(*e.JoinedReplyEquals), common(joined, *e.JoinedReplyEquals))
	}
	for i, one := range got {
		if n := 2 * len(utf16.Encode([]rune(one.text))); e.MaxPartUTF16Bytes != nil && n > *e.MaxPartUTF16Bytes {
			v.fault("max_part_utf16_bytes", "reply %d has %d, want at most %d", i+1, n, *e.MaxPartUTF16Bytes)
		}
		for _, no := range e.ReplyMustNotContain {
			if strings.Contains(one.String(), no) {
				v.fault("reply_must_not_contain", "reply %d contains %q", i+1, no)
			}
		}
	}
}

// matches reports whether the replies are those wanted. <split> stands for two or more.
func (v *verdict) matches(want []string, got []reply) bool {
	same := func(w string, g reply) bool { return g.is(w, v.resumed) }
	more := v.rest != nil && v.rest.Replies == nil
	switch {
	case v.expect.Order.Either:
		left, ok := inAnyOrder(want, got, same)
		return ok && (more || left == 0)
	case more:
		return among(want, got, same)
	}
	for i, w := range want {
		if placeholderOf(w) != "split" {
			continue
		}
		parts := len(got) - len(want) + 1
		return parts >= 2 && v.matches(want[:i], got[:i]) && v.matches(want[i+1:], got[i+parts:])
	}
	return slices.EqualFunc(want, got, same)
}

// resumed reports whether a reply is of a turn that a process had begun which then died.
// The turn says what it was to say all the same, or what is known of what was done.
func (v *verdict) resumed(g reply) bool {
	if strings.Contains(g.text, "I cannot tell whether this was done: ") {
		return true
	}
	apology := strings.HasPrefix(g.text, "Sorry, ") && !strings.Contains(g.text, "Before that I did: ") && !v.s.writes(g.text)
	return g.card == nil && !apology && slices.Contains(v.begun(), g.turn)
}

// begun are the turns that were at work before the step or, if a process died in it, in the
// step.
func (v *verdict) begun() (turns []string) {
	calls, asked := v.calls(), v.kit.Model.Calls()
	if v.stage.crash == 0 {
		calls, asked = calls[:v.stage.calls], asked[:v.stage.asked]
	}
	for _, c := range calls {
		turns = append(turns, c.Turn)
	}
	for _, c := range asked {
		turns = append(turns, c.Turn)
	}
	return turns
}

func (v *verdict) prompts() {
	e, asked := v.expect, v.seen.asked
	for _, text := range e.PromptContains {
		if !slices.ContainsFunc(asked, func(c bottest.ModelCall) bool { return strings.Contains(c.Prompt(), text) }) {
			v.fault("prompt_contains", "no prompt contains %q", text)
		}
	}
	for _, text := range e.PromptContainsCall2 {
		if len(asked) < 2 || !strings.Contains(asked[1].Prompt(), text) {
			v.fault("prompt_contains_call2", "the second prompt does not contain %q", text)
		}
	}
	for _, text := range e.PromptMustNot {
		for i, c := range asked {
			if strings.Contains(c.Prompt(), text) {
				v.fault("prompt_must_not_contain", "the prompt of call %d contains %q", i+1, text)
			}
		}
	}
	if e.ModelInput != nil {
		if len(asked) == 0 {
			v.fault("model_input", "the model was not asked")
		} else if got := asked[0].Last(models.User); got != *e.ModelInput {
			v.fault("model_input", "got %q, want %q", got, *e.ModelInput)
		}
	}
	if e.ServedBy != nil {
		got := "none"
		for _, c := range asked {
			if c.Answer.Status == 0 && !c.Answer.Hangs {
				got = c.Model
			}
		}
		if got != *e.ServedBy {
			v.fault("served_by", "got %s, want %s", got, *e.ServedBy)
		}
	}
}

// answers looks at how the deliveries were answered over HTTP.
func (v *verdict) answers() {
	for _, d := range v.seen.delivered {
		if want := v.expect.Status; want != nil && d.Status != *want {
			v.fault("status", "got %s, want %d", d, *want)
		}
		within, bounded := v.expect.StatusWithinMS.ByID[d.ID]
		if all := v.expect.StatusWithinMS.All; all != nil {
			within, bounded = *all, true
		}
		if limit := time.Duration(within) * time.Millisecond; bounded && (d.Status == 0 || d.Took.Truncate(time.Millisecond) > limit) {
			v.fault("http_status_within_ms", "%s was answered %s after %v, want %v at most", d.ID, d, d.Took, limit)
		}
	}
}
