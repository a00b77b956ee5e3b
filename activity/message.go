package activity

import (
	"html"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The builders below say what a message is to show, whichever channel it is for;
// [Activity.Fit] makes of that what the channel takes.

// At adds a mention of a person, who is told of the message, and returns what stands
// for them in the text: it has to be a part of that, once.
//
//	m.Text = "Please ask " + m.At(mia) + " for the key."
//
// Who has no id cannot be mentioned; then it is the name alone.
func (a *Activity) At(who Account) string {
	if who.ID == "" || who.Name == "" {
		return who.Name
	}
	at := "<at>" + html.EscapeString(who.Name) + "</at>"
	a.Entities = append(a.Entities, raw(mentionEntity{Type: "mention", Mentioned: named{who.ID, who.Name}, Text: at}))
	return at
}

// Mention puts a mention of a person in front of the text, as [Activity.At] makes it.
func (a *Activity) Mention(who Account) {
	if at := a.At(who); at != "" {
		a.Text = at + ": " + a.Text
	}
}

type mentionEntity struct {
	Type      string `json:"type"`
	Mentioned named  `json:"mentioned"`
	Text      string `json:"text"`
}

type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Suggest offers texts under the message that the person can send with one click.
// Teams shows the first three, in personal chats and under messages that are only text.
func (a *Activity) Suggest(texts ...string) {
	if a.SuggestedActions == nil {
		a.SuggestedActions = &SuggestedActions{}
	}
	for _, text := range texts {
		a.SuggestedActions.Actions = append(a.SuggestedActions.Actions, raw(cardAction{imBack, text, text}))
	}
}

// imBack is the kind of button that sends its value as a message of the person.
const imBack = "imBack"

type cardAction struct {
	Type  string `json:"type"`
	Title string `json:"title"`
	Value string `json:"value"`
}

// FeedbackLoop is how Teams asks what a person thinks of a message.
type FeedbackLoop string

const (
	// FeedbackDefault shows thumbs, and the form of Teams behind them.
	FeedbackDefault FeedbackLoop = "default"
	// FeedbackCustom shows thumbs, and a form that the bot is asked for with the
	// invoke message/fetchTask.
	FeedbackCustom FeedbackLoop = "custom"
)

// AskFeedback shows thumbs under the message, in Teams. What people click comes as
// the invoke message/submitAction.
func (a *Activity) AskFeedback(loop FeedbackLoop) {
	a.setChannelData("feedbackLoop", struct {
		Type FeedbackLoop `json:"type"`
	}{loop})
}

// Alert raises a notification of the message in the activity feed of Teams, where the
// Summary is what it shows.
func (a *Activity) Alert() {
	a.setChannelData("notification", struct {
		Alert bool `json:"alert"`
	}{true})
}

// setChannelData sets one member of the channelData, and makes that an object.
func (a *Activity) setChannelData(name string, value any) {
	members := a.channelMembers()
	if members == nil {
		members = map[string]jsontext.Value{}
	}
	members[name] = raw(value)
	a.ChannelData = raw(members)
}

// channelMembers reads the channelData; nil: it is no object.
func (a *Activity) channelMembers() map[string]jsontext.Value {
	var members map[string]jsontext.Value
	if a.ChannelData.Kind() != '{' || json.Unmarshal(a.ChannelData, &members, jsontext.AllowInvalidUTF8(true)) != nil {
		return nil
	}
	return members
}

// raw writes what is always JSON.
func raw(v any) jsontext.Value {
	out, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic("activity: " + err.Error())
	}
	return out
}
