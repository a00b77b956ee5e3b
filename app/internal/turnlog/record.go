// Package turnlog keeps what happened in the last turns of a bot, for a page that shows them. A
// [Log] watches a bot, its planner, its channel and its log, and makes a [Record] of each turn. The
// bot never waits for it.
package turnlog

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/planner/plan"
)

// Version is the format of the JSON of a [Record].
const Version = 1

// The outcomes of a turn.
const (
	Running   = "running"
	OK        = "ok"
	Failed    = "failed"
	Parked    = "parked" // a dead letter
	Waiting   = "waiting"
	Ignored   = "ignored"
	Joined    = "joined" // another turn answers it
	Duplicate = "duplicate"
)

// Head is what a list of turns shows.
type Head struct {
	ID           string        `json:"id"`
	Outcome      string        `json:"outcome"`
	Conversation string        `json:"conversation"`
	Kind         string        `json:"kind"` // of the conversation: personal, groupChat or channel
	Channel      string        `json:"channel"`
	Person       string        `json:"person"` // the name
	PersonID     string        `json:"personId"`
	Activity     string        `json:"activity"` // its id
	Type         string        `json:"type"`     // of the activity
	Text         string        `json:"text"`     // the first words
	At           time.Time     `json:"at"`       // when the activity came
	WaitedNS     time.Duration `json:"waitedNs"` // in the queue
	PausedNS     time.Duration `json:"pausedNs"` // since then, for a person or a time
	TookNS       time.Duration `json:"tookNs"`   // beside both
	Tries        int           `json:"tries"`    // how often a process lost it
	Actions      []string      `json:"actions"`  // that were called
	ModelCalls   int           `json:"modelCalls"`
	TokensIn     int           `json:"tokensIn"`
	TokensOut    int           `json:"tokensOut"`
	TokensCached int           `json:"tokensCached"`
	Cost         float64       `json:"cost"`
	// Parent is the turn that sent the card on which this click was, or that made this notice. Refused says why the click did not count.
	Parent  string `json:"parent,omitempty"`
	Refused string `json:"refused,omitempty"`
	// Joined is the turn that answers this message together with others. Joins is how many others this turn answers.
	Joined string `json:"joined,omitempty"`
	Joins  int    `json:"joins,omitempty"`
	// Again is how often the activity was delivered once more.
	Again int `json:"again,omitempty"`
	// Unapproved says that a call that needed approval was not made.
	Unapproved bool `json:"unapproved,omitempty"`
	// Unchanged says that none of its actions found anything to act on.
	Unchanged bool   `json:"unchanged,omitempty"`
	Error     string `json:"error,omitempty"` // why it failed, for the operator
	// Problem is the first of [Record.Problems] of a turn that is over, in one short line.
	Problem string `json:"problem,omitempty"`
	// Incomplete says that the log missed some of it, because too much happened at once. Cut says
	// that some of it was too large to keep.
	Incomplete bool `json:"incomplete,omitempty"`
	Cut        bool `json:"cut,omitempty"`
	// Pinned says that it is dropped last when room is needed.
	Pinned bool `json:"pinned,omitempty"`
}

// Notice is the type of a turn that nobody asked for.
const Notice = "event notice"

// Over is when the turn ended, or began to wait.
func (h *Head) Over() time.Time { return h.At.Add(h.WaitedNS + h.PausedNS + h.TookNS) }

// Saved reports whether the turn was saved after that time.
func (r *Record) Saved(at time.Time) bool {
	return slices.ContainsFunc(r.Journal, func(s Save) bool { return s.Error == "" && !s.Dropped && !s.At.Before(at) })
}

// Record is a turn, as far as it got.
type Record struct {
	Version int `json:"version"`
	Head
	Received Received   `json:"received"`
	Before   turn.State `json:"before"`
	After    turn.State `json:"after"`
	Changes  []Change   `json:"changes"` // of the state, in the order in which they happened
	Rounds   []Round    `json:"rounds"`
	Plans    []Plan     `json:"plans"` // that began to run
	Commands []Command  `json:"commands"`
	Journal  []Save     `json:"journal"`
	Sent     []Sent     `json:"sent"`
	Log      []Line     `json:"log"`

	size    int    // bytes of what it holds
	kept    kept   // what a save has made sure of
	room    string // the conversation without a thread
	clicked string // the message on which the click was that the turn is about
	partial bool   // another process has planned
	earlier bool   // from [Log.Restore], and nothing has happened in it since
}

// Partial reports whether another process began the turn, so that its first plans are not known.
func (r *Record) Partial() bool { return r.partial }

// NoPlan begins the [Head.Problem] of a turn of which a model's answer was refused. If the turn went well, the model
// was asked again.
const NoPlan = "The answer was no plan that can run"

// kept is the state as it was last saved, and how many of the changes led there.
type kept struct {
	state   turn.State // nil: as it was before the turn
	changes int
}

// Received is the activity that came in.
type Received struct {
	Activity  jsontext.Value `json:"activity,omitzero"`
	Text      string         `json:"text"` // as the planner gets it
	Duplicate string         `json:"duplicate,omitempty"`
	Dropped   string         `json:"dropped,omitempty"`
	Answer    jsontext.Value `json:"answer,omitzero"` // to the HTTP request
	// Attached is what the planner was shown of files, of this message and of earlier ones.
	Attached []Attached `json:"attached,omitempty"`
	Quotes   bool       `json:"quotes,omitempty"` // it was shown what others may have written
	Drafts   bool       `json:"drafts,omitempty"` // the person could see an answer while the model wrote it
}

// Attached is what a planner was shown of a file.
type Attached struct {
	Name    string `json:"name"`
	Text    string `json:"text,omitempty"`
	Gone    bool   `json:"gone,omitempty"`
	Picture bool   `json:"picture,omitempty"` // it was one, and is not kept
}

// Change is a value of the state that became another one. A missing value is empty.
type Change struct {
	Path   string `json:"path"` // such as conversation.lists.groceries[0]
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// By is the action that changed it, or [Others]; "": the bot itself.
	By string `json:"by,omitempty"`
}

// Round is one question to the model and its answer.
type Round struct {
	At            time.Time `json:"at"`
	Planner       string    `json:"planner"` // action: an action that is a prompt asks
	Prompt        string    `json:"prompt"`
	Sections      []Section `json:"sections"`
	Offered       []string  `json:"offered"` // names of actions
	Format        string    `json:"format,omitempty"`
	MaxTokens     int       `json:"maxTokens"`
	Temperature   *float64  `json:"temperature,omitempty"`
	HistoryTokens int       `json:"historyTokens"`         // the most that summary and history may take
	InputTokens   int       `json:"inputTokens,omitempty"` // the most that the question may have; 0: there is no limit
	Answer        *Answer   `json:"answer,omitempty"`
	Refused       *Refused  `json:"refused,omitempty"`
	Plan          *Plan     `json:"plan,omitempty"`
}

// Section is a part of the prompt. The schema of the answer and the tools, as they were sent, are two more.
type Section struct {
	Name  string `json:"name"`
	Role  string `json:"role"`
	Text  string `json:"text"`
	Bytes int    `json:"bytes"`
	// Tokens are counted by whoever shows them: that takes time.
	Tokens int  `json:"tokens,omitempty"`
	Left   bool `json:"left,omitempty"` // there was no room for it
}

// Answer is what the model wrote.
type Answer struct {
	Text   string        `json:"text"`
	Calls  []Call        `json:"calls,omitempty"`
	Finish string        `json:"finish,omitempty"`
	In     int           `json:"tokensIn"`
	Out    int           `json:"tokensOut"`
	Cached int           `json:"tokensCached"`
	Cost   float64       `json:"cost"`
	TookNS time.Duration `json:"tookNs"`
	Error  string        `json:"error,omitempty"`
	// Kind, Status and Code say how the model failed, as those of a [models.Error].
	Kind   string `json:"errorKind,omitempty"`
	Status int    `json:"errorStatus,omitempty"`
	Code   string `json:"errorCode,omitempty"`
}

// Call is a call that the model wrote.
type Call struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Refused says why an answer is not a plan that can run.
type Refused struct {
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
	Told   string `json:"told,omitempty"` // to the model
}

// Plan is a plan as it was read.
type Plan struct {
	At       time.Time     `json:"at"`
	Commands []PlanCommand `json:"commands"`
	Repairs  []string      `json:"repairs,omitempty"`
	Salvaged bool          `json:"salvaged,omitempty"`
	Observe  bool          `json:"observe,omitempty"`
	Prose    bool          `json:"prose,omitempty"`
}

// PlanCommand is one command of a plan.
type PlanCommand struct {
	Kind     string `json:"type"` // DO or SAY
	Action   string `json:"action,omitempty"`
	Entities string `json:"entities,omitempty"` // JSON
	SaveAs   string `json:"saveAs,omitempty"`
	Response string `json:"response,omitempty"`
}

// Command is a call of an action.
type Command struct {
	At       time.Time     `json:"at"`
	Number   int           `json:"number"` // in its plan, from 1
	Plan     int           `json:"plan"`   // from 1
	Action   string        `json:"action"`
	Planned  string        `json:"planned"`  // entities, JSON
	Resolved string        `json:"resolved"` // the same with variables and what the bot fills in
	Key      string        `json:"key"`
	Again    bool          `json:"again,omitempty"`
	Approved bool          `json:"approved,omitempty"`
	SaveAs   string        `json:"saveAs,omitempty"`
	Result   string        `json:"result"` // ok, failed, unchanged, or [Lost]
	Text     string        `json:"text"`
	Data     string        `json:"data,omitempty"`    // JSON
	Shown    string        `json:"shown,omitempty"`   // what cards have shown of it
	Observe  string        `json:"observe,omitempty"` // the model was to see it first, see [Observes]
	Error    string        `json:"error,omitempty"`
	TookNS   time.Duration `json:"tookNs"`
}

// When the model sees a result before its plan goes on.
const (
	always      = "always"
	unlessSaved = "unless saved"
)

// Observes is what [Command] has of a result of [actions.Observe]; "" of any other.
func Observes(r actions.Result) string {
	switch {
	case r.Stops(true):
		return always
	case r.Stops(false):
		return unlessSaved
	}
	return ""
}

// Observed is that result again. ok is false if how is "".
func Observed(how string, value any) (r actions.Result, ok bool) {
	switch how {
	case always:
		return actions.Observe(value), true
	case unlessSaved:
		return actions.Observe(value).UnlessSaved(), true
	}
	return r, false
}

// Others is what changed the state while a turn waited.
const Others = "others, while it waited"

// UnapprovedIn reports whether a call of the plan with that number was to be approved, and was not made.
func (r *Record) UnapprovedIn(plan int) bool {
	asked := -1
	for i, s := range r.Journal {
		if s.For == "approval" && !s.At.Before(r.Plans[plan-1].At) && (plan == len(r.Plans) || s.At.Before(r.Plans[plan].At)) {
			asked = i
		}
	}
	if asked < 0 || plan == len(r.Plans) && (r.Outcome == Waiting || r.Outcome == Running) {
		return false
	}
	return !slices.ContainsFunc(r.Commands, func(c Command) bool {
		return c.Plan == plan && c.Approved && !c.At.Before(r.Journal[asked].At)
	})
}

// Lost is the result of a call whose outcome was not saved before its process ended.
const Lost = "lost"

// Save is one entry of the journal.
type Save struct {
	At     time.Time     `json:"at"`
	Phase  string        `json:"phase"`
	Words  string        `json:"words"`         // what a crash until the next save would do
	For    string        `json:"for,omitempty"` // what a turn waits for, such as approval
	Bytes  int           `json:"bytes"`
	TookNS time.Duration `json:"tookNs"`
	// PausedNS is how long the turn then waited, once it goes on.
	PausedNS time.Duration `json:"pausedNs,omitempty"`
	Error    string        `json:"error,omitempty"`
	// Dropped says that the turn's state was not saved any more.
	Dropped bool `json:"dropped,omitempty"`
}

// Sent is a request to the channel, or several of the same kind that show progress.
type Sent struct {
	At       time.Time      `json:"at"`
	Kind     string         `json:"kind"` // send, reply, update, delete, typing or stream
	Activity jsontext.Value `json:"activity,omitzero"`
	Text     string         `json:"text,omitempty"`
	Room     string         `json:"room,omitempty"` // the conversation without a thread
	ID       string         `json:"id,omitempty"`   // that the channel gave
	Status   int            `json:"status,omitempty"`
	Times    int            `json:"times"`
	Tries    int            `json:"tries"`
	TookNS   time.Duration  `json:"tookNs"`
	Error    string         `json:"error,omitempty"`
}

// Line is a line of the log.
type Line struct {
	At    string         `json:"at"`
	Level string         `json:"level"`
	Text  string         `json:"text"`
	Line  jsontext.Value `json:"line,omitzero"`
}

// Problem is something that went wrong in a turn, even if the turn ended well.
type Problem struct {
	Part  string // of the record that shows it: answer, plan, commands, journal or sent
	Text  string
	Times int // how often the same went wrong
}

// Problems returns what went wrong, in the order of the turn's parts.
func (r *Record) Problems() (all []Problem) {
	add := func(part, text string) {
		i := slices.IndexFunc(all, func(p Problem) bool { return p.Part == part && p.Text == text })
		if i < 0 {
			i, all = len(all), append(all, Problem{Part: part, Text: text})
		}
		all[i].Times++
	}
	for _, round := range r.Rounds {
		if round.Answer != nil && round.Answer.Error != "" {
			add("answer", "The model gave no answer: "+round.Answer.Error)
		}
		if round.Refused != nil {
			add("plan", NoPlan+": "+round.Refused.Detail)
		}
	}
	for _, c := range r.Commands {
		if c.Result == "failed" {
			add("commands", "The action "+c.Action+" failed: "+cmp.Or(c.Error, c.Text))
		}
	}
	for _, s := range r.Journal {
		if s.Error != "" {
			add("journal", "The turn was not saved: "+s.Error)
		}
	}
	for _, s := range r.Sent {
		if s.Error != "" {
			add("sent", "The channel did not take a message: "+s.Error)
		}
	}
	if why := r.unsent(); why != "" {
		add("sent", why)
	}
	return all
}

// unsent says why nothing was sent of what a plan says; "": something was, or no plan says anything.
func (r *Record) unsent() string {
	says := slices.ContainsFunc(r.Plans, func(p Plan) bool {
		return slices.ContainsFunc(p.Commands, func(c PlanCommand) bool { return c.Kind == plan.Say && c.Response != "" })
	})
	switch {
	case !says || r.Outcome != OK || r.Incomplete || len(r.Received.Answer) > 0 || slices.ContainsFunc(r.Sent, func(s Sent) bool { return s.Activity != nil }):
		return ""
	case slices.ContainsFunc(r.Journal, func(s Save) bool { return s.Phase == "sending" }):
		return "Nothing was sent. The plan says something, and the bot sent it, but no request was made to the channel. What the bot's Setup puts around the channel kept it."
	}
	return "Nothing was sent. The plan says something, but a feature left nothing of it, or a command before it found nothing to act on."
}
