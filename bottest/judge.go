package bottest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/internal/markdown"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/turnid"
)

// seen is what the bot did for an activity, or in a whole step.
type seen struct {
	calls   []Call
	replies []reply
	asked   []ModelCall
	sends   int
	typing  bool
}

// judge compares what the bot did in a step with what was expected.
func (r *run) judge(step *record.Step, s *stage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range r.calls()[s.calls:] {
		for _, o := range s.seenOf(c.Of) {
			o.calls = append(o.calls, c)
		}
	}
	for _, c := range r.kit.Model.Calls()[s.asked:] {
		for _, o := range s.seenOf(c.Of) {
			o.asked = append(o.asked, c)
		}
	}
	for _, sent := range r.kit.Connector.Sent()[s.sent:] {
		for _, o := range s.seenOf(ofSent(sent)) {
			o.took(sent, r)
		}
	}
	for _, d := range s.deliveries {
		if text := shown(d.answer); text != "" { // shown to the person who clicked
			for _, o := range []*seen{&d.of.seen, &s.whole.seen} {
				o.replies = append(o.replies, reply{text: text})
			}
		}
	}
	for _, e := range s.events {
		v := &verdict{run: r, stage: s, place: e.place(), expect: &e.Expect, seen: &e.seen}
		v.compareWork()
		v.sendings(e)
		v.unasked(e)
	}
	for _, d := range s.deliveries {
		v := &verdict{run: r, stage: s, place: d.place, expect: &d.Expect, seen: &d.of.seen}
		v.compareRest(d)
	}
	if len(step.Parallel) > 0 {
		v := &verdict{run: r, stage: s, expect: &step.Expect, seen: &s.whole.seen}
		v.compareWork()
		v.compareRest(s.deliveries...)
		v.sendings(s.whole)
	}
}

// seenOf returns where to record something: with its owner, and with the whole step.
func (s *stage) seenOf(of turnid.Of) []*seen {
	return []*seen{&s.owner(of).seen, &s.whole.seen}
}

// ofSent says which turn a request to the connector belongs to. Its conversation is known in any
// case.
func ofSent(sent Sent) turnid.Of {
	of := sent.Of
	of.Conversation = sent.To
	of.Activity = cmp.Or(of.Activity, sent.ReplyTo)
	return of
}

func (o *seen) took(sent Sent, r *run) {
	switch {
	case sent.Method != http.MethodPost:
	case sent.Activity.Type == activity.Typing:
		o.typing = o.typing || sent.Status < http.StatusBadRequest
	case sent.Activity.Type == activity.Message:
		o.sends++
		if sent.Message() {
			o.replies = append(o.replies, reply{sent.Activity.Text, sent.Card(), sent.Turn})
		}
	}
}

// verdict compares one set of expectations.
type verdict struct {
	*run
	stage  *stage
	place  string
	expect *record.Expect
	seen   *seen
}

func (v *verdict) fault(field, format string, args ...any) {
	v.Errorf(v.place+"expect."+field+": "+format, args...)
}

// number compares a count, if one is expected.
func (v *verdict) number(field string, want *int, got int) {
	if want != nil && *want != got {
		v.fault(field, "got %d, want %d", got, *want)
	}
}

// compareWork compares what the bot did for an activity.
func (v *verdict) compareWork() {
	e, o := v.expect, v.seen
	v.actions()
	v.replies()
	if e.Typing != nil && *e.Typing != o.typing {
		v.fault("typing", "got %t, want %t", o.typing, *e.Typing)
	}
	v.number("model_calls", e.ModelCalls, len(o.asked))
	v.prompts()
	v.number("sends", e.Sends, o.sends)
}

// compareRest compares the state after the step, and how deliveries were answered.
func (v *verdict) compareRest(of ...*delivery) {
	v.state(of)
	opened := slices.DeleteFunc(v.calls(), func(c Call) bool { return c.Action != "createTicket" || failed(&c) })
	v.number("tickets", v.expect.Tickets, len(opened))
	for _, d := range of {
		v.answer(d.answer)
	}
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
		v.fault("joined_reply_equals", "got %s, want %s", inLines([]string{joined}), inLines([]string{*e.JoinedReplyEquals}))
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

// matches reports whether the replies are the wanted ones. <split> stands for two or more.
func (v *verdict) matches(want []string, got []reply) bool {
	same := func(w string, g reply) bool { return g.is(w, v.run.actions, v.resumed) }
	if v.expect.Order.Either() {
		return inAnyOrder(want, got, same)
	}
	for i, w := range want {
		if word, _, _ := record.Placeholder(w); word != "split" {
			continue
		}
		parts := len(got) - len(want) + 1
		return parts >= 2 && v.matches(want[:i], got[:i]) && v.matches(want[i+1:], got[i+parts:])
	}
	return slices.EqualFunc(want, got, same)
}

// resumed reports whether a reply belongs to a turn whose process died. The turn either says what
// it was going to say, or reports what is known to be done.
func (v *verdict) resumed(g reply) bool {
	if strings.Contains(g.text, "I cannot tell whether this was done: ") {
		return true
	}
	apology := strings.HasPrefix(g.text, "Sorry, ") && !strings.Contains(g.text, "Before that I did: ") && !v.s.Writes(g.text)
	return g.card == "" && !apology && slices.Contains(v.begun(), g.turn)
}

// begun returns the turns that were running before the step or, if a process died in it, in the
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
		if !slices.ContainsFunc(asked, func(c ModelCall) bool { return strings.Contains(c.Prompt(), text) }) {
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
		} else if got := asked[0].Last("user"); got != *e.ModelInput {
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

// answer checks how a delivery was answered over HTTP.
func (v *verdict) answer(d *Delivery) {
	if want := v.expect.Status; want != nil && d.Status != *want {
		v.fault("status", "got %s, want %d", d, *want)
	}
	within, bounded := v.expect.StatusWithinMS[d.ID]
	if all, ok := v.expect.StatusWithinMS[""]; ok {
		within, bounded = all, true
	}
	if limit := time.Duration(within) * time.Millisecond; bounded && (d.Status == 0 || d.Took.Truncate(time.Millisecond) > limit) {
		v.fault("http_status_within_ms", "%s was answered %s after %v, want %v at most", d.ID, d, d.Took, limit)
	}
}

// reply is a message that reached a channel.
type reply struct {
	text string
	card string // as JSON; "": it is a text
	turn string // the turn that says it; "" in the answer to a click
}

func (r reply) String() string {
	if r.card != "" {
		return "card " + r.card
	}
	return r.text
}

// is reports whether the reply is the wanted one, as people see both.
func (r reply) is(want string, acts *actions.Registry, resumed func(reply) bool) bool {
	word, call, means := record.Placeholder(want)
	call = strings.TrimLeft(call, ": \t\n")
	switch word {
	case "":
		return r.card == "" && markdown.Seen(r.text) == markdown.Seen(want) || r.card != "" && sameWords(r.card, want)
	case "split": // any text; matches counts them
		return r.card == ""
	case "card":
		return r.card != "" && questionOf(r.card, acts, "") == nil && shows(r.card, call)
	case "approval_card":
		if r.card == "" {
			return false
		}
		name, _, _ := strings.Cut(call, " ")
		q := questionOf(r.card, acts, name)
		if q == nil {
			return false
		}
		values, named := strings.CutPrefix(call+" ", q.title+" ")
		if !named {
			values, named = strings.CutPrefix(call+" ", q.name()+" ")
		}
		return (named || call == "") && q.has(strings.TrimSpace(values))
	case "resumed", "honest":
		return resumed(r)
	default:
		return means(r.text)
	}
}

// sameWords reports whether the text is what the card says in a channel without cards: the scenario
// may be of a conversation there.
func sameWords(card, text string) bool {
	var shown struct{ FallbackText string }
	err := json.Unmarshal([]byte(card), &shown)
	plain := func(text string) string { return strings.ReplaceAll(text, "**", "") } // a fallback has no markdown
	return err == nil && shown.FallbackText != "" && markdown.Seen(plain(shown.FallbackText)) == markdown.Seen(plain(text))
}

// shows reports whether a person can read the text in the card.
func shows(card, text string) (yes bool) {
	var tree any
	_ = json.Unmarshal([]byte(card), &tree) // otherwise it shows nothing
	walk(tree, func(name string, value any) {
		shown, isText := value.(string)
		yes = yes || isText && name != "type" && name != "id" && name != "verb" && strings.Contains(markdown.Seen(shown), markdown.Seen(text))
	})
	return yes || text == ""
}

func (v *verdict) sendings(e *scene) {
	if unused := len(e.Expect.Connector) - e.sendings; unused > 0 {
		v.fault("connector", "%d of the answers were not asked for", unused)
	}
}

// unasked records scripted answers that the model was not asked for. They are no failure: a
// scenario may have more than a bot needs. But an answer for a specific model must be requested.
func (v *verdict) unasked(e *scene) {
	for i, a := range e.Model[e.answers:] {
		i += e.answers
		if a.Deployment != "" && len(e.deliveries) == 1 && e.Expect.ModelCalls == nil && v.stage.crash == 0 {
			v.Errorf("%smodel[%d].deployment: %s was not asked", v.place, i, a.Deployment)
		}
		v.unused = append(v.unused, fmt.Sprintf("%s, %smodel[%d]: %s", v.step, v.place, i, e.asked(i, false)))
	}
}

// together is the expected work for an activity that is delivered several times. The delivery that
// the bot worked on is unknown, so it compares with all of them: lists appended in delivery order,
// numbers added, and anything else from the first delivery that sets it.
func together(deliveries []*delivery) *record.Step {
	out := &record.Step{Event: deliveries[0].Event, Expect: record.Expect{ModelCalls: new(0), Sends: new(0)}}
	all := &out.Expect
	for _, one := range inTime(deliveries) {
		e := &one.Expect
		out.Model = append(out.Model, one.Model...)
		join(&all.Connector, e.Connector)
		join(&all.Actions, e.Actions)
		join(&all.Replies, e.Replies)
		join(&all.ReplyMustNotContain, e.ReplyMustNotContain)
		join(&all.PromptContains, e.PromptContains)
		join(&all.PromptContainsCall2, e.PromptContainsCall2)
		join(&all.PromptMustNot, e.PromptMustNot)
		all.ModelCalls, all.Sends = sum(all.ModelCalls, e.ModelCalls), sum(all.Sends, e.Sends)
		all.MaxPartUTF16Bytes = cmp.Or(all.MaxPartUTF16Bytes, e.MaxPartUTF16Bytes)
		all.JoinedReplyEquals = cmp.Or(all.JoinedReplyEquals, e.JoinedReplyEquals)
		all.Typing = cmp.Or(all.Typing, e.Typing)
		all.ModelInput = cmp.Or(all.ModelInput, e.ModelInput)
		all.ServedBy = cmp.Or(all.ServedBy, e.ServedBy)
		if e.Order.Either() {
			all.Order = e.Order
		}
	}
	return out
}

func inTime(deliveries []*delivery) []*delivery {
	return slices.SortedStableFunc(slices.Values(deliveries), byTime)
}

func byTime(a, b *delivery) int { return cmp.Compare(a.Event.AtMS, b.Event.AtMS) }

func join[T any](all *[]T, more []T) {
	if more != nil {
		*all = append(append([]T{}, *all...), more...) // empty is not nil
	}
}

// sum is nil, which is not checked, if one of the deliveries does not set its part.
func sum(a, b *int) *int {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}

func (v *verdict) actions() {
	want, got := v.expect.Actions, v.seen.calls
	if want == nil {
		return
	}
	for i, a := range want {
		v.known(fmt.Sprintf("expect.actions[%d].action", i), a.Action)
	}
	same := slices.EqualFunc(want, got, v.sameCall)
	if v.expect.Order.Either() {
		same = inAnyOrder(want, got, v.sameCall)
	}
	if !same {
		var came, wanted []string
		for _, c := range got {
			came = append(came, v.describe(c.Action, c.Entities, c.Result.Text(), failed(&c)))
		}
		for _, a := range want {
			wanted = append(wanted, v.describe(a.Action, a.Entities, a.Said(), a.Error != nil))
		}
		v.fault("actions", "got %s, want %s", inLines(came), inLines(wanted))
	}
}

// inAnyOrder reports whether got has exactly the wanted entries, in any order.
func inAnyOrder[W, G any](want []W, got []G, same func(W, G) bool) bool {
	rest := slices.Clone(got)
	for _, w := range want {
		i := slices.IndexFunc(rest, func(g G) bool { return same(w, g) })
		if i < 0 {
			return false
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return len(rest) == 0
}

// sameCall compares a call. A scripted action returns what the scenario says; for others, a result
// is compared if one is given.
func (v *verdict) sameCall(want record.Action, got Call) bool {
	if want.Action != got.Action || !equalEntities(want.Entities, got.Entities) {
		return false
	}
	if v.cfg.Scripted {
		return true
	}
	result := want.Said()
	return failed(&got) == (want.Error != nil) && (result == "" || failed(&got) || result == got.Result.Text())
}

func equalEntities(a, b map[string]any) bool {
	return len(a) == 0 && len(b) == 0 || sameJSON(plainjson.Text(a), plainjson.Text(b))
}

// sameJSON compares two JSON texts: 1.5e3 equals 1500.
func sameJSON(a, b string) bool {
	one, other := jsontext.Value(a), jsontext.Value(b)
	return cmp.Or(one.Canonicalize(), other.Canonicalize()) == nil && bytes.Equal(one, other)
}

func (v *verdict) state(of []*delivery) {
	e := v.expect
	if e.State != nil {
		v.kept("state", of[0].Event, e.State.Lists, e.State.Conversation, e.State.User, e.State.Bot)
	}
	for _, id := range sortedKeys(e.StateByConversation) {
		want := e.StateByConversation[id]
		v.kept("state_by_conversation."+id, v.first(id), want.Lists, want.Conversation, want.User, want.Bot)
	}
	for i, d := range of {
		id := d.Event.Conversation
		told := slices.ContainsFunc(of[:i], func(other *delivery) bool { return other.Event.Conversation == id })
		if told || e.StateUnchanged == nil {
			continue
		}
		was, is := v.stage.kept[id], v.snapshot(id)
		if same := equalLists(was.lists, is.lists, false) && maps.Equal(was.values, is.values); same != *e.StateUnchanged {
			v.fault("state_unchanged", "got %t, want %t: the state of %s was %s and is %s", same, *e.StateUnchanged, id, was, is)
		}
	}
}

// kept compares the stored state of the event's conversation and person and of the whole bot with what
// is wanted. If it names no values, there must be no other lists.
func (v *verdict) kept(field string, of *record.Event, want map[string][]string, conversation, user, bot map[string]any) {
	if got := v.lists(of.Conversation); (want != nil || conversation == nil && user == nil && bot == nil) && !equalLists(want, got, v.expect.Order.Either()) {
		v.fault(field, "the lists are %s, want %s", plainjson.Text(got), plainjson.Text(want))
	}
	scopes := v.scopes(of)
	for i, values := range []map[string]any{conversation, user, bot} {
		for _, name := range sortedKeys(values) {
			got, wanted := v.value(scopes[i], name), plainjson.Text(values[name])
			if got == "" {
				got = "null" // nothing
			}
			if !sameJSON(got, wanted) {
				v.fault(field+[]string{".conversation.", ".user.", ".bot."}[i]+name, "got %s, want %s; the state has %s",
					got, wanted, plainjson.Text(slices.Sorted(slices.Values(scopes[i].Names()))))
			}
		}
	}
}

// equalLists compares lists; anyOrder ignores the order of items.
func equalLists(a, b map[string][]string, anyOrder bool) bool {
	return maps.EqualFunc(a, b, func(a, b []string) bool {
		if anyOrder {
			a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
		}
		return slices.Equal(a, b)
	})
}

func texts(replies []reply) []string {
	all := []string{}
	for _, one := range replies {
		all = append(all, one.String())
	}
	return all
}

// describe says what was called and, if results are real, the result.
func (v *verdict) describe(action string, entities map[string]any, result string, failed bool) string {
	text := action + " {}"
	if len(entities) > 0 {
		text = action + " " + plainjson.Text(entities)
	}
	switch {
	case v.cfg.Scripted:
	case failed:
		text += " failed"
	case result != "":
		text += " = " + result
	}
	return text
}

// inLines formats a list of texts and shortens long ones.
func inLines(list []string) string {
	const most = 300
	var out []string
	for _, one := range list {
		if len(one) > most {
			one = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(one[:most], ""), len(one))
		}
		out = append(out, fmt.Sprintf("%q", one))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// span is when the bot worked on an event, as positions among everything that happened.
type span struct {
	id                   string
	first, last, replied int
}

// spans returns the spans of the events for which the bot did anything.
func (v *verdict) spans() (all []span) {
	type done struct {
		of      turnid.Of
		seq     int
		replies bool
	}
	var list []done
	for _, c := range v.kit.Model.Calls()[v.stage.asked:] {
		list = append(list, done{c.Of, c.Seq, false})
	}
	for _, sent := range v.kit.Connector.Sent()[v.stage.sent:] {
		if sent.Message() {
			list = append(list, done{ofSent(sent), sent.Seq, true})
		}
	}
	slices.SortFunc(list, func(a, b done) int { return cmp.Compare(a.seq, b.seq) })
	for _, d := range list {
		owner := v.stage.owner(d.of)
		i := slices.IndexFunc(all, func(s span) bool { return s.id == owner.Event.ID })
		if i < 0 {
			i, all = len(all), append(all, span{id: owner.Event.ID, first: d.seq})
		}
		all[i].last = d.seq
		if d.replies && all[i].replied == 0 {
			all[i].replied = d.seq
		}
	}
	return all
}

// order compares the order in which the events were answered.
func (v *verdict) order() {
	want := v.expect.Order
	if want == nil || want.Either() {
		return
	}
	spans := v.spans()
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(cmp.Or(a.replied, a.last), cmp.Or(b.replied, b.last)) })
	var got []string
	for _, s := range spans {
		if slices.Contains(want, s.id) {
			got = append(got, s.id)
		}
	}
	if !slices.Equal(got, want) {
		v.fault("order", "got %v, want %v", got, want)
	}
}

// together compares how many turns ran at the same time.
func (v *verdict) together() {
	spans := v.spans()
	most := 0
	for _, a := range spans {
		n := 0
		for _, b := range spans {
			if b.first <= a.first && a.first <= b.last {
				n++
			}
		}
		most = max(most, n)
	}
	if want := v.expect.MaxConcurrentTurns; want != nil && most > *want {
		v.fault("max_concurrent_turns", "got %d, want at most %d", most, *want)
	}
}
