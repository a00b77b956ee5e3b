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
	"regexp"
	"slices"
	"strings"

	strict "github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// conversation is what was seen of one.
type conversation struct {
	steps []*step
	calls []Call // not scrubbed yet: who is who may be learned later
	turns map[string]*step
	heard map[string][]string // what turns were asked last, by the conversation with its thread
	bytes int
	dirty bool
	apart bool   // something happened that is in no step
	asked string // the turn that asked a model last

	full, tooLong bool // nothing more is kept; that this is for its own length

	scrubbed *scrubbedCalls
}

// clone is the conversation as it is now.
func (c *conversation) clone() *conversation {
	own := &conversation{calls: c.calls, full: c.full, tooLong: c.tooLong, scrubbed: c.scrubbed}
	for _, s := range c.steps {
		own.steps = append(own.steps, s.clone())
	}
	return own
}

// step is an activity that was taken, and what the bot did for it.
type step struct {
	activity *activity.Activity
	decision *decision       // what it says to an approval; nil: it says nothing to one
	turns    map[string]bool // those that work on it: whether they are over
	answers  []answer
	done     []*done
	replies  []reply
	sends    []int        // how the channel answered its messages
	seed     []lists.List // before its plan; nil: it does not matter
	apart    bool         // something happened before it that is in no step

	answered, refused bool   // the request that brought it; that it said why the click does not count
	asker             string // whose call was decided with it; "": none was
}

func newStep(a *activity.Activity) *step {
	s := &step{activity: a, turns: map[string]bool{}}
	if d, ok := decisionIn(a); ok {
		s.decision = &d
	}
	return s
}

func (s *step) clone() *step {
	own := *s
	own.turns, own.answers, own.replies, own.sends, own.done = maps.Clone(s.turns), slices.Clone(s.answers), slices.Clone(s.replies), slices.Clone(s.sends), nil
	for _, d := range s.done {
		call := *d
		own.done = append(own.done, &call)
	}
	return &own
}

// answer is what came of one call of a model.
type answer struct {
	text  string
	tools []models.Call
	fault *models.Error
}

// done is a call of an action.
type done struct {
	turn, action string
	entities     map[string]any
	result       actions.Result
	ended        bool
	unasked      bool // although a person has to approve such calls
}

// reply is a message of the bot. A card is the action that it asks the approval of, with
// the name of that, or another.
type reply struct{ text, card, approval string }

// asks reports whether the message asks for an approval.
func (r reply) asks() bool { return r.card != "" && r.card != anotherCard }

// anotherCard is a card that scenarios have no word for.
const anotherCard = "(another)"

var (
	// approvalIn is the name of an approval in the buttons of its card.
	approvalIn = regexp.MustCompile(`"approval":"([^"\\]+)"`)
	// inWords is the card for a channel that draws none.
	inWords = regexp.MustCompile(`(?s)^May I do this\? \*\*([^*]+)\*\*.*/approve ([^ *]+)`)
)

func replyOf(a *activity.Activity) reply {
	said := reply{text: a.Text}
	if m := inWords.FindStringSubmatch(a.Text); m != nil {
		said.card, said.approval = m[1], m[2]
	}
	action, asks := strings.CutPrefix(a.Summary, "Approval needed: ")
	switch {
	case len(a.Attachments) == 0:
	case asks:
		said.card = action
		if raw, err := a.Encode(); err == nil {
			if m := approvalIn.FindSubmatch(raw); m != nil {
				said.approval = string(m[1])
			}
		}
	default:
		said.card = anotherCard
	}
	return said
}

// ofTurn is the step that a turn belongs to, which answers the activity with that id: the
// first such that no turn works on. A turn that follows a decision belongs to the click as
// the one that takes it does.
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
			break // an edited message has the id of the one before it
		}
	}
	if found == nil {
		return known
	}
	found.turns[turn] = false
	c.turns[turn] = found
	return found
}

// isForeign reports whether the first prompt of a turn has somebody say before it what is not
// in the recording: before that began, or to another process.
func (c *conversation) isForeign(of Of, req *models.Request) bool {
	const most = 8 // of which the bot remembers five
	if of.Turn == c.asked {
		return false
	}
	c.asked = of.Turn
	var said []string
	for _, m := range req.Messages {
		if m.Role == "user" {
			said = append(said, m.Text)
		}
	}
	if len(said) == 0 {
		return false
	}
	heard := c.heard[of.Conversation]
	before, now := said[:len(said)-1], said[len(said)-1]
	c.heard[of.Conversation] = append(heard[max(0, len(heard)+1-most):], now)
	return len(before) > 0 && !slices.Contains(heard, before[len(before)-1])
}

// planned replaces the newest answer by its plan, where scenarios have no such answer: calls
// of tools, and XML.
func (s *step) planned(plan plan.Plan) {
	last := len(s.answers) - 1
	if last < 0 || len(s.answers[last].tools) == 0 && !strings.Contains(s.answers[last].text, "<plan") {
		return
	}
	s.answers[last] = answer{text: planText(plan.Commands)}
}

// planText is the plan as a model writes it.
func planText(commands []plan.Command) string {
	plain := slices.Clone(commands)
	for i := range plain {
		plain[i].CallID, plain[i].Result = "", ""
	}
	return plan.Transcript(plain)
}

// errorOf is a fault of a model as one.
func errorOf(err error) *models.Error {
	if fault, ok := errors.AsType[*models.Error](err); ok {
		return fault
	}
	return &models.Error{Kind: models.Unavailable}
}

// Why nothing is expected of a step.
const (
	notOver    = "Its turn was not over when this was written, or another process did it: what comes of it is not known."
	otherCard  = "It decides an older card than the newest, and which one a scenario cannot say."
	noCard     = "It decides a card of before this scenario."
	byOthers   = "Somebody else decided it than who asked, whom the settings of the bot let: a scenario has no such settings."
	standing   = "A call in it had been approved for good, which a scenario cannot say."
	takenOut   = "The bot was taken out, which a scenario cannot say."
	ofSettings = "What the bot said may come of these settings, which a scenario does not have: "
)

// pendingCard is a card that asks for an approval.
type pendingCard struct {
	approval string
	decided  bool
}

// verdicts say why nothing can be expected of the steps; "": it can.
func (c *conversation) verdicts(cfg *Config) []string {
	out := make([]string, len(c.steps))
	var cards []pendingCard
	for i, s := range c.steps {
		if c.begins(i, out) {
			cards = nil
		}
		if out[i] = s.verdict(cfg, cards); out[i] != "" {
			continue
		}
		for _, r := range s.replies {
			if r.asks() {
				cards = append(cards, pendingCard{approval: r.approval})
			}
		}
	}
	return out
}

// begins reports whether a scenario begins with that step: with the first one, and where
// nobody knows what was left by what happened before it.
func (c *conversation) begins(i int, verdicts []string) bool {
	return i == 0 || verdicts[i-1] != "" || c.steps[i].apart
}

// verdict is that of one step, where these cards are there to be decided.
func (s *step) verdict(cfg *Config, cards []pendingCard) string {
	if why := s.clickVerdict(cards); why != "" {
		return why
	}
	if left(s.activity) {
		return takenOut
	}
	if slices.ContainsFunc(s.done, func(d *done) bool { return d.unasked }) {
		return standing
	}
	if s.isOpen() {
		return notOver
	}
	return s.settingsVerdict(cfg)
}

// clickVerdict marks the card that the step decides, if it does: the newest that is not
// decided, or else the newest, is the one that a scenario decides.
func (s *step) clickVerdict(cards []pendingCard) string {
	if s.decision == nil {
		return ""
	}
	at := slices.IndexFunc(cards, func(c pendingCard) bool { return c.approval == s.decision.approval })
	if at < 0 {
		return noCard
	}
	next := len(cards) - 1
	for i, c := range slices.Backward(cards) {
		if !c.decided {
			next = i
			break
		}
	}
	switch {
	case next != at:
		return otherCard
	case s.asker != "" && s.asker != s.activity.From.ID:
		return byOthers
	}
	cards[at].decided = cards[at].decided || s.asker != ""
	return ""
}

// settingsVerdict looks for what the bot says because of settings.
func (s *step) settingsVerdict(cfg *Config) string {
	if len(cfg.Settings) == 0 {
		return ""
	}
	for _, r := range s.replies {
		switch placeholder(r.text) {
		case "<not_allowed>", "<too_many_steps>", "<timeout>", "<already_done>":
			return ofSettings + strings.Join(cfg.Settings, ", ")
		}
	}
	return ""
}

// isOpen reports whether the bot may not have done all that it does for the step.
func (s *step) isOpen() bool {
	over := 0
	for _, ended := range s.turns {
		if !ended {
			return true
		}
		over++
	}
	if s.decision != nil && s.activity.Type == activity.Invoke && s.answered && !s.refused {
		return over < 2 // one took the decision, one goes on with it
	}
	return over == 0 && s.isWork()
}

// isWork reports whether a turn comes of the activity, whatever routes the bot has.
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

// left reports whether the bot was taken out of the conversation.
func left(a *activity.Activity) bool {
	return a.Type == activity.InstallationUpdate && strings.EqualFold(a.Action, "remove") ||
		slices.ContainsFunc(a.MembersRemoved, func(who activity.Account) bool { return isBot(a, who) })
}

const recordedBy = "Recorded by bot serve --record. What depends on the time or on chance has to be taken out of what is expected."

// writer makes scenarios of conversations.
type writer struct {
	cfg   *Config
	scrub *scrub.Scrubber
	added bool // the scenarios have, or lack, what the bot's prompts did not
}

// scenarios are the conversation with stand-ins: one, or more where something in the middle
// cannot be played. They end where ctx does.
func (w *writer) scenarios(ctx context.Context, name string, c *conversation) (all []Scenario) {
	var part *Scenario
	verdicts := c.verdicts(w.cfg)
	for i, s := range c.steps {
		if ctx.Err() != nil {
			break
		}
		w.added = w.added || i > 0 && c.begins(i, verdicts) || verdicts[i] != ""
		if c.begins(i, verdicts) {
			all = append(all, Scenario{Name: name, Why: w.why(c), Options: w.cfg.Options})
			part = &all[len(all)-1]
			if len(all) > 1 {
				part.Name = fmt.Sprintf("%s, part %d", name, len(all))
			}
			w.seed(part, c.steps[i:])
		}
		part.Steps = append(part.Steps, w.step(s, verdicts[i]))
	}
	return all
}

func (w *writer) why(c *conversation) string {
	why := recordedBy
	if len(w.cfg.Same) > 0 {
		why += " Play it with these settings as they were: " + strings.Join(w.cfg.Same, ", ") + "."
	}
	if len(w.cfg.Settings) > 0 {
		why += " The bot had settings that a scenario does not have: " + strings.Join(w.cfg.Settings, ", ") + "."
	}
	if c.full {
		why += " What came after it is not recorded, since there is a limit to each conversation."
	}
	return why
}

// step is one, of which nothing is expected if it cannot be: then it is written down as far
// as it is known, in a form that can be played all the same.
func (w *writer) step(s *step, cannot string) Step {
	var out Step
	out.Event = eventOf(s.activity, w.scrub)
	faults := false
	for _, a := range s.answers {
		out.Model = append(out.Model, w.answers(&a)...)
		faults = faults || a.fault != nil
	}
	if cannot != "" {
		if s.decision != nil && len(s.activity.Value) > 0 { // there may be no card
			out.Event.Value = w.scrub.Value(jsonTree(s.activity.Value))
		}
		text := w.scrub.Text(planText(saying([]string{unknown})))
		out.Model = append(out.Model, Answer{Text: &text})
		out.Expect.Note = cannot
		return out
	}
	if n := len(s.answers); !faults {
		out.Expect.ModelCalls = &n
	}
	out.Expect.Actions = []Action{}
	for _, d := range s.done {
		a := w.action(d)
		if s.tellsTime(d.result.Text()) {
			a.Result = nil
		}
		out.Expect.Actions = append(out.Expect.Actions, a)
	}
	w.replies(s, &out.Expect)
	out.Expect.Connector = sendings(s.sends)
	return out
}

// sendings are how the connector answers, up to the last refusal.
func sendings(statuses []int) (all []Sending) {
	refused := func(status int) bool { return status >= http.StatusBadRequest }
	for slices.ContainsFunc(statuses, refused) {
		all = append(all, Sending{HTTP: statuses[0]})
		statuses = statuses[1:]
	}
	return all
}

// replies names the bot's own texts by their kind.
func (w *writer) replies(s *step, e *Expect) {
	replies, odd := []string{}, false
	for _, r := range s.replies {
		text := w.scrub.Text(r.text)
		switch own := w.placeholder(r.text); {
		case r.card == anotherCard:
			e.Note = "A card was sent, which replies cannot name."
			return
		case r.card != "":
			text = "<approval_card " + r.card + ">"
		case own != "" && !s.said(r.text):
			text = own
		case s.tellsTime(r.text):
			e.Note = "What was said has a time in it, which is another one whenever this is played."
			return
		case wordOf(text) != "":
			odd = true
		}
		replies = append(replies, text)
	}
	if odd {
		joined := strings.Join(replies, "")
		e.JoinedReplyEquals = &joined
		return
	}
	e.Replies = replies
}

// placeholder is that of a text of the bot's own, "" of any other.
func (w *writer) placeholder(text string) string {
	if own := w.cfg.FilteredText; own != "" && strings.HasPrefix(text, own) {
		return "<filtered>"
	}
	return placeholder(text)
}

// clock is a time of day, as in what an action says that deals with time.
var clock = regexp.MustCompile(`\b\d{1,2}:\d\d\b`)

// tellsTime reports whether there is a time of day in the text that neither the person nor
// a model wrote.
func (s *step) tellsTime(text string) bool {
	return slices.ContainsFunc(clock.FindAllString(text, -1), func(at string) bool {
		return !strings.Contains(s.activity.Text, at) && !s.said(at)
	})
}

// said reports whether a model wrote the text.
func (s *step) said(text string) bool {
	quoted, err := json.Marshal(text)
	return slices.ContainsFunc(s.answers, func(a answer) bool {
		return strings.Contains(a.text, text) || err == nil && strings.Contains(a.text, string(quoted))
	})
}

// answers are the answer as the scripted model gives it. One that was tried for again comes
// as often as it may be asked for.
func (w *writer) answers(a *answer) []Answer {
	if a.fault == nil {
		text := w.scrub.Text(a.text)
		return []Answer{{Text: &text}}
	}
	f := Answer{HTTP: a.fault.Status, Code: w.scrub.Text(a.fault.Code)}
	switch a.fault.Kind {
	case models.FilteredInput, models.FilteredOutput:
		return []Answer{{HTTP: http.StatusBadRequest, Code: "content_filter"}}
	case models.TooLong:
		return []Answer{{HTTP: http.StatusBadRequest, Code: "context_length_exceeded"}}
	case models.Empty:
		return []Answer{{Text: new(string)}}
	case models.Throttled:
		f.HTTP = cmp.Or(f.HTTP, http.StatusTooManyRequests)
	case models.Timeout, models.Unavailable:
		f.HTTP = max(f.HTTP, http.StatusServiceUnavailable)
	default:
		f.HTTP = max(f.HTTP, http.StatusBadRequest)
		return []Answer{f}
	}
	return slices.Repeat([]Answer{f}, 1+3)
}

func (w *writer) action(d *done) Action {
	entities := d.entities
	if entities == nil {
		entities = map[string]any{}
	}
	a := Action{Action: d.action, Entities: w.scrub.Value(entities).(map[string]any)}
	if !d.ended || d.result.Failed() {
		why := ""
		if d.ended {
			why = w.scrub.Text(d.result.Text())
		}
		a.Error = &why
		return a
	}
	if d.result.Unchanged() {
		text := w.scrub.Text(d.result.Text())
		a.Unchanged = &text
		return a
	}
	value, err := d.result.Value()
	if err == nil && value != nil && value != "" {
		a.Result = w.scrub.Value(value)
	}
	return a
}

// listsOf are the lists that the turn finds.
func listsOf(t *bot.Turn) []lists.List {
	scope := t.Personal()
	const name = "lists" // of lists.Lists in state
	if scope == nil || !scope.Has(name) {
		return []lists.List{}
	}
	var all lists.Lists
	if raw, err := scope.JSON(name); err != nil || strict.Unmarshal(raw, &all) != nil || all.All == nil {
		return []lists.List{}
	}
	return all.All
}

// needsSeed reports whether what is kept before the step's plan has to be known: it has the
// first plan of a scenario.
func (c *conversation) needsSeed(s *step, cfg *Config) bool {
	i := slices.Index(c.steps, s)
	if i < 0 || s.seed != nil {
		return false
	}
	before := conversation{steps: c.steps[:i+1]}
	verdicts := before.verdicts(cfg)
	for ; !before.begins(i, verdicts); i-- {
		if before.steps[i-1].seed != nil {
			return false
		}
	}
	return true
}

// seed puts into the scenario what was kept before the first plan of these steps. A scenario
// keeps neither the order of lists nor what is marked as done: where these matter, a first
// step makes the lists.
func (w *writer) seed(part *Scenario, steps []*step) {
	i := slices.IndexFunc(steps, func(s *step) bool { return s.seed != nil })
	if i < 0 || len(steps[i].seed) == 0 {
		return
	}
	seed := w.lists(steps[i].seed)
	if !isPlain(seed) && w.mayMake() {
		w.added = true
		for commands := range slices.Chunk(making(seed), atOnce) {
			part.Steps = append(part.Steps, w.makingStep(steps[i], commands))
		}
		return
	}
	part.Seed.Lists = map[string][]string{}
	for _, l := range seed {
		items := []string{}
		for _, item := range l.Items {
			items = append(items, item.Name)
		}
		part.Seed.Lists[l.Name] = items
	}
	if !isPlain(seed) {
		part.Why += " The lists were in another order before, or some of their items were done."
	}
}

// lists are the lists with stand-ins.
func (w *writer) lists(all []lists.List) (out []lists.List) {
	for _, l := range all {
		own := lists.List{Name: w.scrub.Text(l.Name)}
		for _, i := range l.Items {
			own.Items = append(own.Items, lists.Item{Name: w.scrub.Text(i.Name), Done: i.Done})
		}
		out = append(out, own)
	}
	return out
}

// isPlain reports whether a seed says all of the lists.
func isPlain(all []lists.List) bool {
	sorted := slices.IsSortedFunc(all, func(a, b lists.List) int { return strings.Compare(a.Name, b.Name) })
	return sorted && !slices.ContainsFunc(all, func(l lists.List) bool {
		return slices.ContainsFunc(l.Items, func(i lists.Item) bool { return i.Done })
	})
}

// atOnce is how many commands a turn runs that makes lists.
const atOnce = 20 // of the bot's 25

// mayMake reports whether such turns may run, and without asking anybody.
func (w *writer) mayMake() bool {
	o := w.cfg.Options
	return (o.MaxSteps == 0 || o.MaxSteps > atOnce) && !slices.ContainsFunc([]string{"createList", "checkItem"}, func(action string) bool {
		return slices.Contains(o.Approval, action)
	})
}

// making are the commands that make the lists.
func making(all []lists.List) (commands []plan.Command) {
	do := func(action string, entities map[string]any) {
		commands = append(commands, plan.Command{Kind: plan.Do, Action: action, Entities: entities})
	}
	for _, l := range all {
		items := []string{}
		for _, item := range l.Items {
			items = append(items, item.Name)
		}
		do("createList", map[string]any{"list": l.Name, "items": items})
		for _, item := range l.Items {
			if item.Done {
				do("checkItem", map[string]any{"list": l.Name, "item": item.Name})
			}
		}
	}
	return commands
}

// makingStep says to the bot what it keeps, where the step says something to it.
func (w *writer) makingStep(s *step, commands []plan.Command) Step {
	var out Step
	out.Event = eventOf(s.activity, w.scrub)
	said := "(What was kept before.)"
	if out.Event.Kind != "" {
		said = mentioned + " " + said
	}
	*out.Event = Event{Type: "message", Conversation: out.Event.Conversation, Kind: out.Event.Kind, From: out.Event.From, Text: &said}
	text := planText(append(commands, saying([]string{"Kept."})...))
	out.Model = []Answer{{Text: &text}}
	out.Expect.Note = "It makes the lists that there were before, in their order and with what is done."
	return out
}

// sizeOf is about how many bytes it takes to keep the lists.
func sizeOf(all []lists.List) (n int) {
	for _, l := range all {
		n += len(l.Name)
		for _, i := range l.Items {
			n += len(i.Name) + 1
		}
	}
	return n
}

// mentioned is how scenarios mention the bot.
const mentioned = "<at>ListBot</at>"

// met is somebody or something that an activity names. A name stands for who has it; the
// bot keeps its own stand-in.
type met struct{ kind, id, name string }

const theBot = "bot"

// metIn are who and where an activity is of.
func metIn(a *activity.Activity) []met {
	all := []met{{theBot, a.Recipient.ID, ""}}
	person := func(who activity.Account) {
		if who.ID != a.Recipient.ID {
			all = append(all, met{scrub.Person, who.ID, who.Name})
		}
	}
	person(a.From)
	for _, who := range a.MembersAdded {
		person(who)
	}
	for _, m := range a.Mentions() {
		person(m.Mentioned)
	}
	all = append(all, met{scrub.Conversation, a.Conversation.BaseID(), ""}, met{scrub.Activity, a.ID, ""})
	if tenant, ok := a.Tenant(); ok {
		all = append(all, met{scrub.Tenant, tenant, ""})
	}
	return all
}

// learn tells the scrubber of them.
func learn(all []met, s *scrub.Scrubber) {
	for _, m := range all {
		switch {
		case m.kind == theBot && m.id != "":
			s.Keep(m.id, BotID)
		case m.kind == scrub.Person:
			s.Name(m.id, m.name)
		case m.kind != theBot:
			s.ID(m.kind, m.id)
		}
	}
}

// eventOf is the activity as a scenario has it, with stand-ins for people and places. What
// a bot does not look at is left out.
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
	if d, ok := decisionIn(a); ok {
		e.Value, e.Text, e.Name = map[string]any{"approve": d.approve}, nil, ""
	} else if len(a.Value) > 0 {
		e.Value = s.Value(jsonTree(a.Value))
	}
	var data struct {
		EventType string `json:"eventType"`
	}
	if json.Unmarshal(a.ChannelData, &data) == nil && data.EventType != "" {
		e.ChannelData = map[string]any{"eventType": data.EventType}
	}
	for _, who := range a.MembersAdded {
		id := BotID
		if who.ID != a.Recipient.ID {
			id = "29:" + s.ID(scrub.Person, who.ID)
		}
		e.MembersAdded = append(e.MembersAdded, map[string]any{"id": id})
	}
	if installed(a) { // the other form of the same, as a scenario has it
		e.Type, e.MembersAdded = string(activity.ConversationUpdate), []map[string]any{{"id": BotID}}
	}
	for _, at := range a.Attachments {
		if !strings.HasPrefix(at.ContentType, "text/html") { // a copy of the text
			e.Attachments = append(e.Attachments, map[string]any{"contentType": at.ContentType})
		}
	}
	return e
}

// placeOf is the stand-in of the conversation, with a thread if it is one.
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

// saidText is what was written, with the mention of the bot as scenarios have it, and the
// mentions in it if there are other ones.
func saidText(a *activity.Activity, s *scrub.Scrubber) (text string, entities []map[string]any) {
	text = a.Text
	others := false
	var all []map[string]any
	for _, m := range a.Mentions() {
		standIn, id, name := mentioned, BotID, "ListBot"
		if m.Mentioned.ID != a.Recipient.ID {
			name = s.ID(scrub.Person, m.Mentioned.ID)
			standIn, id, others = "<at>"+name+"</at>", "29:"+name, true
		}
		if m.Text != "" {
			text = strings.ReplaceAll(text, m.Text, standIn)
		}
		all = append(all, map[string]any{"type": "mention", "text": standIn, "mentioned": map[string]any{"id": id, "name": name}})
	}
	if !others {
		all = nil // the runner adds that of the bot
	}
	if a.Type == activity.Message && a.ChannelID != activity.Teams && !a.Conversation.Personal() && !a.Addressed() {
		text = mentioned + " " + text // Teams, which scenarios play in, would not tell the bot otherwise
	}
	return s.Text(text), all
}

// decision is what a person says to an approval.
type decision struct {
	approve  bool
	approval string // which; "" where that is not said
}

// decisionIn reads the click on a card that asks for an approval, or what stands for one.
func decisionIn(a *activity.Activity) (d decision, ok bool) {
	if words := strings.Fields(a.Said()); a.Type == activity.Message && len(words) > 1 && len(words) < 4 {
		approves := strings.EqualFold(words[0], "/approve")
		if approves || strings.EqualFold(words[0], "/reject") {
			return decision{approves, words[1]}, true
		}
	}
	var value struct {
		Verb     string `json:"verb"`
		Approval string `json:"approval"`
		Action   struct {
			Verb string `json:"verb"`
			Data struct {
				Approval string `json:"approval"`
			} `json:"data"`
		} `json:"action"`
	}
	if json.Unmarshal(a.Value, &value) != nil {
		return decision{}, false
	}
	d.approval = value.Approval + value.Action.Data.Approval
	switch value.Verb + value.Action.Verb {
	case "planbot/approve", "planbot/approve-always":
		d.approve = true
		return d, true
	case "planbot/reject":
		return d, true
	}
	return decision{}, false
}

// jsonTree is JSON as maps, lists and texts.
func jsonTree(raw []byte) (tree any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&tree) // it is what came over the wire as JSON
	return tree
}
