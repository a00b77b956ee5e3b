package record

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/cassette"
	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// conversation is what was recorded of one conversation.
type conversation struct {
	steps []*step
	calls []cassette.Call // not scrubbed yet: names may be learned later
	turns map[string]*step
	heard map[string]bool // what turns were asked
	asked string          // the last turn that asked a model
	apart bool            // something happened that is not in any step
	full  bool            // nothing more is recorded
	dirty bool            // changed since it was last written
	left  []turn.State    // what the last step may have left, if turns of a log are written
	whole []wholeTurn     // not scrubbed yet
}

// wholeTurn is a turn with all that is known of it, as JSON.
type wholeTurn struct {
	id  string
	raw []byte
}

// clone is a snapshot of the conversation for the writer.
func (c *conversation) clone() *conversation {
	own := &conversation{calls: c.calls, full: c.full, whole: slices.Clone(c.whole)}
	for _, s := range c.steps {
		one := *s
		one.turns, one.answers, one.replies, one.sends = maps.Clone(s.turns), slices.Clone(s.answers), slices.Clone(s.replies), slices.Clone(s.sends)
		one.done = nil
		for _, d := range s.done {
			call := *d
			one.done = append(one.done, &call)
		}
		own.steps = append(own.steps, &one)
	}
	return own
}

// step is an activity that was accepted, and what the bot did for it.
type step struct {
	activity *activity.Activity
	decision *decision       // what it decides about an approval; nil: it decides nothing
	turns    map[string]bool // turns that work on it, and whether they ended
	answers  []answer        // not scrubbed yet, nor is anything else here
	done     []*done
	replies  []reply
	sends    []int          // how the channel answered its messages
	seed     jsontext.Value // lists before its plan; nil: none
	found    turn.State     // before its plan, if it is a turn of a log
	cannot   string         // why it can have no expectations, if that is known
	apart    bool           // something happened before it that is not in any step

	failed            bool   // some model calls failed
	tools             bool   // the newest answer calls tools
	answered, refused bool   // whether its request was answered; whether the answer said why the click does not count
	asker             string // whose call it decided; "": none
}

// done is a call of an action.
type done struct {
	Action
	unasked bool // not approved, although such calls need approval
}

func (d *done) gave(r actions.Result) {
	text := r.Text()
	if r.Failed() {
		d.Error = &text
		return
	}
	d.Error = nil
	if r.Unchanged() {
		d.Unchanged = &text
	} else if value, err := r.Value(); err == nil && value != "" {
		d.Result = value
	}
	d.Observe = turnlog.Observes(r)
}

// reply is a message of the bot. card is the action that the card asks to approve, and approval its
// name; for any other card it is anotherCard.
type reply struct{ text, card, approval string }

// asks reports whether the message asks for an approval.
func (r reply) asks() bool { return r.card != "" && r.card != anotherCard }

const anotherCard = "(another)" // a card that asks for no approval

var (
	// approvalIn finds the name of an approval in the buttons of its card.
	approvalIn = lazy.Regexp(`"approval":"([^"\\]+)"`)
	// inWords matches the text form of the card, for a channel without cards.
	inWords = lazy.Regexp(`(?s)^May I do this\? \*\*([^*]+)\*\*.*/approve ([^ *]+)`)
)

func replyOf(a *activity.Activity) reply {
	said := reply{text: a.Text}
	if m := inWords().FindStringSubmatch(a.Text); m != nil {
		said.card, said.approval = m[1], m[2]
	}
	action, asks := strings.CutPrefix(a.Summary, "Approval needed: ")
	switch {
	case len(a.Attachments) == 0:
	case asks:
		said.card = action
		if raw, err := a.Encode(); err == nil {
			if m := approvalIn().FindSubmatch(raw); m != nil {
				said.approval = string(m[1])
			}
		}
	default:
		said.card = anotherCard
	}
	return said
}

// ofTurn returns the step of a turn, which answers the activity with that id: the first such step
// without a turn. A turn that continues after a decision belongs to the click, as does the turn
// that takes the decision.
func (c *conversation) ofTurn(turn, id string) *step {
	known := c.turns[turn]
	if turn == "" || known != nil && (id == "" || known.activity.ID == id) {
		return known
	}
	var found *step
	for _, s := range c.steps {
		if s.activity.ID != id || id == "" && len(s.turns) > 0 { // such as a notice, which answers nothing
			continue
		}
		found = s
		if len(s.turns) == 0 {
			break // an edited message has the id of the original
		}
	}
	if found == nil {
		return known
	}
	found.turns[turn] = false
	c.turns[turn] = found
	return found
}

// isForeign reports whether the first prompt of a turn contains an earlier message that is not in
// the recording, because it came before the recording began or went to another process.
func (c *conversation) isForeign(turn string, req *models.Request) bool {
	var said []string
	for _, m := range req.Messages {
		if m.Role == "user" && !strings.HasPrefix(m.Text, models.DataMark) {
			said = append(said, m.Text)
		}
	}
	if turn == c.asked || len(said) == 0 {
		return false
	}
	c.asked = turn
	last := len(said) - 1
	c.heard[said[last]] = true
	return last > 0 && !c.heard[said[last-1]]
}

// planned replaces the newest answer by its plan if scenarios cannot express the answer: tool
// calls, and XML.
func (s *step) planned(p plan.Plan) {
	last := len(s.answers) - 1
	if last >= 0 && s.answers[last].Text != nil && (s.tools || strings.Contains(*s.answers[last].Text, "<plan")) {
		s.answers[last] = answer{Text: new(planText(p.Commands))}
	}
}

// planText is the plan as a model writes it.
func planText(commands []plan.Command) string {
	plain := slices.Clone(commands)
	for i := range plain {
		plain[i].CallID, plain[i].Result = "", ""
	}
	return plan.Plan{Commands: plain}.Transcript(0)
}

// failures is the model's error as the scripted model reproduces it, repeated as often as a retry
// may ask.
func failures(err error) []answer {
	fault, ok := errors.AsType[*models.Error](err)
	if !ok {
		fault = &models.Error{Kind: models.Unavailable}
	}
	f, times := answer{HTTP: max(fault.Status, http.StatusBadRequest), Code: fault.Code}, 1
	const tries = 4 // for transient failures
	switch fault.Kind {
	case models.Filtered:
		f = answer{HTTP: http.StatusBadRequest, Code: "content_filter"}
	case models.TooLong:
		f = answer{HTTP: http.StatusBadRequest, Code: "context_length_exceeded"}
	case models.Empty:
		f = answer{Text: new("")}
	case models.Quota:
		f = answer{HTTP: http.StatusTooManyRequests, Code: "insufficient_quota"}
	case models.Throttled:
		f.HTTP, times = cmp.Or(fault.Status, http.StatusTooManyRequests), tries
	case models.Timeout, models.Unavailable:
		f.HTTP, times = max(fault.Status, http.StatusServiceUnavailable), tries
	}
	return slices.Repeat([]answer{f}, times)
}

// Why a step has no expectations.
const (
	notOver   = "Its turn was not over when this was written, or another process did it: the outcome is unknown."
	otherCard = "It decides another card than the newest. A scenario cannot say which."
	byOthers  = "Somebody else than the person who asked decided it. A scenario cannot allow that."
	standing  = "A call in it had a standing approval. A scenario cannot say that."
	takenOut  = "The bot was removed. A scenario cannot say that."
	asked     = "An action asked the person for more, or this is the answer. A scenario cannot say that: test it with bottest and Card.Press."

	ofSettings = "What the bot said may come of these settings, which a scenario does not have: "
)

// pendingCard is a card that asks for an approval.
type pendingCard struct {
	approval string
	decided  bool
}

// verdict says why the step can have no expectations, given the bot's settings and the cards so
// far; "": it can have them.
func (s *step) verdict(settings []string, cards []pendingCard) string {
	if why := s.clickVerdict(cards); why != "" {
		return why
	}
	switch {
	case s.cannot != "":
		return s.cannot
	case left(s.activity):
		return takenOut
	case answersQuestion(s.activity):
		return asked
	case slices.ContainsFunc(s.done, func(d *done) bool { return d.unasked }):
		return standing
	case s.isOpen():
		return notOver
	case len(settings) > 0 && slices.ContainsFunc(s.replies, reply.isOfSettings):
		return ofSettings + strings.Join(settings, ", ")
	}
	return ""
}

// clickVerdict marks the card that the step decides, if any. A scenario always decides the newest
// undecided card or, if there is none, the newest.
func (s *step) clickVerdict(cards []pendingCard) string {
	if s.decision == nil {
		return ""
	}
	next := len(cards) - 1
	for i, c := range slices.Backward(cards) {
		if !c.decided {
			next = i
			break
		}
	}
	switch {
	case next < 0 || cards[next].approval != s.decision.approval:
		return otherCard
	case s.asker != "" && s.asker != s.activity.From.ID:
		return byOthers
	}
	cards[next].decided = cards[next].decided || s.asker != ""
	return ""
}

// isOfSettings reports whether the bot may have said this because of its settings.
func (r reply) isOfSettings() bool {
	return slices.Contains([]string{"not_allowed", "too_many_steps", "timeout", "already_done"}, placeholderOf(r.text))
}

// isOpen reports whether the bot may still be working on the step.
func (s *step) isOpen() bool {
	over := 0
	for _, ended := range s.turns {
		if !ended {
			return true
		}
		over++
	}
	if s.decision != nil && s.activity.Type == activity.Invoke && s.answered && !s.refused {
		return over < 2 // one took the decision, one continues after it
	}
	return over == 0 && s.isWork()
}

// isWork reports whether the activity starts a turn, whatever routes the bot has.
func (s *step) isWork() bool {
	a := s.activity
	if a.Type == activity.Message {
		unheard := a.ChannelID == activity.Teams && !a.Conversation.Personal() && !a.Addressed() && (a.Text != "" || len(a.Value) == 0)
		return !unheard && !a.FromBot()
	}
	return installed(a) || slices.ContainsFunc(a.MembersAdded, func(who activity.Account) bool { return isBot(a, who) })
}

func isBot(a *activity.Activity, who activity.Account) bool {
	return who.ID != "" && who.ID == a.Recipient.ID
}

func installed(a *activity.Activity) bool {
	return a.Type == activity.InstallationUpdate && strings.EqualFold(a.Action, "add")
}

// left reports whether the bot was removed from the conversation.
func left(a *activity.Activity) bool {
	return a.Type == activity.InstallationUpdate && strings.EqualFold(a.Action, "remove") ||
		slices.ContainsFunc(a.MembersRemoved, func(who activity.Account) bool { return isBot(a, who) })
}

const recordedBy = "Recorded by bot serve --record. What depends on the time or on chance has to be taken out of what is expected."

// scenarios turns the conversation into scenarios with stand-ins: one, or more if something in the
// middle cannot be played. They end when ctx ends. whole says that one scenario holds all of it,
// and that the bot's prompts contained nothing else.
func (r *Recorder) scenarios(ctx context.Context, name string, c *conversation) (all []Scenario, whole bool) {
	var part *Scenario
	var cards []pendingCard
	seeded, cannot := false, ""
	whole = true
	for i, s := range c.steps {
		if ctx.Err() != nil {
			break
		}
		if i == 0 || cannot != "" || s.apart { // what happened before it left unknown state behind
			all = append(all, Scenario{Name: name, Why: r.why(c)})
			part, cards, seeded, whole = &all[len(all)-1], nil, false, i == 0
			part.Options.MaxSteps, part.Options.MaxSameCalls, part.Options.Approval = r.cfg.MaxSteps, r.cfg.MaxSameCalls, r.cfg.Approval
			if i > 0 {
				part.Name = fmt.Sprintf("%s, part %d", name, len(all))
			}
		}
		if s.seed != nil && !seeded {
			seeded, part.Seed = true, r.seed(s.seed)
			r.seedOf(s.found, &part.Seed)
		}
		if cannot = s.verdict(r.cfg.Settings, cards); cannot == "" {
			for _, said := range s.replies {
				if said.asks() {
					cards = append(cards, pendingCard{approval: said.approval})
				}
			}
		}
		whole = whole && cannot == ""
		part.Steps = append(part.Steps, r.step(s, cannot))
	}
	return all, whole
}

func (r *Recorder) why(c *conversation) string {
	why := cmp.Or(r.by, recordedBy)
	if len(r.cfg.Same) > 0 {
		why += " Play it with these settings as they were: " + strings.Join(r.cfg.Same, ", ") + "."
	}
	if len(r.cfg.Settings) > 0 {
		why += " The bot had settings that a scenario does not have: " + strings.Join(r.cfg.Settings, ", ") + "."
	}
	if c.full {
		why += " What came after it is not recorded, since there is a limit."
	}
	return why
}

// step writes a step. If cannot is set, the step has no expectations: it records what is known, in
// a form that can still be played.
func (r *Recorder) step(s *step, cannot string) Step {
	out := Step{Event: eventOf(s.activity, r.scrub)}
	for _, a := range s.answers {
		if a.Text != nil {
			a.Text = new(r.scrub.Text(*a.Text))
		}
		a.Code = r.scrub.Text(a.Code)
		out.Model = append(out.Model, a)
	}
	if cannot != "" {
		if s.decision != nil && len(s.activity.Value) > 0 { // there may be no card
			out.Event.Value = valueOf(s.activity, r.scrub)
		}
		out.Model = append(out.Model, answer{Text: new(planText(saying([]string{unknown})))})
		out.Expect.Note = cannot
		return out
	}
	if !s.failed {
		out.Expect.ModelCalls = new(len(s.answers))
	}
	out.Expect.Actions = []Action{}
	for _, d := range s.done {
		a := d.Action
		if s.tellsTime(a.Said()) {
			a.Result, a.Unchanged = nil, nil
		}
		out.Expect.Actions = append(out.Expect.Actions, a.scrub(r.scrub))
	}
	r.replies(s, &out.Expect)
	out.Expect.Connector = sendings(s.sends)
	return out
}

// scrub returns the call with stand-ins.
func (a Action) scrub(s *scrub.Scrubber) Action {
	if a.Entities == nil {
		a.Entities = map[string]any{}
	}
	a.Entities = s.Value(a.Entities).(map[string]any)
	if a.Result != nil {
		a.Result = s.Value(a.Result)
	}
	for _, text := range []**string{&a.Error, &a.Unchanged} {
		if *text != nil {
			*text = new(s.Text(**text))
		}
	}
	return a
}

// sendings are the connector's answers, up to the last refusal.
func sendings(statuses []int) (all []sending) {
	for slices.ContainsFunc(statuses, func(status int) bool { return status >= http.StatusBadRequest }) {
		all = append(all, sending{HTTP: statuses[0]})
		statuses = statuses[1:]
	}
	return all
}

// replies names the bot's own texts by their kind.
func (r *Recorder) replies(s *step, e *Expect) {
	replies, odd := []string{}, false
	for _, said := range s.replies {
		text, own := r.scrub.Text(said.text), placeholderOf(said.text)
		word, _ := split(text)
		if r.cfg.FilteredText != "" && strings.HasPrefix(said.text, r.cfg.FilteredText) {
			own = "filtered"
		}
		switch {
		case said.card == anotherCard:
			text = "<card>"
		case said.card != "":
			text = "<approval_card " + said.card + ">"
		case own != "" && !s.said(said.text):
			text = "<" + own + ">"
		case s.tellsTime(said.text):
			e.Note = "What was said has a time in it, which is another one whenever this is played."
			return
		case word != "":
			odd = true
		}
		replies = append(replies, text)
	}
	if odd {
		e.JoinedReplyEquals = new(strings.Join(replies, ""))
		return
	}
	e.Replies = replies
}

// clock matches a time of day, as time-related actions report it.
var clock = lazy.Regexp(`\b\d{1,2}:\d\d\b`)

// tellsTime reports whether the text contains a time of day that neither the person nor a model
// wrote.
func (s *step) tellsTime(text string) bool {
	return slices.ContainsFunc(clock().FindAllString(text, -1), func(at string) bool {
		return !strings.Contains(s.activity.Text, at) && !s.said(at)
	})
}

// said reports whether a model wrote the text.
func (s *step) said(text string) bool {
	return slices.ContainsFunc(s.answers, func(a answer) bool {
		return a.Text != nil && (strings.Contains(*a.Text, text) || strings.Contains(*a.Text, plainjson.Text(text)))
	})
}

const listsName = "lists" // the name of [lists.Lists] in state

func listsOf(t *bot.Turn) jsontext.Value {
	if scope := t.Personal(); scope != nil && scope.Has(listsName) {
		if raw, err := scope.JSON(listsName); err == nil {
			return slices.Clone(raw)
		}
	}
	return jsontext.Value("{}")
}

// seed is the stored state, with stand-ins. It includes the order of lists, and what is marked as
// done, only if they matter.
func (r *Recorder) seed(raw jsontext.Value) (s seed) {
	var all lists.Lists
	_ = strict.Unmarshal(raw, &all) // otherwise there is nothing to read
	plain := map[string][]string{}
	done := false
	for i := range all.All {
		l := &all.All[i]
		l.Name = r.scrub.Text(l.Name)
		plain[l.Name] = []string{}
		for n := range l.Items {
			l.Items[n].Name = r.scrub.Text(l.Items[n].Name)
			done = done || l.Items[n].Done
			plain[l.Name] = append(plain[l.Name], l.Items[n].Name)
		}
	}
	switch {
	case len(plain) == 0:
		return seed{}
	case !done && slices.IsSortedFunc(all.All, func(a, b lists.List) int { return strings.Compare(a.Name, b.Name) }):
		return seed{Lists: plain}
	}
	return seed{Ordered: all.All}
}

// seedOf adds to a seed what a turn found beside lists, which have a form of their own.
func (r *Recorder) seedOf(found turn.State, s *seed) {
	values := func(scope string) map[string]any {
		var all map[string]any
		for name, raw := range found[scope] {
			if ownNames[name] || name == listsName {
				continue
			}
			if all == nil {
				all = map[string]any{}
			}
			all[name] = r.scrub.Value(jsonTree(raw))
		}
		return all
	}
	s.Conversation, s.User, s.Bot = values("conversation"), values("user"), values("bot")
}

const mentioned = "<at>ListBot</at>" // how scenarios mention the bot

func learn(a *activity.Activity, s *scrub.Scrubber) {
	if a.Recipient.ID != "" {
		s.Keep(a.Recipient.ID, botID)
	}
	people := append([]activity.Account{a.From}, a.MembersAdded...)
	for _, who := range a.Mentions() {
		people = append(people, who)
	}
	for _, who := range people {
		if who.ID != a.Recipient.ID {
			standIn := s.Name(who.ID, who.Name)
			was, is := state.UserKey(a.ChannelID, a.Recipient.ID, who.ID).String(), state.UserKey(activity.Teams, botID, "29:"+standIn).String()
			s.Keep(was, is) // a key has a part that is made from the id
			s.Keep(strings.ReplaceAll(was, who.ID, standIn), is)
		}
	}
	s.ID(scrub.Conversation, a.Conversation.BaseID())
	s.ID(scrub.Activity, a.ID)
	if tenant, ok := a.Tenant(); ok {
		s.ID(scrub.Tenant, tenant)
	}
}

const botID = "28:bot" // the bot's account in scenarios

// valueOf is the value of an activity with stand-ins. Addresses of files go whole: whoever has one needs
// nothing else, and no part of it looks like a secret.
func valueOf(a *activity.Activity, s *scrub.Scrubber) any {
	tree := jsonTree(a.Value)
	linked, isLink := "", false
	if of, ok := tree.(map[string]any); ok {
		linked, isLink = of["url"].(string)                                 // of the page that a message extension is to show
		if _, ok := of["state"].(string); ok && a.Type == activity.Invoke { // what a page of a sign-in or of settings hands back
			of["state"] = scrub.Secret
		}
	}
	tree = withoutAddresses("", tree)
	if isLink {
		page, _, _ := strings.Cut(linked, "?")
		tree.(map[string]any)["url"] = page
	}
	return s.Value(tree)
}

// withoutAddresses replaces the addresses in a tree: whole where the member says that it is one, else what is
// behind their paths. JSON in a text is a tree, too.
func withoutAddresses(name string, tree any) any {
	switch of := tree.(type) {
	case map[string]any:
		for member, value := range of {
			of[member] = withoutAddresses(member, value)
		}
	case []any:
		for i := range of {
			of[i] = withoutAddresses(name, of[i])
		}
	case string:
		return withoutAddress(name, of)
	}
	return tree
}

func withoutAddress(name, text string) string {
	name = strings.TrimSuffix(strings.ToLower(name), "s")
	isAddress := func(suffix string) bool { return strings.HasSuffix(name, suffix) }
	if text != "" && slices.ContainsFunc([]string{"url", "uri", "href", "link"}, isAddress) {
		return scrub.Secret
	}
	var inner any
	if strings.HasPrefix(strings.TrimSpace(text), "{") && json.Unmarshal([]byte(text), &inner) == nil {
		if raw, err := json.Marshal(withoutAddresses("", inner)); err == nil {
			return string(raw)
		}
	}
	page, query, found := strings.Cut(text, "?")
	if found && query != "" && strings.Contains(page, "://") && !strings.ContainsAny(text, " \n") {
		return page + "?" + scrub.Secret
	}
	return text
}

// eventOf is the activity as a scenario has it, with stand-ins for people and places. It leaves out
// what a bot does not read.
func eventOf(a *activity.Activity, s *scrub.Scrubber) *Event {
	e := &Event{
		Type: string(a.Type), Name: s.Text(a.Name), Conversation: placeOf(a, s), Kind: conversationKind(a),
		From: s.ID(scrub.Person, a.From.ID),
	}
	text, entities := saidText(a, s)
	if a.Text != "" {
		e.Text = &text
	}
	e.Entities = entities
	if !strings.HasPrefix(a.Locale, "en") {
		e.Locale = s.Text(a.Locale)
	}
	if d := decisionIn(a); d != nil {
		e.Value, e.Text, e.Name = map[string]any{"approve": d.approve}, nil, ""
	} else if len(a.Value) > 0 {
		e.Value = valueOf(a, s)
	}
	var data struct {
		EventType string `json:"eventType"`
	}
	if json.Unmarshal(a.ChannelData, &data) == nil && data.EventType != "" {
		e.ChannelData = map[string]any{"eventType": data.EventType}
	}
	for _, who := range a.MembersAdded {
		id := botID
		if who.ID != a.Recipient.ID {
			id = "29:" + s.ID(scrub.Person, who.ID)
		}
		e.MembersAdded = append(e.MembersAdded, map[string]any{"id": id})
	}
	if installed(a) { // the scenario's form of the same event
		e.Type, e.MembersAdded = string(activity.ConversationUpdate), []map[string]any{{"id": botID}}
	}
	for _, at := range a.Attachments {
		if !strings.HasPrefix(at.ContentType, "text/html") { // an HTML copy of the text
			e.Attachments = append(e.Attachments, map[string]any{"contentType": at.ContentType})
		}
	}
	return e
}

// placeOf is the stand-in for the conversation, with a thread if it has one.
func placeOf(a *activity.Activity, s *scrub.Scrubber) string {
	base, thread, inThread := strings.Cut(a.Conversation.ID, ";messageid=")
	place := s.ID(scrub.Conversation, base)
	if inThread {
		place += ";messageid=" + s.ID(scrub.Activity, thread)
	}
	return place
}

func conversationKind(a *activity.Activity) string {
	switch {
	case a.Conversation.Personal():
		return "" // the default
	case a.Conversation.ConversationType == "channel":
		return "channel"
	}
	return "groupChat"
}

// saidText is the message text, with the bot's mention as scenarios write it, and the mentions if
// there are others.
func saidText(a *activity.Activity, s *scrub.Scrubber) (text string, entities []map[string]any) {
	text = a.Text
	others := false
	var all []map[string]any
	for written, who := range a.Mentions() {
		standIn, id, name := mentioned, botID, "ListBot"
		if who.ID != a.Recipient.ID {
			name = s.ID(scrub.Person, who.ID)
			standIn, id, others = "<at>"+name+"</at>", "29:"+name, true
		}
		if written != "" {
			text = strings.ReplaceAll(text, written, standIn)
		}
		all = append(all, map[string]any{"type": "mention", "text": standIn, "mentioned": map[string]any{"id": id, "name": name}})
	}
	if !others {
		all = nil // the runner adds the bot's mention
	}
	if a.Type == activity.Message && a.ChannelID != activity.Teams && !a.Conversation.Personal() && !a.Addressed() {
		text = mentioned + " " + text // scenarios play in Teams, which otherwise would not deliver it to the bot
	}
	return s.Text(text), all
}

// decision is what a person decides about an approval.
type decision struct {
	approve  bool
	approval string // its name; "" if not given
}

// answersQuestion reports whether a click answers what an action has asked.
func answersQuestion(a *activity.Activity) bool {
	var value struct{ Action struct{ Verb string } }
	_ = json.Unmarshal(a.Value, &value) // any other value is not a click
	return value.Action.Verb == "planbot/answer" || value.Action.Verb == "planbot/decline"
}

// decisionIn reads a click on a card that asks for an approval, or its text form; nil if it is
// neither.
func decisionIn(a *activity.Activity) *decision {
	if words := strings.Fields(a.Said()); a.Type == activity.Message && len(words) > 1 && len(words) < 4 {
		approves := strings.EqualFold(words[0], "/approve")
		if approves || strings.EqualFold(words[0], "/reject") {
			return &decision{approves, words[1]}
		}
	}
	type click struct {
		Verb     string `json:"verb"`
		Approval string `json:"approval"`
	}
	var value struct {
		click
		Action struct {
			Verb string `json:"verb"`
			Data click  `json:"data"`
		} `json:"action"`
	}
	_ = json.Unmarshal(a.Value, &value) // any other value is not a click
	d := &decision{approval: value.Approval + value.Action.Data.Approval}
	switch value.Verb + value.Action.Verb {
	case "planbot/approve", "planbot/approve-always":
		d.approve = true
		return d
	case "planbot/reject":
		return d
	}
	return nil
}

// jsonTree parses JSON into maps, lists and texts.
func jsonTree(raw []byte) any {
	tree, _ := treeOf(raw, ".json") // it arrived as JSON
	return tree
}

// savedBy begins what a scenario says about itself.
const savedBy = "Saved from the page of the bot. What depends on the time or on chance has to be taken out of what is expected."

// FromTurns writes turns of one conversation, as a log has seen them, as the text of a file with scenarios
// that [Read] reads: with what the model said, and with the state that they found. Dir of cfg is not used.
// open says, for people, which steps expect nothing, and why. The error says for people why there is no
// such file; it wraps no other.
func FromTurns(ctx context.Context, cfg Config, name string, turns []turnlog.Record) (file []byte, open []string, err error) {
	r := &Recorder{cfg: cfg, scrub: scrub.New(cfg.Secrets...), by: savedBy}
	c := &conversation{}
	var all []parts
	for _, rec := range slices.SortedFunc(slices.Values(turns), func(a, b turnlog.Record) int { return a.At.Compare(b.At) }) {
		if rec.Outcome == turnlog.Duplicate {
			continue
		}
		s, err := c.add(rec, all)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, parts{rec: rec, step: s})
	}
	for i, p := range all {
		for _, later := range all[i+1:] {
			if later.rec.Parent == p.rec.ID && later.rec.Refused == "" {
				p.clicks = append(p.clicks, later)
			}
		}
		p.rounds()
		p.commands()
		p.sent()
	}
	if len(c.steps) == 0 {
		return nil, nil, errors.New("no turn was chosen")
	}
	for _, s := range c.steps {
		learn(s.activity, r.scrub)
	}
	var list []Scenario
	for version := -1; version != r.scrub.Version(); { // what is learned at the end counts for the beginning, too
		version = r.scrub.Version()
		list, _ = r.scenarios(ctx, name, c)
	}
	n := 0
	for i := range list {
		for _, s := range list[i].Steps {
			if n++; s.Expect.Note != "" {
				open = append(open, fmt.Sprintf("step %d: %s", n, s.Expect.Note))
			}
		}
	}
	raw, err := Write(list)
	if err != nil {
		return nil, nil, errors.New("it cannot be written as YAML")
	}
	if _, err := Read(name+".yaml", raw); err != nil {
		return nil, nil, fmt.Errorf("it could not be played: %s", err.Error())
	}
	return append([]byte(head), raw...), open, nil
}

// isCut reports whether a log has left out a text because it is too large.
func isCut(text string) bool { return strings.HasPrefix(strings.Trim(text, `"`), "[left out: ") }

// add adds the step of a turn, without what the bot did in it. before are the turns before it.
func (c *conversation) add(rec turnlog.Record, before []parts) (*step, error) {
	a, err := activity.Decode(rec.Received.Activity)
	switch {
	case len(rec.Received.Activity) == 0:
		return nil, fmt.Errorf("turn %s answers no message: the bot began it by itself", rec.ID)
	case err != nil:
		return nil, fmt.Errorf("what came in turn %s is too large to be kept", rec.ID)
	case len(c.steps) > 0 && c.steps[0].activity.Conversation.BaseID() != a.Conversation.BaseID():
		return nil, errors.New("the turns are of different conversations")
	}
	s := &step{activity: a, decision: decisionIn(a), turns: map[string]bool{rec.ID: rec.Outcome != turnlog.Running}, found: rec.Before, seed: listsIn(a, rec.Before)}
	if rec.Outcome == turnlog.Ignored {
		s.turns = map[string]bool{}
	}
	if slices.ContainsFunc(rec.Journal, func(j turnlog.Save) bool { return j.For == "answer" }) {
		s.cannot = asked
	}
	if rec.Incomplete {
		s.cannot = "Some of its turn was not seen."
	}
	if a.Type == activity.Message && len(a.Attachments) > 0 && strings.TrimSpace(a.Said()) == "" && len(a.Value) == 0 {
		s.cannot = "It came with an attachment and no text. A scenario has no attachments that a model is shown."
	}
	for scope, values := range rec.Before {
		for name, raw := range values {
			if !ownNames[name] && isCut(string(raw)) {
				return nil, fmt.Errorf("the value %s.%s before turn %s is too large to be kept", scope, name, rec.ID)
			}
			if scope == "thread" && !ownNames[name] {
				s.cannot = "It found a value in the state of its thread. A scenario cannot say that."
			}
		}
	}
	asker := slices.IndexFunc(before, func(p parts) bool { return p.rec.ID == rec.Parent })
	left := func(one turn.State) bool { return same(one, rec.Before) }
	s.apart = len(c.steps) > 0 && rec.Before != nil && asker < 0 && !slices.ContainsFunc(c.left, left)
	if c.left = []turn.State{rec.After}; asker >= 0 {
		c.left = append(c.left, before[asker].rec.After)
	} else if slices.ContainsFunc(rec.Journal, func(j turnlog.Save) bool { return j.Phase == "waiting" }) {
		c.left = append(c.left, rec.Before) // what comes next may come before what it did after its wait
	}
	var answer turn.Answer
	if len(rec.Received.Answer) > 0 && json.Unmarshal(rec.Received.Answer, &answer) == nil {
		body := []byte(answer.Body)
		if len(body) == 0 {
			body, _ = json.Marshal(map[string]any{"activities": answer.Activities}) // it was JSON
		}
		said := saidIn(a, body)
		s.answered, s.refused, s.replies = true, len(said) > 0, said
	}
	c.steps = append(c.steps, s)
	return s, nil
}

// ownNames are values that the bot keeps for itself. A scenario does not have them.
var ownNames = map[string]bool{"history": true, "reference": true, "home": true, "approvals": true, "sentnotices": true, "targetedcards": true}

// same reports whether the conversation was as it had been left, apart from the bot's own values.
func same(left, found turn.State) bool {
	for _, scope := range []string{"conversation", "thread", "user", "bot"} {
		if (scope == "bot" || scope == "thread") && (left[scope] == nil || found[scope] == nil) {
			continue // it was not looked at
		}
		for _, values := range []map[string]jsontext.Value{left[scope], found[scope]} {
			for name := range values {
				if !ownNames[name] && !bytes.Equal(left[scope][name], found[scope][name]) {
					return false
				}
			}
		}
	}
	return true
}

// parts are a turn and its step.
type parts struct {
	rec    turnlog.Record
	step   *step
	clicks []parts // turns of clicks on its cards, oldest first
}

// at returns the step in which the turn did something at that time: that of its activity or, once it has
// waited, that of the newest click. It is nil if what ended the wait is not among the steps.
func (p parts) at(t time.Time) *step {
	s, from := p.step, p.rec.At
	for _, click := range p.clicks {
		if !t.Before(click.rec.At) {
			s, from = click.step, click.rec.At
		}
	}
	over := p.rec.Outcome != turnlog.Running
	if slices.ContainsFunc(p.rec.Journal, func(j turnlog.Save) bool { return j.Phase == "waiting" && !j.At.Before(from) && j.At.Before(t) }) {
		s, over = nil, true
	}
	if s != nil && s != p.step {
		s.asker, s.turns[p.rec.ID] = p.step.activity.From.ID, over
	}
	return s
}

func (p parts) rounds() {
	for _, r := range p.rec.Rounds {
		s := p.at(r.At)
		switch {
		case s == nil:
		case r.Answer == nil:
			s.cannot = "The model has not answered yet."
		case r.Answer.Error != "":
			if r.Answer.Kind == "" {
				s.cannot = "A call of the model failed. How is not known in the form that a scenario needs."
			}
			fault := &models.Error{Kind: cmp.Or(r.Answer.Kind, models.Unavailable), Status: r.Answer.Status, Code: r.Answer.Code}
			s.answers, s.failed = append(s.answers, failures(fault)...), true
		case isCut(r.Answer.Text):
			s.cannot = "An answer of the model is too large to be kept."
		case r.Plan != nil && (len(r.Answer.Calls) > 0 || strings.Contains(r.Answer.Text, "<plan")):
			var commands []plan.Command
			for _, c := range r.Plan.Commands {
				one := plan.Command{Kind: c.Kind, Action: c.Action, SaveAs: c.SaveAs, Response: c.Response}
				if c.Kind == plan.Do {
					one.Entities, _ = jsonTree([]byte(c.Entities)).(map[string]any)
				}
				commands = append(commands, one)
			}
			s.answers = append(s.answers, answer{Text: new(planText(commands))})
		default:
			s.answers = append(s.answers, answer{Text: new(r.Answer.Text)})
		}
	}
}

func (p parts) commands() {
	for _, c := range p.rec.Commands {
		s := p.at(c.At)
		if s == nil || c.Result == turnlog.Lost {
			continue
		}
		d := &done{Action: Action{Action: c.Action, Observe: c.Observe}}
		d.Entities, _ = jsonTree([]byte(c.Resolved)).(map[string]any)
		switch {
		case isCut(c.Resolved), isCut(c.Text), isCut(c.Data):
			s.cannot = "A call of " + c.Action + " is too large to be kept."
		case c.Error != "":
			d.Error = new("")
		case c.Result == "failed":
			d.Error = new(c.Text)
		case c.Result == "unchanged":
			d.Unchanged = new(c.Text)
		case c.Data != "":
			d.Result = jsonTree([]byte(c.Data))
		case c.Text != "":
			d.Result = c.Text
		}
		d.unasked = c.Approved && s.asker == ""
		s.done = append(s.done, d)
	}
}

func (p parts) sent() {
	for _, sent := range p.rec.Sent {
		if sent.Kind != "send" && sent.Kind != "reply" || sent.Activity == nil {
			continue
		}
		s := p.at(sent.At)
		if s == nil {
			continue
		}
		m, err := activity.Decode(sent.Activity)
		if err != nil {
			s.cannot = "A message of the bot is too large to be kept."
			continue
		}
		if m.Type != activity.Message || slices.Contains(notFinal, sent.Status) {
			continue
		}
		s.sends = append(s.sends, sent.Status)
		if sent.Error == "" {
			said := replyOf(m)
			s.replies = append(s.replies, said)
			s.turns[p.rec.ID] = s.turns[p.rec.ID] || said.asks() // a waiting turn is over for this step
		}
	}
}

func listsIn(a *activity.Activity, found turn.State) jsontext.Value {
	scope := "conversation"
	if a.Conversation.Personal() {
		scope = "user"
	}
	if raw := found[scope][listsName]; len(raw) > 0 {
		return raw
	}
	return jsontext.Value("{}")
}
