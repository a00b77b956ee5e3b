package activity

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/markdown"
	"github.com/planbot-go/planbot/internal/spelling"
)

// Limits of Teams.
const (
	maxUTF16       = 80 << 10  // bytes of an activity in UTF-16, without pictures: Teams refuses about 100 KB
	maxBytes       = 256 << 10 // bytes of an activity on the wire
	maxCitations   = 20
	maxTitle       = 80
	maxAbstract    = 160
	maxKeywords    = 3
	maxKeyword     = 28
	maxSuggestions = 3
	maxSuggestion  = 128     // of its title
	maxSaid        = 2000    // of the words that it says
	maxValue       = 4 << 10 // bytes of any other value
	maxAccount     = 256     // of the name of an account or a conversation
	maxSummary     = 512
	maxLocale      = 64
)

const rootType = "https://schema.org/Message"

// The methods below say what a message should show, whatever its channel; [Activity.Fit] turns that
// into what the channel accepts.

// At mentions a person, who is notified of the message. It returns the text that stands for them,
// which must occur exactly once in the message's text.
//
//	m.Text = "Please ask " + m.At(mia) + " for the key."
//
// A person without an id cannot be mentioned; then At returns just the name.
func (a *Activity) At(who Account) string {
	who.Name = spelling.Cut(who.Name, maxAccount)
	if who.ID == "" || who.Name == "" {
		return who.Name
	}
	at := "<at>" + html.EscapeString(who.Name) + "</at>"
	m := mention{Type: "mention", Text: at}
	m.Mentioned.ID, m.Mentioned.Name = who.ID, who.Name
	a.Entities = append(a.Entities, raw(m))
	return at
}

// Mention puts a mention of a person, as made by [Activity.At], in front of the text.
func (a *Activity) Mention(who Account) {
	if at := a.At(who); at != "" {
		a.Text = at + ": " + a.Text
	}
}

// Suggest offers texts under the message that the person can send with one click. Teams shows the
// first three suggestions of any kind, under text-only messages.
func (a *Activity) Suggest(texts ...string) {
	for _, text := range texts {
		if strings.TrimSpace(text) != "" {
			a.suggest(suggestSay, text, text)
		}
	}
}

// SuggestSubmit offers a button under the message that writes nothing into the chat: a click sends
// value, any JSON, to the bot with the invoke suggestedActions/submit. Whoever sees the message may
// click, and send any value. Channels other than Teams show a button that says its title instead.
func (a *Activity) SuggestSubmit(title string, value any) { a.suggest(suggestSubmit, title, value) }

// SuggestCompose offers a button under the message that puts a text into the person's compose box,
// for them to change and send to whom they like. Only Teams has it.
func (a *Activity) SuggestCompose(title, text string) {
	body := map[string]any{"additionalData": struct{}{}, "content": text}
	a.suggest(suggestCompose, title, map[string]any{"type": "Teams.chatMessage", "data": map[string]any{"body": body}})
}

// The kinds of suggestions.
const (
	suggestSay     = "imBack"
	suggestSubmit  = "Action.Submit"
	suggestCompose = "Action.Compose"
)

// suggestion is a button under a message.
type suggestion struct {
	Type  string `json:"type"`
	Title string `json:"title"`
	Value any    `json:"value"`
}

func (a *Activity) suggest(kind, title string, value any) {
	if a.SuggestedActions == nil {
		a.SuggestedActions = &SuggestedActions{}
	}
	a.SuggestedActions.Actions = append(a.SuggestedActions.Actions, raw(suggestion{kind, title, value}))
}

// Quote puts a quotation of an earlier message of the conversation in front of the text. Teams shows
// who wrote it and how it begins; other channels show nothing.
func (a *Activity) Quote(messageID string) {
	a.Text = fmt.Sprintf(`<quoted messageId="%s"/> %s`, html.EscapeString(messageID), a.Text)
	a.Entities = append(a.Entities, raw(map[string]any{"type": quoteEntity, "quotedReply": map[string]string{"messageId": messageID}}))
}

// Target makes the message one that only this person sees, in a group or channel of Teams. People
// with an old client see nothing.
func (a *Activity) Target(person string) {
	a.Recipient = Account{Extra: jsontext.Value(`{"isTargeted":true}`)}
	a.Recipient.ID = person
}

// AskFeedback shows thumbs under the message, in Teams. A click arrives as the invoke
// message/submitAction. A click opens a form: with "default" that of Teams; with "custom" one that
// Teams requests from the bot with the invoke message/fetchTask.
func (a *Activity) AskFeedback(form string) {
	members := map[string]jsontext.Value{}
	maps.Copy(members, a.channelMembers())
	members["feedbackLoop"] = raw(map[string]string{"type": form})
	a.ChannelData = raw(members)
}

// StreamInfo says which part of a message that grows while a person reads it an activity is: a
// typing activity with a status (informative) or with the text so far (streaming), or the message
// at its end (final). The zero value: the activity is no part of one.
type StreamInfo struct {
	// ID is what the channel answered to the first part; "" in that part.
	ID string `json:"streamId,omitzero"`
	// Type is [StreamStatus], [StreamText] or [StreamFinal].
	Type string `json:"streamType"`
	// Sequence counts the parts from 1. The final has none.
	Sequence int `json:"streamSequence,omitzero"`
}

// The types of [StreamInfo].
const (
	StreamStatus = "informative"
	StreamText   = "streaming"
	StreamFinal  = "final"
)

const streamEntity = "streaminfo"

// Stream returns which part of a growing message the activity is.
func (a *Activity) Stream() (info StreamInfo) {
	for _, entity := range a.Entities {
		if isEntity(entity, streamEntity) && read(entity, &info) {
			return info
		}
	}
	return StreamInfo{}
}

// SetStream makes the activity a part of a growing message, or none: in an entity for Teams and in
// channelData for web chats.
func (a *Activity) SetStream(info StreamInfo) {
	a.Entities = slices.DeleteFunc(slices.Clone(a.Entities), func(e jsontext.Value) bool { return isEntity(e, streamEntity) })
	members := map[string]jsontext.Value{}
	maps.Copy(members, a.channelMembers())
	for _, name := range []string{"streamId", "streamType", "streamSequence"} {
		delete(members, name)
	}
	if info != (StreamInfo{}) {
		type entity struct {
			Type string `json:"type"`
			StreamInfo
		}
		a.Entities = append(a.Entities, raw(entity{streamEntity, info}))
		_ = read(raw(info), &members) // adds to them
	}
	if len(members) > 0 {
		a.ChannelData = raw(members)
	} else if a.channelMembers() != nil {
		a.ChannelData = nil
	}
}

// channelMembers reads channelData; nil if it is not an object.
func (a *Activity) channelMembers() map[string]jsontext.Value {
	var members map[string]jsontext.Value
	_ = read(a.ChannelData, &members)
	return members
}

// LabelAI marks the message as AI-generated; Teams shows the label.
func (a *Activity) LabelAI() {
	a.changeRoot(func(r *rootEntity) { r.Additional = append(r.Additional, "AIGeneratedContent") })
}

// Sensitivity is how confidential a message or a source is, as Teams shows it.
type Sensitivity struct {
	// ID is that of a Microsoft Purview label, whose own name and description Teams shows. "": it shows
	// Name and Description.
	ID                string `json:",omitzero"`
	Name, Description string `json:",omitzero"`
	// Level orders the labels of a bot: a higher one is stricter. It is not sent.
	Level int `json:",omitzero"`
}

// Label shows the message's confidentiality, in Teams. If the message shows a source with a stricter label, or
// has no label itself, it gets that of the source.
func (a *Activity) Label(s Sensitivity) { a.changeRoot(func(r *rootEntity) { r.Usage = s.usage() }) }

// LabelSensitivity is [Activity.Label] in words of the bot's own.
func (a *Activity) LabelSensitivity(name, description string) {
	a.Label(Sensitivity{Name: name, Description: description})
}

// LabelPurview is [Activity.Label] with the Microsoft Purview label of that id.
func (a *Activity) LabelPurview(id string) { a.Label(Sensitivity{ID: id}) }

func (s Sensitivity) usage() *usageInfo {
	if s == (Sensitivity{}) {
		return nil
	}
	return &usageInfo{ID: s.ID, Name: s.Name, Description: s.Description, Level: s.Level}
}

// Citation is a source of a message.
type Citation struct {
	// ID is what the bot knows the source by. It is not sent.
	ID string
	// Title names the source; without a title it is not shown. It is cut at 80 characters.
	Title string
	// Abstract is what the source says, at most 160 characters. "": the title.
	Abstract string
	// URL is the source's address, https.
	URL string
	// Keywords tell what the source is about: at most three, of 28 characters each.
	Keywords []string
	// Sensitivity is the source's label. Teams takes one label in a message: it is shown at the source if
	// it is also the message's, see [Activity.Label].
	Sensitivity Sensitivity `json:",omitzero"`
}

// Cite adds sources after the message's existing ones: "[1]" in the text refers to the first, and
// so on. Sources that the text does not refer to, and those after twenty others, are not shown. The
// numbers of the rest stay.
func (a *Activity) Cite(sources ...Citation) {
	a.changeRoot(func(r *rootEntity) {
		last := 0
		for _, c := range r.Citations {
			last = max(last, c.Position)
		}
		for i, c := range sources {
			r.Citations = append(r.Citations, claim{Type: "Claim", Position: last + i + 1, Appearance: appearance{
				Type: "DigitalDocument", Name: c.Title, Abstract: c.Abstract, URL: c.URL, Keywords: c.Keywords,
				Usage: c.Sensitivity.usage(),
			}})
		}
	})
}

// rootEntity is what Teams shows about a message. Teams refuses a message with two.
type rootEntity struct {
	Kind       string         `json:"type"`
	Type       string         `json:"@type,omitempty"`
	Context    string         `json:"@context"`
	ID         string         `json:"@id"`
	Additional []string       `json:"additionalType,omitempty"`
	Usage      *usageInfo     `json:"usageInfo,omitempty"`
	Citations  []claim        `json:"citation,omitempty"`
	Extra      jsontext.Value `json:",embed"`
}

type usageInfo struct {
	Type        string         `json:"@type,omitempty"`
	ID          string         `json:"@id"`
	Name        string         `json:"name,omitempty"`
	Description string         `json:"description,omitempty"`
	Level       int            `json:"planbotLevel,omitzero"` // until it is sent
	Extra       jsontext.Value `json:",embed"`
}

type claim struct {
	Type       string         `json:"@type,omitempty"`
	Position   int            `json:"position"`
	Appearance appearance     `json:"appearance"`
	Extra      jsontext.Value `json:",embed"`
}

type appearance struct {
	Type     string         `json:"@type,omitempty"`
	Name     string         `json:"name,omitempty"`
	Abstract string         `json:"abstract,omitempty"`
	URL      string         `json:"url,omitempty"`
	Keywords []string       `json:"keywords,omitempty"`
	Usage    *usageInfo     `json:"usageInfo,omitempty"`
	Extra    jsontext.Value `json:",embed"`
}

// changeRoot changes the root entity and moves it to the end.
func (a *Activity) changeRoot(change func(*rootEntity)) {
	root, others := a.takeRoot()
	if root == nil {
		root = &rootEntity{}
	}
	change(root)
	a.Entities = append(others, root.encode())
}

// takeRoot merges the root entities into one (nil if there is none) and returns it and the other
// entities. It drops malformed ones.
func (a *Activity) takeRoot() (root *rootEntity, others []jsontext.Value) {
	for _, entity := range a.Entities {
		one := &rootEntity{}
		switch {
		case !isEntity(entity, rootType):
			others = append(others, entity)
		case !read(entity, one):
		case root == nil:
			root = one
		default:
			root.Additional = append(root.Additional, one.Additional...)
			root.Citations = append(root.Citations, one.Citations...)
			root.ID = cmp.Or(root.ID, one.ID)
			if root.Usage == nil || one.Usage != nil && one.Usage.Level > root.Usage.Level {
				root.Usage = one.Usage
			}
		}
	}
	return root, others
}

func (r *rootEntity) encode() jsontext.Value {
	r.Kind, r.Type, r.Context = rootType, "Message", "https://schema.org"
	return raw(r)
}

// Fit returns a copy of the activity that its channel accepts. It repairs or drops what Teams would
// refuse or not show:
//
//   - a second root entity (AI label, sensitivity, citations): they become one;
//   - a malformed root entity;
//   - citations that the text does not name, beyond 20, without a title or with another's number;
//     titles, abstracts and keywords that are too long; addresses that are not https; a citation's
//     sensitivity label that is not the message's;
//   - a mention that is not in the text, or not as often, or beyond 200;
//   - suggested actions beside attachments, without a text, of other kinds, or beyond three, and the
//     people they are for;
//   - quotations in a message that one person sees;
//   - single line breaks in Markdown, outside of code, which Teams shows as spaces: they get two spaces before
//     them. A message that grows keeps them, since each of its parts has to begin with what was shown.
//
// Other channels get nothing that only Teams supports (root entities, quotations, feedbackLoop,
// notification, extendedmarkdown, the suggestions of Teams), and names instead of Teams mentions. No
// channel gets empty parts. Without a channel, the activity counts as one for Teams, whose rules are
// the strictest.
//
// Fit does not check addresses or the size: see [Activity.EncodeToSend].
func (a *Activity) Fit() *Activity {
	out := *a
	out.Entities = slices.Clone(a.Entities)
	out.Attachments = slices.Clone(a.Attachments)
	out.dropEmpty()
	teams := out.ChannelID == Teams || out.ChannelID == ""
	out.fitLengths()
	out.fitSuggestions(teams)
	members := out.channelMembers()
	if teams {
		out.fitTeams()
	} else {
		out.fitOthers(members)
	}
	switch {
	case len(members) > 0:
		out.ChannelData = raw(members)
	case members != nil:
		out.ChannelData = nil
	}
	if strings.TrimSpace(out.Text) == "" {
		out.TextFormat = ""
	}
	return &out
}

// Unshown says in words which suggestions somebody added to the message that its channel will not show; "": it
// shows all.
func (a *Activity) Unshown() string {
	if a.SuggestedActions == nil {
		return ""
	}
	out := *a
	out.fitSuggestions(a.ChannelID == Teams || a.ChannelID == "")
	all, shown := len(a.SuggestedActions.Actions), 0
	if out.SuggestedActions != nil {
		shown = len(out.SuggestedActions.Actions)
	}
	if shown == all {
		return ""
	}
	return fmt.Sprintf("%d of %d suggestions: it takes %d, under a text without attachments", all-shown, all, maxSuggestions)
}

func (a *Activity) fitTeams() {
	isMessage := a.Type == Message || a.Type == MessageUpdate
	if isMessage && (a.TextFormat == "" || a.TextFormat == "markdown") && a.Stream() == (StreamInfo{}) {
		a.Text = markdown.Lines(a.Text)
	}
	mentions, rest := 0, a.Text // rest has the mentions not yet claimed by an entity
	a.Entities = slices.DeleteFunc(a.Entities, func(e jsontext.Value) bool {
		if !isEntity(e, "mention") {
			return false
		}
		m := mentionIn(e)
		mentions++
		if m == nil || m.Mentioned.ID == "" || m.Text == "" || mentions > maxMentions || !strings.Contains(rest, m.Text) {
			return true
		}
		rest = strings.Replace(rest, m.Text, "\x00", 1)
		return false
	})
	if a.Targeted() {
		a.unquote()
	}
	root, others := a.takeRoot()
	if a.Entities = others; root != nil && root.fit(a.Text) {
		a.Entities = append(a.Entities, root.encode())
	}
}

// fitLengths cuts what is no part of the message itself.
func (a *Activity) fitLengths() {
	for _, name := range []*string{&a.From.Name, &a.Recipient.Name, &a.Conversation.Name} {
		*name = spelling.Cut(*name, maxAccount)
	}
	a.Summary = spelling.Cut(a.Summary, maxSummary)
	a.Locale = LanguageTag(a.Locale)
}

var languageTag = lazy.Regexp(`^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*$`)

// LanguageTag returns a locale that has the form of a language tag, else "".
func LanguageTag(locale string) string {
	if len(locale) > maxLocale || !languageTag().MatchString(locale) {
		return ""
	}
	return locale
}

// fitSuggestion cuts the title of a suggestion. It returns false for one to drop: what it says or sends cannot
// be cut.
func fitSuggestion(one *jsontext.Value, of suggestion) bool {
	said, isText := of.Value.(string)
	if isText && spelling.Cut(said, maxSaid) != said || !isText && len(raw(of.Value)) > maxValue {
		return false
	}
	written := of.Title
	if strings.TrimSpace(written) == "" {
		of.Title = said
	}
	if title := spelling.Cut(of.Title, maxSuggestion); title != written {
		of.Title = title
		*one = raw(of)
	}
	return strings.TrimSpace(of.Title) != ""
}

// fitSuggestions keeps the buttons that the channel shows.
func (a *Activity) fitSuggestions(teams bool) {
	if a.SuggestedActions == nil {
		return
	}
	s, actions := *a.SuggestedActions, []jsontext.Value(nil)
	for _, one := range s.Actions {
		var of suggestion
		switch ok := read(one, &of); {
		case len(one) == 0 || one.Kind() == 'n':
		case teams && (!ok || !slices.Contains([]string{suggestSay, suggestSubmit, suggestCompose}, of.Type)):
		case !teams && of.Type == suggestCompose:
		case !teams && of.Type == suggestSubmit:
			of.Type, of.Title = suggestSay, spelling.Cut(of.Title, maxSuggestion)
			of.Value = of.Title
			actions = append(actions, raw(of))
		case !ok || fitSuggestion(&one, of):
			actions = append(actions, one)
		}
	}
	if s.Actions = actions; teams {
		var members map[string]jsontext.Value
		s.Actions = s.Actions[:min(len(s.Actions), maxSuggestions)]
		if s.Extra = nil; read(a.SuggestedActions.Extra, &members) {
			if delete(members, "to"); len(members) > 0 { // everybody may click
				s.Extra = raw(members)
			}
		}
	}
	a.SuggestedActions = &s
	if len(s.Actions) == 0 || teams && (len(a.Attachments) > 0 || strings.TrimSpace(a.Text) == "") {
		a.SuggestedActions = nil
	}
}

// atTag matches a Teams mention.
var atTag = regexp.MustCompile(`(?s)^<at(?:\s[^>]*)?>(.*)</at>$`)

func (a *Activity) fitOthers(channelData map[string]jsontext.Value) {
	var names []string // pairs: a mention and its replacement name
	a.Entities = slices.DeleteFunc(a.Entities, func(e jsontext.Value) bool {
		if m := mentionIn(e); m != nil {
			if tag := atTag.FindStringSubmatch(m.Text); tag != nil {
				names = append(names, m.Text, cmp.Or(m.Mentioned.Name, html.UnescapeString(tag[1])))
				return true
			}
		}
		return isEntity(e, rootType) || isEntity(e, promptEntity)
	})
	a.Text = strings.NewReplacer(names...).Replace(a.Text)
	a.unquote()
	if a.TextFormat == "extendedmarkdown" {
		a.TextFormat = "markdown"
	}
	for _, name := range []string{"feedbackLoop", "feedbackLoopEnabled", "notification"} {
		delete(channelData, name)
	}
}

func (a *Activity) unquote() {
	a.Text = a.unquoted()
	a.Entities = slices.DeleteFunc(a.Entities, func(e jsontext.Value) bool { return isEntity(e, quoteEntity) })
}

// fit drops what Teams would refuse, and reports whether anything remains.
func (r *rootEntity) fit(text string) bool {
	slices.Sort(r.Additional)
	r.Additional = slices.DeleteFunc(slices.Compact(r.Additional), func(s string) bool { return s == "" })
	r.Usage = r.Usage.fit()
	seen := map[int]bool{}
	r.Citations = slices.DeleteFunc(r.Citations, func(c claim) bool {
		n := c.Position
		if n < 1 || len(seen) == maxCitations || seen[n] || strings.TrimSpace(c.Appearance.Name) == "" ||
			!strings.Contains(text, "["+strconv.Itoa(n)+"]") {
			return true
		}
		seen[n] = true
		return false
	})
	for i := range r.Citations {
		source := &r.Citations[i].Appearance
		source.Usage = source.Usage.fit()
		if u := source.Usage; u != nil && (r.Usage == nil || u.Level > r.Usage.Level) {
			r.Usage = u
		}
	}
	for i := range r.Citations {
		r.Citations[i].Appearance.fit(r.Usage)
	}
	if r.Usage != nil {
		r.Usage.Level = 0
	}
	return len(r.Additional) > 0 || r.Usage != nil || len(r.Citations) > 0 || len(r.Extra) > 0
}

const ownLabel = "sensitivity" // the @id of a label in the bot's own words

// fit returns the label as Teams takes it, or nil if it says nothing.
func (u *usageInfo) fit() *usageInfo {
	if u == nil || u.ID == "" && u.Name == "" {
		return nil
	}
	fit := *u
	fit.Type, fit.ID = "CreativeWork", cmp.Or(fit.ID, ownLabel)
	return &fit
}

// fit cuts what is too long. label is the message's.
func (p *appearance) fit(label *usageInfo) {
	p.Name = spelling.Cut(p.Name, maxTitle)
	if p.Abstract = spelling.Cut(p.Abstract, maxAbstract); strings.TrimSpace(p.Abstract) == "" {
		p.Abstract = p.Name
	}
	if !strings.HasPrefix(p.URL, "https://") {
		p.URL = ""
	}
	var words []string
	for _, word := range p.Keywords {
		if strings.TrimSpace(word) != "" && len(words) < maxKeywords {
			words = append(words, spelling.Cut(word, maxKeyword))
		}
	}
	p.Keywords = words
	if u := p.Usage; u != nil && (u.ID != label.ID || u.ID == ownLabel && u.Name != label.Name) {
		p.Usage = nil
	}
	if p.Usage != nil { // Teams takes one description of a label
		p.Usage = label
	}
}

// picture matches an inline picture in JSON, alone or within a text.
var picture = regexp.MustCompile(`"data:image/[\w.+-]+;base64,[A-Za-z0-9+/=]*\\?"`)

// EncodeToSend is [Activity.Encode] for an outbound message. It fails if the result is larger than
// channels accept: 256 KiB, or 80 KiB in UTF-16 without its pictures.
func (a *Activity) EncodeToSend() ([]byte, error) {
	encoded, err := a.Encode()
	switch {
	case err != nil:
		return nil, err
	case len(encoded) > maxBytes:
		return nil, fmt.Errorf("the activity is too large: %d bytes, at most %d are allowed", len(encoded), maxBytes)
	case len(encoded) <= maxUTF16/2: // a UTF-8 byte is at most one code unit
		return encoded, nil
	}
	if text := picture.ReplaceAllLiteral(encoded, nil); 2*len(utf16.Encode([]rune(string(text)))) > maxUTF16 {
		return nil, fmt.Errorf("the activity is too large: more than %d bytes in UTF-16", maxUTF16)
	}
	return encoded, nil
}
