package activity

import (
	"cmp"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxSuggestions is how many of them Teams shows.
const maxSuggestions = 3

// Fit returns the activity as its channel takes it. Of what Teams would refuse or not
// show it repairs, or leaves out:
//
//   - a second root entity (AI label, sensitivity, citations): they become one;
//   - in a root entity, members of another kind than they should be, and no others;
//   - citations that the text does not name, beyond 20, without a title or with the
//     number of another; titles, abstracts and keywords that are too long;
//   - the sensitivity of a citation that is not the message's;
//   - a mention that is not in the text, or not as often, or beyond 200;
//   - suggested actions outside of personal chats, beside attachments, without a text,
//     of another kind than imBack, or beyond three;
//   - a feedback loop of a kind that there is not, and feedbackLoopEnabled beside one.
//
// Other channels get none of what only Teams knows (root entities, feedbackLoop,
// notification), and the names of people instead of mentions in the form of Teams.
// Nowhere is a part sent that is empty. An activity that names no channel is taken for one
// of Teams, whose rules are the strictest; one of no conversation for a personal one.
//
// The activity itself is not changed. What it says of its address and size is not looked
// at: see [CheckSize].
func (a *Activity) Fit() *Activity {
	out := *a
	out.Entities = slices.Clone(a.Entities)
	out.Attachments = slices.Clone(a.Attachments)
	out.dropNulls()
	out.Attachments = slices.DeleteFunc(out.Attachments, func(at Attachment) bool {
		return at.ContentURL == "" && at.Name == "" && at.ThumbnailURL == "" && len(at.Extra) == 0 && (len(at.Content) == 0 || at.Content.Kind() == 'n')
	})
	out.dropNoSuggestions()
	if out.ChannelID == Teams || out.ChannelID == "" {
		out.fitTeams()
	} else {
		out.fitOthers()
	}
	if strings.TrimSpace(out.Text) == "" {
		out.TextFormat = ""
	}
	return &out
}

// atTag is a mention in the form of Teams.
var atTag = regexp.MustCompile(`(?s)^<at(?:\s[^>]*)?>(.*)</at>$`)

func (a *Activity) fitTeams() {
	mentions, left := 0, map[string]int{} // of a mention's text, how often the text has it
	a.Entities = slices.DeleteFunc(a.Entities, func(e jsontext.Value) bool {
		m, ok := mentionIn(e)
		if !ok {
			return false
		}
		if mentions++; m.Mentioned.ID == "" || m.Text == "" || mentions > maxMentions {
			return true
		}
		if _, counted := left[m.Text]; !counted {
			left[m.Text] = occurrences(a.Text, m.Text)
		}
		left[m.Text]--
		return left[m.Text] < 0
	})
	root, others := a.takeRoot()
	if a.Entities = others; root != nil && root.fit(a.Text) {
		a.Entities = append(a.Entities, root.encode())
	}
	a.fitSuggestions()
	a.changeChannelData(func(members map[string]jsontext.Value) {
		if loop, ok := members["feedbackLoop"]; ok {
			delete(members, "feedbackLoopEnabled")
			if !loops(loop) {
				delete(members, "feedbackLoop")
			}
		}
	})
}

// occurrences counts a mention in a text, but not where it is a part of a longer word. In
// scripts without spaces between words any sign may begin the next one, as in Korean, which
// hangs particles on names.
func occurrences(text, mention string) (n int) {
	last, _ := utf8.DecodeLastRuneInString(mention)
	for {
		_, after, found := strings.Cut(text, mention)
		if !found {
			return n
		}
		next, _ := utf8.DecodeRuneInString(after)
		if !inWord(last) || !inWord(next) {
			n++
		}
		text = after
	}
}

func inWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) &&
		!unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Hangul,
			unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan)
}

func (a *Activity) fitOthers() {
	var names []string // behind the mentions that they replace
	a.Entities = slices.DeleteFunc(a.Entities, func(e jsontext.Value) bool {
		m, _ := mentionIn(e)
		tag := atTag.FindStringSubmatch(m.Text)
		if tag == nil {
			return isRoot(e)
		}
		names = append(names, m.Text, cmp.Or(m.Mentioned.Name, html.UnescapeString(tag[1])))
		return true
	})
	a.Text = strings.NewReplacer(names...).Replace(a.Text)
	a.changeChannelData(func(members map[string]jsontext.Value) {
		for _, name := range []string{"feedbackLoop", "feedbackLoopEnabled", "notification"} {
			delete(members, name)
		}
	})
}

// fit leaves out what Teams would refuse, and reports whether anything is left.
func (r *rootEntity) fit(text string) bool {
	r.Additional = unique(r.Additional)
	if r.Usage != nil && r.Usage.Name == "" {
		r.Usage = nil
	}
	if r.Usage != nil {
		r.Usage.Type = "CreativeWork"
	}
	var seen [MaxCitations + 1]bool
	r.Citations = slices.DeleteFunc(r.Citations, func(c claim) bool {
		n := c.Position
		if n < 1 || n > MaxCitations || seen[n] || strings.TrimSpace(c.Appearance.Name) == "" ||
			!strings.Contains(text, "["+strconv.Itoa(int(n))+"]") {
			return true
		}
		seen[n] = true
		return false
	})
	for i := range r.Citations {
		r.Citations[i].Type = "Claim"
		r.Citations[i].Appearance.fit(r.Usage)
	}
	return len(r.Additional) > 0 || r.Usage != nil || len(r.Citations) > 0 || len(r.Extra) > 0
}

func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// fit cuts what is too long. of is how confidential the message is.
func (p *appearance) fit(of *usageInfo) {
	p.Type, p.Name = "DigitalDocument", clip(p.Name, maxTitle)
	if p.Abstract = clip(p.Abstract, maxAbstract); strings.TrimSpace(p.Abstract) == "" {
		p.Abstract = p.Name
	}
	if p.Image.Kind() != '{' {
		p.Image = nil
	}
	if !strings.HasPrefix(p.URL, "https://") && !strings.HasPrefix(p.URL, "http://") {
		p.URL = ""
	}
	keywords := unique(p.Keywords)
	keywords = keywords[:min(len(keywords), maxKeywords)]
	for i, word := range keywords {
		keywords[i] = clip(word, maxKeyword)
	}
	p.Keywords = keywords
	if p.Usage != nil && of != nil && p.Usage.ID == of.ID {
		p.Usage = of
	} else {
		p.Usage = nil
	}
}

// clip cuts a text to so many UTF-16 code units, the sign that it was cut among them.
func clip(text string, units int) string {
	if fits(text, units) == len(text) {
		return text
	}
	return text[:fits(text, units-1)] + "…"
}

// fits is how many bytes of the text are at most so many UTF-16 code units.
func fits(text string, units int) int {
	for i, r := range text {
		if units--; r > 0xffff {
			units--
		}
		if units < 0 {
			return i
		}
	}
	return len(text)
}

// dropNoSuggestions leaves out suggested actions that are none.
func (a *Activity) dropNoSuggestions() {
	if a.SuggestedActions == nil {
		return
	}
	s := *a.SuggestedActions
	s.Actions = slices.DeleteFunc(slices.Clone(s.Actions), func(one jsontext.Value) bool { return len(one) == 0 || one.Kind() == 'n' })
	if a.SuggestedActions = &s; len(s.Actions) == 0 {
		a.SuggestedActions = nil
	}
}

// fitSuggestions keeps the buttons that Teams shows.
func (a *Activity) fitSuggestions() {
	if a.SuggestedActions == nil {
		return
	}
	s := a.SuggestedActions // a copy, by dropNoSuggestions
	s.Actions = slices.DeleteFunc(s.Actions, func(one jsontext.Value) bool {
		var b cardAction
		return one.Kind() != '{' || json.Unmarshal(one, &b, jsontext.AllowInvalidUTF8(true)) != nil ||
			b.Type != imBack || strings.TrimSpace(b.Title) == "" || strings.TrimSpace(b.Value) == ""
	})
	s.Actions = s.Actions[:min(len(s.Actions), maxSuggestions)]
	if !a.Conversation.Personal() || len(a.Attachments) > 0 || strings.TrimSpace(a.Text) == "" || len(s.Actions) == 0 {
		a.SuggestedActions = nil
	}
}

// mentionIn reads an entity that says that it is a mention; one of another shape is an
// empty one.
func mentionIn(entity jsontext.Value) (m Mention, ok bool) {
	var kind struct {
		Type string `json:"type"`
	}
	if entity.Kind() != '{' || json.Unmarshal(entity, &kind, jsontext.AllowInvalidUTF8(true)) != nil || !strings.EqualFold(kind.Type, "mention") {
		return m, false
	}
	if json.Unmarshal(entity, &m, jsontext.AllowInvalidUTF8(true)) != nil {
		m = Mention{}
	}
	return m, true
}

// changeChannelData changes the members of the channelData, if it is an object that has any.
func (a *Activity) changeChannelData(change func(map[string]jsontext.Value)) {
	members := a.channelMembers()
	before := len(members)
	change(members)
	switch {
	case members != nil && len(members) == 0:
		a.ChannelData = nil
	case len(members) < before:
		a.ChannelData = raw(members)
	}
}

// loops reports whether it is a feedback loop of a kind that there is.
func loops(loop jsontext.Value) bool {
	var l struct {
		Type FeedbackLoop `json:"type"`
	}
	return loop.Kind() == '{' && json.Unmarshal(loop, &l) == nil && (l.Type == FeedbackDefault || l.Type == FeedbackCustom)
}
