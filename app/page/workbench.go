package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/activity"
)

// byForm reports whether a browser sends a form without the page's script.
func byForm(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// workbenchView is what the first view shows.
type workbenchView struct {
	Room     snapshot
	Rooms    []listed
	As       string
	Thread   string
	Messages []shownMessage
	More     int      // earlier ones, which are not shown
	Have     []string // what the page shows already, see [entry]
	List     turnListView
	Turn     *turnView // nil: none is open
	Examples []string
	Last     uint64 // the last event before the view was made
	Bot      string
	Names    []string // that can be mentioned
	Commands []string // such as /reset
	Draft    string
}

// shownMessage is a message as it is shown.
type shownMessage struct {
	message
	Name    string // of who speaks
	HTML    safeHTML
	Cards   []shownCard
	Files   []activity.Attachment
	AI      bool
	Sources []string
	Suggest []suggestion
	Rates   bool
	Turn    string // the turn that it belongs to
	Room    string
	As      string
}

// shownCard is a card with its texts.
type shownCard struct {
	JSON  string
	Texts string // JSON: HTML by text
	Words string // for who has no script
}

// suggestion is a suggested action.
type suggestion struct{ Title, Value string }

// newCard prepares a card: its texts become HTML here, since the script must not make any.
func newCard(raw []byte) shownCard {
	c := shownCard{JSON: string(raw), Texts: "{}"}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var card any
	if d.Decode(&card) != nil {
		c.Words = string(raw)
		return c
	}
	card = safeCard(card)
	if safe, err := json.Marshal(card); err == nil {
		c.JSON = string(safe)
	}
	texts, words := map[string]safeHTML{}, []string{}
	walk(card, func(key, text string) {
		if !slices.Contains(readable, key) {
			return
		}
		if text != "" && key != "fallbackText" && key != "placeholder" && len(words) < 1000 {
			words = append(words, text)
		}
		if _, known := texts[text]; !known && len(texts) < 1000 {
			texts[text] = toHTML(text)
		}
	})
	encoded, err := json.Marshal(texts)
	if err == nil {
		c.Texts = string(encoded)
	}
	c.Words = strings.Join(words, "\n")
	return c
}

// safeCard is JSON of a card in which pictures and media are lines that name them, so that nothing is
// loaded, and which shows hidden characters. What goes back to the bot is as it was.
func safeCard(node any) any {
	switch node := node.(type) {
	case []any:
		for i := range node {
			node[i] = safeCard(node[i])
		}
	case map[string]any:
		if node["type"] == "ImageSet" {
			node = map[string]any{"type": "Container", "items": node["images"]}
		}
		if kind := node["type"]; kind == "Image" && !embedded(node["url"]) || kind == "Media" {
			return safeCard(asLine(node))
		}
		for key, value := range node {
			text, isText := value.(string)
			switch {
			case key == "data":
			case slices.Contains([]string{"backgroundImage", "iconUrl"}, key) && !embedded(value):
				delete(node, key)
			case !isText:
				node[key] = safeCard(value)
			case key != "value" && slices.Contains(readable, key): // a value may go back
				node[key] = marked(text)
			}
		}
		return node
	}
	return node
}

// embedded reports whether a picture is in its address.
func embedded(address any) bool {
	text, _ := address.(string)
	return strings.HasPrefix(text, "data:image/")
}

// asLine is a text that stands for a picture or for media.
func asLine(node map[string]any) map[string]any {
	address, _ := node["url"].(string)
	if sources, _ := node["sources"].([]any); len(sources) > 0 {
		source, _ := sources[0].(map[string]any)
		address, _ = source["url"].(string)
	}
	what, _ := node["altText"].(string)
	if _, host := destination(address); host != "" {
		what = strings.TrimPrefix(what+", from "+host, ", ")
	}
	kind := map[any]string{"Image": "picture"}[node["type"]]
	line := map[string]any{"type": "TextBlock", "wrap": true, "text": "[" + cmp.Or(kind, "media") + ": " + what + "]"}
	if node["selectAction"] == nil {
		return line
	}
	return map[string]any{"type": "Container", "items": []any{line}, "selectAction": node["selectAction"]}
}

// readable are the names of texts in a card that people read.
var readable = []string{"text", "title", "value", "label", "placeholder", "fallbackText", "altText", "errorMessage"}

// walk calls f for each text in JSON that people read.
func walk(node any, f func(key, text string)) {
	switch node := node.(type) {
	case []any:
		for _, one := range node {
			walk(one, f)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			if text, ok := node[key].(string); ok {
				f(key, text)
			} else if key != "data" && key != "selectAction" {
				walk(node[key], f)
			}
		}
	}
}

// ThreadReply reports whether the message is in a thread that another one began.
func (s shownMessage) ThreadReply() bool { return s.Thread != "" && s.Thread != s.ID }
