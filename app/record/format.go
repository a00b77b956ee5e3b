package record

import (
	"cmp"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/internal/yamltext"
)

// Scenario is one conversation, or several at once, with one bot.
type Scenario struct {
	File    string  `json:"-"`
	Name    string  `json:"name" need:"true" doc:"names the scenario in results"`
	Why     string  `json:"why" doc:"what it is there for"`
	Bot     string  `json:"bot" enum:"list,lights,ticket" doc:"which bot: people mention it as ListBot, LightsBot or TicketBot; default list"`
	Seed    Seed    `json:"seed" doc:"what the bot keeps of each conversation before the first step"`
	Options Options `json:"options" doc:"settings of the bot"`
	Steps   []Step  `json:"steps" need:"true" doc:"what happens, one after the other"`
}

// Seed is what a bot keeps of a conversation before the first step.
type Seed struct {
	Lists        map[string][]string `json:"lists" doc:"lists with their items"`
	HistoryTurns int                 `json:"history_turns" min:"0" max:"10000" doc:"so many made-up questions with answers in the history"`
}

// Options are settings of the bot; what is not set has the bot's default.
type Options struct {
	MaxSteps     int      `json:"max_steps" min:"1" doc:"calls of actions that one turn may make; of a plan with more than are left of them nothing is run"`
	MaxRepairs   *int     `json:"max_repairs" min:"0" doc:"how often the model may correct a plan"`
	MaxSameCalls int      `json:"max_same_calls" min:"1" doc:"how often one turn may make the same call: that one still runs, then the turn stops"`
	Approval     []string `json:"approval" doc:"actions that a person has to approve, beside those of the registry"`
	Models       []string `json:"models" doc:"names of a chain of models, in order"`
}

// Step is a delivery, several at the same time, or something that is done to the bot.
type Step struct {
	Delivery
	Parallel []Delivery `json:"parallel" doc:"deliveries at the same time; expect is of all of them"`
	Control  string     `json:"control" enum:"restart" doc:"restart: all that was in the memory of the bot's processes is lost, Redis stays"`
}

// Delivery is an activity for the bot, what the model writes for it, and what the bot has
// to do.
type Delivery struct {
	Event  *Event   `json:"event" doc:"the activity, and how it is delivered"`
	Model  []Answer `json:"model" doc:"what the model answers, in order"`
	Expect Expect   `json:"expect" doc:"what the bot has to do; what is not said is not looked at"`
}

// Event is an activity, as far as a scenario says it; the rest is as Teams would have it.
type Event struct {
	Type         string           `json:"type" need:"true" enum:"message,messageUpdate,messageDelete,messageReaction,conversationUpdate,installationUpdate,contactRelationUpdate,typing,event,invoke,command,commandResult,endOfConversation,deleteUserData,handoff,suggestion,trace" doc:"type of the activity, one of those that channels send"`
	Conversation string           `json:"conversation" need:"true" doc:"id of the conversation"`
	Kind         string           `json:"conversationType" enum:"personal,groupChat,channel" doc:"default personal"`
	From         string           `json:"from" doc:"who does it; default user"`
	ID           string           `json:"id" doc:"default: a fresh one, of a redelivery that of the activity before it"`
	Text         *string          `json:"text" doc:"<at>NAMEBot</at> in it mentions the bot, unless entities are given"`
	Name         string           `json:"name" doc:"of an invoke or event"`
	Value        any              `json:"value" doc:"of an invoke, event or click; {\"approve\": true} or false decides what a card asks for: one with the other values that are named, of the person, the last"`
	Entities     []map[string]any `json:"entities" doc:"as in the activity"`
	ChannelData  any              `json:"channelData" doc:"as in the activity"`
	MembersAdded []map[string]any `json:"membersAdded" doc:"as in the activity; the bot is 28:bot"`
	Attachments  []map[string]any `json:"attachments" doc:"as in the activity"`

	AtMS         int    `json:"at_ms" min:"0" max:"2592000000" doc:"when it is delivered, after the start of the step"`
	DelayModelMS int    `json:"delay_model_ms" min:"0" max:"604800000" doc:"how long each answer of the model takes"`
	Replica      int    `json:"replica" min:"1" max:"32" doc:"the process that it is delivered to; default 1"`
	Redelivery   bool   `json:"redelivery" doc:"the channel delivers an activity again that it delivered before: what is left out here is as it was there"`
	Redis        string `json:"redis" enum:"down" doc:"down: Redis refuses connections while the event is delivered"`
}

// Answer is what the model does: a text, or a failure as an object.
type Answer struct {
	Text       *string  `json:"-"`
	HTTP       int      `json:"http" min:"200" max:"599" doc:"the call fails with this status; one below 300 is an answer without a text"`
	RetryAfter *float64 `json:"retry_after" min:"0" doc:"seconds after which the model may be asked again"`
	Code       string   `json:"code" doc:"of the failure, such as content_filter or context_length_exceeded"`
	HangMS     int      `json:"hang_ms" min:"1" max:"604800000" doc:"so long the model hangs, and then fails as http and code say or, without them, by a connection that breaks; that as the last answer hangs until nobody waits"`
	Deployment string   `json:"deployment" doc:"which of options.models must get this call"`
}

// Expect is what the bot has to do. What is nil is not looked at.
type Expect struct {
	Actions             []Action         `json:"actions" doc:"the calls of actions, in order"`
	Replies             []string         `json:"replies" doc:"the texts to the channel, in order; <…> stands for what the bot says in that case: <split> for two parts or more, <resumed> and <honest> for what a turn says whose process died, <approval_card ACTION NAME=VALUE …> for the card that asks about that call, the others for its sentences. Of the card as much is compared as is named; a VALUE is JSON, or a text as it is, up to the next NAME= that the card has. Any other text in <…> is itself, where something in the scenario writes it"`
	JoinedReplyEquals   *string          `json:"joined_reply_equals" doc:"all replies together"`
	MaxPartUTF16Bytes   *int             `json:"max_part_utf16_bytes" min:"2" doc:"the most that one reply may have"`
	ReplyMustNotContain []string         `json:"reply_must_not_contain" doc:"texts that no reply has"`
	Typing              *bool            `json:"typing" doc:"whether a typing indicator was shown"`
	ModelCalls          *int             `json:"model_calls" min:"0" doc:"how often the model was asked, failed calls included"`
	PromptContains      []string         `json:"prompt_contains" doc:"texts that the model was sent"`
	PromptContainsCall2 []string         `json:"prompt_contains_call2" doc:"texts that the model was sent in its second call"`
	PromptMustNot       []string         `json:"prompt_must_not_contain" doc:"texts that the model was not sent in any call"`
	ModelInput          *string          `json:"model_input" doc:"the text of the person, as the model was sent it"`
	ServedBy            *string          `json:"served_by" doc:"the model that answered last"`
	State               *State           `json:"state" doc:"what is kept of the conversation after the step"`
	StateUnchanged      *bool            `json:"state_unchanged" doc:"whether what is kept is what was kept before the step"`
	StateByConversation map[string]State `json:"state_by_conversation" doc:"state, by the id of the conversation, which an event of any step names"`
	Tickets             *int             `json:"tickets" min:"0" doc:"how many tickets createTicket has opened since the scenario began"`
	Status              *int             `json:"status" min:"100" max:"599" doc:"HTTP status of the answer"`
	StatusWithinMS      Within           `json:"http_status_within_ms" doc:"how soon deliveries are answered: by their ids, or all of them"`
	Connector           []Sending        `json:"connector" doc:"how the connector answers messages, in order; after that it takes them"`
	Sends               *int             `json:"sends" min:"0" doc:"how often a message was sent, refused ones included"`
	CrashAfterAction    *int             `json:"crash_after_action" min:"1" doc:"the process dies when it has made that call of the step"`
	Order               Order            `json:"order" doc:"in which order the deliveries are answered: their ids, or either for any order"`
	MaxConcurrentTurns  *int             `json:"max_concurrent_turns" min:"1" doc:"how many turns were at work at the same time, at most"`
	Note                string           `json:"note" doc:"a comment"`
}

// Action is one call. Where the scenario scripts the actions, Result and Error are what the
// action gives back.
type Action struct {
	Action   string         `json:"action" need:"true" doc:"the name"`
	Entities map[string]any `json:"entities" doc:"with which it is called"`
	Result   any            `json:"result" doc:"what it gives back; default \"\""`
	Error    *string        `json:"error" doc:"why it fails; panic: … panics"`
	// Unchanged is for a call that finds nothing to act on.
	Unchanged *string `json:"unchanged" doc:"what it says when it finds nothing to act on, see actions.Unchanged"`
}

// State is what a bot keeps of a conversation.
type State struct {
	Lists map[string][]string `json:"lists" doc:"lists with their items"`
}

// Sending is how the connector answers a message.
type Sending struct {
	HTTP       int      `json:"http" need:"true" min:"200" max:"599" doc:"the status"`
	RetryAfter *float64 `json:"retry_after" min:"0" doc:"seconds after which it may be sent again"`
}

// Within bounds the time of answers in milliseconds: of those to the activities with these
// ids, or with All of all.
type Within struct {
	ByID map[string]int
	All  *int
}

// Order is in which order deliveries are answered. The zero value does not say.
type Order struct {
	Either bool
	IDs    []string
}

// Person is who does it.
func (e *Event) Person() string { return cmp.Or(e.From, "user") }

// Write writes scenarios as YAML that [Read] reads: one alone as it is, several as a list.
// What is not set is left out.
func Write(list []Scenario) ([]byte, error) {
	if len(list) == 1 {
		return yamltext.Write(treeOf(reflect.ValueOf(list[0])))
	}
	return yamltext.Write(yamltext.Object{{Name: "scenarios", Value: treeOf(reflect.ValueOf(list))}})
}

// treeOf is a part of a scenario as it is written.
func treeOf(v reflect.Value) any {
	switch own := v.Interface().(type) {
	case Answer:
		if own.Text != nil {
			return *own.Text
		}
	case Within:
		if own.All != nil {
			return *own.All
		}
		return treeOf(reflect.ValueOf(own.ByID))
	case Order:
		if own.Either {
			return "either"
		}
		return treeOf(reflect.ValueOf(own.IDs))
	}
	switch v.Kind() {
	case reflect.Pointer:
		return treeOf(v.Elem())
	case reflect.Struct:
		return fieldsTree(v)
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = treeOf(v.Index(i))
		}
		return list
	case reflect.Map:
		if values, ok := v.Interface().(map[string]any); ok && values != nil {
			return values
		}
		if v.IsNil() {
			return nil
		}
		var o yamltext.Object
		for _, name := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			o = append(o, yamltext.Field{Name: name.String(), Value: treeOf(v.MapIndex(name))})
		}
		return o
	}
	return v.Interface()
}

// fieldsTree has the fields that are set, in their order.
func fieldsTree(v reflect.Value) yamltext.Object {
	o := yamltext.Object{}
	for _, f := range fieldsOf(v.Type()) {
		field := v.FieldByIndex(f.Index)
		if isUnset(field) {
			continue
		}
		o = append(o, yamltext.Field{Name: f.Tag.Get("json"), Value: treeOf(field)})
	}
	return o
}

// isUnset reports whether nothing is said by the field: an empty list says something.
func isUnset(v reflect.Value) bool {
	if v.Kind() == reflect.Struct {
		return v.IsZero() || len(fieldsOf(v.Type())) > 0 && len(fieldsTree(v)) == 0
	}
	return v.IsZero()
}

// sayings are the texts of the bot for which a word in <…> stands. Those without a text
// here are looked at otherwise. What a sentence says more than its beginning is for
// the bot to word.
var sayings = map[string]*regexp.Regexp{
	"approval_card":  nil,
	"split":          nil,
	"resumed":        nil,
	"honest":         nil,
	"too_many_steps": regexp.MustCompile(`^Sorry, (this took too many steps|I was going in circles|this would cost more than I may spend|answering that would take too many messages)`),
	"reset_done":     regexp.MustCompile(`^I've cleared our conversation\.`),
	"fallback":       regexp.MustCompile(`^Sorry, `),
	"denied":         regexp.MustCompile(`^OK, I won't run `),
	"not_allowed":    regexp.MustCompile(`^(You can't decide this|Sorry, I may not talk with you)`),
	"already_done":   regexp.MustCompile(`^(This was already decided|I'm no longer waiting for this decision|This was not decided in time)`),
	"filtered":       regexp.MustCompile(`^Sorry, the content filter `),
	"welcome":        regexp.MustCompile(`^Hello, I am `),
	"busy":           regexp.MustCompile(`^Sorry, (the AI model is too busy|the AI model isn't available)`),
	"timeout":        regexp.MustCompile(`^Sorry, (this took too long|the AI model did not answer in time)`),
}

// others are the sentences that fallback does not stand for: they say what happened.
var others = []string{"too_many_steps", "filtered", "timeout"}

func placeholderNames() []string { return slices.Sorted(maps.Keys(sayings)) }

var (
	placeholderForm = regexp.MustCompile(`^<([a-zA-Z][a-zA-Z_]*)\b[^<>]*>$`)
	approvalForm    = regexp.MustCompile(`(?s)^<approval_card([\s:].*)?>$`) // its values may hold anything
)

// wordOf is the first word of a reply that is all in <…>, else "".
func wordOf(reply string) string {
	if m := placeholderForm.FindStringSubmatch(reply); m != nil {
		return m[1]
	}
	if approvalForm.MatchString(reply) {
		return "approval_card"
	}
	return ""
}

// PlaceholderOf is the name of the placeholder that a reply is, else "": then it is a text.
func PlaceholderOf(reply string) string {
	word := wordOf(reply)
	if _, known := sayings[word]; known {
		return word
	}
	return ""
}

// Saying reports whether the text is one that the placeholder of that name stands for.
func Saying(name, text string) bool {
	if name == "fallback" && slices.ContainsFunc(others, func(other string) bool { return sayings[other].MatchString(text) }) {
		return false
	}
	form := sayings[name]
	return form != nil && form.MatchString(text)
}

// placeholder is <…> with the name of what the text is one of, of the bot's own texts, and ""
// of any other text.
func placeholder(text string) string {
	const last = "fallback" // which others look like
	for _, name := range append(slices.DeleteFunc(placeholderNames(), func(name string) bool { return name == last }), last) {
		if form := sayings[name]; form != nil && form.MatchString(text) {
			return "<" + name + ">"
		}
	}
	return ""
}

// ApprovalCard is what <approval_card ACTION NAME=VALUE …> says of a card: nothing, an action,
// or an action and some of its values.
func ApprovalCard(reply string) (action, values string) {
	inside := strings.TrimSuffix(strings.TrimPrefix(reply, "<approval_card"), ">")
	action, values, _ = strings.Cut(strings.TrimLeft(inside, ": \t\n"), " ")
	return strings.TrimSpace(action), strings.TrimSpace(values)
}
