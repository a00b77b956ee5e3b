package models

import (
	"encoding/json"
	"slices"
	"strings"
)

// knownActions is what the request says about actions: its tools, or else its
// planner prompt, which lists them one a line, as name(parameters).
type knownActions struct{ req *Request }

// has reports whether there is such a tool, or the system messages name the
// action; a prompt without either is taken to be the default bot's.
func (k knownActions) has(action string) bool {
	if usesTools(k.req) {
		return k.lists(action)
	}
	prompted := false
	for _, m := range k.req.Messages {
		if m.Role == System {
			prompted = true
			if strings.Contains(m.Text, action) {
				return true
			}
		}
	}
	return !prompted
}

// manualMark stands behind the name of an action in the prompt of the sequential
// planner; in that of the sequence planner it is a (.
const manualMark = ":\n  description:"

// lists reports whether there is such a tool, or the system messages list the
// action.
func (k knownActions) lists(action string) bool {
	if usesTools(k.req) {
		return slices.Contains(k.names(), action)
	}
	for _, m := range k.req.Messages {
		text := "\n" + m.Text
		if m.Role == System && (strings.Contains(text, "\n"+action+"(") || strings.Contains(text, "\n"+action+manualMark)) {
			return true
		}
	}
	return false
}

var actionLine = lazy(`(?m)^([A-Za-z_][A-Za-z0-9_.-]*)(?:\(|` + manualMark + `)`)

// maxNames is how many actions are told of: a screenful.
const maxNames = 20

// names are the tools, or the listed actions.
func (k knownActions) names() []string {
	var out []string
	if usesTools(k.req) {
		for _, t := range offeredTools(k.req) {
			out = append(out, t.Name)
		}
		return out
	}
	for _, m := range k.req.Messages {
		if m.Role != System {
			continue
		}
		for _, found := range actionLine().FindAllStringSubmatch(m.Text, maxNames) {
			out = append(out, found[1])
		}
	}
	return out
}

const (
	offlineIs = "I am running on the offline model: fixed rules, with no language model behind them."

	offlineLists = " I can keep lists. Say for example:\n" +
		"- create a grocery shopping list and add bananas to it\n" +
		"- add milk and eggs to the grocery shopping list\n" +
		"- check off milk on the grocery shopping list\n" +
		"- what is on my lists?\n" +
		"I can also remove items, say where one is, and rename or delete a list."

	offlineReminds = "\n\nI can remind you: \"remind me in 10 minutes to drink water\", \"remind me tomorrow at 9 to call Bob\", " +
		"\"list my reminders\", \"cancel the reminder about water\"."

	offlineSetup = "\n\nTo talk to me freely, set OPENAI_API_KEY (OpenAI), or OPENAI_BASE_URL and OPENAI_MODEL " +
		"(Ollama, llama.cpp, vLLM), or AZURE_OPENAI_ENDPOINT, AZURE_OPENAI_API_KEY and AZURE_OPENAI_DEPLOYMENT, and start me again."
)

// aboutOffline says plainly what answers here, what it can do, and how to get more.
func aboutOffline(known knownActions) string {
	text := offlineIs
	if known.has(addItem) {
		text += offlineLists
	}
	if known.has(remindMe) {
		text += offlineReminds
	}
	if names := known.names(); len(names) > 0 {
		names = names[:min(len(names), maxNames)]
		text += "\n\nAny action can be called by its name, with name=value after it: " + strings.Join(names, ", ") + "."
	}
	return text + offlineSetup
}

var (
	greeting = lazy(`(?i)^(hi|hello|hey|hiya|good (morning|afternoon|evening|day))( there| bot| planbot| all| everyone)?[\s!.,?]*$`)
	thanks   = lazy(`(?i)^(many )?(thanks|thank you|thx|cheers|great|perfect|nice)( a lot| so much| very much| bot)?[\s!.,]*$`)
	askHelp  = lazy(`(?i)^/?(help|help me|i need help|what can you do|what do you do|who are you|what are you|how does this work|commands)[\s!.?]*$`)
)

// smallTalk answers what is about the bot itself, "" when text is not.
func smallTalk(text string, known knownActions) string {
	switch {
	case greeting().MatchString(text):
		return "Hello! " + aboutOffline(known)
	case askHelp().MatchString(text):
		return aboutOffline(known)
	case thanks().MatchString(text):
		return "You are welcome."
	default:
		return ""
	}
}

var resultLine = lazy(`^- ([A-Za-z_][A-Za-z0-9_.-]*)( failed)?: ?(.*)$`)

// tellResults says what the last plan's actions put out, and no more.
func tellResults(results string, known knownActions) string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(results)) {
		line = strings.TrimRight(line, "\r\n")
		m := resultLine().FindStringSubmatch(line)
		switch {
		case m == nil || !known.lists(m[1]):
			lines = append(lines, line) // a result of several lines goes on
		case m[2] != "":
			lines = append(lines, "I could not do "+m[1]+": "+m[3])
		case m[3] == "" || m[3] == "done":
			lines = append(lines, m[1]+" is done.")
		default:
			lines = append(lines, m[3])
		}
	}
	if text := strings.TrimSpace(strings.Join(lines, "\n")); text != "" {
		return text
	}
	return "The last plan had no results."
}

var (
	callForm = lazy(`^([A-Za-z_][A-Za-z0-9_.-]*)(?:\s+(.*))?$`)
	argForm  = lazy(`^\s*([A-Za-z_][A-Za-z0-9_]*)=(?:"([^"]*)"|([^\s"]+))(?:\s+|$)`)
)

// directCall is the action that text names, with a JSON object or with name=value
// pairs for entities.
func directCall(text string, known knownActions) (deed, bool) {
	m := callForm().FindStringSubmatch(text)
	if m == nil || !known.lists(m[1]) {
		return deed{}, false
	}
	entities, ok := callEntities(m[2])
	return deed{action: m[1], given: entities}, ok
}

func callEntities(text string) (map[string]any, bool) {
	out := map[string]any{}
	if strings.HasPrefix(text, "{") {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		err := dec.Decode(&out)
		return out, err == nil && !dec.More() && out != nil
	}
	for text != "" {
		m := argForm().FindStringSubmatch(text)
		if m == nil {
			return nil, false
		}
		out[m[1]] = m[2] + m[3]
		text = text[len(m[0]):]
	}
	return out, true
}
