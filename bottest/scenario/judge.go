package scenario

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bottest"
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
func (r *run) judge(step *record.Step, s *stage) {
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
func ofSent(sent bottest.Sent) record.Of {
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
	expect       *record.Expect
	rest         *record.Expect // where this says nothing, there may be more; nil: there may not
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
		if record.PlaceholderOf(w) != "split" {
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
	apology := strings.HasPrefix(g.text, "Sorry, ") && !strings.Contains(g.text, "Before that I did: ") && !v.s.Writes(g.text)
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

// reply is what came to a channel.
type reply struct {
	text string
	card *bottest.Card // nil: it is a text
	turn string        // that says it; "" in the answer to a click
}

func (r reply) String() string {
	if r.card != nil {
		return "card " + r.card.JSON
	}
	return r.text
}

// is reports whether the reply is what is wanted.
func (r reply) is(want string, resumed func(reply) bool) bool {
	switch name := record.PlaceholderOf(want); name {
	case "":
		return r.card == nil && r.text == want
	case "split": // of as many texts as there are
		return r.card == nil
	case "approval_card":
		if r.card == nil {
			return false
		}
		action, values := record.ApprovalCard(want)
		q := questionOf(r.card.JSON)
		return q != nil && (action == "" || action == q.action) && q.has(values)
	case "resumed", "honest":
		return resumed(r)
	default:
		return record.Saying(name, r.text)
	}
}

// groups are the events of a step, those together that deliver one activity.
func (s *stage) groups() (all [][]*scene) {
	for _, e := range s.events {
		i := slices.IndexFunc(all, func(group []*scene) bool { return group[0].same(e) })
		if i < 0 {
			all = append(all, []*scene{e})
			continue
		}
		all[i] = append(all[i], e)
	}
	return all
}

// same reports whether both deliver one activity.
func (e *scene) same(other *scene) bool {
	return e.id == other.id && e.Event.Conversation == other.Event.Conversation
}

// judgeGroup judges the deliveries of one activity. Which of them the bot did its work for,
// nobody can tell: it is compared with what all of them expect together. One of them is to
// have the rest: if that does not say what it expects, there may be more.
func (r *run) judgeGroup(s *stage, group []*scene, each map[*scene]*seen) {
	work := &verdict{run: r, stage: s, place: placesOf(group), expect: &group[0].Expect, seen: each[group[0]], events: group}
	if len(group) > 1 {
		work.expect, work.rest, work.seen = together(group), &taker(group).Expect, &seen{}
		for _, e := range group {
			work.seen.add(each[e])
		}
	}
	work.compareWork()
	for _, e := range group {
		rest := *work
		rest.place, rest.expect, rest.seen, rest.conversation, rest.events = e.place, &e.Expect, each[e], e.Event.Conversation, []*scene{e}
		rest.compareRest()
		rest.sendings(e)
	}
	work.unasked(group)
}

// sendings looks whether the connector was asked for all that it was to answer.
func (v *verdict) sendings(e *scene) {
	if unused := len(e.Expect.Connector) - e.sendings; unused > 0 {
		v.fault("connector", "%d of the answers were not asked for", unused)
	}
}

// unasked notes the answers that the model was not asked for. They are no failure: there may
// be more of them than a bot has to need. But of one that is for a certain model
// it is expected that this is asked.
func (v *verdict) unasked(group []*scene) {
	for _, e := range group {
		for i, a := range e.Model[e.answers:] {
			i += e.answers
			if a.Deployment != "" && len(group) == 1 && e.Expect.ModelCalls == nil && v.stage.crash == 0 {
				v.Errorf("%smodel[%d].deployment: %s was not asked", e.place, i, a.Deployment)
			}
			v.unused = append(v.unused, fmt.Sprintf("%s, %smodel[%d]: %s", v.step, e.place, i, asked(a, 0, false)))
		}
	}
}

// taker is the delivery that is expected to have the work done: the first that was taken by
// a process that does not die.
func taker(group []*scene) *scene {
	ordered := inTime(group)
	for _, e := range ordered {
		if e.delivered != nil && taken(e.delivered) && e.Expect.CrashAfterAction == nil {
			return e
		}
	}
	return ordered[0]
}

func inTime(events []*scene) []*scene {
	return slices.SortedStableFunc(slices.Values(events), func(a, b *scene) int { return cmp.Compare(a.Event.AtMS, b.Event.AtMS) })
}

func placesOf(group []*scene) string {
	if len(group) == 1 {
		return group[0].place
	}
	var places []string
	for _, e := range group {
		places = append(places, strings.TrimSuffix(e.place, ": "))
	}
	return strings.Join(places, " with ") + ": "
}

// together is what the deliveries of one activity expect of the work for it: lists one
// after another in the order of the deliveries, numbers as their sums.
func together(group []*scene) *record.Expect {
	all := &record.Expect{}
	for _, one := range inTime(group) {
		e := &one.Expect
		join(&all.Actions, e.Actions)
		join(&all.Replies, e.Replies)
		join(&all.ReplyMustNotContain, e.ReplyMustNotContain)
		join(&all.PromptContains, e.PromptContains)
		join(&all.PromptContainsCall2, e.PromptContainsCall2)
		join(&all.PromptMustNot, e.PromptMustNot)
		merge(&all.ModelCalls, e.ModelCalls, plus)
		merge(&all.Sends, e.Sends, plus)
		merge(&all.MaxPartUTF16Bytes, e.MaxPartUTF16Bytes, func(a, b int) int { return min(a, b) })
		merge(&all.JoinedReplyEquals, e.JoinedReplyEquals, plus)
		merge(&all.Typing, e.Typing, func(a, b bool) bool { return a || b })
		merge(&all.ModelInput, e.ModelInput, func(first, _ string) string { return first })
		merge(&all.ServedBy, e.ServedBy, func(_, last string) string { return last })
		all.Order.Either = all.Order.Either || e.Order.Either
	}
	return all
}

func join[T any](all *[]T, more []T) {
	if more != nil {
		*all = append(append([]T{}, *all...), more...) // empty is not nil
	}
}

func merge[T any](all **T, more *T, how func(a, b T) T) {
	switch {
	case more == nil:
	case *all == nil:
		*all = more
	default:
		sum := how(**all, *more)
		*all = &sum
	}
}

func plus[T int | string](a, b T) T { return a + b }

func (o *seen) add(more *seen) {
	o.calls = append(o.calls, more.calls...)
	o.replies = append(o.replies, more.replies...)
	o.asked = append(o.asked, more.asked...)
	o.sends += more.sends
	o.typing = o.typing || more.typing
}

// among reports whether the wanted ones are among those there are, in that order.
func among[W, G any](want []W, got []G, same func(W, G) bool) bool {
	for _, g := range got {
		if len(want) > 0 && same(want[0], g) {
			want = want[1:]
		}
	}
	return len(want) == 0
}

func (v *verdict) actions() {
	want, got := v.expect.Actions, v.seen.calls
	if want == nil {
		return
	}
	same, more := false, v.rest != nil && v.rest.Actions == nil
	switch {
	case v.expect.Order.Either:
		left, ok := inAnyOrder(want, got, v.sameCall)
		same = ok && (more || left == 0)
	case more:
		same = among(want, got, v.sameCall)
	default:
		same = slices.EqualFunc(want, got, v.sameCall)
	}
	if !same {
		v.fault("actions", "got %s, want %s", inLines(v.describeMade(got)), inLines(v.describeActions(want)))
	}
}

// inAnyOrder reports whether each that is wanted is there, and how many others are.
func inAnyOrder[W, G any](want []W, got []G, same func(W, G) bool) (left int, ok bool) {
	rest := slices.Clone(got)
	for _, w := range want {
		i := slices.IndexFunc(rest, func(g G) bool { return same(w, g) })
		if i < 0 {
			return 0, false
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return len(rest), true
}

// sameCall compares a call. What a scripted action gave back is what it was told to; of
// others a result is compared if one is given.
func (v *verdict) sameCall(want record.Action, got made) bool {
	if want.Action != got.action || !equalEntities(want.Entities, got.entities) {
		return false
	}
	if v.cfg.Scripted {
		return true
	}
	result := record.TextOf(want.Result)
	if want.Unchanged != nil {
		result = *want.Unchanged
	}
	return got.failed == (want.Error != nil) && (result == "" || got.failed || result == got.result)
}

func equalEntities(a, b map[string]any) bool {
	return len(a) == 0 && len(b) == 0 || equalJSON(a, b)
}

// equalJSON compares JSON values, numbers exactly.
func equalJSON(a, b any) bool { return reflect.DeepEqual(normal(a), normal(b)) }

// normal writes equal JSON values in one form.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, one := range v {
			out[name] = normal(one)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = normal(one)
		}
		return out
	case json.Number:
		return exact(v.String())
	case float64, float32, int, int64:
		return exact(fmt.Sprint(v))
	}
	return v
}

// fraction is a number, so that 1.5e3 is 1500. It is no text that looks like one.
type fraction string

// exact is the number as a fraction. One that is too large for that is only equal as it is
// written.
func exact(number string) fraction {
	const most = 1 << 10
	if i := strings.IndexAny(number, "eE"); len(number) > most || i >= 0 && len(number)-i > 5 {
		return fraction(number)
	}
	if r, ok := new(big.Rat).SetString(number); ok {
		return fraction(r.RatString())
	}
	return fraction(number)
}

func (v *verdict) state() {
	e := v.expect
	if e.State != nil {
		v.lists("state", v.conversation, *e.State)
	}
	for _, id := range sortedKeys(e.StateByConversation) {
		v.lists("state_by_conversation."+id, id, e.StateByConversation[id])
	}
	if e.StateUnchanged != nil {
		for _, id := range v.conversations() {
			if same := equalLists(v.stage.kept[id], v.kept(id), false); same != *e.StateUnchanged {
				v.fault("state_unchanged", "got %t, want %t: the lists of %s were %s and are %s", same, *e.StateUnchanged, id, asJSON(v.stage.kept[id]), asJSON(v.kept(id)))
			}
		}
	}
}

// conversations are those of the events that are judged.
func (v *verdict) conversations() (ids []string) {
	for _, e := range v.events {
		ids = append(ids, e.Event.Conversation)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (v *verdict) lists(field, conversation string, want record.State) {
	got := v.kept(conversation)
	if !equalLists(want.Lists, got, v.expect.Order.Either) {
		v.fault(field, "the lists are %s, want %s", asJSON(got), asJSON(want.Lists))
	}
}

// equalLists compares lists, of which the items may be in any order.
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

// describe says what was called and, where results are real, what came of it.
func (v *verdict) describe(action string, entities map[string]any, result string, failed bool) string {
	if entities == nil {
		entities = map[string]any{}
	}
	text := action + " " + asJSON(entities)
	switch {
	case v.cfg.Scripted:
	case failed:
		text += " failed"
	case result != "":
		text += " = " + result
	}
	return text
}

func (v *verdict) describeMade(calls []made) []string {
	all := []string{}
	for _, c := range calls {
		all = append(all, v.describe(c.action, c.entities, c.result, c.failed))
	}
	return all
}

func (v *verdict) describeActions(calls []record.Action) []string {
	all := []string{}
	for _, c := range calls {
		all = append(all, v.describe(c.Action, c.Entities, record.TextOf(c.Result), c.Error != nil))
	}
	return all
}

func asJSON(v any) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// inLines shows a list of texts, long ones shortened.
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

// common is how many bytes two texts begin with alike.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// span is when the bot was at work for an event, by the places of what it did in all that
// happened.
type span struct {
	id                   string
	first, last, replied int
}

// spans are those of the events of a step for which anything was done.
func (v *verdict) spans() []span {
	byOwner := map[*scene]*span{}
	note := func(of record.Of, seq int, replies bool) {
		owner := v.stage.owner(of)
		if owner == nil || !slices.Contains(v.stage.events, owner) {
			return
		}
		s := byOwner[owner]
		if s == nil {
			s = &span{id: owner.id, first: seq}
			byOwner[owner] = s
		}
		s.last = seq
		if replies && s.replied == 0 {
			s.replied = seq
		}
	}
	var all []func()
	var places []int
	add := func(of record.Of, seq int, replies bool) {
		all, places = append(all, func() { note(of, seq, replies) }), append(places, seq)
	}
	for _, c := range v.kit.Model.Calls()[v.stage.asked:] {
		add(c.Of, c.Seq, false)
	}
	for _, sent := range v.kit.Connector.Sent()[v.stage.sent:] {
		if sent.Message() {
			add(ofSent(sent), sent.Seq, true)
		}
	}
	for _, i := range sortedBy(places) {
		all[i]()
	}
	var list []span
	for _, s := range byOwner {
		list = append(list, *s)
	}
	return list
}

// sortedBy are the indexes of the places in their order.
func sortedBy(places []int) []int {
	indexes := make([]int, len(places))
	for i := range indexes {
		indexes[i] = i
	}
	slices.SortFunc(indexes, func(a, b int) int { return cmp.Compare(places[a], places[b]) })
	return indexes
}

// order compares in which order the events were answered.
func (v *verdict) order() {
	want := v.expect.Order.IDs
	if want == nil {
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

// together compares how many turns were at work at the same time.
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
